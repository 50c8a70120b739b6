"""The `score` document for people: tables with units. Draws what was graded; computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from views.grid import Head, show

if TYPE_CHECKING:
    from simulator.fleet import FleetConfig

_COUNTS: Final = (("produced", "produced"), ("stored", "stored"), ("dead_letter", "dead letters"),
                  ("dropped_by_producer", "dropped at source"), ("lost", "lost"), ("redelivered", "repeated"),
                  ("late", "late"), ("duplicate", "stored twice"))
_PAIRS: Final = (("host_device", "host to device"), ("host_host", "host to host"), ("loop", "loops of three"))
_ERRORS: Final = ("p50_ns", "p99_ns", "max_ns", "bound_p50_ns", "bound_p99_ns")
_STATES_SHOWN: Final = 6


def print_score(to: Console, config: FleetConfig, document: Mapping[str, Any], failures: Sequence[str]) -> None:
    """The whole summary; ``failures`` are why the exit code is 1."""
    to.print(f"fleetscope score: scenario {config.scenario.name}, seed {config.seed}, {config.hosts} hosts × "
             f"{config.devices} devices, {config.seconds:g} s", markup=False, style="bold", soft_wrap=True)
    to.print(f"{document['events']['produced']:,} span events in {document['wall_s']:.1f} s with simulation and start: "
             f"{document['events_per_s']:,} events/s, at most {document['peak_rss_mb']:,.0f} MB\n", soft_wrap=True)
    _events(to, document["rows_by_contract"])
    _clocks(to, document["clocks"])
    _bottleneck(to, document["bottleneck"])
    _incidents(to, document["incidents"])
    for note in document["notes"]:
        to.print(f"note: {note}", markup=False, soft_wrap=True)
    for failure in failures:
        to.print(f"not right: {failure}", markup=False, style="bold red", soft_wrap=True)


def _events(to: Console, contracts: Mapping[str, Mapping[str, int | None]]) -> None:
    rows = [[name, *(_count(counts[key]) for key, _ in _COUNTS)] for name, counts in contracts.items()
            if counts["produced"] and counts["stored"] is not None]
    show(to, [Head("rows of"), *(Head(words, number=True) for _, words in _COUNTS)], rows,
         title="Rows: produced = stored + dead letters + dropped at source + lost")
    to.print()


def _clocks(to: Console, clocks: Mapping[str, Any]) -> None:
    rows = []
    for key, words in _PAIRS:
        score = clocks.get(key)
        if not score or score.get("p50_ns") is None:
            continue
        steps = "–" if score["steps_true"] is None else \
            f"{score['steps_found']} of {score['steps_true']}, {score['steps_false']} false"
        rows.append([words, *(f"{score[name] / 1000:.2f}" for name in _ERRORS), f"{score['bound_coverage']:.3%}",
                     f"{score['gap_share']:.2%}", steps])
    heads = [Head("pair"), *(Head(words, number=True) for words in (
        "error p50", "p99", "max", "bound p50", "bound p99", "truth inside", "no bound"))]
    show(to, [*heads, Head("steps found")], rows, title="Clock error against truth, and the bound stated (µs)",
         caption="causes placed after their effects beyond both bounds and not flagged: "
                 f"{clocks['causality_inversions_unflagged']:,}")
    to.print()


def _bottleneck(to: Console, score: Mapping[str, Any] | None) -> None:
    if score is None:
        return
    worst = sorted(score["share_mae_by_state"].items(), key=lambda item: -item[1])[:_STATES_SHOWN]
    to.print(f"Verdicts: {score['windows']:,} windows of devices, macro-F1 {_figure(score['macro_f1'])}, accuracy "
             f"{_figure(score['accuracy'])}; withheld {score['insufficient_data']:,}, of them wrongly "
             f"{score['insufficient_data_wrong']:,}", style="bold", soft_wrap=True)
    to.print(f"Shares: mean error {_percent(score['share_mae'])} of a state, {_percent(score['misplaced_share'])} of "
             "the time in a wrong state; largest errors: "
             + ", ".join(f"{name} {_percent(error)}" for name, error in worst), soft_wrap=True)
    rows = []
    for true, given in score["confusion"].items():
        own = score["per_cause"][true]
        wrong = sorted(((n, name) for name, n in given.items() if name != true), reverse=True)
        rows.append([true, f"{own['windows']:,}", _figure(own["precision"]), _figure(own["recall"]), _figure(own["f1"]),
                     ", ".join(f"{name} {n:,}" for n, name in wrong)])
    show(to, [Head("true cause"), *(Head(words, number=True) for words in ("windows", "precision", "recall", "F1")),
              Head("else called")], rows)
    to.print()


def _incidents(to: Console, kinds: Mapping[str, Mapping[str, Any]]) -> None:
    if not kinds:
        return
    rows = [[kind, f"{score['planted']:,}", f"{score['found']:,}", f"{score['reported']:,}",
             _figure(score["precision"]), _figure(score["recall"]), _figure(score["median_delay_s"])]
            for kind, score in kinds.items()]
    show(to, [Head("incident"), *(Head(words, number=True) for words in (
        "planted", "found", "reported", "precision", "recall", "median delay s"))], rows, title="Incidents")
    to.print()


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"
