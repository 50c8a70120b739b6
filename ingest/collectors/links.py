"""How the exchanges with other hosts go, from the prober's own counts."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.links.prober import Prober
from ingest.reading import Fact, Reading, count, gauge

_COUNTED: Final = counters.LINKS[:6]
_RTT_MIN, _RTT_MEDIAN, _PACKETS = counters.LINKS[6:]
_PREFIX: Final = "peer_probes_"


class Links:
    """Of the prober that runs beside the agent."""

    name = "links"
    descriptors = counters.LINKS

    def __init__(self, prober: Prober) -> None:
        self._prober = prober

    def collect(self, root: HostRoot) -> list[Reading]:
        """Round trips are missing until the first exchange; a prober that ended by itself is counted every time."""
        if self._prober.failure is not None:
            root.note(self.name, "io_error", self._prober.failure)
        readings = [count(self.name, _PACKETS, total, reason) for reason, total in self._prober.counts().items()]
        for peer in self._prober.report():
            host = peer["host"]
            readings += [count(self.name, c, peer[c.name.removeprefix(_PREFIX)], host) for c in _COUNTED]
            readings += [gauge(self.name, c, None if peer[key] is None else peer[key] / 1000, host)
                         for c, key in ((_RTT_MIN, "rtt_min_ns"), (_RTT_MEDIAN, "rtt_median_ns"))]
        return readings

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Whom this host asks."""
        return [Fact("link", f"peer/{peer['host']}", "address", text=peer["address"])
                for peer in self._prober.report()]
