"""Fleet time over simulated networks: accuracy, lying links and clocks, silence, partitions, re-election, restarts."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from fleetscope.step import Output, replay
from processors.clocks.fleet import FleetClockStep
from tests.unit.processors.clocks.fleets import incidents, maps, references
from tests.unit.processors.clocks.networks import NS, Network, ring_and_hub

STEP = FleetClockStep()
FAR_NS = 94_608_000 * NS


def played(net: Network, seconds: int, step: FleetClockStep = STEP) -> list[Output]:
    """What the step says of the network's first seconds, without an end."""
    net.run(0, seconds)
    return replay(step, net.batches, end=False)


def pairs(net: Network, outputs: list[Output], hosts: list[int], from_s: float, to_s: float) \
        -> tuple[Any, Any]:
    """|difference| of fleet times of all pairs of hosts at one moment, and the bound on it; each moment has one."""
    times, errs = net.errors(maps(outputs), hosts, from_s, to_s)
    assert (errs >= 0).all(), "a gap"
    found = [(np.abs(times[i] - times[j]), errs[i] + errs[j]) for i, j in combinations(range(len(hosts)), 2)]
    return np.concatenate([d for d, _ in found]), np.concatenate([b for _, b in found])


def kinds(outputs: list[Output], kind: str) -> list[dict[str, Any]]:
    return [row for row in incidents(outputs) if row["kind"] == kind]


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_over_32_hosts_loops_bring_the_median_under_0_7_us_and_the_truth_is_inside(seed: int) -> None:
    net = Network(32, ring_and_hub(32), seed)
    outputs = played(net, 14)
    off, bound = pairs(net, outputs, list(range(32)), 2, 9)
    assert np.median(off) <= 700
    assert np.percentile(off, 99) <= 3_000
    assert (off <= bound).all()
    settled = [s.err_ns for n, m in maps(outputs).items() if n != net.name(0)
               for s in m.segments if s.state == "settled"]
    assert np.percentile(settled, 99) <= 15_000
    assert incidents(outputs) == []


@pytest.mark.parametrize("lie", [200_000, -60_000])
def test_a_link_whose_stamps_lie_is_named_left_out_and_does_no_harm(lie: int) -> None:
    net = Network(8, ring_and_hub(8), 5, lies={(3, 4): (lie, 8)})
    outputs = played(net, 20)
    off, bound = pairs(net, outputs, list(range(8)), 2, 15)
    assert (off <= bound).all()
    assert np.percentile(off, 99) <= 3_000
    found = kinds(outputs, "clock_contradiction")
    assert [row["evidence"]["links"] for row in found] == [[["h00003", "h00004"]]]
    assert found[0]["evidence"]["verdict"] == "excluded"
    assert found[0]["end_ns"] is None


def test_where_one_of_three_links_lies_all_are_named_and_the_bound_holds_whichever_it_is() -> None:
    net = Network(3, [(0, 1), (1, 2), (2, 0)], 6, lies={(1, 2): (300_000, 0)})
    outputs = played(net, 14)
    off, bound = pairs(net, outputs, [0, 1, 2], 2, 9)
    assert (off <= bound).all()
    (found,) = kinds(outputs, "clock_contradiction")
    assert found["evidence"]["verdict"] == "one of these"
    assert sorted(found["evidence"]["links"]) == [["h00000", "h00001"], ["h00001", "h00002"], ["h00002", "h00000"]]


def test_links_that_were_suspects_are_cleared_when_the_liar_is_known() -> None:
    net = Network(4, [(0, 1), (1, 0), (0, 2), (2, 1), (3, 2), (2, 3), (3, 0)], 6, lies={(2, 3): (60_000, 0)})
    outputs = played(net, 20)
    named = [row["evidence"] for row in kinds(outputs, "clock_contradiction")]
    assert all(["h00002", "h00003"] in one["links"] for one in named)
    assert [one["links"] for one in named if one["verdict"] == "excluded"] == [[["h00002", "h00003"]]]


def test_a_link_that_lied_for_a_while_is_used_again_later() -> None:
    net = Network(5, ring_and_hub(5), 7, lies={(2, 3): (0, 0)})
    net.run(0, 8)
    net.lies = {(2, 3): (500_000, 0)}
    net.run(8, 12)
    net.lies = {}
    net.run(12, 90)
    found = kinds(replay(STEP, net.batches, end=False), "clock_contradiction")
    assert [row["end_ns"] is None for row in found] == [True, False]


def test_a_silent_reference_is_replaced_and_fleet_time_goes_on() -> None:
    net = Network(5, ring_and_hub(5), 8, silent=lambda host, s: host == 0 and s >= 10,
                  cut=lambda link, s: 0 in link and s >= 10)
    outputs = played(net, 95)
    (changed,) = {row["start_ns"]: row for row in kinds(outputs, "clock_reference_changed")}.values()
    assert changed["evidence"] | {"bound_ns": 0} == {"from": "h00000", "to": "h00001", "why": "unreachable",
                                                     "bound_ns": 0}
    times, errs = net.errors(maps(outputs), [1, 2, 3, 4], 2, 89)
    off, bound = np.abs(times), errs + errs[0]
    assert (errs >= 0).all()
    assert (off <= bound).all()
    after = maps(outputs)["h00003"].segments[-3:]
    assert all(s.err_ns is not None and s.err_ns < 20_000 for s in after)
    assert references(outputs)["h00003"] == {"h00000", "h00001"}


def test_fleet_time_has_no_jump_where_the_reference_changes() -> None:
    net = Network(4, ring_and_hub(4), 9, silent=lambda host, s: host == 0 and s >= 8,
                  cut=lambda link, s: 0 in link and s >= 8)
    outputs = played(net, 40)
    pieces = maps(outputs)["h00002"].segments
    jumps = [abs(a.at(a.valid_to) - b.at(b.valid_from)) for a, b in pairwise(pieces)]
    assert max(jumps) <= 2
    rates = [abs(s.rate_q32 / 2**32 - 1) for s in pieces if s.state == "settled"]
    assert max(rates) < 60e-6


def test_a_partition_is_reported_and_over_when_links_return() -> None:
    halves = lambda link, s: 10 <= s < 35 and (link[0] < 3) != (link[1] < 3)  # noqa: E731
    net = Network(5, ring_and_hub(5), 10, cut=halves)
    outputs = played(net, 55)
    begun, over = kinds(outputs, "clock_partition")
    assert begun["evidence"]["hosts"] == ["h00003", "h00004"]
    assert (begun["end_ns"], over["start_ns"], over["end_ns"] is None) == (None, begun["start_ns"], False)
    off, bound = pairs(net, outputs, list(range(5)), 2, 49)
    assert (off <= bound).all()
    last = maps(outputs)["h00004"].segments[-1]
    assert last.err_ns is not None
    assert last.err_ns < 20_000


def test_the_larger_part_of_a_fleet_keeps_a_reference_of_its_own() -> None:
    net = Network(5, ring_and_hub(5), 11, cut=lambda link, s: 0 in link and s >= 10)
    outputs = played(net, 40)
    (changed,) = {row["start_ns"]: row for row in kinds(outputs, "clock_reference_changed")}.values()
    assert changed["host"] == "h00001"
    assert [row["host"] for row in kinds(outputs, "clock_partition")][:1] == ["h00000"]


def test_a_host_from_the_future_is_not_elected_and_is_named() -> None:
    net = Network(4, ring_and_hub(4), 12, utc_ahead={0: FAR_NS})
    outputs = played(net, 14)
    assert references(outputs) == {net.name(i): {"h00001"} for i in range(4)}
    assert {row["host"] for row in kinds(outputs, "clock_utc_outvoted")} == {"h00000"}
    off, bound = pairs(net, outputs, list(range(4)), 2, 9)
    assert (off <= bound).all()


def test_a_reference_whose_utc_leaves_the_others_is_replaced() -> None:
    net = Network(4, ring_and_hub(4), 13)
    net.run(0, 12)
    net.utc_ahead = {0: 3_600 * NS}
    net.run(12, 45)
    outputs = replay(STEP, net.batches, end=False)
    (changed,) = {row["start_ns"]: row for row in kinds(outputs, "clock_reference_changed")}.values()
    assert changed["evidence"]["why"] == "outvoted"
    off, bound = pairs(net, outputs, list(range(4)), 2, 40)
    assert (off <= bound).all()


def test_without_any_utc_rows_get_a_time_after_a_documented_wait_and_are_flagged() -> None:
    net = Network(3, ring_and_hub(3), 14, no_utc=range(3))
    outputs = played(net, 30)
    assert [row["host"] for row in kinds(outputs, "clock_without_utc")] == ["h00000"]
    pieces = [s for m in maps(outputs).values() for s in m.segments]
    assert {s.utc_err_ns for s in pieces} == {None}
    off, bound = pairs(net, outputs, [0, 1, 2], 3, 24)
    assert (off <= bound).all()


def test_utc_that_comes_later_is_followed_by_a_recorded_epoch() -> None:
    net = Network(3, ring_and_hub(3), 15, no_utc=range(3))
    net.run(0, 25)
    net.no_utc = ()
    net.run(25, 50)
    outputs = replay(STEP, net.batches, end=False)
    pieces = maps(outputs)["h00002"].segments
    assert pieces[-1].epoch > pieces[0].epoch
    assert pieces[-1].utc_err_ns is not None
    assert [row["end_ns"] is None for row in kinds(outputs, "clock_without_utc")] == [True, False]
    off, bound = pairs(net, outputs, [0, 1, 2], 35, 44)
    assert (off <= bound).all()


def test_groups_that_were_elected_apart_join_when_a_link_comes() -> None:
    net = Network(6, [(0, 1), (1, 2), (3, 4), (4, 5), (2, 3)], 16, cut=lambda link, s: link == (2, 3) and s < 15)
    outputs = played(net, 40)
    assert references(outputs)["h00005"] == {"h00000", "h00003"}
    off, bound = pairs(net, outputs, list(range(6)), 22, 34)
    assert (off <= bound).all()


@pytest.mark.parametrize("cuts", [(7, 40), (23, 99, 180, 301)])
def test_restarts_anywhere_change_nothing(cuts: tuple[int, ...]) -> None:
    def made() -> Network:
        net = Network(5, ring_and_hub(5), 17, lies={(3, 4): (80_000, 6)},
                      silent=lambda host, s: host == 0 and s >= 12, cut=lambda link, s: 0 in link and s >= 12)
        net.run(0, 34)
        return net

    batches, state, outputs = made().batches, STEP.start(), []
    for number, batch in enumerate(batches):
        if number in cuts:
            state = STEP.restore(STEP.snapshot(state))
        state, out = STEP.on_batch(state, batch)
        outputs += out
    outputs += STEP.on_end(state)
    assert [(o.topic, o.batch.header, o.batch.rows) for o in outputs] == [
        (o.topic, o.batch.header, o.batch.rows) for o in replay(STEP, batches)]


def test_where_no_majority_agrees_on_utc_that_is_said() -> None:
    net = Network(3, ring_and_hub(3), 18, utc_ahead={0: FAR_NS, 2: -FAR_NS})
    outputs = played(net, 14)
    assert references(outputs)["h00000"] == {"h00001"}  # the one in the middle
    (disputed,) = kinds(outputs, "clock_utc_disputed")
    assert disputed["evidence"] == {"agreed": 1, "asked": 3, "reference": "h00001"}


def test_a_reboot_begins_a_new_run_of_one_host_and_disturbs_nobody_else() -> None:
    net = Network(4, ring_and_hub(4), 19, silent=lambda host, s: host == 2 and 10 <= s < 13,
                  cut=lambda link, s: 2 in link and 10 <= s < 13)
    net.run(0, 13)
    net.reboot(2, 12)
    net.run(13, 30)
    outputs = replay(STEP, net.batches, end=False)
    pieces = maps(outputs)["h00002"].segments
    at = next(i for i, (a, b) in enumerate(pairwise(pieces)) if b.valid_from < a.valid_from)
    assert (pieces[at].state, pieces[at].err_ns) == ("gap", None)
    assert pieces[at + 1].epoch == pieces[at].epoch + 1
    assert len({s.epoch for s in pieces}) == 2
    assert all(len({s.epoch for s in maps(outputs)[n].segments}) == 1 for n in ("h00000", "h00001", "h00003"))
    off, bound = pairs(net, outputs, [0, 1, 3], 2, 25)
    assert (off <= bound).all()
    times, errs = net.errors(maps(outputs), [0, 2], 15, 25)
    assert (errs >= 0).all()
    assert (np.abs(times[1]) <= errs[1] + errs[0]).all()


def test_a_reference_that_reboots_is_replaced() -> None:
    net = Network(4, ring_and_hub(4), 20, silent=lambda host, s: host == 0 and 10 <= s < 13,
                  cut=lambda link, s: 0 in link and 10 <= s < 13)
    net.run(0, 13)
    net.reboot(0, 12)
    net.run(13, 40)
    outputs = replay(STEP, net.batches, end=False)
    assert len({row["start_ns"] for row in kinds(outputs, "clock_reference_changed")}) == 1
    times, errs = net.errors(maps(outputs), [1, 0, 2, 3], 25, 34)
    assert (errs >= 0).all()
    assert (np.abs(times) <= errs + errs[0]).all()


def test_a_lone_host_that_reboots_goes_on_from_its_utc() -> None:
    net = Network(1, [], 21, silent=lambda host, s: 10 <= s < 13)
    net.run(0, 13)
    net.reboot(0, 12)
    net.run(13, 40)
    pieces = maps(replay(STEP, net.batches, end=False))["h00000"].segments
    starts = [s.at(s.valid_from) for s in pieces]
    assert starts == sorted(starts)
    assert pieces[-1].utc_err_ns is not None
    assert pieces[-1].utc_err_ns < 10_000_000
    assert pieces[-1].valid_from < pieces[0].valid_from


def test_2000_hosts_of_a_ring_and_a_hub_cost_what_they_bring() -> None:
    net = Network(2_000, ring_and_hub(2_000), 22, exchanges=2)
    state = STEP.start()
    calls: list[int] = []
    for second in range(4):
        for batch in net.run(second, second + 1):
            state, out = STEP.on_batch(state, batch)
            calls.append(sum(len(o.batch) for o in out))
        net.batches.clear()
    group, = state.groups.values()
    assert len(group.members) == 2_000
    assert all(h.in_step for h in state.hosts.values())
    assert sum(1 for rows in calls if rows) < len(calls) / 2  # a cell for all at once, not host by host
    kept = [len(h.pieces) + len(h.utc_segments) + sum(len(s.pieces) for e in h.edges if e.local == h.name
                                                      for s in e.stretches) for h in state.hosts.values()]
    assert max(kept) < 40
