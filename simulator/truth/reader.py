"""Reads a truth folder back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from fleetscope.errors import UsageError
from simulator.causes import NAMES
from simulator.truth.records import Causes, Change, ClockStep, Incident, Ints, Missed, Published, SpanStarts, Tally
from simulator.truth.sink import (
    CAUSES_FILE,
    CHANGES_FILE,
    CLOCK_STEPS_FILE,
    COUNTS_FILE,
    INCIDENTS_FILE,
    MISSED_FILE,
    PUBLISHED_FILE,
    STARTS_FILE,
)

_Item = TypeVar("_Item")


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
        for batch in self._stream(STARTS_FILE):
            host, producer, epoch, sequence, clock = (batch.column(i)[0].as_py() for i in range(5))
            yield SpanStarts(host, producer, epoch, sequence, clock, batch.column(5)[0].values.to_numpy())

    def published(self) -> Iterator[Published]:
        """Rows of other contracts than spans, by host and block of the file."""
        for batch in self._stream(PUBLISHED_FILE):
            hosts = np.asarray(batch.column(0).to_pylist(), dtype=object)
            times, rows = batch.column(2).to_numpy(), batch.column(3).to_numpy()
            for host in sorted(set(hosts)):
                yield Published(host, times[hosts == host], rows[hosts == host])

    def missed(self) -> Iterator[Missed]:
        """True times of rows that nobody can decode, in order of publication."""
        for batch in self._stream(MISSED_FILE):
            yield Missed(batch.column(0)[0].as_py(), batch.column(1)[0].as_py(),
                         batch.column(2)[0].values.to_numpy())

    def causes(self) -> list[Causes]:
        """Every device's slots in order of time; 8 · len(NAMES) bytes a slot. Empty where none were written."""
        parts: dict[tuple[str, str], list[tuple[Ints, Ints, Ints]]] = {}
        for batch in self._stream(CAUSES_FILE):
            names = [np.asarray(batch.column(i).cast(pa.string()).to_pylist(), dtype=object) for i in range(2)]
            start, length = (batch.column(i).to_numpy() for i in (2, 3))
            ns = np.stack([batch.column(4 + i).to_numpy() for i in range(len(NAMES))], axis=1)
            for host, device in sorted(set(zip(*names, strict=True))):
                rows = (names[0] == host) & (names[1] == device)
                parts.setdefault((host, device), []).append((start[rows], length[rows], ns[rows]))
        result = []
        for (host, device), found in sorted(parts.items()):
            start, length, ns = (np.concatenate(column) for column in zip(*found, strict=True))
            order = np.argsort(start, kind="stable")
            result.append(Causes(host, device, start[order], length[order], ns[order]))
        return result

    def incidents(self) -> list[Incident]:
        """What was planted, in order of writing."""
        return self._items(INCIDENTS_FILE, Incident)

    def clock_steps(self) -> list[ClockStep]:
        """Steps of clocks, in order of writing."""
        return self._items(CLOCK_STEPS_FILE, ClockStep)

    def changes(self) -> list[Change]:
        """Deployments, in order of writing."""
        return self._items(CHANGES_FILE, Change)

    def _stream(self, name: str) -> Iterator[pa.RecordBatch]:
        path = self.folder / name
        try:
            with path.open("rb") as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{path}: {error}") from error

    def _items(self, name: str, kind: Callable[..., _Item]) -> list[_Item]:
        path = self.folder / name
        try:
            return [kind(**item) for item in json.loads(path.read_text(encoding="utf-8"))]
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: not the truth of a simulation: {error}") from error
