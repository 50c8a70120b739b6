"""How each state looks: a colour and a glyph, so that they are told apart without colour too (in a log or a pipe)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fleetscope.contracts.derived import STATE_NAMES

if TYPE_CHECKING:
    from rich.text import Text

COLOURS: Final = {
    "compute": "green", "memory_bandwidth": "blue", "on_chip_memory": "cyan", "interconnect": "cyan",
    "latency": "yellow", "throttled": "red", "bank_conflict": "magenta", "spill": "magenta", "dma_stall": "magenta",
    "kernel_unattributed": "white", "collective_network": "bright_magenta", "collective_wait": "magenta",
    "pcie_h2d": "bright_red", "pcie_d2h": "red", "pcie_small": "bright_yellow", "pcie_queueing": "yellow",
    "host": "bright_cyan", "host_input": "cyan", "host_contention": "bright_magenta", "host_pageable": "bright_green",
    "launch_overhead": "bright_blue", "dependency": "bright_white", "no_demand": "bright_black",
    "unresolved": "white", "unknown": "red",
}
GLYPHS: Final = {
    "compute": "█", "memory_bandwidth": "▓", "on_chip_memory": "▒", "interconnect": "▤", "latency": "░",
    "throttled": "▽", "bank_conflict": "▥", "spill": "▧", "dma_stall": "▨", "kernel_unattributed": "▣",
    "collective_network": "◆", "collective_wait": "◇", "pcie_h2d": "▶", "pcie_d2h": "◀", "pcie_small": "▹",
    "pcie_queueing": "q", "host": "h", "host_input": "i", "host_contention": "c", "host_pageable": "p",
    "launch_overhead": "l", "dependency": "w", "no_demand": "·", "unresolved": "~", "unknown": "?",
}


def words(state: str) -> str:
    """The state's name for people."""
    return state.replace("_", " ")


def bar(time_ns: Mapping[str, int], cells: int = 24) -> Text:
    """``time_ns`` by state as ``cells`` glyphs in the order of the states; empty where there is no time."""
    from rich.text import Text

    text, total, done, drawn = Text(), sum(time_ns.values()), 0, 0
    for name in STATE_NAMES:
        done += time_ns.get(name, 0)
        until = round(cells * done / total) if total else 0
        text.append(GLYPHS[name] * (until - drawn), style=COLOURS[name])
        drawn = until
    return text


def legend(shown: list[str]) -> Text:
    """Glyph and name of the states ``shown``, in their order."""
    from rich.text import Text

    return Text("  ").join(Text(f"{GLYPHS[name]} {words(name)}".replace(" ", "\u00a0"), style=COLOURS[name])
                           for name in STATE_NAMES if name in shown)
