"""What a benchmark measures and how: wall and CPU seconds, peak memory, medians, the machine it ran on.

A pipeline is measured in a fresh process (``in_child``), so that what another one left on the heap is not counted
against it. Peak memory is the kernel's high-water mark (VmHWM), set back when the measurement starts.
"""

from __future__ import annotations

import importlib.metadata
import json
import multiprocessing
import os
import platform
import resource
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")

RESULTS: Final = Path(__file__).parent / "results" / "latest.json"
PACKAGES: Final = ("fleetscope", "kafka-python", "pyarrow", "numpy", "clickhouse-connect", "chdb", "orjson", "lz4",
                   "zstandard", "crc32c")
_STATUS: Final = Path("/proc/self/status")
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")


def cpu_seconds() -> float:
    """CPU seconds, user and system, of this process and of the children it has waited for."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def reset_peak_rss() -> bool:
    """Set the high-water mark back to the memory in use now; False where the kernel does not allow it."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def peak_rss_bytes() -> int:
    """The high-water mark of resident memory since the last reset, or since the start where there was none."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Meter:
    """Measures what runs inside ``with``; the figures stand still from its end on.

    CPU counts children only once they have been waited for: join them inside. Peak memory is this process's own.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_rss_bytes: int = 0
    peak_was_reset: bool = False

    def __enter__(self) -> Self:
        self.peak_was_reset = reset_peak_rss()
        self._cpu = cpu_seconds()
        self._wall = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = cpu_seconds() - self._cpu
        self.peak_rss_bytes = peak_rss_bytes()


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a pipeline. ``events`` were stored, ``rejected`` counted and left out; None: not measured."""

    events: int
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    rejected: int = 0
    wire_bytes: int | None = None
    disk_bytes: int | None = None
    p99_latency_s: float | None = None

    def figures(self) -> dict[str, float | None]:
        """The figures under the names of bench/results/latest.json; rates are None where nothing was stored."""
        events = self.events
        return {
            "events": events,
            "rejected": self.rejected,
            "events_per_s": _ratio(events, self.wall_s),
            "cpu_s_per_million": _ratio(self.cpu_s * 1e6, events),
            "peak_rss_mb": self.peak_rss_bytes / 1e6,
            "p99_latency_s": self.p99_latency_s,
            "bytes_per_event_wire": _ratio(self.wire_bytes, events),
            "bytes_per_event_disk": _ratio(self.disk_bytes, events),
        }


def _ratio(value: float | None, by: float) -> float | None:
    return None if value is None or not by else value / by


def median_figures(runs: Sequence[Measured]) -> dict[str, float | None]:
    """The median of every figure over ``runs``, and their number as ``runs``; a figure one run lacks is None.

    Raises ValueError where there is no run.
    """
    if not runs:
        raise ValueError("a median needs one run or more")
    figures = [run.figures() for run in runs]
    result: dict[str, float | None] = {}
    for name in figures[0]:
        values = [f[name] for f in figures]
        known = [v for v in values if v is not None]
        result[name] = statistics.median(known) if len(known) == len(values) else None
    return {**result, "runs": len(runs)}


class ChildError(RuntimeError):
    """The function in the child raised, or the child died; the text carries its traceback."""


def in_child(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function`` returns in a fresh process; function, arguments and result must be picklable.

    Raises ChildError where it raised or was killed.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(theirs, function, args, kwargs))
    child.start()
    theirs.close()
    try:
        done, result = ours.recv()
    except EOFError:
        child.join()
        raise ChildError(f"the measured process ended with exit code {child.exitcode} and no result") from None
    except BaseException:
        child.terminate()
        raise
    finally:
        child.join()
        ours.close()
    if not done:
        raise ChildError(result)
    return result  # type: ignore[no-any-return]


def _run(answer: Connection, function: Callable[..., object], args: tuple[object, ...],
         kwargs: dict[str, object]) -> None:
    try:
        result = (True, function(*args, **kwargs))
    except Exception:  # noqa: BLE001 - whatever it is, the parent must see it
        result = (False, traceback.format_exc())
    answer.send(result)


def environment() -> dict[str, Any]:
    """The machine and the versions that the figures hold for."""
    return {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_mb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6),
        "load_1m": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_results(path: Path = RESULTS) -> dict[str, Any]:
    """The figures written so far; empty where there is no file. Raises ValueError naming a file that is no object."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path}: a JSON object was expected")
    return document


def write_results(update: Mapping[str, Any], path: Path = RESULTS) -> dict[str, Any]:
    """Put the keys of ``update`` into the file and return the whole; a key given as None is taken out.

    A key is replaced as a whole, so that figures of an earlier run never stand beside those of this one. The file is
    replaced in one move.
    """
    document = {**read_results(path), **update}
    document = {key: value for key, value in document.items() if value is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(document, indent=2) + "\n")
    fresh.replace(path)
    return document
