"""PCI Express links and their errors, from sysfs.

A link has two ends. It is ``degraded`` where it runs below what both ends can do: a x4 card in a x8 slot runs x4 and is
not degraded, only the slot is ``below_maximum``. Links also slow down to save power while idle; a statement here is no
alarm, that needs several readings under load.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from fleetscope.contracts import counters
from fleetscope.contracts.counters import CounterDescriptor
from ingest.collectors.pci_tree import Function, find
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, gauge, whole

RESCAN_READINGS: Final = 60
"""The tree is searched again after so many readings; until then known functions are read."""

_AER: Final = tuple(zip(("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"), counters.PCI[:3], strict=True))
_WIDTH, _SPEED = counters.PCI[3:]
_SPEED_TEXT: Final = re.compile(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?")
_MAX_LANES: Final = 32
_MAX_ERRORS: Final = 64


@dataclass(frozen=True, slots=True)
class Link:
    """Width in lanes and speed in GT/s, now and at most; None where the device does not tell."""

    width: int | None
    speed: float | None
    max_width: int | None
    max_speed: float | None


class Pci:
    """Negotiated width and speed of every link, and the Advanced Error Reporting counters of every function."""

    name = "pci"
    descriptors = counters.PCI

    def __init__(self) -> None:
        self._functions: list[Function] = []
        self._age = RESCAN_READINGS

    def collect(self, root: HostRoot) -> list[Reading]:
        """Width 0 means no link and is missing; width 63 is what a device says that no longer answers."""
        if self._age >= RESCAN_READINGS:
            self._rescan(root)
        self._age += 1
        readings: list[Reading] = []
        for function in self._functions:
            readings += self._link_readings(root, function)
            for file, counter in _AER:
                readings += self._errors(root, function, file, counter)
        return readings

    def _rescan(self, root: HostRoot) -> None:
        self._functions, self._age = find(root, self.name), 0

    def _link_readings(self, root: HostRoot, function: Function) -> list[Reading]:
        text = root.text(f"{function.path}/current_link_width", self.name, optional=True)
        if text is None:
            return []
        address = function.address
        lanes = whole(text.strip())
        speed = _speed(root, self.name, f"{function.path}/current_link_speed")
        if lanes is not None and lanes > _MAX_LANES:
            width = gauge(self.name, _WIDTH, None, device=address, status="sentinel")
        else:
            width = gauge(self.name, _WIDTH, lanes or None, device=address)
        return [width, gauge(self.name, _SPEED, speed, device=address)]

    def _errors(self, root: HostRoot, function: Function, file: str, counter: CounterDescriptor) -> list[Reading]:
        path = f"{function.path}/{file}"
        text = root.text(path, self.name, optional=True)
        readings = []
        for number, line in enumerate((text or "").splitlines()[:_MAX_ERRORS], 1):
            kind, _, value = line.rpartition(" ")
            if not kind or whole(value) is None:
                root.note(self.name, "malformed", f"{path}:{number}")
            elif not kind.startswith("TOTAL_"):
                readings.append(count(self.name, counter, whole(value), kind, function.address))
        return readings

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Every function as a link with its place in the tree; those that have one, with the state of their link."""
        self._rescan(root)
        functions = self._functions
        links = {f.address: _link(root, self.name, f.path) for f in functions}
        below: dict[str, list[str]] = {}
        for function in functions:
            if function.parent in links and links[function.address] is not None:
                below.setdefault(function.parent, []).append(function.address)
        facts = []
        for function in functions:
            facts += self._identity(root, function)
            link = links[function.address]
            if link is not None:
                # A port's link is the one below it; an endpoint's is the one to its port.
                others = below.get(function.address) or [function.parent or ""]
                ends = [(other, end) for other in others if (end := links.get(other)) is not None]
                facts += _state(function, link, ends)
        return facts

    def _identity(self, root: HostRoot, function: Function) -> list[Fact]:
        facts = []
        for attribute, file in (("class", "class"), ("vendor", "vendor"), ("device_id", "device")):
            text = (root.text(f"{function.path}/{file}", self.name) or "").strip()
            if text:
                facts.append(Fact("link", function.address, attribute, text, parent=function.parent))
        node = (root.text(f"{function.path}/numa_node", self.name, optional=True) or "").strip()
        # -1 is how sysfs says that there is no node.
        if whole(node) is not None:
            facts.append(Fact("link", function.address, "numa_node", number=int(node), parent=function.parent))
        if not function.listed:
            facts.append(Fact("link", function.address, "listed", "under sys/devices only", parent=function.parent))
        return facts


def _link(root: HostRoot, collector: str, path: str) -> Link | None:
    if root.resolve(f"{path}/max_link_width") is None and root.resolve(f"{path}/current_link_width") is None:
        return None
    return Link(_lanes(root, collector, f"{path}/current_link_width"),
                _speed(root, collector, f"{path}/current_link_speed"),
                _lanes(root, collector, f"{path}/max_link_width"),
                _speed(root, collector, f"{path}/max_link_speed"))


def _lanes(root: HostRoot, collector: str, path: str) -> int | None:
    text = (root.text(path, collector) or "").strip()
    lanes = whole(text)
    if lanes is None and text:
        root.note(collector, "malformed", path)
    return lanes if lanes is not None and 0 < lanes <= _MAX_LANES else None


def _speed(root: HostRoot, collector: str, path: str) -> float | None:
    """GT/s; `Unknown` and a bare `Unknown speed` are missing, anything else unread is malformed."""
    text = (root.text(path, collector) or "").strip()
    match = _SPEED_TEXT.fullmatch(text)
    if match is None and text and not text.startswith("Unknown"):
        root.note(collector, "malformed", path)
    return float(match[1]) if match else None


def _state(function: Function, link: Link, ends: list[tuple[str, Link]]) -> list[Fact]:
    def fact(attribute: str, number: float | None, unit: str | None = None, text: str | None = None) -> Fact:
        return Fact("link", function.address, attribute, text, number, unit, function.parent)

    facts = [fact(name, number, unit) for name, number, unit in (
        ("width_lanes", link.width, "lanes"), ("speed_gt_s", link.speed, "GT/s"),
        ("max_width_lanes", link.max_width, "lanes"), ("max_speed_gt_s", link.max_speed, "GT/s")) if number is not None]
    if link.width and link.max_width:
        facts.append(fact("width", None, text=f"x{link.width} of x{link.max_width}"))
    if None in (link.width, link.max_width, link.speed, link.max_speed):
        return facts
    partner_width = max((end.max_width for _, end in ends if end.max_width), default=link.max_width)
    partner_speed = max((end.max_speed for _, end in ends if end.max_speed), default=link.max_speed)
    width, speed = min(link.max_width or 0, partner_width or 0), min(link.max_speed or 0.0, partner_speed or 0.0)
    below = (link.width or 0) < (link.max_width or 0) or (link.speed or 0.0) < (link.max_speed or 0.0)
    facts += [fact("capable_width_lanes", width, "lanes"), fact("capable_speed_gt_s", speed, "GT/s"),
              fact("below_maximum", int(below)),
              fact("degraded", int((link.width or 0) < width or (link.speed or 0.0) < speed))]
    limits = [name for name, end in ends if (end.max_width or 0) < (link.max_width or 0)
              or (end.max_speed or 0.0) < (link.max_speed or 0.0)]
    if below and limits:
        facts.append(fact("limited_by", None, text=",".join(limits)))
    return facts
