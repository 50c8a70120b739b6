"""Contracts of what producers publish. Times are int64 ticks of the batch's clock (header ``clock``).

The host, the producer and the clock of a batch stand in its headers, once, and hold for every row.
"""

from __future__ import annotations

from typing import Final

from fleetscope.contracts.schema import ATTRIBUTES, BOOL, FLOAT, IDS, INT, SYMBOL, TEXT, Column, Contract

MAX_STAMP: Final = 1 << 62
MAX_COUNT: Final = 1 << 53
MAX_HZ: Final = 1_000_000_000_000
"""Larger stamps, counts and frequencies are no readings; sums and products of smaller ones stay within int64."""


def _stamp(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, INT, doc, "ticks", nullable, minimum=-MAX_STAMP, maximum=MAX_STAMP)


def _count(name: str, doc: str) -> Column:
    return Column(name, INT, doc, minimum=0, maximum=MAX_COUNT)


TRACKS: Final = ("host_api", "driver", "pcie_h2d", "pcie_d2h", "collective", "cpu_thread")
"""Track names besides ``engine:<name>``."""

ACTIVITIES: Final = ("input", "pageable_copy", "framework", "launch", "wait")
"""What work of the host is for: preparing input, staging pageable memory, framework code, calls into the driver,
waiting for the device."""

SPANS: Final = Contract(
    "spans", 2,
    (
        Column("process_id", INT, "process that caused the work; with host it scopes correlation ids", nullable=True),
        Column("device", SYMBOL, "device id, unique within the host; null for host work", nullable=True),
        Column("track", SYMBOL, "host_api, driver, pcie_h2d, pcie_d2h, engine:<name>, collective, cpu_thread"),
        Column("name", SYMBOL, "operator, kernel, API call or transfer"),
        Column("start_ticks", INT, "start on the batch's clock", "ticks"),
        Column("duration_ticks", INT, "length on the batch's clock", "ticks", minimum=0),
        Column("correlation_id", INT, "joins API call, submission, transfer and kernel; unique with host and process",
               nullable=True),
        Column("stream", SYMBOL, "stream or queue the work was put in", nullable=True),
        Column("wait_ids", IDS, "correlation ids of the spans or events this one waited for", nullable=True),
        Column("bytes", INT, "bytes moved: payload of a transfer, memory traffic of a kernel; of a collective the "
               "message of one member, before what its algorithm makes of it", "B", nullable=True, minimum=0),
        Column("flops", INT, "floating-point operations done", "flop", nullable=True, minimum=0),
        Column("job", SYMBOL, "job the work belongs to", nullable=True),
        Column("rank", INT, "rank of the device in the job", nullable=True),
        Column("request_id", SYMBOL, "request served", nullable=True),
        Column("step", INT, "step (iteration) number within the job", nullable=True),
        Column("team", SYMBOL, "who pays", nullable=True),
        Column("communicator", SYMBOL, "collective group", nullable=True),
        Column("communicator_sequence", INT, "number of the collective within its group", nullable=True),
        Column("attributes", ATTRIBUTES, "anything else", nullable=True),
        Column("activity", SYMBOL, "what work of the host is for: input, pageable_copy, framework, launch, wait",
               nullable=True, since=2),
        Column("communicator_size", INT, "members of the collective group", nullable=True, since=2, minimum=1,
               maximum=MAX_COUNT),
    ),
    "Work with a start and a length on one track.", time_column="start_ticks", duration_column="duration_ticks",
)

COUNTERS: Final = Contract(
    "counters", 1,
    (
        Column("device", SYMBOL, "device id; null for the host", nullable=True),
        Column("counter", SYMBOL, "name in the counter's descriptor"),
        Column("instance", SYMBOL, "which one of several: cpu0, lane3, eth0, channel5", nullable=True),
        Column("time_ticks", INT, "when it was read, on the batch's clock", "ticks"),
        Column("raw", INT, "exact reading of a monotonic counter; null if missing", "as declared", nullable=True),
        Column("value", FLOAT, "reading of a gauge; null if missing, never 0 for missing", "as declared",
               nullable=True),
        Column("status", SYMBOL, "ok, missing, sentinel, saturated, stuck, reset, wrapped, jitter (small step back)"),
    ),
    "Readings of counters and gauges.", time_column="time_ticks",
)

CLOCK_SAMPLES: Final = Contract(
    "clock_samples", 1,
    (
        Column("kind", SYMBOL, "exchange (two-way), not_before, not_after (one-sided), rate (known rate change)"),
        Column("local_clock", SYMBOL, "clock of the side that measures; the batch's host owns it"),
        Column("remote_host", SYMBOL, "host that owns the remote clock; null: the same host", nullable=True),
        Column("remote_clock", SYMBOL, "the other clock"),
        _stamp("local_before_ticks", "local clock before the remote reading"),
        _stamp("remote_first_ticks", "remote clock when asked", nullable=True),
        _stamp("remote_last_ticks", "remote clock when answered (four stamps); null: one remote stamp", nullable=True),
        _stamp("local_after_ticks", "local clock after the remote reading", nullable=True),
        Column("local_hz", INT, "nominal frequency of the local clock", "ticks/s", minimum=1, maximum=MAX_HZ),
        Column("remote_hz", INT, "nominal frequency of the remote clock", "ticks/s", minimum=1, maximum=MAX_HZ),
        Column("rate_ppb", INT, "for kind rate: from remote_first on the remote clock runs at (1 + this / 10⁹) times "
               "nominal", "ppb", nullable=True),
    ),
    "Stamps exchanged between two named clocks.", time_column="local_before_ticks",
)

PROFILES: Final = Contract(
    "profiles", 1,
    (
        Column("process_id", INT, "process sampled"),
        Column("thread_id", INT, "thread sampled"),
        Column("time_ticks", INT, "when", "ticks"),
        Column("stack", SYMBOL, "frames root first, separated by ';', interned"),
        Column("weight_ns", INT, "time the sample stands for", "ns", minimum=0),
        Column("job", SYMBOL, "job", nullable=True),
        Column("rank", INT, "rank", nullable=True),
    ),
    "Sampled host stacks.", time_column="time_ticks",
)

INVENTORY: Final = Contract(
    "inventory", 1,
    (
        Column("time_ticks", INT, "when it was read", "ticks"),
        Column("kind", SYMBOL, "host, device, link, engine, peak, partition, software, counter, clock"),
        Column("component", SYMBOL, "id within the host: dev0, 0000:3b:00.0, numa0, dev0/pcie"),
        Column("parent", SYMBOL, "component it hangs on: switch, root port, NUMA node, device", nullable=True),
        Column("attribute", SYMBOL, "what is stated, such as width_lanes, speed_gt_s, flops_per_s, version; of a clock "
               "its hz and the bits of its counter"),
        Column("text", TEXT, "the value as text", nullable=True),
        Column("number", FLOAT, "the value as a number", "see unit", nullable=True),
        Column("unit", SYMBOL, "unit of number", nullable=True),
    ),
    "What the host has: devices, topology, links, capabilities, peaks, versions, counter descriptors.",
    time_column="time_ticks",
)

MARKS: Final = Contract(
    "marks", 1,
    (
        Column("time_ticks", INT, "when", "ticks"),
        Column("kind", SYMBOL, "deployment, version, incident, note"),
        Column("subject", SYMBOL, "driver, firmware, compiler, model, job, host"),
        Column("name", SYMBOL, "what was deployed or happened"),
        Column("version", SYMBOL, "version after the mark", nullable=True),
        Column("detail", TEXT, "free text", nullable=True),
    ),
    "Things that happened and may explain a change.", time_column="time_ticks",
)

HEARTBEATS: Final = Contract(
    "heartbeats", 1,
    (
        Column("time_ticks", INT, "when the beat was made, on the host's reference clock", "ticks"),
        Column("contract", SYMBOL, "kind of batch the row speaks of"),
        Column("clock", SYMBOL, "clock of those batches"),
        _count("batches_total", "batches of this kind published in this epoch, all clocks together"),
        _count("rows_total", "rows of this kind published in this epoch, all clocks together"),
        _count("dropped_rows_total", "rows of this kind lost at the source in this epoch"),
        _stamp("through_ticks", "promise on `clock`: rows published later are not earlier than this"),
        Column("closed", BOOL, "true: the producer ends here and sends no more of this kind"),
    ),
    "Cumulative counts of a producer: a lost tail is seen, and idleness is data.", time_column="time_ticks",
)

RAW: Final = (SPANS, COUNTERS, CLOCK_SAMPLES, PROFILES, INVENTORY, MARKS, HEARTBEATS)
