"""What the inventory said of a host's devices, by time: kinds and peaks. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleetscope.contracts.batch import Batch
from processors.windows.inventory import Entry, Inventory, entries


@dataclass(slots=True)
class Devices:
    """``kinds``: (time, kind) of each device; ``facts``: entries of the inventory where they say something new."""

    kinds: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    facts: list[Entry] = field(default_factory=list)

    def take(self, batch: Batch) -> None:
        """Rows of the contract aligned_inventory."""
        known = {fact[1:4]: fact[4] for fact in self.facts}
        for entry in entries(batch):
            if known.get(entry[1:4]) != entry[4]:
                known[entry[1:4]] = entry[4]
                self.facts.append(entry)
        names = ("time_ns", "kind", "component", "attribute", "text")
        for time_ns, kind, device, attribute, text in zip(*(batch.rows.column(n).to_pylist() for n in names),
                                                          strict=True):
            if kind == "device" and attribute == "kind" and text:
                told = self.kinds.setdefault(device, [])
                if not told or told[-1][1] != text:
                    told.append((time_ns, text))

    def kind(self, device: str, before_ns: int) -> str | None:
        """The kind of a device as it was told last before a time."""
        return next((text for time_ns, text in reversed(self.kinds.get(device, [])) if time_ns < before_ns), None)

    def inventory(self, before_ns: int) -> Inventory:
        """What held before a time."""
        found = Inventory()
        for fact in self.facts:
            if fact[0] < before_ns:
                found.apply(fact)
        return found

    def plain(self) -> list[Any]:
        """As JSON takes it."""
        return [dict(sorted(self.kinds.items())), self.facts]

    @classmethod
    def of(cls, plain: list[Any]) -> Devices:
        """Of ``plain``."""
        kinds, facts = plain
        return cls({device: [(time, text) for time, text in told] for device, told in kinds.items()},
                   [(time, kind, device, attribute, number) for time, kind, device, attribute, number in facts])
