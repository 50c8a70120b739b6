"""The part of the demo's summary about this real host: shares and rates of its counters over the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from fleetscope.store.abstract import Store

_SQL: Final = """
SELECT counter, ifNull(instance, '') AS of, argMinIf(raw, time_ns, raw IS NOT NULL) AS first_raw,
       argMaxIf(raw, time_ns, raw IS NOT NULL) AS last_raw, argMaxIf(value, time_ns, value IS NOT NULL) AS last_value,
       (max(time_ns) - min(time_ns)) / 1e9 AS seconds, count() AS readings, max(utc_err_ns) AS utc_err
FROM counters WHERE host = {host:String} GROUP BY counter, of ORDER BY counter, of
"""
_MODES: Final = ("user", "nice", "system", "iowait", "irq", "softirq", "steal", "idle")
_GIB: Final = 1024**3


def host_table(store: Store, host: str) -> Table | None:
    """This host's readings as a table; None where none was stored."""
    frame = store.frame(_SQL, {"host": host})
    if frame.empty:
        return None
    readings = _Readings(frame)
    title = (f"This host, {host}: {int(frame['readings'].sum()):,} readings of {len(frame)} series over "
             f"{readings.seconds:.1f} s")
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in (*readings.cpu(), *readings.memory(), *readings.rates(), *readings.pressure()):
        table.add_row(name, value)
    bound = frame["utc_err"].dropna()
    if len(bound):
        table.add_row("its times against its own UTC clock", f"± {float(bound.max()) / 1000:,.1f} µs")
    return table


class _Readings:
    """First and last readings by (counter, instance)."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame.set_index(["counter", "of"]).sort_index()
        self.seconds = float(frame["seconds"].max())

    def _rows(self, counter: str) -> pd.DataFrame | None:
        if counter not in self._frame.index.get_level_values(0):
            return None
        return cast("pd.DataFrame", self._frame.xs(counter))

    def _grown(self, counter: str, instance: str | None = None) -> float | None:
        """How much a counter grew, over its instances or of one; None where it was not read twice."""
        rows = self._rows(counter)
        if rows is None or (instance is not None and instance not in rows.index):
            return None
        chosen = rows if instance is None else rows.loc[[instance]]
        grown = (chosen["last_raw"] - chosen["first_raw"]).dropna()
        return float(grown.sum()) if len(grown) else None

    def _gauge(self, counter: str, instance: str = "") -> float | None:
        rows = self._rows(counter)
        if rows is None or instance not in rows.index:
            return None
        value = rows.loc[[instance], "last_value"].dropna()
        return float(value.iloc[0]) if len(value) else None

    def cpu(self) -> list[tuple[str, str]]:
        """Shares of CPU time by mode; they add up to 100 %."""
        grown = {mode: self._grown(f"cpu_{mode}", "total") for mode in _MODES}
        total = sum(g for g in grown.values() if g)
        if not total:
            return []
        return [(f"CPU time, {mode}", f"{g / total:.1%}") for mode, g in grown.items() if g]

    def memory(self) -> list[tuple[str, str]]:
        """What is available of what there is."""
        free, total = self._gauge("memory_available"), self._gauge("memory_total")
        if free is None or total is None:
            return []
        return [("memory available", f"{free / _GIB:.2f} of {total / _GIB:.2f} GiB")]

    def rates(self) -> list[tuple[str, str]]:
        """Rates of what grows, over all instances."""
        shown = []
        for counter, name, unit, scale in (
            ("network_rx_bytes", "network received", "MB/s", 1e6), ("network_tx_bytes", "network sent", "MB/s", 1e6),
            ("disk_read_bytes", "disks read", "MB/s", 1e6), ("disk_write_bytes", "disks written", "MB/s", 1e6),
            ("interrupts_total", "interrupts", "/s", 1.0), ("context_switches", "context switches", "/s", 1.0),
            ("pci_aer_correctable", "PCIe errors, correctable", "/s", 1.0),
            ("agent_collect_us", "reading all this took", "% of a core", 1e4),
        ):
            grown = self._grown(counter)
            if grown is not None and self.seconds:
                shown.append((name, f"{grown / self.seconds / scale:,.2f} {unit}"))
        return shown

    def pressure(self) -> list[tuple[str, str]]:
        """Share of the time in which some task waited."""
        shown = []
        for what in ("cpu", "memory", "io"):
            grown = self._grown("pressure_some_us", what)
            if grown is not None and self.seconds:
                shown.append((f"tasks stalled by {what}", f"{grown / self.seconds / 1e6:.1%} of the time"))
        return shown
