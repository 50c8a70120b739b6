"""The step that finds ranks that hold up their job: `job_ranks` and `job_shares` by job in, `collective_waits` and
incidents out.

A window is judged when every host that is waited for has passed it on both topics (`members`); what comes later changes
nothing. Of collectives only those wait whose members are not all there; they are part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.derived import INCIDENTS
from fleetscope.contracts.jobs import COLLECTIVE_WAITS
from fleetscope.contracts.topics import (
    COLLECTIVE_WAITS_TOPIC,
    INCIDENTS_TOPIC,
    JOB_RANKS_TOPIC,
    JOB_SHARES_TOPIC,
)
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.jobs.arrivals import Arrivals, joined, met, none
from processors.jobs.combine import kept
from processors.jobs.detect import Limits
from processors.jobs.evidence import Group, Window, judge
from processors.jobs.incidents import Run, Runs, finished, see
from processors.jobs.members import Marks, limit_ns, moved
from processors.jobs.publish import Rows, Sequences, output
from processors.jobs.slowness import Where
from processors.operators.intake import CLOSED, NEVER, integers, unseen, words

VERSION: Final = 1
NS: Final = 1_000_000_000
_RANKS: Final = JOB_RANKS_TOPIC.name
_SHARES: Final = JOB_SHARES_TOPIC.name


@dataclass(slots=True)
class Job:
    """``marks`` by topic and host; ``first_ns``: start of the first window; ``closed_ns``: windows before it were
    judged; ``ranks`` of devices; ``members`` of communicators; ``devices`` and ``communicators``: words of ``open``,
    collectives that are not complete; ``runs``: incidents."""

    marks: dict[str, Marks] = field(default_factory=lambda: {_RANKS: {}, _SHARES: {}})
    first_ns: int | None = None
    closed_ns: int = NEVER
    windows: dict[int, Window] = field(default_factory=dict)
    ranks: dict[Where, int | None] = field(default_factory=dict)
    members: dict[str, set[Where]] = field(default_factory=dict)
    devices: list[Where] = field(default_factory=list)
    communicators: list[str] = field(default_factory=list)
    open: Arrivals = field(default_factory=none)
    runs: Runs = field(default_factory=dict)
    sequences: Sequences = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def window(self, start_ns: int) -> Window | None:
        """The window at a start; None where it was judged."""
        if start_ns < self.closed_ns:
            return None
        self.first_ns = start_ns if self.first_ns is None else min(self.first_ns, start_ns)
        return self.windows.setdefault(start_ns, Window())


State = dict[str, Job]


@dataclass(frozen=True)
class StragglersStep:
    """``patience_s`` as in `jobs`; ``settle``: so many windows a job must be known before its first is judged, so that
    all of its hosts are heard; ``open_s``: how long a collective may lack members."""

    window_ns: int = NS
    limits: Limits = Limits()
    patience_s: float = 10.0
    settle: int = 2
    open_s: float = 60.0

    name: ClassVar[str] = "stragglers"
    inputs: ClassVar[tuple[str, ...]] = (_RANKS, _SHARES)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """No job yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Take what a host says of a job. KeyError for another contract."""
        take, topic = {"job_arrivals": (_take_arrivals, _RANKS), "job_kernels": (_take_kernels, _RANKS),
                       "job_shares": (_take_shares, _SHARES)}[batch.header.contract]
        job = state.setdefault(batch.header.host, Job())
        if len(batch):
            fresh = unseen(job.ledger, batch)
            if fresh.any():
                take(job, batch, fresh, self.window_ns)
        if batch.header.watermark_ns is None:
            return state, []
        moved(job.marks[topic], batch.header.producer.split("/", 1)[-1], batch.header.watermark_ns)
        return state, self._judge(batch.header.host, job, self._limit(job))

    def on_end(self, state: State) -> list[Output]:
        """Judge every window that is open; incidents end."""
        outputs = []
        for name, job in sorted(state.items()):
            outputs += self._judge(name, job, CLOSED)
            revision = max((run.end_ns for run in job.runs.values()), default=0) + 2 * self.window_ns
            rows = [row for where in sorted(job.runs) for row in finished(job.runs, where, name, revision)]
            outputs += self._incidents(name, job, rows)
        return outputs

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Nothing waits outside the state."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """All of it."""
        return dump(self.name, VERSION, {"window_ns": self.window_ns,
                                         "jobs": {name: _plain(job) for name, job in state.items()}})

    def restore(self, data: bytes) -> State:
        """ValueError for bytes of another step, version or window length."""
        found = load(data, self.name, VERSION)
        if found["window_ns"] != self.window_ns:
            raise ValueError(f"stragglers: the snapshot is of windows of {found['window_ns']} ns, not {self.window_ns}")
        return {name: _job(plain) for name, plain in found["jobs"].items()}

    def _limit(self, job: Job) -> int:
        """Up to where every host that is waited for has told everything on both topics."""
        hosts = job.marks[_RANKS].keys() | job.marks[_SHARES].keys()
        limit = min(limit_ns(marks, hosts, round(self.patience_s * NS)) for marks in job.marks.values())
        if job.first_ns is not None and limit < job.first_ns + self.settle * self.window_ns:
            return NEVER
        return limit

    def _judge(self, name: str, job: Job, limit: int) -> list[Output]:
        outputs: list[Output] = []
        for start in sorted(start for start in job.windows if start + self.window_ns <= limit):
            end = start + self.window_ns
            window = job.windows.pop(start)
            found = judge(window, job.members, self.window_ns, self.limits)
            told = {"job": name, "window_start_ns": start, "window_ns": self.window_ns, "revision": 0}
            waits = [{**row, **told, "rank": job.ranks.get((row["host"], row["device"]))} for row in found.waits]
            if waits:
                outputs.append(output(job.sequences, COLLECTIVE_WAITS, COLLECTIVE_WAITS_TOPIC.name, name, self.name,
                                      waits))
            ranked = {where: {**finding, "rank": job.ranks.get(where)} for where, finding in found.found.items()}
            outputs += self._incidents(name, job, see(job.runs, name, start, end, ranked, found.judged))
            job.closed_ns = max(job.closed_ns, end)
        if NEVER < limit < CLOSED:
            job.closed_ns = max(job.closed_ns, limit // self.window_ns * self.window_ns)
            job.open = job.open.take(job.open.start >= limit - round(self.open_s * NS))
        return outputs

    def _incidents(self, name: str, job: Job, rows: Rows) -> list[Output]:
        """By host, which is their key."""
        return [output(job.sequences, INCIDENTS, INCIDENTS_TOPIC.name, host, f"{self.name}/{name}",
                       [row for row in rows if row["host"] == host])
                for host in sorted({str(row["host"]) for row in rows})]


def _take_arrivals(job: Job, batch: Batch, fresh: Any, window_ns: int) -> None:
    rows = batch.rows
    host, device, communicator = (words(rows.column(name)) for name in ("host", "device", "communicator"))
    rank = integers(rows.column("rank"))
    places = {code: _place(job.devices, (str(host.words[0]), word)) for code, word in enumerate(device.words)}
    names = {code: _place(job.communicators, word) for code, word in enumerate(communicator.words)}
    who = np.array([places[code] for code in range(len(places))], np.int64)[device.codes]
    group = np.array([names[code] for code in range(len(names))], np.int64)[communicator.codes]
    for pair in np.unique(np.stack((group, who, rank))[:, fresh], axis=1).T.tolist():
        where = job.devices[pair[1]]
        job.members.setdefault(job.communicators[pair[0]], set()).add(where)
        job.ranks[where] = None if pair[2] < 0 else pair[2]
    given = Arrivals(group, integers(rows.column("communicator_sequence")),
                     integers(rows.column("communicator_size")), who, integers(rows.column("start_ns")),
                     integers(rows.column("err_ns")))
    found, job.open = met(joined(job.open, given.take(np.asarray(fresh))))
    for code, last, at, wait, size in zip(*(column.tolist() for column in (
            found.group, found.last, found.at, found.wait, found.size)), strict=True):
        if size < 2 or (window := job.window(at // window_ns * window_ns)) is None:
            continue
        of = window.groups.setdefault(job.communicators[code], Group(size))
        of.collectives += 1
        counted = of.unsure if last < 0 else of.late.setdefault(job.devices[last], [0, 0])
        counted[0] += 1
        counted[1] += wait


def _take_kernels(job: Job, batch: Batch, fresh: Any, window_ns: int) -> None:
    for row, new in zip(batch.rows.to_pylist(), fresh.tolist(), strict=True):
        window = job.window(row["window_start_ns"]) if new else None
        if window is None:
            continue
        where = (row["host"], row["device"])
        sums = window.kernels.setdefault((row["device_kind"], row["name"], row["track"], row["flops"], row["bytes"]),
                                         {}).setdefault(where, [0, 0])
        sums[0] += row["calls"]
        sums[1] += row["total_ns"]
        job.ranks.setdefault(where, row["rank"])


def _take_shares(job: Job, batch: Batch, fresh: Any, window_ns: int) -> None:
    for row, new in zip(batch.rows.to_pylist(), fresh.tolist(), strict=True):
        window = job.window(row["window_start_ns"]) if new else None
        if window is None:
            continue
        where = (row["host"], row["device"])
        if row["role"] == "withdrawn":
            window.states.pop(where, None)
        elif window.states.get(where, {}).get("revision", 0) <= row["revision"]:
            window.states[where] = kept(row)


def _place(known: list[Any], word: Any) -> int:
    if word not in known:
        known.append(word)
    return known.index(word)


def _plain(job: Job) -> list[Any]:
    return [job.marks, job.first_ns, job.closed_ns,
            [[start, window.plain()] for start, window in sorted(job.windows.items())],
            [[*where, rank] for where, rank in sorted(job.ranks.items())],
            {name: sorted(members) for name, members in sorted(job.members.items())}, job.devices, job.communicators,
            job.open.plain(),
            [[*where, run.start_ns, run.end_ns, run.windows, run.quiet, run.told_ns, run.worst]
             for where, run in sorted(job.runs.items())], job.sequences, job.ledger.to_plain()]


def _job(plain: list[Any]) -> Job:
    marks, first, closed, windows, ranks, members, devices, communicators, open_, runs, sequences, ledger = plain
    return Job(marks, first, closed, {start: Window.of(values) for start, values in windows},
               {(host, device): rank for host, device, rank in ranks},
               {name: {(host, device) for host, device in pairs} for name, pairs in members.items()},
               [(host, device) for host, device in devices], communicators, Arrivals.of(open_),
               {(run[0], run[1]): Run(*run[2:]) for run in runs}, sequences, Ledger.from_plain(ledger))
