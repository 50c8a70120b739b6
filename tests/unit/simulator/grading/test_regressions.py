"""Regressions: findings against planted changes."""

from __future__ import annotations

from fleetscope.store.abstract import Store
from fleetscope.store.migrate import migrate
from simulator.grading.regressions import match, regression_score
from simulator.truth import Change

DAY_NS = 86_400 * 1_000_000_000


def test_each_finding_goes_to_the_nearest_change_and_a_change_is_found_once() -> None:
    planted = [10 * DAY_NS, 20 * DAY_NS, 30 * DAY_NS]
    found = [10 * DAY_NS + 5, 10 * DAY_NS + DAY_NS // 2, 19 * DAY_NS + 1, 25 * DAY_NS]
    assert match(planted, found) == {"planted": 3, "found": 2, "false": 1}
    assert match([], [1]) == {"planted": 0, "found": 0, "false": 1}


def test_without_a_table_of_findings_only_the_planted_are_known(embedded: Store) -> None:
    migrate(embedded)
    embedded.command("DROP TABLE IF EXISTS regressions")
    changes = [Change(0, "driver", "2", 0.03), Change(5, "model", "7", 0.0)]
    assert regression_score(embedded, changes, 0) == {"planted": 1, "found": None, "false": None}
    assert regression_score(embedded, changes[1:], 0) is None


def test_findings_of_the_store_are_dated_against_the_changes(embedded: Store) -> None:
    migrate(embedded)
    embedded.command("DROP TABLE IF EXISTS regressions")
    embedded.command("CREATE TABLE regressions (change_ns Int64, revision Int64) "
                     "ENGINE = ReplacingMergeTree(revision) ORDER BY change_ns")
    embedded.command(f"INSERT INTO regressions VALUES ({3 * DAY_NS + 9}, 1), ({9 * DAY_NS}, 1)")
    found = regression_score(embedded, [Change(3 * DAY_NS, "driver", "2", 0.03)], 0)
    assert found == {"planted": 1, "found": 1, "false": 1}
