from __future__ import annotations

import re

import pytest

from fleetscope.contracts.derived import STATE_NAMES
from fleetscope.errors import UsageError
from fleetscope.store.clickhouse import ClickHouseStore
from fleetscope.store.library import Query, find_query, load_queries, parse_query
from fleetscope.store.migrate import migrate

QUERIES = load_queries()
HEAD = """-- Purpose.
-- Arguments
--   n Int8 = 5: a number
--   s String = 'its': text
-- Result
--   a [ns]: x
"""


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_query_takes_and_returns_exactly_what_its_head_says(embedded: ClickHouseStore, query: Query) -> None:
    migrate(embedded)
    result = embedded.query(query.sql, query.parameters({}))
    assert result.column_names == [column.name for column in query.columns]
    assert result.num_rows == 0
    assert set(re.findall(r"\{(\w+):\w+\}", query.sql)) == {argument.name for argument in query.arguments}
    for argument in query.arguments:
        assert f"{{{argument.name}:{argument.type}}}" in query.sql


@pytest.mark.parametrize("name", ["time_accounting", "accounting_check"])
def test_the_accounting_knows_every_state(name: str) -> None:
    assert all(re.search(rf"\b{state}_ns\b", QUERIES[name].sql) for state in STATE_NAMES)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_whoever_reads_revised_tables_reads_the_final_rows(query: Query) -> None:
    for table in ("windows", "verdicts", "incidents", "segments", "dead_letters", "causality_violations"):
        assert not re.search(rf"FROM {table}\b(?! FINAL)", query.sql)


def test_an_unknown_query_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no query nonsense; there are accounting_check, .*top_limits"):
        find_query("nonsense")


@pytest.mark.parametrize(("given", "message"), [
    ({"x": "1"}, "has no argument x; it takes n, s"), ({"n": "1.5"}, "argument n: '1.5' is no Int8"),
    ({"n": "128"}, "argument n: 128 does not fit Int8"),
])
def test_wrong_arguments_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_query("q", HEAD + "SELECT 1").parameters(given)


def test_arguments_have_defaults_and_take_text() -> None:
    query = parse_query("q", HEAD + "SELECT 1")
    assert query.parameters({}) == {"n": 5, "s": "its"}
    assert query.parameters({"n": "-128", "s": "'; DROP"}) == {"n": -128, "s": "'; DROP"}


@pytest.mark.parametrize("text", [
    "SELECT 1", "-- Purpose.\nSELECT 1", "-- P.\n-- Arguments\n--   n Int8: no default\n-- Result\n--   a: b\nSELECT 1",
])
def test_a_head_that_does_not_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="query q"):
        parse_query("q", text)
