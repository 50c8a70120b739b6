"""Plots as plain SVG: horizontal bars, ranges on a logarithmic axis, a matrix. Text in, text out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

ROW: Final = 22
LABEL: Final = 190
WIDTH: Final = 900
TOP: Final = 56
_FONT: Final = 'font-family="sans-serif" font-size="12"'
COLOURS: Final = ("#1f6f8b", "#e0803a", "#7a9e3f", "#8a5a9c")
INK: Final = "#222222"
GRID: Final = "#dddddd"


@dataclass(frozen=True, slots=True)
class Series:
    """One figure for each row; None: there is none."""

    name: str
    values: Sequence[float | None]


def bars(title: str, rows: Sequence[str], series: Sequence[Series], most: float, unit: str = "") -> str:
    """One group of bars a row, from 0 to ``most``."""
    group = ROW * len(series) * 0.62 + 8
    height = TOP + group * len(rows) + 30
    parts = [_legend(series)]
    parts += [_tick(_along(tick / 5), height, f"{most * tick / 5:g}{unit}") for tick in range(6)]
    for at, label in enumerate(rows):
        y = TOP + group * at
        parts.append(_text(LABEL - 8, y + group / 2, label, "end"))
        for number, own in enumerate(series):
            value = own.values[at]
            top = y + 4 + number * ROW * 0.62
            if value is None:
                parts.append(_text(LABEL + 4, top + 10, "–"))
                continue
            wide = _along(min(value / most, 1.0)) - LABEL
            parts.append(f'<rect x="{LABEL}" y="{top:.1f}" width="{wide:.1f}" height="{ROW * 0.62 - 2:.1f}" '
                         f'fill="{COLOURS[number]}"><title>{escape(f"{label}, {own.name}: {value:.4g}{unit}")}</title>'
                         "</rect>")
            parts.append(_text(LABEL + wide + 4, top + 10, f"{value:.3g}"))
    return _page(title, height, parts)


def points(title: str, rows: Sequence[str], series: Sequence[Series], unit: str) -> str:
    """One dot of each series a row on a logarithmic axis of whole decades."""
    known = [value for own in series for value in own.values if value]
    low, high = (math.floor(math.log10(min(known, default=1.0))), math.ceil(math.log10(max(known, default=10.0))))
    high = max(high, low + 1)
    height = TOP + ROW * len(rows) + 30
    parts = [_legend(series)]
    parts += [_tick(_along((decade - low) / (high - low)), height, f"{10.0**decade:g} {unit}")
              for decade in range(low, high + 1)]
    for at, label in enumerate(rows):
        y = TOP + ROW * at + ROW / 2
        parts.append(_text(LABEL - 8, y + 4, label, "end"))
        for number, own in enumerate(series):
            value = own.values[at]
            if value:
                x = _along((math.log10(value) - low) / (high - low))
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{COLOURS[number]}">'
                             f"<title>{escape(f'{label}, {own.name}: {value:.4g} {unit}')}</title></circle>")
    return _page(title, height, parts)


def matrix(title: str, rows: Sequence[str], columns: Sequence[str], counts: Mapping[tuple[str, str], int]) -> str:
    """Counts by (row, column), shaded by the share of their row; columns are named at an angle."""
    side = min(46.0, (WIDTH - LABEL - 100) / max(len(columns), 1))
    top = TOP + 110
    height = top + 26 * len(rows) + 16
    parts = [_text(LABEL - 8, top - 8, "true ↓  given →", "end")]
    for at, name in enumerate(columns):
        x = LABEL + side * (at + 0.5)
        parts.append(f'<text x="{x:.1f}" y="{top - 8}" transform="rotate(-50 {x:.1f} {top - 8})" {_FONT} '
                     f'fill="{INK}">{escape(name)}</text>')
    for row, true in enumerate(rows):
        y = top + 26 * row
        total = sum(counts.get((true, name), 0) for name in columns)
        parts.append(_text(LABEL - 8, y + 17, true, "end"))
        for at, name in enumerate(columns):
            count = counts.get((true, name), 0)
            share = count / total if total else 0.0
            colour = COLOURS[0] if true == name else COLOURS[1]
            x = LABEL + side * at
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{side - 2:.1f}" height="24" fill="{colour}" '
                         f'fill-opacity="{0.04 + 0.8 * share:.2f}"><title>{escape(f"{true} called {name}: {count}")}'
                         "</title></rect>")
            if count:
                parts.append(_text(x + side / 2 - 1, y + 16, f"{count}", "middle", 10))
    return _page(title, height, parts)


def _along(share: float) -> float:
    return LABEL + share * (WIDTH - LABEL - 70)


def _tick(x: float, height: float, label: str) -> str:
    return (f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{height - 24:.1f}" stroke="{GRID}"/>'
            + _text(x, height - 8, label, "middle"))


def _legend(series: Sequence[Series]) -> str:
    parts, x = [], float(LABEL)
    for number, own in enumerate(series):
        parts.append(f'<rect x="{x:.1f}" y="34" width="10" height="10" fill="{COLOURS[number]}"/>')
        parts.append(_text(x + 14, 43, own.name))
        x += 34 + 7.2 * len(own.name)
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    font = _FONT.replace('"12"', f'"{size}"')
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {font} fill="{INK}">{escape(text)}</text>'


def _page(title: str, height: float, parts: Sequence[str]) -> str:
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
            f'aria-label="{escape(title)}">')
    name = f'<text x="8" y="20" font-family="sans-serif" font-size="15" fill="{INK}">{escape(title)}</text>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>', name, *parts, "</svg>\n"])
