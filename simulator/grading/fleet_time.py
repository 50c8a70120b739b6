"""From true time to fleet time as the pipeline published it: the stored map of a host's reference clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetscope.store.abstract import Store
from simulator.clocks import Clock, Ints
from simulator.fleet import FleetConfig
from simulator.segments import UNBOUNDED, FleetMap, fleet_map


@dataclass(frozen=True, slots=True)
class HostTime:
    """One host. Where no stored piece with a bound holds, the offset is carried over from the nearest that do."""

    clock: Clock
    pieces: FleetMap
    start_unix_ns: int

    def at(self, true_ns: Ints) -> Ints:
        """Fleet time (ns since 1970) of true times in ascending order; never decreasing."""
        mapped = self.pieces.apply(self.clock.read(true_ns))
        sure = mapped.known & (mapped.err_ns != UNBOUNDED)
        if not sure.any():
            return true_ns + self.start_unix_ns
        away = (mapped.fleet_ns - true_ns)[sure]
        base = int(away[0])
        rest = np.interp(true_ns, true_ns[sure], (away - base).astype(np.float64))
        filled = true_ns + base + np.round(rest).astype(np.int64)
        return np.asarray(np.maximum.accumulate(np.where(sure, mapped.fleet_ns, filled)))


def host_times(store: Store, config: FleetConfig) -> dict[str, HostTime]:
    """By host name."""
    return {host: HostTime(config.clocks(index).raw, fleet_map(store, host), config.start_unix_ns)
            for index, host in enumerate(config.host_names)}
