"""Whether the rows that a request counts on have reached the store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from fleetscope.store.abstract import Store
from processors.revise.asks import TABLES, Request

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Missing:
    """The first request that must wait, by its place in the list, and for what."""

    index: int
    what: str


@dataclass(frozen=True, slots=True)
class Landed:
    """Asks the store. Messages of a partition are stored in the order of their offsets, so one at or after the wanted
    offset says that all before it are there."""

    store: Store

    def first_missing(self, requests: Sequence[Request | None], *, final: bool) -> Missing | None:
        """The first of ``requests`` (of one partition) whose rows are not all stored; None: they all are.

        ``final``: later messages are stored and rows of the late one are still missing after the longest wait: they
        will not come (the writer lost the topic, or retention took them); the request goes on without, with a warning.
        """
        known = [request for request in requests if request is not None]
        reached = self._reached(known)
        stored = self._rows_of_causes(known, reached)
        for index, request in enumerate(requests):
            if request is None:
                continue
            for table, offset in request.needed.items():
                if reached.get(table, -1) < offset:
                    return Missing(index, f"{table} up to offset {offset} are")
            found = stored.get((request.table, request.cause), 0)
            if found < request.rows:
                what = f"{request.rows - found} of {request.rows} {request.table} rows of offset {request.cause} are"
                if not final:
                    return Missing(index, what)
                log.warning("window accounted for without late rows that are not stored",
                            extra={"unit": "revise", "host": request.host, "missing": what})
        return None

    def _reached(self, requests: Sequence[Request]) -> dict[str, int]:
        """The highest stored offset by table, as far as it matters."""
        reached: dict[str, int] = {}
        for table in TABLES:
            wanted = [request.needed[table] for request in requests if table in request.needed]
            if wanted:
                found = self.store.query(
                    f"SELECT max(input_offset) AS top, count() AS rows FROM {table} "
                    "WHERE input_partition = {partition:Int32} AND input_offset >= {low:Int64}",
                    {"partition": requests[0].partition, "low": min(wanted)}).to_pylist()[0]
                if found["rows"]:
                    reached[table] = found["top"]
        return reached

    def _rows_of_causes(self, requests: Sequence[Request], reached: dict[str, int]) -> dict[tuple[str, int], int]:
        """Rows stored of each message that came late: a block of several days may be there in part."""
        stored: dict[tuple[str, int], int] = {}
        for table in reached:
            causes = sorted({request.cause for request in requests if request.table == table})
            if causes:
                found = self.store.query(
                    f"SELECT input_offset, count() AS rows FROM {table} WHERE input_partition = {{partition:Int32}} "
                    "AND input_offset IN {causes:Array(Int64)} GROUP BY input_offset",
                    {"partition": requests[0].partition, "causes": causes}).to_pylist()
                stored |= {(table, row["input_offset"]): row["rows"] for row in found}
        return stored
