"""The step that accounts for jobs over all their hosts: `job_shares` in, `job_windows` out.

A window closes when every host that is waited for has passed it (`members`). It is published again, with a higher
revision, when a host that was silent comes back or a device's window is revised, as long as it is kept: ``kept_s``
behind the newest. Shares that come later than that are counted and leave the job's window as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.derived import JOB_WINDOWS
from fleetscope.contracts.topics import JOB_SHARES_TOPIC, JOB_WINDOWS_TOPIC
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.bottleneck.rules import Rules
from processors.jobs.combine import combined, kept
from processors.jobs.members import Marks, limit_ns, moved
from processors.jobs.publish import Sequences, output
from processors.operators.intake import CLOSED, NEVER, unseen

VERSION: Final = 1
NS: Final = 1_000_000_000

Where = tuple[str, str]
"""Host and device."""


@dataclass(slots=True)
class Window:
    """One window of a job. ``dirty``: something changed since it was published; ``revision`` it was published with."""

    shares: dict[Where, dict[str, Any]] = field(default_factory=dict)
    dirty: bool = True
    revision: int = -1


@dataclass(slots=True)
class Job:
    """``forgotten_ns``: windows that start before it are not kept; ``late``: shares of such windows; ``members``: the
    end of the newest window of each device."""

    marks: Marks = field(default_factory=dict)
    windows: dict[int, Window] = field(default_factory=dict)
    members: dict[Where, int] = field(default_factory=dict)
    forgotten_ns: int = NEVER
    late: int = 0
    sequences: Sequences = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)


State = dict[str, Job]


@dataclass(frozen=True)
class JobsStep:
    """``patience_s``: a host so far behind the newest of its job is silent and not waited for; ``kept_s``: how far
    behind the newest a window is kept for revisions. The key of its input is the job. No row waits but in the state."""

    rules: Rules = Rules()
    patience_s: float = 10.0
    kept_s: float = 60.0

    name: ClassVar[str] = "jobs"
    inputs: ClassVar[tuple[str, ...]] = (JOB_SHARES_TOPIC.name,)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """No job yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Take shares of one host of one job; publish the windows that its watermark closes or changes."""
        name = batch.header.host
        job = state.setdefault(name, Job())
        new = unseen(job.ledger, batch)
        for row, fresh in zip(batch.rows.to_pylist(), new.tolist(), strict=True):
            if fresh:
                _take(job, row)
        if batch.header.watermark_ns is None:
            return state, []
        moved(job.marks, _sender(batch), batch.header.watermark_ns)
        return state, self._publish(name, job, limit_ns(job.marks, job.marks, round(self.patience_s * NS)))

    def on_end(self, state: State) -> list[Output]:
        """Publish every window that is open."""
        return [out for name, job in sorted(state.items()) for out in self._publish(name, job, CLOSED)]

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Nothing waits outside the state."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """All of it."""
        return dump(self.name, VERSION, {name: [
            job.marks, [[start, w.dirty, w.revision, [[*where, share] for where, share in sorted(w.shares.items())]]
                        for start, w in sorted(job.windows.items())],
            [[*where, end] for where, end in sorted(job.members.items())], job.forgotten_ns, job.late, job.sequences,
            job.ledger.to_plain()] for name, job in state.items()})

    def restore(self, data: bytes) -> State:
        """Raises ValueError for bytes of another step or version."""
        state: State = {}
        for name, (marks, windows, members, forgotten, late, sequences, ledger) in load(data, self.name,
                                                                                       VERSION).items():
            made = {start: Window({(host, device): share for host, device, share in shares}, dirty, revision)
                    for start, dirty, revision, shares in windows}
            state[name] = Job(marks, made, {(host, device): end for host, device, end in members}, forgotten, late,
                              sequences, Ledger.from_plain(ledger))
        return state

    def _publish(self, name: str, job: Job, limit: int) -> list[Output]:
        rows = []
        for start, window in sorted(job.windows.items()):
            length = next((share["window_ns"] for share in window.shares.values()), 0)
            if window.dirty and window.shares and start + length <= limit:
                row = combined(name, start, window.shares, _missing(job, start, window), self.rules)
                row["revision"] = max(row["revision"], window.revision + 1)  # also where a device was withdrawn
                window.dirty, window.revision = False, row["revision"]
                rows.append(row)
        self._forget(job, limit)
        if not rows:
            return []
        return [output(job.sequences, JOB_WINDOWS, JOB_WINDOWS_TOPIC.name, name, self.name, rows)]

    def _forget(self, job: Job, limit: int) -> None:
        if limit >= CLOSED or not job.windows:
            return
        old = limit - round(self.kept_s * NS)
        job.windows = {start: w for start, w in job.windows.items() if start >= old or w.dirty}
        job.forgotten_ns = max(job.forgotten_ns, old)
        job.members = {where: end for where, end in job.members.items() if end > old}


def _sender(batch: Batch) -> str:
    """The host that the shares are of."""
    return batch.header.producer.split("/", 1)[-1]


def _take(job: Job, row: dict[str, Any]) -> None:
    start, where = int(row["window_start_ns"]), (str(row["host"]), str(row["device"]))
    if start < job.forgotten_ns and start not in job.windows:
        job.late += 1
        return
    window = job.windows.setdefault(start, Window())
    if row["role"] == "withdrawn":
        window.dirty |= window.shares.pop(where, None) is not None
        return
    before = window.shares.get(where)
    if before is None or before.get("revision", 0) <= row["revision"]:
        window.shares[where], window.dirty = kept(row), True
    job.members[where] = max(job.members.get(where, NEVER), start + int(row["window_ns"]))


def _missing(job: Job, start: int, window: Window) -> int:
    """Devices of hosts that are open and have not come as far as this window, which belonged to the job before it."""
    return sum(1 for (host, device), end in job.members.items()
               if (host, device) not in window.shares and end <= start and job.marks.get(host, NEVER) <= start)
