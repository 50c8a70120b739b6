"""What falls short of its aim, as sentences with figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

AIMS: Final = {
    "host_device": {"p99_ns": 500.0, "bound_p50_ns": 1_000.0},
    "host_host": {"p99_ns": 3_000.0, "bound_p50_ns": 15_000.0},
}
"""Largest error (99th percentile) and bound (median) that clocks should have, in ns."""
INSIDE: Final = 0.9999
MACRO_F1: Final = 0.9
MISPLACED: Final = 0.05
_PAIR_WORDS: Final = {"host_device": "host to device", "host_host": "host to host", "loop": "loops"}
_AIM_WORDS: Final = {"p99_ns": "error p99", "bound_p50_ns": "bound p50"}


def shortfalls(scenarios: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """By scenario what is not as it should be; scenarios without any are left out."""
    found = {name: [*_rows(item), *_clocks(item), *_verdicts(item), *_incidents(item)]
             for name, item in scenarios.items()}
    return {name: lines for name, lines in found.items() if lines}


def accounted(events: Mapping[str, int]) -> int:
    """Rows whose fate the pipeline knows."""
    return sum(events[name] for name in ("stored", "dead_letter", "dropped_by_producer", "lost"))


def _rows(item: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"a run failed: {failure}" for failure in item["failures"])
    events = item["events"]
    if events["produced"] != accounted(events):
        yield f"{events['produced'] - accounted(events):,} of {events['produced']:,} rows are not accounted for"
    if events["duplicate"]:
        yield f"{events['duplicate']:,} rows are stored twice"


def _clocks(item: Mapping[str, Any]) -> Iterator[str]:
    for pair, words in _PAIR_WORDS.items():
        score = item["clocks"][pair]
        if score is None:
            continue
        for name, limit in AIMS.get(pair, {}).items():
            if score[name] > limit:
                yield f"{words}: {_AIM_WORDS[name]} {score[name] / 1000:.2f} µs (aim {limit / 1000:g} µs)"
        if score["bound_coverage"] < INSIDE:
            yield f"{words}: truth inside the bound {score['bound_coverage']:.3%} (aim {INSIDE:.2%})"
        if score["steps_true"] is not None and score["steps_found"] < score["steps_true"]:
            yield f"{words}: {score['steps_found']} of {score['steps_true']} clock steps found"
        if score["steps_false"]:
            yield f"{words}: {score['steps_false']} clock steps reported that were none"
    if item["inversions"]:
        yield f"{item['inversions']:,} causes placed after their effects beyond both bounds, unflagged"


def _verdicts(item: Mapping[str, Any]) -> Iterator[str]:
    score = item["bottleneck"]
    if score is None:
        return
    if score["macro_f1"] is not None and score["macro_f1"] < MACRO_F1:
        wrong = sorted(((count, true, given) for true, row in score["confusion"].items() for given, count in row.items()
                        if given != true), reverse=True)[:2]
        yield (f"macro-F1 {score['macro_f1']:.2f} (aim {MACRO_F1:g}): "
               + ", ".join(f"{true} called {given} in {count:,} windows" for count, true, given in wrong))
    if score["misplaced_share"] > MISPLACED:
        states = ", ".join(f"{name} {error:.1%}" for name, error in list(score["share_mae_by_state"].items())[:3])
        yield (f"{score['misplaced_share']:.1%} of the time is in a wrong state (aim {MISPLACED:.0%}); mean error: "
               f"{states}")
    if score["insufficient_data_wrong"]:
        yield f"{score['insufficient_data_wrong']:,} verdicts withheld although at least 95 % of the data was there"


def _incidents(item: Mapping[str, Any]) -> Iterator[str]:
    for kind, own in item["incidents"].items():
        if own["found"] < own["planted"]:
            yield f"incidents of {kind}: {own['found']} of {own['planted']} found"
        if own["right"] < own["reported"]:
            yield f"incidents of {kind}: {own['reported'] - own['right']} of {own['reported']} reported without cause"
