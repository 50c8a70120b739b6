"""What the inventory says of a host's devices, as far as accounting needs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fleetscope.contracts.batch import Batch
from processors.windows.pcie import DEFAULT_MPS_BYTES, Link
from processors.windows.works import Peaks

Entry = tuple[int, str, str, str, float]
"""time_ns, kind, device, attribute, number (0 where it is not one). Of kind ``parent``: a component and what it hangs
on in place of the attribute."""

_NO_ENGINE: Final = frozenset({"", "flops_per_s", "achievable"})
"""What is left of the names of the device's own peak."""
_KINDS: Final = ("device", "link", "peak")


def entries(batch: Batch) -> Iterator[Entry]:
    """Rows of kinds device, link and peak; the device of a link is its parent, else the first part of its name."""
    columns = [batch.rows.column(name).to_pylist()
               for name in ("time_ns", "kind", "component", "parent", "attribute", "number")]
    for time_ns, kind, component, parent, attribute, number in zip(*columns, strict=True):
        if kind not in _KINDS:
            continue
        if parent and kind != "peak" and "/" not in component:
            yield time_ns, "parent", component, parent, 0.0
        if kind != "device" and number is None:
            continue
        device = (parent or component.split("/")[0]) if kind == "link" else component
        yield time_ns, kind, device, attribute, 0.0 if number is None else float(number)


@dataclass(slots=True)
class Device:
    """One device; ``job`` and ``rank`` are those of its latest work."""

    job: str | None = None
    rank: int | None = None


@dataclass(slots=True)
class Inventory:
    """Devices of a host, and by device and ``kind.attribute`` numbers and the times (ns) since which they hold."""

    devices: dict[str, Device] = field(default_factory=dict)
    numbers: dict[str, dict[str, float]] = field(default_factory=dict)
    since: dict[str, dict[str, int]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    """What a device, port or switch hangs on."""

    def apply(self, entry: Entry) -> None:
        """Take one row; one of a later time replaces an earlier one, in whatever order they come."""
        time_ns, kind, device, attribute, number = entry
        if kind == "parent":
            if time_ns >= self.since.setdefault(device, {}).get("parent", time_ns):
                self.since[device]["parent"] = time_ns
                self.parents[device] = attribute
            return
        if kind == "device":
            self.devices.setdefault(device, Device())
            if attribute != "clock_mhz":
                return
        name, since = f"{kind}.{attribute}", self.since.setdefault(device, {})
        if time_ns >= since.get(name, time_ns):
            since[name] = time_ns
            self.numbers.setdefault(device, {})[name] = number

    def path(self, device: str) -> frozenset[str]:
        """Ports and switches between a device and its node of the processor; empty where that is not known."""
        found: list[str] = []
        at = self.parents.get(device)
        while at is not None and at in self.parents and at not in found:
            found.append(at)
            at = self.parents[at]
        return frozenset(found)

    def full_mhz(self, device: str) -> float | None:
        """Full clock of a device's engines."""
        return self.numbers.get(device, {}).get("device.clock_mhz") or None

    def engine_peaks(self, device: str) -> dict[str, float]:
        """flop/s by track, of engines with a peak of their own (``<engine>_flops_per_s``)."""
        known = self.numbers.get(device, {})
        names = {name.removeprefix("peak.").removeprefix("achievable_").removesuffix("_flops_per_s")
                 for name in known if name.startswith("peak.") and name.endswith("_flops_per_s")}
        found = {f"engine:{name}": _peak(known, f"{name}_flops_per_s") for name in names if name not in _NO_ENGINE}
        return {track: rate for track, rate in found.items() if rate}

    def peaks(self, device: str) -> Peaks:
        """What the device can reach. A transfer ceiling stated as a peak wins over the formula of the link."""
        known = self.numbers.get(device, {})
        link = None
        if "link.speed_gt_s" in known and "link.width_lanes" in known:
            link = Link(known["link.speed_gt_s"], known["link.width_lanes"],
                        known.get("link.mps_bytes") or DEFAULT_MPS_BYTES)
        return Peaks(
            _peak(known, "flops_per_s"), _peak(known, "memory_bytes_per_s"), _peak(known, "bus_bytes_per_s"),
            _peak(known, "h2d_bytes_per_s") or (link.effective_bytes_per_s("h2d") if link else None),
            _peak(known, "d2h_bytes_per_s") or (link.effective_bytes_per_s("d2h") if link else None))


def _peak(known: dict[str, float], attribute: str) -> float | None:
    """What is achievable in practice where that is stated, else the nominal peak."""
    return known.get(f"peak.achievable_{attribute}") or known.get(f"peak.{attribute}") or None
