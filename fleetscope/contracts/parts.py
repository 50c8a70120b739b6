"""The header `parts` as text: which batches the rows of a message come from.

JSON: [[producers], [clocks], [[producer, epoch, clock, sequence, row0, rows, total], …]] with producers and clocks as
indices of the first two lists, and a total that may be null.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fleetscope.contracts.batch import Part

MAX_PARTS: Final = 4_096


def parts_text(parts: tuple[Part, ...]) -> bytes:
    """The text of ``parts``, in their order."""
    producers = {name: index for index, name in enumerate(dict.fromkeys(part.producer for part in parts))}
    clocks = {name: index for index, name in enumerate(dict.fromkeys(part.clock for part in parts))}
    rows = [[producers[p.producer], p.epoch, clocks[p.clock], p.sequence, p.row0, p.rows, p.total] for p in parts]
    return json.dumps([list(producers), list(clocks), rows], separators=(",", ":"), ensure_ascii=False).encode()


def parts_of(text: str, max_chars: int) -> tuple[Part, ...]:
    """Back from `parts_text`. ValueError says what is wrong: anything that is not of that form, names that are not
    printable or longer than ``max_chars``, numbers that are negative or past int64, rows past their total."""
    try:
        producers, clocks, rows = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except TypeError as error:
        raise ValueError("not three lists") from error
    if not all(isinstance(one, list) for one in (producers, clocks, rows)):
        raise ValueError("not three lists")
    if not 0 < len(rows) <= MAX_PARTS:
        raise ValueError(f"{len(rows)} parts, from 1 to {MAX_PARTS} are allowed")
    for name in (*producers, *clocks):
        if not isinstance(name, str) or len(name) > max_chars or not name.isprintable():
            raise ValueError("a name is no short printable text")
    if "" in producers:
        raise ValueError("a producer without name")
    return tuple(_part(row, producers, clocks) for row in rows)


def _part(row: Any, producers: list[str], clocks: list[str]) -> Part:
    if not isinstance(row, list) or len(row) != 7:
        raise ValueError("a part is not seven numbers")
    *numbers, total = row
    for number in numbers if total is None else row:
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise ValueError("a number is no unsigned 63-bit integer")
    producer, epoch, clock, sequence, row0, count = numbers
    if producer >= len(producers) or clock >= len(clocks):
        raise ValueError("a part names no producer or clock")
    if total is not None and row0 + count > total:
        raise ValueError(f"rows {row0} to {row0 + count} of {total}")
    return Part(producers[producer], epoch, clocks[clock], sequence, row0, count, total)
