"""Samples of a host's clocks: width of counters, known rates and restarts reach the rows."""

from __future__ import annotations

import pytest

from fleetscope.contracts.batch import Batch
from tests.unit.processors.align.feeds import KINDS, RAW, Feed, fleet, fleet_through, host, new_feed, rows_of
from tests.unit.processors.clocks.models import HOST_START, NS, Model

BITS = 32


class Narrow(Model):
    def read(self, at: int) -> int:
        return super().read(at) & ((1 << BITS) - 1)


def inventory(feed: Feed, bits: float) -> Batch:
    return feed.batch("inventory", [{"time_ticks": host(0), "kind": "clock", "component": "dev0", "parent": "dev0",
                                     "attribute": "bits", "number": bits, "unit": "bits"}], RAW, host(0.001))


def device_rows(feed: Feed) -> list[dict[str, int]]:
    return [row for row in rows_of(feed.outputs, "aligned_spans") if row["clock"] == "dev0"]


@pytest.mark.parametrize("restarts", [False, True])
def test_spans_of_a_counter_that_wraps_get_their_times(restarts: bool) -> None:
    feed = new_feed()
    feed.device = Narrow(NS, ppm=20.0)
    feed.give(inventory(feed, BITS))
    for second in range(20):
        feed.second(second)
        if restarts:
            feed.state = feed.step.restore(feed.step.snapshot(feed.state))
            fleet_through(feed, second + 0.99)
    if restarts:  # what waited is read again in a stream; here the fit is what counts
        assert feed.state.hosts["h1"].clocks["dev0"].pair.counts == {}
        assert feed.state.hosts["h1"].clocks["dev0"].map.bits == BITS
        return
    rows = device_rows(feed)
    assert len(rows) >= 30
    for row, at in zip(rows, (s + f for s in range(20) for f in (0.2, 0.5)), strict=False):
        assert row["alignment"] == "settled"
        assert abs(row["start_ns"] - fleet(at)) <= row["err_ns"]
        assert row["duration_ns"] in (99, 100, 101)


def test_without_the_width_a_wrap_is_a_reset() -> None:
    feed = new_feed()
    feed.device = Narrow(NS, ppm=20.0)
    for second in range(8):
        feed.second(second)
    assert feed.state.hosts["h1"].clocks["dev0"].pair.counts.keys() <= {"reset", "step"}
    assert feed.state.hosts["h1"].clocks["dev0"].pair.steps == 2


def test_a_known_change_of_rate_is_no_step() -> None:
    feed = new_feed()

    class Halved(Model):
        def read(self, at: int) -> int:
            since = at - HOST_START
            return self.start_ns + min(since, 5 * NS + NS // 2) + max(since - 5 * NS - NS // 2, 0) // 2

    feed.device = Halved(NS)
    for second in range(12):
        if second == 6:
            change = {"kind": "rate", "local_clock": RAW, "remote_clock": "dev0", "local_before_ticks": host(5.5),
                      "remote_first_ticks": feed.device.read(host(5.5)), "local_hz": NS, "remote_hz": NS,
                      "rate_ppb": -NS // 2}
            feed.give(feed.batch("clock_samples", [change], RAW, host(5.99)))
        feed.second(second)
    assert feed.state.hosts["h1"].clocks["dev0"].pair.counts == {}
    for row, at in zip(device_rows(feed), (s + f for s in range(12) for f in (0.2, 0.5)), strict=False):
        assert abs(row["start_ns"] - fleet(at)) <= row["err_ns"]


def test_a_new_epoch_of_the_producer_with_earlier_times_is_a_reboot() -> None:
    feed = new_feed()
    for second in range(8):
        feed.second(second)
    pair = feed.state.hosts["h1"].clocks["dev0"].pair
    feed.epoch, feed.device = 2, Model(100_000_000, 5 * NS)
    feed.batches.clear()
    feed.sample(-1_000)
    feed.sample(-999)
    feed.beat(-998.5, kinds=KINDS)
    assert pair.counts == {"reboot": 1}
    assert pair.epoch == 1
