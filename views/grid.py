"""Rows on a console: a table where it fits, else a block a row. Nothing that fits on a line is ever cut."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

LEAST_TEXT: Final = 10
"""Characters a line that a folded text keeps; where it would get fewer, rows become blocks."""
_FRAMED: Final = 3
_BARE: Final = 2
"""Characters that a column takes besides its text, with and without lines around it."""
_EDGE: Final = {_FRAMED: 1, _BARE: -_BARE}
"""What the whole table takes besides: one more line, or no gap after the last column."""
_PARTS: Final = re.compile(r"[^\s_/.:-]*[\s_/.:-]|[^\s_/.:-]+")


@dataclass(frozen=True, slots=True)
class Head:
    """A column: words at its head; ``number``: set to the right and never folded."""

    words: str
    number: bool = False


def show(to: Console, heads: Sequence[Head], rows: Sequence[Sequence[str]], *, title: str = "",
         caption: str = "") -> None:
    """Print ``rows``, a text a head, as a table if the console is wide enough, else as ``head  text``, a block a row.

    In the table heads wrap between words. Where it is too wide, it loses its lines first, then texts fold; numbers and
    times never do.
    """
    for gap, fold in ((_FRAMED, False), (_BARE, False), (_BARE, True)):
        widths = _widths(heads, rows, to.width - gap * len(heads) - _EDGE[gap], fold=fold)
        if widths is not None:
            _table(to, heads, rows, widths, title, framed=gap == _FRAMED)
            break
    else:
        _blocks(to, heads, rows, title)
    if caption:
        to.print(caption, style="dim", markup=False)


def _widths(heads: Sequence[Head], rows: Sequence[Sequence[str]], room: int, *, fold: bool) -> list[int] | None:
    """What each column gets of ``room``, or None where that is too little for numbers and the words of heads."""
    least = [max(map(len, head.words.split()), default=1) for head in heads]
    whole = [max([low, *(len(row[at]) for row in rows)]) for at, low in enumerate(least)]
    while sum(whole) > room:
        can = [at for at, head in enumerate(heads)
               if fold and not head.number and whole[at] > max(LEAST_TEXT, least[at])]
        if not can:
            return None
        whole[max(can, key=whole.__getitem__)] -= 1
    return whole


def _table(to: Console, heads: Sequence[Head], rows: Sequence[Sequence[str]], widths: list[int], title: str, *,
           framed: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, title_justify="left")
    if not framed:
        table.box, table.padding, table.pad_edge = None, (0, _BARE, 0, 0), False
    for head, width in zip(heads, widths, strict=True):
        table.add_column(Text("\n".join(textwrap.wrap(head.words, width, break_on_hyphens=False))), width=width,
                         justify="right" if head.number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text if head.number else _folded(text, width))
                        for head, text, width in zip(heads, row, widths, strict=True)))
    to.print(table)


def _folded(text: str, width: int) -> str:
    """``text`` in lines of at most ``width`` where it can break: after spaces and marks between parts of a name."""
    lines = [""]
    for part in _PARTS.findall(text):
        if len(lines[-1]) + len(part.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _blocks(to: Console, heads: Sequence[Head], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich.text import Text

    if title:
        to.print(Text(title, style="italic"))
    label = max(len(head.words) for head in heads)
    room = max(to.width - label - 2, LEAST_TEXT)
    for at, row in enumerate(rows):
        if at:
            to.print()
        for head, text in zip(heads, row, strict=True):
            lines = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
            if head.number and len(text) > room:
                to.print(Text(f"{head.words}\n  ", style="dim").append(text, style="not dim"), soft_wrap=True)
                continue
            left = Text(f"{head.words:<{label}}", style="dim")
            to.print(Text("\n").join([left + f"  {lines[0]}", *(Text(" " * (label + 2) + more) for more in lines[1:])]),
                     soft_wrap=True)
