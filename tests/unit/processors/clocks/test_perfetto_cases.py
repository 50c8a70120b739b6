"""Conversions that Perfetto's own tests state exactly, by this project's maps.

Perfetto carries a reading by the offset of the latest snapshot at or before it: pieces of rate 1 that begin at the
snapshots. That is what the pieces here are; their fits are another matter. Where a clock went back Perfetto refuses
every conversion from it; here only ticks that were shown twice lose their bound, and that is what is asked.
"""

from __future__ import annotations

import json
import os
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from processors.align.mapping import Route
from processors.clocks.segments import NO_BOUND, Segment, SegmentMap

PROJECT = Path(__file__).parents[4]
FAR = 1 << 40
ONE = 1 << 32
Snapshot = dict[str, int]

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    data = Path(os.environ.get("FLEETSCOPE_SHARED_DATA", PROJECT / "../shared/data"))
    path = data / "clock/perfetto_clock_cases.json"
    if not path.is_file():
        if os.environ.get("FLEETSCOPE_REQUIRE_DATA") == "1":
            pytest.fail(f"FLEETSCOPE_REQUIRE_DATA=1, but there is no {path}")
        pytest.skip(f"there is no {path}; FLEETSCOPE_SHARED_DATA names the folder")
    return {case["name"]: case for case in json.loads(path.read_text())["cases"]}


def edge(snapshots: list[Snapshot], source: str, target: str) -> SegmentMap:
    """The map between two clocks by the snapshots that have both; a clock that goes back begins an epoch."""
    both = [(s[source], s[target]) for s in snapshots if source in s and target in s]
    starts = [-FAR, *(x for x, _ in both[1:])]
    stops = [*starts[1:], FAR]
    pieces, epoch = [], 0
    for (x, y), start, stop in zip(both, starts, stops, strict=True):
        epoch += bool(pieces) and start < pieces[-1].valid_from
        if start != stop:
            pieces.append(Segment(epoch, start, stop if stop > start else FAR, x, y, ONE, 0, None, "settled", 0))
    return SegmentMap(pieces)


def path(snapshots: list[Snapshot], source: str, target: str) -> list[str]:
    """The shortest chain of clocks that share snapshots."""
    queue, seen = deque([[source]]), {source}
    while queue:
        way = queue.popleft()
        if way[-1] == target:
            return way
        for clock in sorted({c for s in snapshots if way[-1] in s for c in s} - seen - {"seq"}):
            seen.add(clock)
            queue.append([*way, clock])
    raise LookupError(f"no way from {source} to {target}")


def converted(snapshots: list[Snapshot], source: str, value: int, target: str) -> int:
    at = np.array([value], np.int64)
    for a, b in pairwise(path(snapshots, source, target)):
        at = edge(snapshots, a, b).apply(at, at).time
    return int(at[0])


def wrong(snapshots: list[Snapshot], checks: list[list[Any]]) -> list[tuple[Any, int]]:
    """Checks (from, value, to, expected) that come out otherwise."""
    found = [(check, converted(snapshots, *check[:3])) for check in checks]
    return [(check, got) for check, got in found if got != check[3]]


def test_readings_are_carried_by_the_latest_snapshot_at_or_before(cases: dict[str, dict[str, Any]]) -> None:
    case = cases["domain_conversions"]
    checks = [[source, value, case["to"], expected] for source, value, expected in case["checks"]]
    assert len(checks) == 15
    assert wrong(case["snapshots"], checks) == []


def test_before_any_snapshot_nothing_is_converted(cases: dict[str, dict[str, Any]]) -> None:
    before = cases["domain_conversions"]["before_any_snapshot"]
    at = np.array([before["value"]], np.int64)
    assert before["expect"] is None
    with pytest.raises(ValueError, match="no segment"):
        SegmentMap().apply(at, at)


def test_conversions_to_a_clock_that_steps_back_follow_it(cases: dict[str, dict[str, Any]]) -> None:
    case = cases["realtime_steps_back"]
    assert wrong(case["snapshots"], case["checks_3"]) == []
    assert wrong(case["snapshots"] + case["then"], case["checks_after"]) == []


def test_readings_that_a_clock_showed_twice_are_not_trusted(cases: dict[str, dict[str, Any]]) -> None:
    case = cases["realtime_steps_back"]
    back = edge(case["snapshots"], "REALTIME", "BOOTTIME")
    twice = np.array([30, 35, 45], np.int64)
    assert back.apply(twice, twice).err_ns.tolist() == [NO_BOUND] * 3


@pytest.mark.parametrize("name", ["chain_hard", "equal_readings_in_two_snapshots"])
def test_chains_over_shared_clocks_give_the_stated_readings(cases: dict[str, dict[str, Any]], name: str) -> None:
    case = cases[name]
    assert len(case["checks_3"]) >= 7
    assert wrong(case["snapshots"], case["checks_3"]) == []


def test_two_hops_by_route_give_the_stated_readings(cases: dict[str, dict[str, Any]]) -> None:
    case = cases["chain"]
    first = edge(case["snapshots"], "MONOTONIC_COARSE", "MONOTONIC")
    second = edge(case["snapshots"], "MONOTONIC", "BOOTTIME")
    for source, value, expected in case["checks"]:
        at = np.array([value], np.int64)
        if source == "MONOTONIC":
            assert second.apply(at, at).time.tolist() == [expected]
        else:
            assert Route(first, second).apply(at, at).time.tolist() == [expected]


def test_clocks_of_one_name_belong_to_who_has_them(cases: dict[str, dict[str, Any]]) -> None:
    case = cases["per_sequence_clocks_same_id"]
    for owner, clock, value, expected in case["checks_seq"]:
        own = [s for s in case["snapshots"] if s["seq"] == owner]
        assert converted(own, clock, value, "BOOTTIME") == expected
