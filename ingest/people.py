"""Numbers in units that people read."""

from __future__ import annotations

from typing import Final

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3}
_COUNTED: Final = frozenset(("interrupts", "softirqs", "switches", "processes", "packets", "requests", "errors",
                             "sources", "replays", "events"))
"""Units that the counter's name says already."""
_PCI_CLASSES: Final = {"00": "device", "01": "storage", "02": "network", "03": "display", "04": "multimedia",
                       "05": "memory", "06": "bridge", "07": "serial port", "08": "system", "0c": "serial bus",
                       "0d": "wireless", "12": "accelerator", "ff": "other"}
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def amount(value: float | int | None, unit: str, jiffies_hz: int = 100) -> str:
    """For example 1.39 GiB, 3 min 12 s, 12,345 (packets), 8 GT/s; a dash for a missing value."""
    if value is None:
        return "–"
    if unit == "B":
        return _bytes(value)
    if unit == "jiffies":
        return duration(value / jiffies_hz)
    if unit in _SECONDS:
        return duration(value * _SECONDS[unit])
    number = f"{value:,}" if isinstance(value, int) or value != int(value) else f"{int(value):,}"
    return number if unit in _COUNTED else f"{number} {unit}"


def duration(seconds: float) -> str:
    """The two largest parts: 2 d 3 h, 4 min 5 s; below a minute with fractions."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.2f} s"
    whole = int(seconds)
    for size, name, below, below_name in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // below} {below_name}"
    return f"{whole // _MINUTE} min {whole % _MINUTE} s"


def pci_class(code: str) -> str:
    """The word for a class code such as 0x020000."""
    return _PCI_CLASSES.get(code.removeprefix("0x")[:2], f"class {code}")


def _bytes(value: float) -> str:
    step = 0
    while value >= 1024 and step < len(_BINARY) - 1:
        value /= 1024
        step += 1
    return f"{value:.0f} B" if step == 0 else f"{value:.2f} {_BINARY[step]}"
