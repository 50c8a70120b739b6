"""Rows in ticks of a source clock to rows in fleet time. Pure and vectorised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, record_batch
from fleetscope.contracts.codec import MAX_FLEET_NS
from fleetscope.contracts.derived import ALIGNMENTS
from processors.align.readings import judged
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
        return self.local.time_of(t, self.sent)

    def fleet_time(self, t: int) -> int:
        """Fleet time of source tick ``t``."""
        return self.fleet.time_of(self.forward(t))

    def latest(self) -> int:
        """The fleet time after which no row of the batch can lie: when it was sent, where that is known."""
        if self.sent is None:
            return MAX_FLEET_NS
        return max(self.fleet.time_of(self.sent), 0)

    def maps_as(self, other: Route) -> bool:
        """True where rows of both routes may be mapped at once: the same maps, and none that asks when a row was
        sent."""
        return (self.local is other.local and self.fleet is other.fleet
                and (self.sent == other.sent or self.local is None or self.local.is_one_run()))

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


def aligned(pieces: Sequence[tuple[Batch, Route]]) -> pa.RecordBatch:
    """The rows of batches of one contract, one after the other, as rows of its aligned contract: the raw columns, fleet
    time, bounds and state."""
    contract = pieces[0][0].header.contract
    raw, target = CONTRACTS[contract], CONTRACTS[f"aligned_{contract}"]
    rows = pieces[0][0].rows if len(pieces) == 1 else pa.concat_batches([batch.rows for batch, _ in pieces])
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    if contract == "counters":
        columns |= judged(columns)
    starts = columns[str(raw.time_column)].to_numpy()
    ends = starts + columns[raw.duration_column].to_numpy() if raw.duration_column else starts
    mapped = _mapped(pieces, starts, ends)
    columns[str(target.time_column)] = pa.array(mapped.time)
    if target.duration_column:
        columns[target.duration_column] = pa.array(np.maximum(mapped.end - mapped.time, 0))
    columns["err_ns"] = _bound(mapped.err_ns)
    columns["utc_err_ns"] = _bound(mapped.utc_err_ns)
    columns["alignment"] = pa.DictionaryArray.from_arrays(pa.array(mapped.state.astype(np.int32)), _WORDS)
    return record_batch(target, columns, rows.num_rows)


def _mapped(pieces: Sequence[tuple[Batch, Route]], starts: Ints, ends: Ints) -> Mapped:
    """All rows mapped by the routes of their batches; neighbours that share a map are mapped at once."""
    found: list[Mapped] = []
    at = 0
    for group in _groups(pieces):
        stop = at + sum(len(batch) for batch, _ in group)
        mapped = group[0][1].apply(starts[at:stop], ends[at:stop])
        found.append(_possible(mapped, group))
        at = stop
    if len(found) == 1:
        return found[0]
    return Mapped(*(np.concatenate([getattr(m, name) for m in found]) for name in Mapped.__dataclass_fields__))


def _groups(pieces: Sequence[tuple[Batch, Route]]) -> list[list[tuple[Batch, Route]]]:
    groups: list[list[tuple[Batch, Route]]] = []
    for piece in pieces:
        if groups and piece[1].maps_as(groups[-1][0][1]):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _possible(mapped: Mapped, group: Sequence[tuple[Batch, Route]]) -> Mapped:
    """Fleet times without a bound may be absurd: they are kept between 0 and when their batch was sent."""
    unsure = mapped.err_ns == NO_BOUND
    if not unsure.any():
        return mapped
    latest = np.concatenate([np.full(len(batch), route.latest(), np.int64) for batch, route in group])
    time = np.where(unsure, np.clip(mapped.time, 0, latest), mapped.time)
    return replace(mapped, time=time, end=time + (mapped.end - mapped.time))


def _bound(values: Ints) -> pa.Array:
    missing = values == NO_BOUND
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)
