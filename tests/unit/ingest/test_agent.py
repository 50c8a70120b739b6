"""The agent's rhythm, numbering, promises and counts, with time moved by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from fleetscope.contracts.codec import decode
from fleetscope.contracts.topics import BY_NAME
from fleetscope.errors import UsageError
from fleetscope.stream.memory import MemoryStream
from ingest.agent import Agent, epoch_of
from ingest.hostroot import HostRoot
from ingest.links.initiator import FourStamps
from ingest.links.prober import Prober
from tests.unit.ingest.files import put
from tests.unit.ingest.hosts import BOOT_NS, HandClocks, KeepingSender, small_root, timex

SECOND = 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Iterator[HostRoot]:
    with HostRoot(small_root(tmp_path)) as files:
        yield files


def run_for(agent: Agent, clocks: HandClocks, seconds: float) -> None:
    """Tick whenever the agent asks for it."""
    end = clocks.now + round(seconds * SECOND)
    while clocks.now < end:
        clocks.now = max(agent.tick(), clocks.now)


def test_sequences_have_no_gap_and_counts_end_at_what_was_sent(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 0.5, clocks)
    run_for(agent, clocks, 10)
    agent.close()
    for contract, producer in (("counters", "/agent"), ("clock_samples", "/agent"), ("clock_samples", "/links"),
                               ("inventory", "/agent"), ("heartbeats", "/agent"), ("heartbeats", "/links")):
        batches = sender.batches(contract, producer)
        assert [b.header.sequence for b in batches] == list(range(len(batches))), contract
        assert batches
        if contract != "heartbeats":
            last = [r for r in sender.batches("heartbeats", producer)[-1].rows.to_pylist() if r["contract"] == contract]
            assert [(r["batches_total"], r["rows_total"], r["closed"]) for r in last] \
                == [(len(batches), sum(len(b) for b in batches), True)]


def test_readings_come_every_period_and_heartbeats_every_second(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 0.5, clocks)
    run_for(agent, clocks, 10)
    agent.close()
    ticks = {r["time_ticks"] for b in sender.batches("counters") for r in b.rows.to_pylist() if r["counter"] == "forks"
             or (r["counter"], r["instance"]) == ("cpu_user", "total")}
    assert len(ticks) == pytest.approx(20, abs=1)
    assert len(sender.batches("heartbeats", "/agent")) == pytest.approx(11, abs=1)
    rows = [r for b in sender.batches("clock_samples", "/links") for r in b.rows.to_pylist()]
    assert len([r for r in rows if r["kind"] == "exchange"]) == pytest.approx(40, abs=4)
    assert [r["rate_ppb"] for r in rows if r["kind"] == "rate"] == pytest.approx([1_500] * (len(rows) // 5))


def test_no_row_is_earlier_than_a_promise_made_before_it(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 0.3, clocks, linger_s=2.5)
    run_for(agent, clocks, 12)
    agent.close()
    promised: dict[tuple[str, str], int] = {}
    checked = 0
    for _, message in sender.messages:
        (batch,) = [b for b in sender.batches(dict(message.headers)["fs-contract"].decode())
                    if b.header.sequence == int(dict(message.headers)["fs-sequence"])
                    and b.header.producer.encode() == dict(message.headers)["fs-producer"]]
        producer = batch.header.producer
        if batch.header.contract == "heartbeats":
            for row in batch.rows.to_pylist():
                promised[producer, row["contract"]] = row["through_ticks"]
        elif (producer, batch.header.contract) in promised:
            assert batch.header.min_time is not None
            assert batch.header.min_time >= promised[producer, batch.header.contract]
            checked += 1
    assert checked > 5


def test_headers_are_complete(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 2)
    header = sender.batches("counters")[0].header
    assert (header.host, header.producer, header.clock) == ("h1", "h1/agent", "monotonic_raw")
    assert header.min_time is not None
    assert header.max_time is not None
    assert header.flushed_ticks is not None
    assert header.flushed_ticks >= header.max_time


def test_utc_readings_go_to_the_links_and_boottime_to_the_host(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 2)
    agent.close()
    assert sender.topics()["raw.clock_links"] == {"h1/links"}
    assert sender.topics()["raw.clock_samples"] == {"h1/agent"}
    for producer, clock, offset in (("/links", "realtime", BOOT_NS), ("/agent", "boottime", 7_000),
                                    ("/agent", "monotonic", 3_000)):
        rows = [r for b in sender.batches("clock_samples", producer) for r in b.rows.to_pylist()
                if r["remote_clock"] == clock and r["kind"] == "exchange"]
        assert rows
        for row in rows:
            assert (row["kind"], row["remote_clock"], row["remote_host"]) == ("exchange", clock, None)
            assert row["remote_last_ticks"] is None
            assert row["local_before_ticks"] <= row["remote_first_ticks"] - offset <= row["local_after_ticks"]


def test_kinds_the_agent_never_sends_are_promised_too_so_that_nobody_waits(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 1)
    rows = {r["contract"]: r for r in sender.batches("heartbeats", "/agent")[0].rows.to_pylist()}
    assert {"spans", "profiles", "marks"} < rows.keys()
    assert rows["spans"]["batches_total"] == 0


def test_what_the_stream_refuses_is_sent_later_in_order(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 0.5, clocks)
    run_for(agent, clocks, 3)
    sender.down = True
    run_for(agent, clocks, 5)
    sender.down = False
    run_for(agent, clocks, 3)
    agent.close()
    batches = sender.batches("counters")
    first_seen = list(dict.fromkeys(b.header.sequence for b in batches))
    assert first_seen == list(range(agent.own.counts("counters").batches))
    assert all(b.header.dropped_rows == 0 for b in batches)
    assert len(agent.outbox) == 0


def test_what_the_stream_took_and_lost_is_sent_again_under_its_identity(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 0.5, clocks)
    run_for(agent, clocks, 3)
    sender.lose_next_flush = True
    run_for(agent, clocks, 3)
    agent.close()
    sequences = [b.header.sequence for b in sender.batches("counters")]
    assert sorted(set(sequences)) == list(range(max(sequences) + 1))


def test_the_inventory_comes_first_and_again_only_when_it_changed(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 30.0, clocks)
    run_for(agent, clocks, 130)
    assert len(sender.batches("inventory")) == 1
    put(root.path, {"proc/stat": "cpu 1 2 3 4\ncpu0 1 2 3 4\n"})
    run_for(agent, clocks, 65)
    latest = sender.batches("inventory")[-1].rows.to_pylist()
    assert len(sender.batches("inventory")) == 2
    assert [r["number"] for r in latest if r["attribute"] == "cpus_online"] == [1]
    widths = {r["component"]: r["number"] for r in latest if (r["kind"], r["attribute"]) == ("counter", "width_bits")}
    assert widths["disk_busy_ms"] == 32
    assert [r["number"] for r in latest if (r["component"], r["attribute"]) == ("cpu_user", "period_s")] == [30.0]


def test_what_could_not_be_read_is_a_counter_of_its_own(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 3)
    agent.close()
    counts = [r["raw"] for b in sender.batches("counters") for r in b.rows.to_pylist()
              if (r["counter"], r["instance"]) == ("agent_unreadable", "network/missing")]
    assert counts[0] >= 1
    assert counts == sorted(counts)


def test_missed_periods_are_not_made_up_for(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    agent.tick()
    clocks.now += 60 * SECOND
    wake = agent.tick()
    assert 0 < wake - clocks.now <= SECOND
    agent.close()
    ticks = {r["time_ticks"] for b in sender.batches("counters") for r in b.rows.to_pylist()
             if r["counter"] == "memory_total"}
    assert len(ticks) == 2


def test_a_suspend_is_marked_once_with_its_length(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 3)
    clocks.asleep += 12_500_000_000
    run_for(agent, clocks, 3)
    agent.close()
    marks = [r for b in sender.batches("marks") for r in b.rows.to_pylist()]
    assert [(m["kind"], m["subject"], m["name"], m["detail"]) for m in marks] \
        == [("note", "host", "suspend", "asleep for 12.500 s")]
    totals = [r["raw"] for b in sender.batches("counters") for r in b.rows.to_pylist()
              if r["counter"] == "host_suspended_us"]
    assert totals[-1] - totals[0] == 12_500_000


def test_the_inventory_names_the_boot_and_how_realtime_is_kept(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 1)
    agent.close()
    facts = {(r["component"], r["attribute"]): r["text"] if r["text"] is not None else r["number"]
             for r in sender.batches("inventory")[0].rows.to_pylist() if r["kind"] == "clock"}
    assert facts["monotonic_raw", "boot_id"] == "2e32b555-ec0e-4323-8ecb-fb7186e27855"
    assert (facts["realtime", "status"], facts["realtime", "tick_us"], facts["realtime", "tai_offset_s"]) \
        == ("pll", 10_000, 0)


def test_tai_is_read_from_the_moment_its_offset_is_set(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    run_for(agent, clocks, 3)
    assert "tai" not in {r["remote_clock"] for b in sender.batches("clock_samples") for r in b.rows.to_pylist()}
    clocks.timex = timex(tai_s=37)
    run_for(agent, clocks, 3)
    agent.close()
    assert "tai" in {r["remote_clock"] for b in sender.batches("clock_samples") for r in b.rows.to_pylist()}


def test_no_rate_is_stated_while_a_correction_of_unknown_speed_is_under_way(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks)
    clocks.timex = timex(slew_us=-4_000)
    run_for(agent, clocks, 3)
    clocks.timex = timex(tick_us=10_001)
    run_for(agent, clocks, 3)
    agent.close()
    rates = [r for b in sender.batches("clock_samples", "/links") for r in b.rows.to_pylist() if r["kind"] == "rate"]
    assert {r["rate_ppb"] for r in rates} == {101_500}
    assert 2 <= len(rates) <= 4


class OpenProber:
    """A prober that has one question open since ``open`` and gives its exchange two looks later."""

    failure = None

    def __init__(self, clocks: HandClocks) -> None:
        self.clocks, self.open, self.looks = clocks, clocks.now, 0

    def take(self) -> tuple[list[tuple[str, FourStamps]], int]:
        self.looks += 1
        if self.looks % 3:
            return [], self.open
        found = [("peer", FourStamps(self.open, 70, 90, self.open + 40, True))]
        self.open = self.clocks.now + 1
        return found, self.open

    def report(self) -> list[dict[str, object]]:
        return []

    def counts(self) -> dict[str, int]:
        return {"answered": 3}

    def stop(self) -> None:
        self.looks = 2


def test_exchanges_with_peers_go_to_the_links_and_open_ones_hold_the_promise_back(root: HostRoot) -> None:
    clocks, sender = HandClocks(), KeepingSender()
    agent = Agent("h1", sender, root, 1.0, clocks, prober=cast("Prober", OpenProber(clocks)))
    run_for(agent, clocks, 12)
    agent.close()
    rows = [r for b in sender.batches("clock_samples", "/links") for r in b.rows.to_pylist() if r["remote_host"]]
    assert len(rows) >= 3
    for row in rows:
        assert (row["kind"], row["remote_host"], row["remote_clock"], row["local_clock"]) \
            == ("exchange", "peer", "monotonic_raw", "monotonic_raw")
        assert (row["remote_first_ticks"], row["remote_last_ticks"]) == (70, 90)
        assert row["local_after_ticks"] - row["local_before_ticks"] == 40
    promised, checked = 0, 0
    for topic, message in sender.messages:
        if topic != "raw.clock_links":
            continue
        batch = decode(message.key, message.value, message.headers)
        if batch.header.contract == "heartbeats":
            (promised,) = batch.rows.column("through_ticks").to_pylist()
        else:
            assert min(batch.rows.column("local_before_ticks").to_pylist()) >= promised
            checked += promised > 0
    assert checked > 5


def test_epochs_grow_from_start_to_start_and_fit_63_bits() -> None:
    now = 1_790_000_000_000_000_000
    first, second = epoch_of("a", now, 1), epoch_of("a", now + 1_000_000, 1)
    assert 0 < first < second < 1 << 63
    assert epoch_of("a", now, 1) != epoch_of("b", now, 1)
    assert epoch_of("", (1 << 63) - 1, 0) < 1 << 63


def test_a_stop_ends_the_run_with_closing_heartbeats_on_a_real_stream(root: HostRoot) -> None:
    stream = MemoryStream(keep=tuple(BY_NAME))
    stream.ensure_topics(tuple(BY_NAME.values()))
    stop = threading.Event()
    thread = threading.Thread(target=Agent("h1", stream.producer("a"), root, 0.05).run, args=(stop,))
    thread.start()
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    sizes = {name: sum(lag.values()) for name in ("raw.counters", "raw.heartbeats", "raw.clock_links")
             if (lag := stream.group_lag("nobody", [name]))}
    assert min(sizes.values()) >= 1


def test_a_fault_that_is_final_still_closes_and_reaches_the_caller(root: HostRoot) -> None:
    class Broken(KeepingSender):
        def send(self, topic: str, message: object) -> None:
            raise UsageError("no such topic")

    with pytest.raises(UsageError, match="no such topic"):
        Agent("h1", Broken(), root, 1.0, HandClocks()).run(threading.Event(), 0.0)
