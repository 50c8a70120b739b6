"""Runs of windows in which rows were lost, as incidents of kind ``data_loss``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

KIND: Final = "data_loss"


@dataclass(slots=True)
class Loss:
    """A run of windows with loss; times in ns, ``share`` the largest of a window (0..1)."""

    start_ns: int
    end_ns: int
    dropped_rows: int = 0
    lost_rows: int = 0
    share: float = 0.0

    def row(self, host: str, revision: int, *, closed: bool) -> dict[str, Any]:
        """The incident as a row of its contract; open until ``closed``."""
        return {"host": host, "device": None, "kind": KIND, "start_ns": self.start_ns,
                "end_ns": self.end_ns if closed else None, "revision": revision,
                "severity": "critical" if self.share >= 0.5 else "warning",
                "evidence": json.dumps({**asdict(self), "share": round(self.share, 6)}, sort_keys=True)}


def loss_share(window: Mapping[str, Any]) -> float:
    """Share of the window's rows that is missing; time nobody observed is no loss."""
    missed = int(window["dropped_rows"]) + int(window["lost_rows"])
    return missed / (missed + int(window["received_rows"])) if missed else 0.0


@dataclass(slots=True)
class Watch:
    """One host's windows in order. ``through_ns``: end of the last window seen; ``revision`` of the last row."""

    through_ns: int = 0
    revision: int = 0
    loss: Loss | None = None

    def see(self, host: str, window: Mapping[str, Any], limit: float) -> list[dict[str, Any]]:
        """Incident rows that a window brings: one when a run begins, one when it is over.

        Every device of a host has the same counts: a window counts once. A window seen before that is written again
        changes nothing here, except that the newest one may begin a run.
        """
        start, end = int(window["window_start_ns"]), int(window["window_start_ns"]) + int(window["window_ns"])
        share = loss_share(window)
        again = end <= self.through_ns
        if again and (end < self.through_ns or self.loss is not None or share <= limit):
            return []
        self.through_ns, self.revision = end, max(self.revision, int(window["revision"]))
        rows = []
        if self.loss is not None and (share <= limit or start > self.loss.end_ns):
            rows.append(self.loss.row(host, self.revision, closed=True))
            self.loss = None
        if share > limit:
            begins = self.loss is None
            loss = self.loss or Loss(start, end)
            loss.end_ns, loss.share = end, max(loss.share, share)
            loss.dropped_rows += int(window["dropped_rows"])
            loss.lost_rows += int(window["lost_rows"])
            self.loss = loss
            if begins:
                rows.append(loss.row(host, self.revision, closed=False))
        return rows

    def finish(self, host: str) -> list[dict[str, Any]]:
        """The input is over: an open run ends with its last window."""
        if self.loss is None:
            return []
        row, self.loss = self.loss.row(host, self.revision + 1, closed=True), None
        return [row]
