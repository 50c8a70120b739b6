"""The section `clocks` of `make bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.clocks.compare import compare
from bench.clocks.probes import CASES

if TYPE_CHECKING:
    from bench.sections import Bench

FULL: Final = ((11, 12, 13), 3_600)
SHORT: Final = ((11,), 300)
"""Seeds, and seconds of each series."""


def clock_methods(bench: Bench) -> dict[str, Any]:
    """Key `clocks` of the results."""
    seeds, seconds = SHORT if bench.options.short else FULL
    bench.say(f"{len(CASES)} pairs of clocks over {seconds:,} s, seeds {', '.join(map(str, seeds))}")
    return {"clocks": compare(seeds, seconds)}
