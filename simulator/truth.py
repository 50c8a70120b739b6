"""Ground truth of a run. It never enters the stream; it is written to a folder of its own.

``truth.json`` holds counts and the configuration, ``starts.arrow`` (Arrow IPC stream) the true start of every span.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.errors import UsageError

COUNTS_FILE: Final = "truth.json"
STARTS_FILE: Final = "starts.arrow"
_STARTS: Final = pa.schema([
    pa.field("host", pa.string(), False), pa.field("producer", pa.string(), False),
    pa.field("epoch", pa.int64(), False), pa.field("sequence", pa.int64(), False),
    pa.field("clock", pa.string(), False), pa.field("start_true_ns", pa.list_(pa.int64()), False),
])


@dataclass(slots=True)
class Tally:
    """Rows of one contract. ``produced`` includes dropped, lost and corrupted ones; ``redelivered`` are repeats."""

    produced: int = 0
    dropped_by_producer: int = 0
    lost: int = 0
    corrupted: int = 0
    redelivered: int = 0


@dataclass(frozen=True, slots=True)
class SpanStarts:
    """True starts (τ ns) of the rows of one span batch, whose rows are numbered from 0."""

    host: str
    producer: str
    epoch: int
    sequence: int
    clock: str
    start_ns: NDArray[np.int64]


class Sink(Protocol):
    """Takes the truth while a fleet publishes."""

    def starts(self, starts: SpanStarts) -> None:
        """True starts of a span batch."""
        ...

    def finish(self, tallies: dict[str, Tally], config: dict[str, object]) -> None:
        """The run is over."""
        ...


class NoSink:
    """Forgets everything."""

    def starts(self, starts: SpanStarts) -> None:
        """Forget."""

    def finish(self, tallies: dict[str, Tally], config: dict[str, object]) -> None:
        """Forget."""


class TruthSink:
    """Appends to a folder with bounded memory. UsageError where the folder cannot be written."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / COUNTS_FILE).unlink(missing_ok=True)
            self._file = (folder / STARTS_FILE).open("wb")
        except OSError as error:
            raise UsageError(f"cannot write the truth to {folder}: {error.strerror}") from error
        self._folder = folder
        self._writer = pa.ipc.new_stream(self._file, _STARTS, options=pa.ipc.IpcWriteOptions(compression="zstd"))

    def starts(self, starts: SpanStarts) -> None:
        """Append the true starts of one batch."""
        offsets = pa.array([0, len(starts.start_ns)], pa.int32())
        columns = [pa.array([value], field.type) for value, field in zip(
            (starts.host, starts.producer, starts.epoch, starts.sequence, starts.clock), _STARTS, strict=False)]
        columns.append(pa.ListArray.from_arrays(offsets, pa.array(starts.start_ns)))
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_STARTS))

    def finish(self, tallies: dict[str, Tally], config: dict[str, object]) -> None:
        """Close the file of starts and write the counts; a truth without counts is an interrupted run."""
        self.close()
        document = {"rows_by_contract": {name: asdict(tally) for name, tally in tallies.items()}, "config": config}
        (self._folder / COUNTS_FILE).write_text(json.dumps(document, indent=2), encoding="utf-8")

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if not self._file.closed:
            self._writer.close()
            self._file.close()


@dataclass(frozen=True, slots=True)
class Truth:
    """A truth folder read back."""

    folder: Path
    tallies: dict[str, Tally]
    config: dict[str, object] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Truth:
        """Read the counts; UsageError where the folder holds no finished run."""
        path = folder / COUNTS_FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            tallies = {name: Tally(**counts) for name, counts in document["rows_by_contract"].items()}
            return cls(folder, tallies, document["config"])
        except OSError as error:
            raise UsageError(f"{path}: no truth of a finished simulation ({error.strerror})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: not the truth of a simulation: {error}") from error

    def starts(self) -> Iterator[SpanStarts]:
        """True starts, one entry a batch, in order of publication."""
        path = self.folder / STARTS_FILE
        try:
            with path.open("rb") as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    host, producer, epoch, sequence, clock = (batch.column(i)[0].as_py() for i in range(5))
                    yield SpanStarts(host, producer, epoch, sequence, clock, batch.column(5)[0].values.to_numpy())
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{path}: {error}") from error
