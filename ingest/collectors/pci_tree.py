"""Finds PCI functions and what they hang on.

The list of the bus (/sys/bus/pci/devices) and the tree (/sys/devices) should agree; captures and hot-plug make them
differ, so both are read. The tree gives the parent: the folder a function's folder lies in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ingest.hostroot import HostRoot

ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_BUS: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_LIST: Final = "sys/bus/pci/devices"
MAX_FUNCTIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function: its folder (without links), the function or root bus it hangs on, and where it was found."""

    address: str
    path: str
    parent: str | None
    listed: bool


def find(root: HostRoot, collector: str) -> list[Function]:
    """Every function, by address. A function without a readable ``class`` is none, and is counted."""
    paths: dict[str, str] = {}
    listed = set()
    for address in root.names(_LIST, collector, optional=True):
        path = root.resolve(f"{_LIST}/{address}")
        if path is None:
            root.note(collector, "missing", f"{_LIST}/{address}")
        else:
            paths[address] = path
            listed.add(address)
    for path in _walk(root, collector):
        paths.setdefault(path.rsplit("/", 1)[-1], path)
    functions: list[Function] = []
    for address, path in sorted(paths.items()):
        if len(functions) == MAX_FUNCTIONS:
            root.note(collector, "over_limit", path)
        elif root.resolve(f"{path}/class") is None:
            root.note(collector, "missing", f"{path}/class")
        else:
            functions.append(Function(address, path, _parent(path), address in listed))
    return functions


def _walk(root: HostRoot, collector: str) -> list[str]:
    """Folders of functions below the host bridges, which stand in sys/devices or below a platform device."""
    todo = [f"sys/devices/{name}" for name in root.names("sys/devices", collector, optional=True)
            if _BUS.fullmatch(name)]
    for name in root.names("sys/devices/platform", collector, optional=True):
        # Files stand beside the folders; only folders can hold a bus.
        todo += [f"sys/devices/platform/{name}/{bus}"
                 for bus in root.names(f"sys/devices/platform/{name}", collector, optional=True) if _BUS.fullmatch(bus)]
    found: list[str] = []
    while todo and len(found) <= MAX_FUNCTIONS:
        path = todo.pop()
        for name in root.names(path, collector):
            below = f"{path}/{name}"
            if ADDRESS.fullmatch(name):
                found.append(below)
                todo.append(below)
            elif _BUS.fullmatch(name):
                todo.append(below)
    return found


def _parent(path: str) -> str | None:
    above = path.split("/")[-2:-1]
    return above[0] if above and (ADDRESS.fullmatch(above[0]) or _BUS.fullmatch(above[0])) else None
