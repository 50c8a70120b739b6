"""Which hosts a job waits for. Plain values.

A host is waited for from when it is first heard until it says that it has left, or until it is ``patience_ns`` behind
the newest: silence is known by what the others' event time says, never by the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from processors.operators.intake import CLOSED, NEVER, advanced

Marks = dict[str, int]
"""By host: everything before it was told."""


def moved(marks: Marks, host: str, watermark_ns: int) -> None:
    """Take a watermark of a host."""
    marks[host] = advanced(marks.get(host, NEVER), watermark_ns)


def limit_ns(marks: Marks, hosts: Iterable[str], patience_ns: int) -> int:
    """Everything before it was told by every host that is waited for; CLOSED where all have left."""
    told = [marks.get(host, NEVER) for host in hosts]
    open_ = [mark for mark in told if mark < CLOSED]
    if not open_:
        return CLOSED if told else NEVER
    newest = max(open_)
    return min(mark for mark in open_ if mark >= newest - patience_ns)


def silent(marks: Marks, patience_ns: int) -> set[str]:
    """Hosts that are not waited for although they did not leave."""
    open_ = {host: mark for host, mark in marks.items() if mark < CLOSED}
    newest = max(open_.values(), default=NEVER)
    return {host for host, mark in open_.items() if mark < newest - patience_ns}
