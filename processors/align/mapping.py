"""Rows in ticks of a source clock to rows in fleet time. Pure and vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, record_batch
from fleetscope.contracts.codec import MAX_FLEET_NS
from fleetscope.contracts.derived import ALIGNMENTS
from processors.clocks.fixed import Ints
from processors.clocks.segments import NO_BOUND, Mapped, SegmentMap

_WORDS: Final = pa.array(ALIGNMENTS, pa.string())


@dataclass(frozen=True, slots=True)
class Route:
    """From a batch's clock to fleet time. ``local`` None: the rows are on the host's reference clock already.

    ``sent``: when the batch was sent, on the host's reference clock; its rows were stamped before.
    """

    local: SegmentMap | None
    fleet: SegmentMap
    sent: int | None = None

    def decided(self, t: int) -> bool:
        """True when the map of source tick ``t`` is decided on every hop."""
        if self.local is not None:
            if not self.local.decided(t, self.sent):
                return False
            t = self.forward(t)
        # A stamp from the future of its own batch is wrong: it must not keep others waiting.
        return self.fleet.decided(t if self.sent is None else min(t, self.sent))

    def forward(self, t: int) -> int:
        """Host time (ns) of source tick ``t``."""
        if self.local is None:
            return t
        return int(self.local.apply(_one(t), _one(t), self.sent).time[0])

    def fleet_time(self, t: int) -> int:
        """Fleet time of source tick ``t``."""
        host = self.forward(t)
        return int(self.fleet.apply(_one(host), _one(host)).time[0])

    def apply(self, times: Ints, ends: Ints) -> Mapped:
        """Fleet time of both arrays; bounds of the hops add up (and 1 ns for each rounding)."""
        if self.local is None:
            return self.fleet.apply(times, ends)
        near = self.local.apply(times, ends, self.sent)
        far = self.fleet.apply(near.time, near.end)
        missing = (near.err_ns == NO_BOUND) | (far.err_ns == NO_BOUND)
        no_utc = (near.err_ns == NO_BOUND) | (far.utc_err_ns == NO_BOUND)
        return Mapped(far.time, far.end, np.where(missing, NO_BOUND, near.err_ns + far.err_ns + 1),
                      np.where(no_utc, NO_BOUND, near.err_ns + far.utc_err_ns + 1), np.maximum(near.state, far.state))


def _one(t: int) -> Ints:
    return np.array([t], np.int64)


def aligned(batch: Batch, route: Route) -> pa.RecordBatch:
    """The rows of the batch's aligned contract: the raw columns, fleet time, bounds and state."""
    raw, target = CONTRACTS[batch.header.contract], CONTRACTS[f"aligned_{batch.header.contract}"]
    columns = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
    starts = columns[str(raw.time_column)].to_numpy()
    ends = starts + columns[raw.duration_column].to_numpy() if raw.duration_column else starts
    mapped = route.apply(starts, ends)
    columns[str(target.time_column)] = pa.array(_possible(mapped, route))
    if target.duration_column:
        columns[target.duration_column] = pa.array(np.maximum(mapped.end - mapped.time, 0))
    columns["err_ns"] = _bound(mapped.err_ns)
    columns["utc_err_ns"] = _bound(mapped.utc_err_ns)
    columns["alignment"] = pa.DictionaryArray.from_arrays(pa.array(mapped.state.astype(np.int32)), _WORDS)
    return record_batch(target, columns, len(batch))


def _possible(mapped: Mapped, route: Route) -> Ints:
    """Fleet times; those without a bound, which may be absurd, are kept between 0 and when the batch was sent."""
    unsure = mapped.err_ns == NO_BOUND
    if not unsure.any():
        return mapped.time
    latest = MAX_FLEET_NS if route.sent is None else int(route.fleet.apply(_one(route.sent), _one(route.sent)).time[0])
    return np.where(unsure, np.clip(mapped.time, 0, max(latest, 0)), mapped.time)


def _bound(values: Ints) -> pa.Array:
    missing = values == NO_BOUND
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)
