"""The step that flags what happened in the wrong order: aligned spans in, `causality_violations` out.

A row is kept as long as its partner can still come, by the host's watermark: a cause until the watermark has passed it
(every earlier effect is there then), an effect ``reach_s`` longer. Which rows wait follows from the rows and from the
watermark of the last look alone; after a restart they are read again. A violation that is found again is the same row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import CAUSALITY_VIOLATIONS
from fleetscope.contracts.topics import ALIGNED_TOPICS, CAUSALITY_TOPIC
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.causality.events import RULES, Events, Rule, Sides, Source, joined, none, read, violations

VERSION: Final = 1
NS: Final = 1_000_000_000
CLOSED: Final = 1 << 62
"""The watermark of a host that sends no more."""
MAX_FLAGGED: Final = 20_000
"""Of one rule, host and look: a clock that is wrong altogether must not write a row for everything it stamps."""
_NEVER: Final = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Kept:
    """Events of one message that wait, the rows they are of, and where it stood."""

    sides: dict[Rule, Sides]
    source: Source
    at: TopicPartition | None
    offset: int

    def after(self, watermark_ns: int, reach_ns: int) -> Kept | None:
        """What a look at ``watermark_ns`` leaves waiting."""
        left = {rule: Sides(s.causes.take(s.causes.time > watermark_ns),
                            s.effects.take(s.effects.time + reach_ns > watermark_ns))
                for rule, s in self.sides.items()}
        return replace(self, sides=left) if any(len(s.causes) or len(s.effects) for s in left.values()) else None


@dataclass(slots=True)
class Host:
    """One host: rows that wait, its watermark, and that of the last look."""

    kept: list[Kept] = field(default_factory=list)
    watermark_ns: int = _NEVER
    looked_ns: int = _NEVER
    sequence: int = 0


State = dict[str, Host]


@dataclass(frozen=True)
class CausalityStep:
    """``every_s``: event time between two looks; ``reach_s``: the largest inversion that is looked for. Correlation
    ids that a process uses again sooner than that would be taken for one."""

    every_s: float = 1.0
    reach_s: float = 2.0

    name: ClassVar[str] = "causality"
    inputs: ClassVar[tuple[str, ...]] = (ALIGNED_TOPICS["aligned_spans"].name,)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """No host yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Keep the rows; look when the host's event time has moved on."""
        host = state.setdefault(batch.header.host, Host())
        if len(batch):
            self._keep(host, batch)
        watermark = batch.header.watermark_ns
        if watermark is None:
            return state, []
        if watermark >= CLOSED:
            outputs = self._look(batch.header.host, host)
            host.kept.clear()
            return state, outputs
        host.watermark_ns = max(host.watermark_ns, watermark)
        every = round(self.every_s * NS)
        if host.watermark_ns // every <= host.looked_ns // every:
            return state, []
        outputs = self._look(batch.header.host, host)
        host.looked_ns = host.watermark_ns
        left = (kept.after(host.looked_ns, self._reach_ns) for kept in host.kept)
        host.kept = [kept for kept in left if kept is not None]
        return state, outputs

    def on_end(self, state: State) -> list[Output]:
        """Look at what waits."""
        return [output for name, host in sorted(state.items()) for output in self._look(name, host)]

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Of each partition the message of the oldest row that waits."""
        held: dict[TopicPartition, int] = {}
        for host in state.values():
            for kept in host.kept:
                if kept.at is not None:
                    held[kept.at] = min(kept.offset, held.get(kept.at, kept.offset))
        return held

    def snapshot(self, state: State) -> bytes:
        """Watermarks; rows are read again."""
        return dump(self.name, VERSION, {name: [h.watermark_ns, h.looked_ns, h.sequence] for name, h in state.items()})

    def restore(self, data: bytes) -> State:
        """Raises ValueError for bytes of another step or version."""
        return {name: Host([], *numbers) for name, numbers in load(data, self.name, VERSION).items()}

    @property
    def _reach_ns(self) -> int:
        return round(self.reach_s * NS)

    def _keep(self, host: Host, batch: Batch) -> None:
        sides, source = read(batch)
        origin = batch.origin
        at = TopicPartition(origin.topic, origin.partition) if origin else None
        kept = Kept(sides, source, at, origin.offset if origin else 0).after(host.looked_ns, self._reach_ns)
        if kept is not None:
            host.kept.append(kept)

    def _look(self, name: str, host: Host) -> list[Output]:
        rows = [row for rule in RULES for row in self._found(host, rule)]
        if not rows:
            return []
        times = [int(row["time_ns"]) for row in rows]
        header = Header(CAUSALITY_VIOLATIONS.name, CAUSALITY_VIOLATIONS.version, name, "causality", 0, host.sequence,
                        len(rows), min_time=min(times), max_time=max(times))
        host.sequence += 1
        made = from_rows(CAUSALITY_VIOLATIONS, [{"host": name, **row} for row in rows])
        return [Output(CAUSALITY_TOPIC.name, Batch(header, made))]

    def _found(self, host: Host, rule: Rule) -> list[dict[str, Any]]:
        """Rows of one rule, each once, earliest effects first."""
        causes = _numbered([kept.sides[rule].causes for kept in host.kept])
        effects = _numbered([kept.sides[rule].effects for kept in host.kept])
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cause, effect in violations(Sides(causes, effects)):
            if int(causes.time[cause] - effects.time[effect]) > self._reach_ns:
                continue
            row = _row(rule, _told(host, causes, cause), _told(host, effects, effect))
            rows[_identity(row)] = row
        chosen = sorted(rows.items(), key=lambda item: (item[1]["time_ns"], repr(item[0])))
        return [row for _, row in chosen[:MAX_FLAGGED]]


def _numbered(parts: list[Events]) -> Events:
    """Joined, each event with the place of its message among the kept ones."""
    return joined([replace(part, source=np.full(len(part), place, np.int64)) for place, part in enumerate(parts)
                   if len(part)] or [none()])


def _told(host: Host, events: Events, index: int) -> dict[str, Any]:
    """All that a row says of one of its events."""
    source = host.kept[int(events.source[index])].source
    return {"time_ns": int(events.time[index]), "err_ns": int(events.err[index]), "process": int(events.process[index]),
            "id": int(events.id[index]), **source.identity(int(events.row[index]))}


def _row(rule: Rule, cause: dict[str, Any], effect: dict[str, Any]) -> dict[str, Any]:
    inversion = cause["time_ns"] - effect["time_ns"]
    sides = {f"{side}_{name}": event[name] for side, event in (("cause", cause), ("effect", effect))
             for name in ("clock", "device", "track", "name", "time_ns", "err_ns", "producer", "epoch", "sequence",
                          "row")}
    return {"rule": rule, "time_ns": effect["time_ns"], "process_id": cause["process"], "correlation_id": cause["id"],
            "inversion_ns": inversion, "beyond_ns": inversion - cause["err_ns"] - effect["err_ns"], **sides}


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[f"{side}_{name}"] for side in ("cause", "effect") for name in ("producer", "epoch", "sequence",
                                                                                    "row"))
