"""Pools the scores of many runs into figures by scenario and over everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.accuracy.runs import Outcome
from simulator.grading.verdicts import score

COUNTS: Final = ("produced", "stored", "late", "dead_letter", "dropped_by_producer", "lost", "redelivered", "duplicate")
PAIRS: Final = ("host_device", "host_host", "loop")
STEPS: Final = ("steps_true", "steps_found", "steps_false")
_LARGEST: Final = ("p99_ns", "max_ns", "bound_p50_ns", "bound_p99_ns", "gap_share")


def by_scenario(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """``pooled`` of each scenario's runs, in order of name, with its seeds and what failed."""
    result = {}
    for name in sorted({outcome.run.scenario for outcome in outcomes}):
        own = [outcome for outcome in outcomes if outcome.run.scenario == name]
        result[name] = {
            "seeds": [outcome.run.seed for outcome in own],
            "failures": [f"seed {outcome.run.seed}: {outcome.error}" for outcome in own if outcome.error],
            **pooled([outcome.document for outcome in own if outcome.document is not None])}
    return result


def pooled(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts are summed, clocks are the worst run's, verdict scores come of all windows together."""
    return {
        "runs": len(documents),
        "events": {name: sum(document["events"][name] or 0 for document in documents) for name in COUNTS},
        "clocks": {pair: _clock([document["clocks"][pair] for document in documents]) for pair in PAIRS},
        "inversions": sum(document["clocks"]["causality_inversions_unflagged"] for document in documents),
        "bottleneck": _bottleneck([document["bottleneck"] for document in documents if document["bottleneck"]]),
        "incidents": _incidents(document["incidents"] or {} for document in documents),
        "regressions": _sum(document["regressions"] for document in documents if document["regressions"]),
        "events_per_s": [document["events_per_s"] for document in documents],
        "peak_rss_mb": max((document["peak_rss_mb"] for document in documents), default=None),
        "notes": sorted({note for document in documents for note in document.get("notes", ())}),
    }


def _clock(scores: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The worst of each figure; steps are summed."""
    known = [score for score in scores if score and score["p50_ns"] is not None]
    if not known:
        return None
    worst: dict[str, Any] = {name: max(score[name] for score in known) for name in ("p50_ns", *_LARGEST)}
    worst["bound_coverage"] = min(score["bound_coverage"] for score in known)
    return {**worst, **{name: None if known[0][name] is None else sum(score[name] for score in known)
                        for name in STEPS}}


def _bottleneck(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not scores:
        return None
    pairs = confusion_pairs(score["confusion"] for score in scores)
    found = score(pairs)
    windows = sum(item["windows"] for item in scores)
    states: Counter[str] = Counter()
    for item in scores:
        for state, error in item["share_mae_by_state"].items():
            states[state] += error * item["windows"] / max(windows, 1)
    return {
        "macro_f1": found.macro_f1, "accuracy": found.accuracy, "confusion": found.confusion,
        "per_cause": found.per_cause, "windows": windows,
        **{name: sum(item[name] for item in scores)
           for name in ("insufficient_data", "insufficient_data_wrong", "low_coverage")},
        **{name: sum((item[name] or 0.0) * item["windows"] for item in scores) / max(windows, 1)
           for name in ("share_mae", "misplaced_share")},
        "share_mae_by_state": dict(sorted(states.items(), key=lambda item: -item[1])),
    }


def confusion_pairs(confusions: Iterable[Mapping[str, Mapping[str, int]]]) -> Counter[tuple[str, str]]:
    """All counted (true, given)."""
    pairs: Counter[tuple[str, str]] = Counter()
    for confusion in confusions:
        for true, given in confusion.items():
            for answer, count in given.items():
                pairs[true, answer] += count
    return pairs


def _incidents(scores: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Counts are summed; the delay is the median of the runs' medians."""
    counts: dict[str, Counter[str]] = {}
    delays: dict[str, list[float]] = {}
    for kinds in scores:
        for kind, item in kinds.items():
            counts.setdefault(kind, Counter()).update({name: item[name] for name in _INCIDENT_COUNTS})
            delays.setdefault(kind, []).extend([item["median_delay_s"]] if item["median_delay_s"] is not None else [])
    return {kind: {
        **{name: own[name] for name in _INCIDENT_COUNTS},
        "precision": own["right"] / own["reported"] if own["reported"] else None,
        "recall": own["found"] / own["planted"] if own["planted"] else None,
        "median_delay_s": sorted(delays[kind])[len(delays[kind]) // 2] if delays[kind] else None,
    } for kind, own in sorted(counts.items())}


_INCIDENT_COUNTS: Final = ("planted", "found", "reported", "right")


def _sum(scores: Iterable[Mapping[str, int | None]]) -> dict[str, int | None] | None:
    total: dict[str, int | None] | None = None
    for item in scores:
        if total is None:
            total = dict(item)
            continue
        for name, value in item.items():
            known = total[name]
            total[name] = None if known is None or value is None else known + value
    return total
