"""Contracts of what the steps publish. Times are int64 ns since the Unix epoch in fleet time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fleetscope.contracts import jobs, raw
from fleetscope.contracts.schema import FLOAT, INT, SYMBOL, TEXT, Column, Contract

ALIGNMENTS: Final = ("settled", "provisional", "gap")
"""How sure a mapping is: settled by later probes, provisional with a wider bound, or inside a gap (no bound)."""

_ALIGNED: Final = (
    Column("err_ns", INT, "bound on the error against every clock of the same reference; null: none can be given", "ns",
           nullable=True),
    Column("utc_err_ns", INT, "bound on the error of fleet time against REALTIME of the reference host, which is UTC "
           "as well as that host knows it; null: none can be given", "ns", nullable=True),
    Column("alignment", SYMBOL, "settled, provisional or gap"),
)


def _aligned(contract: Contract) -> Contract:
    """The aligned form: every raw column, then fleet time and its bounds.

    Version 1 had the same columns and one producer's batch a message; since version 2 a message may hold several, told
    apart by the header ``parts``. So its versions are one ahead of the raw contract's.
    """
    time = Column("start_ns" if contract.duration_column else "time_ns", INT, "fleet time", "ns since 1970")
    times = (time, Column("duration_ns", INT, "length: source ticks times rate", "ns", minimum=0)) \
        if contract.duration_column else (time,)
    columns = tuple(replace(c, since=c.since + (c.since > 1)) for c in contract.columns)
    return replace(contract, name=f"aligned_{contract.name}", version=contract.version + 1,
                   columns=(*columns, *times, *_ALIGNED),
                   doc=f"{contract.doc} With fleet time.", time_column=time.name,
                   duration_column="duration_ns" if contract.duration_column else None)


ALIGNED_SPANS: Final = _aligned(raw.SPANS)
ALIGNED_COUNTERS: Final = _aligned(raw.COUNTERS)
ALIGNED_PROFILES: Final = _aligned(raw.PROFILES)
ALIGNED_INVENTORY: Final = _aligned(raw.INVENTORY)
ALIGNED_MARKS: Final = _aligned(raw.MARKS)
ALIGNED_HEARTBEATS: Final = _aligned(raw.HEARTBEATS)

SEGMENTS: Final = Contract(
    "segments", 1,
    (
        Column("host", SYMBOL, "host that owns the source clock"),
        Column("clock", SYMBOL, "source clock"),
        Column("target_host", SYMBOL, "host that owns the target clock; for fleet time the elected reference"),
        Column("target_clock", SYMBOL, "clock mapped to; 'fleet' is fleet time"),
        Column("epoch", INT, "changes at each step or reset of the pair, and at each election"),
        Column("version", INT, "revision of this piece"),
        Column("valid_from_ticks", INT, "first source tick it holds for", "ticks"),
        Column("valid_to_ticks", INT, "first source tick it no longer holds for", "ticks"),
        Column("src0_ticks", INT, "source tick of the anchor", "ticks"),
        Column("dst0_ticks", INT, "target tick of the anchor", "ticks"),
        Column("rate_q32", INT, "target ticks a source tick, times 2^32"),
        Column("err_ns", INT, "bound on the mapped time; null in a gap", "ns", nullable=True),
        Column("utc_err_ns", INT, "bound of fleet time against REALTIME of the reference; null: unknown, or not "
               "fleet time", "ns", nullable=True),
        Column("state", SYMBOL, "settled, provisional or gap"),
        Column("settled_at_ticks", INT, "local tick at which the piece was decided", "ticks"),
    ),
    "A piece of the map from one clock to another: dst0 + (t − src0) · rate_q32 / 2^32.",
    time_column="valid_from_ticks",
)

STATES: Final[tuple[tuple[str, str], ...]] = (
    ("compute", "kernels limited by arithmetic throughput"),
    ("memory_bandwidth", "kernels limited by device memory bandwidth"),
    ("on_chip_memory", "kernels limited by on-chip memory"),
    ("interconnect", "kernels limited by the on-chip or device interconnect"),
    ("latency", "kernel time that no throughput limit explains"),
    ("throttled", "kernel time lost to a lowered clock"),
    ("bank_conflict", "kernel time lost to bank conflicts"),
    ("spill", "kernel time lost to spills"),
    ("dma_stall", "kernel time lost waiting for DMA"),
    ("kernel_unattributed", "kernel time whose work is not known (no flops, bytes or peaks)"),
    ("collective_network", "exposed collective, bytes at bus bandwidth"),
    ("collective_wait", "exposed collective, waiting for a late peer"),
    ("pcie_h2d", "exposed host-to-device transfer at the link's effective bandwidth"),
    ("pcie_d2h", "exposed device-to-host transfer at the link's effective bandwidth"),
    ("pcie_small", "exposed transfer time above what the bytes need: set-up and latency of small transfers"),
    ("pcie_queueing", "exposed transfer time lost to others on the same path"),
    ("host", "idle with demand: the host was in calls or framework code and had not submitted the next work"),
    ("host_input", "idle with demand: the host prepared input"),
    ("host_contention", "idle with demand: the host's thread waited for a processor"),
    ("host_pageable", "idle with demand: the host copied pageable memory"),
    ("launch_overhead", "idle although the next work was submitted"),
    ("dependency", "idle, waiting for an event"),
    ("no_demand", "idle without a pending request; not a bottleneck"),
    ("unresolved", "gaps between clocks smaller than their error bounds"),
    ("unknown", "no coverage: data missing, late or before the first reading"),
)
"""Every nanosecond of a device's window is in exactly one of these."""

STATE_NAMES: Final = tuple(name for name, _ in STATES)
_SINCE_2: Final = frozenset({"pcie_queueing", "host_input", "host_contention", "host_pageable"})
"""States of windows since version 2; before it their time was in ``pcie_small`` and ``host``."""

WINDOWS: Final = Contract(
    "windows", 2,
    (
        Column("host", SYMBOL, "host"),
        Column("device", SYMBOL, "device"),
        Column("job", SYMBOL, "job with most device work in the window; null: none", nullable=True),
        Column("window_start_ns", INT, "first ns of the window", "ns since 1970"),
        Column("window_ns", INT, "length of the window", "ns", minimum=1),
        Column("revision", INT, "highest input offset included; a later revision replaces the window"),
        *(Column(f"{name}_ns", INT, doc, "ns", nullable=name in _SINCE_2, since=2 if name in _SINCE_2 else 1, minimum=0)
          for name, doc in STATES),
        Column("kernels", INT, "kernels that started in the window", minimum=0),
        Column("transfers", INT, "transfers that started in the window", minimum=0),
        Column("flops", INT, "floating-point operations, by share of kernel time inside the window", "flop",
               nullable=True),
        Column("memory_bytes", INT, "device memory traffic of kernels, likewise", "B", nullable=True),
        Column("h2d_bytes", INT, "payload host to device, likewise", "B", nullable=True),
        Column("d2h_bytes", INT, "payload device to host, likewise", "B", nullable=True),
        Column("launch_latency_p50_ns", INT, "median of kernel start − submission end; null: no pair", "ns",
               nullable=True),
        Column("orphans", INT, "kernels and transfers without a submission", minimum=0),
        Column("err_ns", INT, "largest bound of any row used; null: some row had none", "ns", nullable=True),
        Column("received_rows", INT, "rows of the host in the window", minimum=0),
        Column("late_rows", INT, "rows that came behind the watermark", minimum=0),
        Column("dropped_rows", INT, "rows lost at the source, by its own count", minimum=0),
        Column("lost_rows", INT, "rows published and never received", minimum=0),
        Column("redelivered_rows", INT, "repeats recognised and dropped", minimum=0),
        Column("coverage", FLOAT, "share of the window's rows and time that is known", "0..1"),
        Column("counter_errors", INT, "works whose stated work at its peak takes longer than they did, and readings of "
               "counters of the device that are no numbers", nullable=True, minimum=0),
    ),
    "Time accounting of one device in one window; the states add up to window_ns exactly.",
    time_column="window_start_ns",
)

JOB_SHARES: Final = jobs.job_shares(WINDOWS)
JOB_WINDOWS: Final = jobs.job_windows(STATES)

LATE_WINDOWS: Final = Contract(
    "late_windows", 1,
    (
        Column("host", SYMBOL, "host"),
        Column("window_start_ns", INT, "first ns of the closed window to account for again", "ns since 1970"),
        Column("window_ns", INT, "length of the window", "ns", minimum=1),
        Column("revision", INT, "highest input offset counted, and no less than any revision the window has so far"),
        Column("topic", SYMBOL, "topic of the message that brought what was late"),
        Column("partition", INT, "its partition", minimum=0),
        Column("offset", INT, "its offset", minimum=0),
        Column("rows", INT, "rows of the message; its batch's identity is (producer, epoch, sequence, row0, rows)",
               minimum=0),
        Column("producer", SYMBOL, "producer of the batch"),
        Column("epoch", INT, "its epoch"),
        Column("sequence", INT, "its number", minimum=0),
        Column("row0", INT, "number of its first row", minimum=0),
        Column("late_rows", INT, "rows of the message that start in this window", minimum=0),
        Column("spans_offset", INT, "last message with spans of the host that was counted; null: none", nullable=True),
        Column("counters_offset", INT, "likewise counters", nullable=True),
        Column("inventory_offset", INT, "likewise inventory", nullable=True),
        Column("coverage_offset", INT, "likewise coverage", nullable=True),
        Column("known_to_ns", INT, "end of the observed time where the host closed inside the window; null: all of it",
               "ns since 1970", nullable=True),
        Column("told_late_rows", INT, "late rows, of any window, that this window has told", minimum=0),
        Column("told_redelivered_rows", INT, "repeats seen by accounting that this window has told", minimum=0),
        Column("other_received_rows", INT, "counts of coverage that this window has told for time outside it"),
        Column("other_dropped_rows", INT, "likewise"),
        Column("other_lost_rows", INT, "likewise"),
        Column("other_redelivered_rows", INT, "likewise"),
    ),
    "Closed windows for which something came, to be accounted for again from the store.",
    time_column="window_start_ns",
)

VERDICTS: Final = Contract(
    "verdicts", 1,
    (
        Column("host", SYMBOL, "host"),
        Column("device", SYMBOL, "device"),
        Column("job", SYMBOL, "job", nullable=True),
        Column("window_start_ns", INT, "first ns of the window", "ns since 1970"),
        Column("window_ns", INT, "length of the window", "ns", minimum=1),
        Column("revision", INT, "as in windows"),
        Column("cause", SYMBOL, "a state, or mixed, no_demand, insufficient_data"),
        Column("share", FLOAT, "share of the window's time", "0..1"),
        Column("share_low", FLOAT, "lower limit of share", "0..1"),
        Column("share_high", FLOAT, "upper limit of share", "0..1"),
        Column("runner_up", SYMBOL, "second largest cause", nullable=True),
        Column("confidence", FLOAT, "distance of the lower limit to the runner-up's upper limit", "0..1"),
        Column("recoverable_ns", INT, "time the cause cost", "ns"),
        Column("evidence", TEXT, "the numbers used, as JSON"),
        Column("advice", TEXT, "one sentence for an engineer"),
    ),
    "What limits a device in a window.", time_column="window_start_ns",
)

INCIDENTS: Final = Contract(
    "incidents", 1,
    (
        Column("host", SYMBOL, "host"),
        Column("device", SYMBOL, "device", nullable=True),
        Column("kind", SYMBOL, "what it is, such as data_loss, clock_gap, pcie_saturation"),
        Column("start_ns", INT, "start", "ns since 1970"),
        Column("end_ns", INT, "end; null: still open", "ns since 1970", nullable=True),
        Column("revision", INT, "a later revision replaces the incident"),
        Column("severity", SYMBOL, "info, warning or critical"),
        Column("evidence", TEXT, "the numbers used, as JSON"),
    ),
    "Something wrong with a start and an end.", time_column="start_ns",
)


def _event(side: str) -> tuple[Column, ...]:
    """Columns of one of two events: where, when, and the identity of its row."""
    return (
        Column(f"{side}_clock", SYMBOL, f"clock of the {side}"),
        Column(f"{side}_device", SYMBOL, "its device; null: the host", nullable=True),
        Column(f"{side}_track", SYMBOL, "its track"),
        Column(f"{side}_name", SYMBOL, "its name"),
        Column(f"{side}_time_ns", INT, "its fleet time", "ns since 1970"),
        Column(f"{side}_err_ns", INT, "bound on it", "ns", minimum=0),
        Column(f"{side}_producer", SYMBOL, "identity of its span: producer"),
        Column(f"{side}_epoch", INT, "its epoch"),
        Column(f"{side}_sequence", INT, "its number", minimum=0),
        Column(f"{side}_row", INT, "its row", minimum=0),
    )


CAUSALITY_VIOLATIONS: Final = Contract(
    "causality_violations", 1,
    (
        Column("host", SYMBOL, "host"),
        Column("rule", SYMBOL, "submission: work starts before its submission ended; completion: a host span that "
               "waited for work ends before the work"),
        Column("time_ns", INT, "when the effect happened", "ns since 1970"),
        Column("process_id", INT, "process of both"),
        Column("correlation_id", INT, "id that joins them"),
        Column("inversion_ns", INT, "by how much the cause is later than the effect", "ns", minimum=1),
        Column("beyond_ns", INT, "what of it the bounds of both cannot explain", "ns", minimum=1),
        *_event("cause"), *_event("effect"),
    ),
    "Two events in an order that cannot be, whatever the clocks show within their bounds: a wrong correlation, or a "
    "clock that broke what is assumed of it.", time_column="time_ns",
)

COVERAGE: Final = Contract(
    "coverage", 1,
    (
        Column("host", SYMBOL, "host"),
        Column("source", SYMBOL, "producer"),
        Column("source_epoch", INT, "epoch of the producer"),
        Column("contract", SYMBOL, "kind of batch"),
        Column("from_ns", INT, "previous beat; the row counts what came since", "ns since 1970"),
        Column("to_ns", INT, "this beat", "ns since 1970"),
        Column("produced_rows", INT, "published by the producer's count", minimum=0),
        Column("received_rows", INT, "received and decoded", minimum=0),
        Column("late_rows", INT, "received behind the watermark", minimum=0),
        Column("redelivered_rows", INT, "repeats recognised and dropped", minimum=0),
        Column("dropped_rows", INT, "lost at the source by its own count", minimum=0),
        Column("lost_rows", INT, "published and never received; negative: a loss counted before came after all"),
    ),
    "What arrived of what was produced, per producer, kind and beat.", time_column="to_ns",
)

DEAD_LETTERS: Final = Contract(
    "dead_letters", 1,
    (
        Column("topic", SYMBOL, "topic of the message"),
        Column("partition", INT, "its partition"),
        Column("offset", INT, "its offset"),
        Column("step", SYMBOL, "step that could not use it"),
        Column("code", SYMBOL, "stable reason to count by"),
        Column("reason", TEXT, "reason for people"),
        Column("rows", INT, "rows the headers claimed; 0 where they could not be read", minimum=0),
        Column("host", SYMBOL, "host by the message's key; null: unreadable", nullable=True),
        Column("size_bytes", INT, "size of the message", "B", minimum=0),
        Column("time_ms", INT, "broker's time of the message", "ms since 1970"),
        Column("head", TEXT, "first bytes of the message, hexadecimal"),
    ),
    "Messages that could not be decoded.", time_column=None,
)

TELEMETRY: Final = Contract(
    "telemetry", 1,
    (
        Column("time_ns", INT, "when", "ns since 1970"),
        Column("step", SYMBOL, "step or service"),
        Column("partition", INT, "partition; −1: the whole worker"),
        Column("metric", SYMBOL, "name with unit"),
        Column("value", FLOAT, "value", "see metric"),
    ),
    "The pipeline's own metrics.", time_column="time_ns",
)

SILENCES: Final = Contract(
    "silences", 1,
    (
        Column("state", SYMBOL, "silent: beats stay away; gone: for so long that nobody waits for it any more; ended: "
               "it had closed, and nobody waits for batches on their way any more; back: it is heard again"),
        Column("last_ticks", INT, "its newest beat before, on its reference clock", "ticks"),
        Column("now_ticks", INT, "what its clock shows by now, by the time of the others", "ticks"),
    ),
    "What the other hosts' time says of a host that is silent.", time_column="now_ticks",
)

ALIGNED: Final = (ALIGNED_SPANS, ALIGNED_COUNTERS, ALIGNED_PROFILES, ALIGNED_INVENTORY, ALIGNED_MARKS,
                  ALIGNED_HEARTBEATS)
DERIVED: Final = (SEGMENTS, WINDOWS, VERDICTS, INCIDENTS, CAUSALITY_VIOLATIONS, COVERAGE, DEAD_LETTERS, TELEMETRY,
                  JOB_WINDOWS, jobs.COLLECTIVE_WAITS, jobs.OPERATORS)
REQUESTS: Final = (LATE_WINDOWS, SILENCES, JOB_SHARES, jobs.JOB_ARRIVALS, jobs.JOB_KERNELS)
"""What steps ask of and tell each other: not stored."""
