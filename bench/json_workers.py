"""Several processes that share the partitions and decode, and one, the caller's, that inserts."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Protocol

from bench.json_pipeline import Block, Share, StalledError, Tally, read
from bench.measure import peak_rss_bytes
from fleetscope.settings import Settings

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess


class _Flag(Protocol):
    def is_set(self) -> bool: ...


def run_workers(settings: Settings, group: str, tally: Tally, expected: int, workers: int, idle_s: float) -> int:
    """Run ``workers`` processes until ``tally`` has ``expected`` messages; returns the sum of their peak memory in B.

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
        _collect(children, tally, expected, idle_s)
        stop.set()
        return _finish(children, tally)
    finally:
        for ours, child in children.items():
            child.terminate()
            child.join()
            ours.close()


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
    try:
        answer = ours.recv()
    except EOFError:
        child.join()
        raise StalledError(f"a worker ended early with exit code {child.exitcode}") from None
    if isinstance(answer, Block):
        tally.deliver(answer)
        ours.send(True)
    return answer


def _work(settings: Settings, group: str, share: Share, theirs: Connection, stop: _Flag) -> None:
    parent = multiprocessing.parent_process()

    def deliver(block: Block) -> None:
        theirs.send(block)
        theirs.recv()  # the database has it: only now may the position be committed

    def done(_: int) -> bool:
        return stop.is_set() or parent is None or not parent.is_alive()

    # A worker whose partitions are empty or read to the end waits for the others: the parent decides what is a stall.
    read(settings, group, share, deliver, done, idle_s=float("inf"))
    theirs.send(peak_rss_bytes())
