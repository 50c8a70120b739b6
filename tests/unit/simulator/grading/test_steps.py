"""Steps of clocks matched in time with the epochs of stored pairs."""

from __future__ import annotations

from dataclasses import replace

from simulator.clocks import NS, RAW, REALTIME, Clock, HostClocks
from simulator.faults.timeline import Pieces
from simulator.grading.steps import Epochs, step_score
from simulator.truth import ClockStep, Incident
from tests.unit.simulator.fleets import config

CLOCKS: dict[str, HostClocks] = {host: config().clocks(index) for index, host in enumerate(config().host_names)}
AT_NS = 5 * NS


def device_pair(*begin_true_ns: int) -> Epochs:
    clock = CLOCKS["sim00"].devices[0]
    return Epochs(("sim00", "dev0"), ("sim00", RAW), tuple(clock.at(at) for at in begin_true_ns))


def score(pairs: list[Epochs], steps: list[ClockStep]) -> tuple[int, int, int]:
    found = step_score(pairs, steps, CLOCKS)
    return found["steps_true"], found["steps_found"], found["steps_false"]


def step(host: str = "sim00", clock: str = "dev0", at_ns: int = AT_NS) -> ClockStep:
    return ClockStep(host, clock, at_ns, 1_000, "step")


def test_an_epoch_that_begins_at_the_first_or_second_probe_finds_the_step() -> None:
    for later in (0, NS, 2 * NS):
        assert score([device_pair(AT_NS + later)], [step()]) == (1, 1, 0)


def test_the_right_number_of_epochs_at_wrong_times_finds_nothing() -> None:
    assert score([device_pair(AT_NS + 3 * NS)], [step()]) == (1, 0, 1)
    assert score([device_pair(AT_NS - NS)], [step()]) == (1, 0, 1)


def test_a_step_without_an_epoch_is_missed_and_an_epoch_without_a_step_false() -> None:
    assert score([device_pair()], [step()]) == (1, 0, 0)
    assert score([device_pair(AT_NS)], []) == (0, 0, 1)


def test_a_step_of_the_host_s_clock_concerns_all_pairs_with_it() -> None:
    raw = CLOCKS["sim00"].raw
    other = Epochs(("sim01", RAW), ("sim00", "fleet"), (CLOCKS["sim01"].raw.at(AT_NS + NS),))
    own = Epochs(("sim00", RAW), ("sim00", "fleet"), (raw.at(AT_NS + NS),))
    assert score([device_pair(AT_NS + NS), other, own], [step(clock=RAW)]) == (3, 3, 0)


def test_a_step_of_realtime_concerns_the_reference_s_own_map_alone() -> None:
    own = Epochs(("sim00", RAW), ("sim00", "fleet"), (CLOCKS["sim00"].raw.at(AT_NS + NS),))
    other = Epochs(("sim01", RAW), ("sim00", "fleet"), ())
    assert score([own, other, device_pair()], [step(clock=REALTIME)]) == (1, 1, 0)


def test_a_step_elsewhere_on_the_way_excuses_an_epoch() -> None:
    through = Epochs(("sim01", RAW), ("sim00", "fleet"), (CLOCKS["sim01"].raw.at(AT_NS + NS),))
    assert score([through], [step(host="sim07", clock=RAW)]) == (0, 0, 0)


def test_a_host_that_slept_shows_its_step_when_it_wakes() -> None:
    asleep_ns = 4 * NS
    pieces = Pieces((0, AT_NS, AT_NS + asleep_ns), (0, AT_NS, AT_NS), (NS, 0, NS))
    raw = Clock(RAW, NS, 7, pieces=pieces)
    clocks = {"sim00": replace(CLOCKS["sim00"], raw=raw)}
    slept = ClockStep("sim00", RAW, AT_NS, -asleep_ns, "suspend")
    begin = CLOCKS["sim00"].devices[0].at(AT_NS + asleep_ns + NS)
    pair = Epochs(("sim00", "dev0"), ("sim00", RAW), (begin,))
    assert step_score([pair], [slept], clocks)["steps_found"] == 1
    back = ClockStep("sim00", "dev0", AT_NS, -asleep_ns, "reset")  # a clock that went on gets no such time
    assert step_score([pair], [back], clocks)["steps_found"] == 0


def test_a_step_while_nobody_could_read_the_clock_shows_afterwards() -> None:
    pair = device_pair(AT_NS + 9 * NS)
    silent = Incident("host_silent", "sim00", None, AT_NS - NS, AT_NS + 8 * NS)
    gone = Incident("device_vanished", "sim00", "dev0", AT_NS - NS, AT_NS + 8 * NS)
    for reason, found in ((silent, 1), (gone, 1), (replace(gone, device="dev1"), 0), (replace(silent, host="x"), 0)):
        assert step_score([pair], [step()], CLOCKS, [reason])["steps_found"] == found


def test_a_counter_that_wraps_is_compared_on_its_face() -> None:
    bits = 32
    device = replace(CLOCKS["sim00"].devices[0], bits=bits)
    clocks = {"sim00": replace(CLOCKS["sim00"], devices=(device,))}
    counted_on = device.at(AT_NS + NS) + 5 * (1 << bits)
    pair = Epochs(("sim00", "dev0"), ("sim00", RAW), (counted_on,))
    assert step_score([pair], [step()], clocks)["steps_found"] == 1
    late = replace(pair, begin_ticks=(counted_on + device.hz * 3,))
    assert step_score([late], [step()], clocks)["steps_found"] == 0
