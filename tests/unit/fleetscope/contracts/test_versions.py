"""A reader takes its own version of a contract and the one before, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.codec import Encoded, encode
from fleetscope.contracts.schema import FLOAT, INT, SYMBOL, Column, Contract
from fleetscope.errors import RejectedError
from tests.support.contract_batches import header, read

COLUMNS = (
    Column("time_ticks", INT, "when"),
    Column("name", SYMBOL, "what"),
    Column("second", FLOAT, "came with version 2", nullable=True, since=2),
    Column("third", SYMBOL, "came with version 3", nullable=True, since=3),
)
At = Callable[[int], Contract]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Make this process speak a version of the contract ``trial``."""

    def speak(version: int) -> Contract:
        columns = tuple(c for c in COLUMNS if c.since <= version)
        contract = Contract("trial", version, columns, "for tests", time_column="time_ticks")
        monkeypatch.setitem(CONTRACTS, "trial", contract)
        return contract

    return speak


def written_by(contract: Contract) -> Encoded:
    """A message of a producer that speaks ``contract``."""
    row = {"time_ticks": 5, "name": "n", "second": 2.5, "third": "t"}
    rows = from_rows(contract, [{k: v for k, v in row.items() if k in contract.schema().names}])
    return encode(Batch(header(contract, 1), rows))


def test_the_version_before_is_read_with_nulls_for_what_came_later(at: At) -> None:
    old = written_by(at(1))
    at(2)
    batch = read(old)
    assert batch.rows.to_pylist() == [{"time_ticks": 5, "name": "n", "second": None}]
    assert batch.header.version == 2


def test_a_columns_type_does_not_depend_on_the_version_it_came_from(at: At) -> None:
    old = written_by(at(2))
    contract = at(3)
    assert read(old).rows.schema.equals(contract.schema())


def test_two_versions_before_is_refused(at: At) -> None:
    old = written_by(at(1))
    at(3)
    with pytest.raises(RejectedError, match="unknown_version: trial version 1, this code reads 2 to 3"):
        read(old)


def test_a_newer_version_is_refused(at: At) -> None:
    new = written_by(at(3))
    at(2)
    with pytest.raises(RejectedError, match="unknown_version: trial version 3, this code reads 1 to 2"):
        read(new)


def test_a_column_of_a_later_version_in_an_old_batch_is_refused(at: At) -> None:
    new = written_by(at(2))
    lying = tuple((k, b"1" if k == "fs-version" else v) for k, v in new.headers)
    with pytest.raises(RejectedError, match="unknown_column: 'second'"):
        read(Encoded(new.key, new.value, lying))


def test_a_column_added_later_must_be_nullable() -> None:
    with pytest.raises(ValueError, match="a column added after version 1 must be nullable"):
        Contract("trial", 2, (Column("late", INT, "late", since=2),), "for tests")


def test_a_batch_can_be_cut_and_keeps_its_identity(at: At) -> None:
    contract = at(2)
    rows = from_rows(contract, [{"time_ticks": i, "name": "n"} for i in range(5)])
    part = Batch(header(contract, 5, row0=10), rows).slice(2, 3)
    assert part.header.row0 == 12
    assert read(encode(part)).rows.column("time_ticks").to_pylist() == [2, 3, 4]
