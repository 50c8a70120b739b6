"""The step that names what limits each window, and reports runs of lost data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final

import pyarrow as pa

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import INCIDENTS, VERDICTS
from fleetscope.contracts.schema import Contract
from fleetscope.contracts.topics import INCIDENTS_TOPIC, VERDICTS_TOPIC, WINDOWS_TOPIC
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.bottleneck.incidents import Loss, Watch
from processors.bottleneck.rules import Rules, verdict

VERSION: Final = 1


@dataclass(slots=True)
class Host:
    """One host: which window rows were seen, its loss watch, and next sequences by contract."""

    ledger: Ledger = field(default_factory=Ledger)
    watch: Watch = field(default_factory=Watch)
    sequences: dict[str, int] = field(default_factory=dict)


State = dict[str, Host]


@dataclass(frozen=True)
class BottleneckStep:
    """One verdict a row of `windows`, with the revision of the window; see ``rules`` for how it is found.

    Nothing waits here: no offsets are held. Repeats are recognised by identity.
    """

    rules: Rules = Rules()

    name: ClassVar[str] = "bottleneck"
    inputs: ClassVar[tuple[str, ...]] = (WINDOWS_TOPIC.name,)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """No host yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Verdicts of a batch of windows, and incidents they begin or end."""
        header = batch.header
        host = state.setdefault(header.host, Host())
        total = header.rows if header.row0 + len(batch) <= header.rows else None
        new = host.ledger.add(header.stream, header.sequence, header.row0, len(batch), total)
        windows: list[dict[str, Any]] = []
        for start, stop in new:
            windows += batch.rows.slice(start - header.row0, stop - start).to_pylist()
        verdicts = [verdict(window, self.rules) for window in windows]
        incidents = [row for window in windows
                     for row in host.watch.see(header.host, window, 1.0 - self.rules.min_coverage)]
        outputs = [_output(host, header.host, VERDICTS, VERDICTS_TOPIC.name, verdicts, header.watermark_ns),
                   _output(host, header.host, INCIDENTS, INCIDENTS_TOPIC.name, incidents, header.watermark_ns)]
        return state, [output for output in outputs if output is not None]

    def on_end(self, state: State) -> list[Output]:
        """Close runs of loss that are still open."""
        outputs = [_output(host, name, INCIDENTS, INCIDENTS_TOPIC.name, host.watch.finish(name), None)
                   for name, host in sorted(state.items())]
        return [output for output in outputs if output is not None]

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Nothing waits."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """JSON in a zstd frame."""
        hosts = {name: {"ledger": host.ledger.to_plain(), "watch": asdict(host.watch), "sequences": host.sequences}
                 for name, host in state.items()}
        return dump(self.name, VERSION, {"hosts": hosts})

    def restore(self, data: bytes) -> State:
        """Raises ValueError for bytes of another step or version."""
        plain = load(data, self.name, VERSION)
        state: State = {}
        for name, host in plain["hosts"].items():
            watch = host["watch"]
            loss = Loss(**watch["loss"]) if watch["loss"] else None
            state[name] = Host(Ledger.from_plain(host["ledger"]),
                               Watch(watch["through_ns"], watch["revision"], loss), host["sequences"])
        return state


def _output(host: Host, name: str, contract: Contract, topic: str, rows: list[dict[str, Any]],
            watermark_ns: int | None) -> Output | None:
    if not rows:
        return None
    sequence = host.sequences.get(contract.name, 0)
    host.sequences[contract.name] = sequence + 1
    batch: pa.RecordBatch = from_rows(contract, rows)
    times = [row[str(contract.time_column)] for row in rows]
    header = Header(contract.name, contract.version, name, "bottleneck", 0, sequence, len(rows), min_time=min(times),
                    max_time=max(times), watermark_ns=watermark_ns)
    return Output(topic, Batch(header, batch))
