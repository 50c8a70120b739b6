"""Figures as people read them, by the unit they are documented in. Documents (JSON, CSV) never pass through here."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any, Final

MISSING: Final = "–"
DIGITS: Final = 4
"""Significant digits of what is not a whole number."""
_Steps = Sequence[tuple[float, str]]
_DURATIONS: Final[_Steps] = ((1, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (120e9, "min"), (7200e9, "h"),
                             (172_800e9, "d"))
_LENGTHS: Final = {"min": 60e9, "h": 3600e9, "d": 86_400e9}
"""ns in the units that only take over once there are two of them."""
_IN_NS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_PREFIXES: Final = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"))
_PREFIXED: Final = frozenset({"B", "B/s"})
_EPOCHS: Final = {"ns since 1970": 10**9, "ms since 1970": 10**3}
_SHARES: Final = frozenset({"0..1", "share"})


def figure(value: Any, unit: str = "") -> str:
    """``value``, documented in ``unit``, as text that names its own unit; '–' for None.

    ``ns since 1970`` and ``ms since 1970`` become ISO 8601 in UTC, cut to ms; ``0..1`` a percentage; durations and
    bytes take a fitting prefix; other units follow the number as they are.
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if unit in _EPOCHS:
        return moment(int(value), _EPOCHS[unit])
    if unit in _SHARES:
        return percentage(value)
    if unit in _IN_NS:
        return duration(value, unit)
    if unit in _PREFIXED:
        return _scaled(value, [(factor, prefix + unit) for factor, prefix in _PREFIXES], {})
    return f"{number(value)} {unit}".rstrip()


def says_its_unit(unit: str) -> bool:
    """Whether figures of ``unit`` name it themselves, so that the head of their column need not."""
    return unit in _EPOCHS or unit in _SHARES or unit in _IN_NS or unit in _PREFIXED


def number(value: float) -> str:
    """Whole numbers in full with commas, others with 4 significant digits; powers of ten only below 1e-3, above 1e15.

    A whole part is never rounded to fewer digits than it has.
    """
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(value)
    if size and not 1e-3 <= size <= 1e15:
        return f"{value:.{DIGITS - 1}e}"
    if value == int(value):
        return f"{int(value):,}"
    if size < 10**DIGITS:
        value = float(f"{value:.{DIGITS - 1}e}")  # first, for it may gain a digit: 0.99999 is 1.000
    return f"{value:,.{max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))}f}"


def percentage(share: float) -> str:
    """With one decimal; what is not quite nothing or not quite all does not read as if it were."""
    if 0 < share < 0.0005:
        return "<0.1%"
    if 0.9995 <= share < 1:
        return ">99.9%"
    return f"{share:.1%}"


def duration(value: float, unit: str = "ns") -> str:
    """``value`` in ``unit`` (ns, us, ms or s), from ns up to days."""
    if value == 0:
        return f"0 {unit}"
    return _scaled(value * _IN_NS[unit], _DURATIONS, _LENGTHS)


def moment(count: int, per_s: int) -> str:
    """``count`` units since 1970, ``per_s`` of them a second, in ISO 8601, UTC, cut to ms."""
    seconds, rest = divmod(count, per_s)
    try:
        day = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):  # a year that no calendar here has: an end of time, not a time
        return f"{count:,}"
    return f"{day:%Y-%m-%dT%H:%M:%S}.{rest * 1000 // per_s:03d}Z"


def _scaled(value: float, steps: _Steps, lengths: dict[str, float]) -> str:
    """By the largest step that ``value`` reaches once it is rounded to the digits shown."""
    reached = [step for step in steps if abs(value) >= step[0] * (1 - 10.0**-DIGITS / 2)]
    factor, name = reached[-1] if reached else steps[0]
    factor = lengths.get(name, factor)
    shown = value / factor
    return f"{number(shown if shown != int(shown) else int(shown))} {name}"
