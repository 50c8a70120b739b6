"""The step that hands windows of devices on to their jobs: `windows` by host in, `job_shares` by job out.

A device belongs to the job it worked for last, for ``member_s`` after the last window with work of it, or until it
works for another job. So windows in which a device of a job stood idle are the job's too. A job is told the host's
watermark with every message as long as a device of the host belongs to it, and once that none does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.derived import JOB_SHARES
from fleetscope.contracts.topics import JOB_SHARES_TOPIC, WINDOWS_TOPIC
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.jobs.publish import Rows, Sequences, output
from processors.operators.intake import CLOSED, unseen

VERSION: Final = 1
NS: Final = 1_000_000_000
REMEMBERED: Final = 128
"""Windows of a device of which it is known whose they were, should a revision give them to another job."""


@dataclass(slots=True)
class Device:
    """``work``: [start, end) of each run of windows with work of one job, newest last; ``told``: job by window."""

    work: list[tuple[str, int, int]] = field(default_factory=list)
    told: dict[int, str] = field(default_factory=dict)

    def worked(self, job: str, start_ns: int, end_ns: int) -> None:
        """A window with work of a job."""
        for at, (of, low, high) in enumerate(self.work):
            if of == job and low <= end_ns and start_ns <= high:
                self.work[at] = (job, min(low, start_ns), max(high, end_ns))
                return
        self.work = sorted([*self.work, (job, start_ns, end_ns)], key=lambda run: run[2])[-REMEMBERED:]

    def owner(self, start_ns: int, member_ns: int) -> str | None:
        """The job that a window without work belongs to."""
        before = [run for run in self.work if run[1] <= start_ns]
        if not before:
            return None
        job, _, end = max(before, key=lambda run: run[2])
        return job if start_ns - end < member_ns else None


@dataclass(slots=True)
class Host:
    """One host. ``jobs``: those that were told a watermark and not yet that no device is theirs any more."""

    devices: dict[str, Device] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)
    sequences: Sequences = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)


State = dict[str, Host]


@dataclass(frozen=True)
class JobSharesStep:
    """``member_s``: so long a device without work still belongs to its job. Nothing waits."""

    member_s: float = 60.0

    name: ClassVar[str] = "job_shares"
    inputs: ClassVar[tuple[str, ...]] = (WINDOWS_TOPIC.name,)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """No host yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Hand on a batch of windows of one host."""
        host = state.setdefault(batch.header.host, Host())
        new = unseen(host.ledger, batch)
        rows: defaultdict[str, Rows] = defaultdict(list)
        for window, fresh in zip(batch.rows.to_pylist(), new.tolist(), strict=True):
            for row in self._shares(host, window) if fresh else ():
                rows[row.pop("of")].append(row)
        return state, self._told(batch, host, rows)

    def on_end(self, state: State) -> list[Output]:
        """Nothing waits."""
        return []

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Nothing waits."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """Whose devices are."""
        return dump(self.name, VERSION, {name: [
            {device: [d.work, sorted(d.told.items())] for device, d in sorted(host.devices.items())}, sorted(host.jobs),
            host.sequences, host.ledger.to_plain()] for name, host in state.items()})

    def restore(self, data: bytes) -> State:
        """Raises ValueError for bytes of another step or version."""
        state: State = {}
        for name, (devices, jobs, sequences, ledger) in load(data, self.name, VERSION).items():
            made = {device: Device([(job, low, high) for job, low, high in work], dict(told))
                    for device, (work, told) in devices.items()}
            state[name] = Host(made, set(jobs), sequences, Ledger.from_plain(ledger))
        return state

    def _shares(self, host: Host, window: dict[str, Any]) -> Rows:
        """The rows of a window, each with the job it goes to as ``of``."""
        device = host.devices.setdefault(window["device"], Device())
        start, end = window["window_start_ns"], window["window_start_ns"] + window["window_ns"]
        job = window["job"]
        if job is not None:
            device.worked(job, start, end)
        owner = job or device.owner(start, round(self.member_s * NS))
        before = device.told.pop(start, None)
        rows: Rows = []
        if before is not None and before != owner:
            rows.append({**window, "role": "withdrawn", "of": before})
        if owner is not None:
            rows.append({**window, "role": "active" if job else "idle", "of": owner})
            device.told[start] = owner
            for old in sorted(device.told)[:-REMEMBERED]:
                del device.told[old]
        return rows

    def _told(self, batch: Batch, host: Host, rows: Mapping[str, Rows]) -> list[Output]:
        name, watermark = batch.header.host, batch.header.watermark_ns
        host.jobs |= rows.keys()
        marks: dict[str, int | None] = dict.fromkeys(host.jobs)
        if watermark is not None:
            member_ns = round(self.member_s * NS)
            owned = {device.owner(watermark, member_ns) for device in host.devices.values()}
            if watermark >= CLOSED:
                owned = set()
            marks = {job: watermark if job in owned else CLOSED for job in host.jobs}
        outputs = [output(host.sequences, JOB_SHARES, JOB_SHARES_TOPIC.name, job, f"{self.name}/{name}",
                          rows.get(job, []), marks[job])
                   for job in sorted(host.jobs) if job in rows or marks[job] is not None]
        host.jobs = {job for job in host.jobs if marks[job] is None or marks[job] != CLOSED}
        return outputs
