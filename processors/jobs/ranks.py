"""The step that hands on what tells ranks of a job apart: aligned spans and inventory by host in, `job_ranks` out.

Arrivals in collectives go on at once. Kernels are added up by device, name, engine and stated work, and go on when
spans and inventory of the host have passed a window: like kernels of like devices take like time. Kernels that come
later than that are left out of the comparison: they are accounted for in windows, and counted here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import Batch, constant_symbol, record_batch
from fleetscope.contracts.jobs import JOB_ARRIVALS, JOB_KERNELS
from fleetscope.contracts.topics import ALIGNED_TOPICS, JOB_RANKS_TOPIC
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.jobs.publish import Rows, Sequences, of_batch, output
from processors.operators.devices import Devices
from processors.operators.intake import (
    CLOSED,
    NEVER,
    Bools,
    Ints,
    advanced,
    grouped,
    integers,
    is_engine,
    summed,
    unseen,
    words,
)

VERSION: Final = 1
NS: Final = 1_000_000_000
MAX_KINDS: Final = 256
"""Of a device in a window so many sorts of kernels are told, those with most time."""
_SPANS: Final = ALIGNED_TOPICS["aligned_spans"].name
_INVENTORY: Final = ALIGNED_TOPICS["aligned_inventory"].name

Kernel = tuple[str, str, int, str, str, int, int]
"""Job, device, rank, name, engine, flops, bytes; −1 is null."""


@dataclass(slots=True)
class Host:
    """One host. ``kernels``: [calls, ns] by window start and kernel; ``jobs``: end of the newest window with work."""

    marks: dict[str, int] = field(default_factory=dict)
    closed_ns: int = NEVER
    left_out: int = 0
    kernels: dict[int, dict[Kernel, list[int]]] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    devices: Devices = field(default_factory=Devices)
    sequences: Sequences = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)


State = dict[str, Host]


@dataclass(frozen=True)
class JobRanksStep:
    """``window_ns``: length of the windows; ``member_s``: so long a host without work is of a job. No row waits."""

    window_ns: int = NS
    member_s: float = 60.0

    name: ClassVar[str] = "job_ranks"
    inputs: ClassVar[tuple[str, ...]] = (_SPANS, _INVENTORY)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.window_ns <= 0:
            raise ValueError(f"window_ns {self.window_ns}")

    def start(self) -> State:
        """No host yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Take a batch of one host. KeyError for another contract."""
        topic = {"aligned_spans": _SPANS, "aligned_inventory": _INVENTORY}[batch.header.contract]
        name = batch.header.host
        host = state.setdefault(name, Host())
        outputs: list[Output] = []
        if len(batch) and topic == _INVENTORY:
            host.devices.take(batch)
        elif len(batch):
            outputs = self._take(name, host, batch)
        if batch.header.watermark_ns is None:
            return state, outputs
        host.marks[topic] = advanced(host.marks.get(topic, NEVER), batch.header.watermark_ns)
        return state, outputs + self._close(name, host)

    def on_end(self, state: State) -> list[Output]:
        """Tell the kernels of windows that are open."""
        outputs = []
        for name, host in sorted(state.items()):
            host.marks = dict.fromkeys(self.inputs, CLOSED)
            outputs += self._close(name, host)
        return outputs

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """No row waits."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """Sums, positions and what was seen."""
        return dump(self.name, VERSION, {"window_ns": self.window_ns, "hosts": {name: [
            host.marks, host.closed_ns, host.left_out,
            [[start, [[*kernel, *sums] for kernel, sums in sorted(kernels.items())]]
             for start, kernels in sorted(host.kernels.items())],
            host.jobs, host.devices.plain(), host.sequences, host.ledger.to_plain()] for name, host in state.items()}})

    def restore(self, data: bytes) -> State:
        """ValueError for bytes of another step, version or window length."""
        found = load(data, self.name, VERSION)
        if found["window_ns"] != self.window_ns:
            raise ValueError(f"job_ranks: the snapshot is of windows of {found['window_ns']} ns, not {self.window_ns}")
        state: State = {}
        for name, (marks, closed, left_out, kernels, jobs, devices, sequences, ledger) in found["hosts"].items():
            made = {start: {(k[0], k[1], k[2], k[3], k[4], k[5], k[6]): [k[7], k[8]] for k in rows}
                    for start, rows in kernels}
            state[name] = Host(marks, closed, left_out, made, jobs, Devices.of(devices), sequences,
                               Ledger.from_plain(ledger))
        return state

    def _take(self, name: str, host: Host, batch: Batch) -> list[Output]:
        rows = batch.rows
        job, device, track = (words(rows.column(column)) for column in ("job", "device", "track"))
        of_job = unseen(host.ledger, batch) & (job.codes >= 0) & (device.codes >= 0)
        start = integers(rows.column("start_ns"))
        kernel = of_job & is_engine(track)
        late = kernel & (start < host.closed_ns)
        host.left_out += int(late.sum())
        self._add(host, batch, start, kernel & ~late)
        collective = of_job & (track.codes == (track.words.index("collective") if "collective" in track.words else -2))
        return [of_batch(host.sequences, JOB_ARRIVALS, JOB_RANKS_TOPIC.name, of, f"{self.name}/{name}", arrivals)
                for of, arrivals in sorted(_arrivals(name, batch, collective).items())]

    def _add(self, host: Host, batch: Batch, start: Ints, chosen: Bools) -> None:
        index = np.flatnonzero(chosen)
        if not len(index):
            return
        symbols = [words(batch.rows.column(column)) for column in ("job", "device", "name", "track")]
        numbers = [integers(batch.rows.column(column))[index] for column in ("rank", "flops", "bytes")]
        window = start[index] // self.window_ns
        first, group = grouped([window, *(w.codes[index] for w in symbols), *numbers])
        calls = summed(np.ones_like(group), group, len(first)).tolist()
        total = summed(integers(batch.rows.column("duration_ns"))[index], group, len(first)).tolist()
        for at, n, ns in zip(first.tolist(), calls, total, strict=True):
            job, device, name, track = (str(w.word(int(w.codes[index[at]]))) for w in symbols)
            rank, flops, bytes_ = (int(values[at]) for values in numbers)
            begin = int(window[at]) * self.window_ns
            kernels = host.kernels.setdefault(begin, {})
            sums = kernels.setdefault((job, device, rank, name, track, flops, bytes_), [0, 0])
            sums[0] += n
            sums[1] += ns
            host.jobs[job] = max(host.jobs.get(job, NEVER), begin + self.window_ns)

    def _close(self, name: str, host: Host) -> list[Output]:
        """Tell the windows that are over, and every job how far the host is."""
        mark = min(host.marks.get(topic, NEVER) for topic in self.inputs)
        limit = mark if mark >= CLOSED else mark // self.window_ns * self.window_ns
        if limit <= host.closed_ns:
            return []
        rows: defaultdict[str, Rows] = defaultdict(list)
        for start in sorted(start for start in host.kernels if start + self.window_ns <= limit):
            for of, row in self._rows(name, host, start, host.kernels.pop(start)):
                rows[of].append(row)
        left = {job for job, end in host.jobs.items() if limit >= CLOSED or limit - end > round(self.member_s * NS)}
        outputs = [output(host.sequences, JOB_KERNELS, JOB_RANKS_TOPIC.name, job, f"{self.name}/{name}",
                          rows.get(job, []), CLOSED if job in left else limit) for job in sorted(host.jobs)]
        host.jobs = {job: end for job, end in host.jobs.items() if job not in left}
        if limit < CLOSED:
            host.closed_ns = limit
        return outputs

    def _rows(self, name: str, host: Host, start: int,
              kernels: dict[Kernel, list[int]]) -> list[tuple[str, dict[str, object]]]:
        seen: defaultdict[tuple[str, str], int] = defaultdict(int)
        rows: list[tuple[str, dict[str, object]]] = []
        for kernel, (calls, total) in sorted(kernels.items(), key=lambda item: (-item[1][1], item[0])):
            job, device, rank, operator, track, flops, bytes_ = kernel
            seen[job, device] += 1
            if seen[job, device] > MAX_KINDS:
                continue
            rows.append((job, {
                "host": name, "device": device, "rank": None if rank < 0 else rank,
                "device_kind": host.devices.kind(device, start + self.window_ns), "window_start_ns": start,
                "window_ns": self.window_ns, "name": operator, "track": track, "flops": None if flops < 0 else flops,
                "bytes": None if bytes_ < 0 else bytes_, "calls": calls, "total_ns": total}))
        return rows


def _arrivals(name: str, batch: Batch, chosen: Bools) -> dict[str, pa.RecordBatch]:
    """Rows of the contract ``job_arrivals`` by job; of collectives whose group, number and size are stated."""
    rows = batch.rows
    for column in ("communicator", "communicator_sequence", "communicator_size"):
        if chosen.any():
            chosen = chosen & np.asarray(rows.column(column).is_valid())
    if not chosen.any():
        return {}
    job = words(rows.column("job"))
    found = {}
    for code in np.unique(job.codes[chosen]).tolist():
        index = pa.array(np.flatnonzero(chosen & (job.codes == code)))
        columns = {c.name: rows.column(c.name).take(index) for c in JOB_ARRIVALS.columns if c.name != "host"}
        found[str(job.word(code))] = record_batch(JOB_ARRIVALS, columns | {"host": constant_symbol(name, len(index))},
                                                  len(index))
    return found
