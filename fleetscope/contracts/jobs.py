"""Contracts of jobs over hosts and of operators. Those with every state of a window are made in ``derived``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fleetscope.contracts.schema import FLOAT, IDS, INT, SYMBOL, TEXT, Column, Contract

ROLES: Final = ("active", "idle", "withdrawn")
"""What a device is to a job in a window: it worked for it, it belongs to it and did not work, it does not belong."""

_WINDOW: Final = (
    Column("window_start_ns", INT, "first ns of the window", "ns since 1970"),
    Column("window_ns", INT, "length of the window", "ns", minimum=1),
)
_WHERE: Final = (Column("host", SYMBOL, "host"), Column("device", SYMBOL, "device"),
                 Column("rank", INT, "rank in the job", nullable=True))

JOB_ARRIVALS: Final = Contract(
    "job_arrivals", 1,
    (
        *_WHERE,
        Column("communicator", SYMBOL, "collective group"),
        Column("communicator_sequence", INT, "number of the collective within its group"),
        Column("communicator_size", INT, "members of the group", minimum=1),
        Column("start_ns", INT, "when the device entered the collective", "ns since 1970"),
        Column("err_ns", INT, "bound on it; null: none can be given", "ns", nullable=True),
    ),
    "Devices that enter collectives of a job; the key is the job.", time_column="start_ns",
)

JOB_KERNELS: Final = Contract(
    "job_kernels", 1,
    (
        *_WHERE,
        Column("device_kind", SYMBOL, "kind of the device by the inventory", nullable=True),
        *_WINDOW,
        Column("name", SYMBOL, "kernel"),
        Column("track", SYMBOL, "its engine"),
        Column("flops", INT, "of each call", "flop", nullable=True),
        Column("bytes", INT, "of each call", "B", nullable=True),
        Column("calls", INT, "calls that started in the window", minimum=1),
        Column("total_ns", INT, "time of these calls", "ns", minimum=0),
    ),
    "Time of like kernels of one device in a window; the key is the job.", time_column="window_start_ns",
)

COLLECTIVE_WAITS: Final = Contract(
    "collective_waits", 1,
    (
        Column("job", SYMBOL, "job"),
        Column("communicator", SYMBOL, "collective group"),
        *_WINDOW,
        Column("revision", INT, "a later revision replaces the row"),
        Column("host", SYMBOL, "host of the rank that was waited for; null: the clocks do not tell whose it was",
               nullable=True),
        Column("device", SYMBOL, "its device", nullable=True),
        Column("rank", INT, "its rank", nullable=True),
        Column("cause", SYMBOL, "what kept it: slow_kernels, uneven_work, a state of windows, unexplained or "
               "indeterminate"),
        Column("wait_ns", INT, "time that the others waited, all together", "ns", minimum=0),
        Column("waiting", INT, "members of the group less one", minimum=0),
        Column("last", INT, "collectives in which it came last", minimum=0),
        Column("collectives", INT, "those of the group that began to move in the window, all members seen", minimum=0),
        Column("excess_ns", INT, "by how much the cause took the rank longer than the median of the others; null: not "
               "known", "ns", nullable=True),
    ),
    "Whom the members of a group waited for in its collectives, and why.", time_column="window_start_ns",
)

OPERATORS: Final = Contract(
    "operators", 1,
    (
        Column("host", SYMBOL, "host"),
        Column("device", SYMBOL, "device"),
        Column("device_kind", SYMBOL, "kind of the device by the inventory", nullable=True),
        Column("job", SYMBOL, "job", nullable=True),
        Column("team", SYMBOL, "who pays", nullable=True),
        Column("name", SYMBOL, "operator or kernel; (other): those past the bound on names"),
        Column("engine", SYMBOL, "engine that ran it"),
        *_WINDOW,
        Column("revision", INT, "rows of the host that the window counts; a later revision replaces the row"),
        Column("calls", INT, "calls that started in the window", minimum=1),
        Column("total_ns", INT, "time of these calls", "ns", minimum=0),
        Column("flops", INT, "of calls that state it; null: none does", "flop", nullable=True),
        Column("bytes", INT, "device memory traffic, likewise", "B", nullable=True),
        Column("compute_ns", INT, "time bound by arithmetic", "ns", minimum=0),
        Column("memory_ns", INT, "time bound by device memory", "ns", minimum=0),
        Column("latency_ns", INT, "time that neither explains", "ns", minimum=0),
        Column("unattributed_ns", INT, "likewise, of calls whose work or whose device's peaks are not known", "ns",
               minimum=0),
        Column("p50_ns", INT, "median length, within the width of a bin", "ns", minimum=0),
        Column("p99_ns", INT, "99th percentile of the length, likewise", "ns", minimum=0),
        Column("duration_bins", IDS, "bins b of lengths in [2^(b/8), 2^((b+1)/8)) ns; −1: 0 ns"),
        Column("duration_calls", IDS, "calls in each of these bins"),
        Column("peak_flops_per_s", FLOAT, "achievable on this engine at full clock", "flop/s", nullable=True),
        Column("peak_bytes_per_s", FLOAT, "achievable from device memory", "B/s", nullable=True),
        Column("full_clock_mhz", FLOAT, "full clock of the engines", "MHz", nullable=True),
    ),
    "What each operator did on a device in a window; bins of lengths merge by sumMap.", time_column="window_start_ns",
)


def job_shares(windows: Contract) -> Contract:
    """Windows of a device as its job sees them: columns of ``windows``, then the role."""
    columns = tuple(replace(column, since=1) for column in windows.columns)
    return Contract("job_shares", 1, (*columns, Column("role", SYMBOL, "active, idle or withdrawn")),
                    "Windows of the devices of a job; the key is the job.", time_column="window_start_ns")


def job_windows(states: tuple[tuple[str, str], ...]) -> Contract:
    """The accounting of a job over all its devices; one column a state."""
    return Contract(
        "job_windows", 1,
        (
            Column("job", SYMBOL, "job"),
            *_WINDOW,
            Column("revision", INT, "a later revision replaces the window"),
            Column("hosts", INT, "hosts heard", minimum=0),
            Column("devices", INT, "devices of the job that are accounted for", minimum=0),
            Column("active_devices", INT, "of these, devices that worked for it", minimum=0),
            Column("missing_devices", INT, "devices of the job whose host was silent", minimum=0),
            Column("device_ns", INT, "length of the window times devices; the states add up to it", "ns", minimum=0),
            *(Column(f"{name}_ns", INT, f"{doc}, all devices together", "ns", minimum=0) for name, doc in states),
            Column("busy_ns", INT, "time with a kernel", "ns", minimum=0),
            Column("idle_ns", INT, "time without work, whatever the reason", "ns", minimum=0),
            Column("utilisation", FLOAT, "busy_ns over known time; null: nothing is known", "0..1", nullable=True),
            Column("imbalance", FLOAT, "largest over mean busy time of devices; null: none was busy", nullable=True),
            Column("busiest_host", SYMBOL, "host of the device with the largest", nullable=True),
            Column("busiest_device", SYMBOL, "that device", nullable=True),
            Column("kernels", INT, "kernels that started", minimum=0),
            Column("transfers", INT, "transfers that started", minimum=0),
            Column("flops", INT, "floating-point operations; null: none stated", "flop", nullable=True),
            Column("memory_bytes", INT, "device memory traffic of kernels, likewise", "B", nullable=True),
            Column("h2d_bytes", INT, "payload host to device, likewise", "B", nullable=True),
            Column("d2h_bytes", INT, "payload device to host, likewise", "B", nullable=True),
            Column("err_ns", INT, "largest bound of any device; null: one had none", "ns", nullable=True),
            Column("coverage", FLOAT, "share that is known; a missing device counts as 0", "0..1"),
            Column("cause", SYMBOL, "as in verdicts"),
            Column("share", FLOAT, "share of the cause in device_ns", "0..1"),
            Column("share_low", FLOAT, "lower limit of share", "0..1"),
            Column("share_high", FLOAT, "upper limit of share", "0..1"),
            Column("runner_up", SYMBOL, "second largest cause", nullable=True),
            Column("confidence", FLOAT, "distance of the lower limit to the runner-up's upper limit", "0..1"),
            Column("recoverable_ns", INT, "device time the cause cost", "ns"),
            Column("evidence", TEXT, "the numbers used, as JSON"),
            Column("advice", TEXT, "one sentence for an engineer"),
        ),
        "Time accounting of a job over its devices on all hosts, and what limits it.", time_column="window_start_ns",
    )
