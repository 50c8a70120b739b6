"""Several processes that share the partitions and decode, and one, the caller's, that inserts."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Protocol

from bench.json_pipeline import Block, Share, StalledError, Tally, read
from bench.measure import Meter, cpu_seconds, peak_rss_bytes
from fleetscope.settings import Settings

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess


class _Flag(Protocol):
    def is_set(self) -> bool: ...


def run_workers(settings: Settings, group: str, tally: Tally, expected: int, workers: int, idle_s: float) -> Meter:
    """Run ``workers`` processes until ``tally`` has ``expected`` messages; returns what all of them together used.

    The measurement starts when every worker is ready: one process alone has its imports behind it too.
    Raises StalledError when no block comes for ``idle_s`` seconds or a worker ends early.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    children: dict[Connection, SpawnProcess] = {}
    for index in range(workers):
        ours, theirs = context.Pipe()
        child = context.Process(target=_work, args=(settings, group, Share(index, workers), theirs, stop), daemon=True)
        child.start()
        theirs.close()
        children[ours] = child
    try:
        spent = sum(_ready(ours, child) for ours, child in children.items())
        with Meter() as meter:
            for ours in children:
                ours.send(True)
            _collect(children, tally, expected, idle_s)
            stop.set()
            peak = _finish(children, tally)
        meter.cpu_s -= spent
        meter.peak_rss_bytes += peak
        return meter
    finally:
        for ours, child in children.items():
            child.terminate()
            child.join()
            ours.close()


def _ready(ours: Connection, child: SpawnProcess) -> float:
    """Waits for the worker; CPU seconds it needed to start, which its end will count."""
    return float(_receive(ours, child))


def _collect(children: dict[Connection, SpawnProcess], tally: Tally, expected: int, idle_s: float) -> None:
    while tally.stored + tally.rejected < expected:
        ready = wait(list(children), timeout=idle_s)
        if not ready:
            raise StalledError(f"no block came for {idle_s:g} s after {tally.stored + tally.rejected} messages")
        for ours in children:
            if ours in ready:
                _take(ours, children[ours], tally)


def _finish(children: dict[Connection, SpawnProcess], tally: Tally) -> int:
    peak = 0
    for ours, child in children.items():
        answer = _take(ours, child, tally)
        while not isinstance(answer, int):  # the last windows come before the worker's own figures
            answer = _take(ours, child, tally)
        child.join()
        peak += answer
    return peak


def _take(ours: Connection, child: SpawnProcess, tally: Tally) -> object:
    answer = _receive(ours, child)
    if isinstance(answer, Block):
        tally.deliver(answer)
        ours.send(True)
    return answer


def _receive(ours: Connection, child: SpawnProcess) -> Any:
    try:
        return ours.recv()
    except EOFError:
        child.join()
        raise StalledError(f"a worker ended early with exit code {child.exitcode}") from None


def _work(settings: Settings, group: str, share: Share, theirs: Connection, stop: _Flag) -> None:
    parent = multiprocessing.parent_process()

    def deliver(block: Block) -> None:
        theirs.send(block)
        theirs.recv()  # the database has it: only now may the position be committed

    def done(_: int) -> bool:
        return stop.is_set() or parent is None or not parent.is_alive()

    theirs.send(cpu_seconds())
    theirs.recv()
    # A worker whose partitions are empty or read to the end waits for the others: the parent decides what is a stall.
    read(settings, group, share, deliver, done, idle_s=float("inf"))
    theirs.send(peak_rss_bytes())
