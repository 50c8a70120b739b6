from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fleetscope.errors import UsageError
from simulator.faults.plan import FLUSH_NS, NS, HostPlan, host_plan, impossible
from simulator.faults.settings import Clocks, Collection
from tests.unit.simulator.faults.runs import faulty


def plan(clocks: list[dict[str, Any]] | None = None, collection: list[dict[str, Any]] | None = None, *, host: int = 0,
         devices: int = 2, seconds: float = 10.0) -> HostPlan:
    return host_plan(Clocks.model_validate({"events": clocks or []}),
                     Collection.model_validate({"events": collection or []}), host, devices, seconds, 7)


def recorded(of: HostPlan, device: int | None, spans_s: list[tuple[float, float]], flush_s: float) -> list[bool]:
    start, end = (np.array([round(t * NS) for t in times], dtype=np.int64) for times in zip(*spans_s, strict=True))
    return of.recorded(device, start, end, round(flush_s * NS)).tolist()


def test_a_share_of_the_run_and_seconds_name_the_same_time() -> None:
    by_share = plan(collection=[{"kind": "agent_crash", "at_share": 0.25}])
    assert by_share.downs == plan(collection=[{"kind": "agent_crash", "at_s": 2.5}]).downs


def test_an_event_of_another_host_is_none_of_this_one() -> None:
    assert plan(collection=[{"kind": "host_crash", "at_s": 1, "host": 1}]).downs == []
    assert len(plan(collection=[{"kind": "host_crash", "at_s": 1, "host": 1}], host=1).downs) == 1


def test_an_agent_that_crashed_is_another_process_with_the_next_epoch() -> None:
    made = plan(collection=[{"kind": "agent_crash", "at_s": 3, "for_s": 1, "tail_s": 0.5}])
    assert [made.running(round(t * NS)) for t in (2.5, 2.6, 3.9, 4.0)] == [True, False, False, True]
    assert [(made.run(t).number, made.run(t).epoch) for t in (2 * NS, 4 * NS)] == [(0, 0), (1, 1)]
    assert recorded(made, None, [(1, 2), (3.9, 4.1), (4.0, 4.1)], 4.2) == [False, False, True]


def test_a_sequence_restart_keeps_the_epoch() -> None:
    made = plan(collection=[{"kind": "sequence_restart", "at_s": 3}])
    assert (made.run(5 * NS).number, made.run(5 * NS).epoch) == (1, 0)
    assert {incident.kind for incident in made.incidents} == {"host_silent", "sequence_restart"}


def test_a_suspended_host_sleeps_between_two_flushes_and_records_nothing_across_it() -> None:
    made = plan([{"kind": "suspend", "at_s": 2.5, "for_s": 1.0}])
    (down,) = made.downs
    assert (down.start_ns, down.end_ns) == (12 * FLUSH_NS, 18 * FLUSH_NS)
    assert [made.running(number * FLUSH_NS) for number in (12, 13, 17, 18)] == [True, False, False, True]
    assert recorded(made, 0, [(1, 2), (2.3, 2.5), (3, 3.2), (3.6, 3.7)], 3.8) == [True, False, False, True]
    assert made.run(8 * NS).number == 0


def test_work_across_a_reset_is_not_recorded_and_that_of_other_devices_is() -> None:
    made = plan([{"kind": "device_reset", "at_s": 2, "device": 1}])
    spans = [(1.9, 2.0), (1.9, 2.1), (2.0, 2.1)]
    assert recorded(made, 1, spans, 3) == [True, False, True]
    assert recorded(made, 0, spans, 3) == recorded(made, None, spans, 3) == [True, True, True]


def test_a_vanished_device_records_nothing_while_it_is_gone() -> None:
    made = plan(collection=[{"kind": "device_vanish", "at_s": 2, "for_s": 1, "device": 0}])
    assert recorded(made, 0, [(1, 2), (1.9, 2.1), (2.5, 2.6), (3, 3.1)], 4) == [True, False, False, True]
    assert (made.present(0, 2 * NS), made.present(0, 3 * NS), made.present(1, 2 * NS)) == (False, True, True)


def test_the_same_seed_plans_the_same_levels_and_another_device_others() -> None:
    dvfs = Clocks.model_validate({"dvfs": {"dwell_s": 0.5}})
    one, again = (host_plan(dvfs, Collection(), 0, 2, 10.0, 7).changes for _ in range(2))
    assert one == again
    assert one["dev0"] != one["dev1"]
    assert {change.amount for change in one["dev0"]} == {400_000_000, 550_000_000, 700_000_000, 850_000_000, NS}


@pytest.mark.parametrize(("clocks", "collection", "words"), [
    ({"events": [{"kind": "suspend", "at_s": 2.0}]}, {}, r"clocks.events\[0\].at_s: 2 s is outside the run of 2 s"),
    ({}, {"events": [{"kind": "stall", "at_s": 1, "host": 2}]}, r"collection.events\[0\].host: there is no host 2"),
    ({"events": [{"kind": "device_reset", "at_s": 1, "device": 1}]}, {}, r"events\[0\].device: there is no device 1"),
    ({"ahead": [{"seconds": 3.0, "host": 5}]}, {}, r"clocks.ahead\[0\].host: there is no host 5"),
    ({"probes": {"congestion": [{"at_s": 9}]}}, {}, r"clocks.probes.congestion\[0\].at_s: 9 s is outside"),
    ({"events": [{"kind": "suspend", "at_s": 0.5}]}, {"events": [{"kind": "host_crash", "at_s": 1.0}]},
     r"collection.events\[0\]: it overlaps"),
])
def test_what_the_run_cannot_have_is_refused_by_key_and_reason(clocks: dict[str, Any], collection: dict[str, Any],
                                                               words: str) -> None:
    with pytest.raises(UsageError, match=words):
        faulty(clocks, collection)


def test_crashes_of_different_hosts_may_overlap() -> None:
    events = [{"kind": "agent_crash", "at_s": 1, "host": host} for host in (0, 1)]
    assert list(impossible(Clocks(), Collection.model_validate({"events": events}), 2, 1, 5.0)) == []


@pytest.mark.parametrize(("section", "values", "words"), [
    (Collection, {"lost_share": -0.1}, "greater than or equal to 0"),
    (Collection, {"lost_share": 0.6, "late_share": 0.6}, "add up to 1.2"),
    (Collection, {"late_min_s": 5, "late_max_s": 2}, "below late_min_s"),
    (Collection, {"events": [{"kind": "stall"}]}, "either at_s or at_share"),
    (Collection, {"events": [{"kind": "stall", "at_s": 1, "at_share": 0.1}]}, "either at_s or at_share"),
    (Collection, {"events": [{"kind": "stall", "at_s": -1}]}, "greater than or equal to 0"),
    (Collection, {"events": [{"kind": "meteor", "at_s": 1}]}, "meteor"),
    (Clocks, {"device_bits": 8}, "greater than or equal to 16"),
    (Clocks, {"probes": {"rate_hz": 0}}, "greater than 0"),
    (Clocks, {"dvfs": {"low": 0}}, "greater than or equal to 0.01"),
    (Clocks, {"host_ppm": float("nan")}, "finite"),
    (Clocks, {"wobble": 1}, "not permitted"),
])
def test_a_wrong_section_is_refused(section: type[Clocks] | type[Collection], values: dict[str, Any],
                                    words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        section.model_validate(values)
