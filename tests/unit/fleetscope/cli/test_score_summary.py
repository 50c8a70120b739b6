"""What `fleetscope score` tells people: every figure of the document with its unit."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from fleetscope.cli.score_summary import print_score
from tests.unit.simulator.fleets import config

CLOCK = {"p50_ns": 110.0, "p99_ns": 1_230.0, "max_ns": 2_000, "bound_p50_ns": 600.0, "bound_p99_ns": 700.0,
         "bound_coverage": 0.99987, "gap_share": 0.015, "steps_true": 3, "steps_found": 2, "steps_false": 1}
COUNTS = {"produced": 1_234_567, "stored": 1_234_560, "late": 1, "dead_letter": 3, "dropped_by_producer": 2, "lost": 2,
          "redelivered": 40, "duplicate": 0}
DOCUMENT: dict[str, Any] = {
    "events": COUNTS, "rows_by_contract": {"spans": COUNTS, "clock_samples": {**COUNTS, "stored": None}},
    "clocks": {"host_device": CLOCK, "host_host": CLOCK, "loop": None, "causality_inversions_unflagged": 17},
    "bottleneck": {"macro_f1": 0.8765, "accuracy": 0.912, "windows": 123, "insufficient_data": 9,
                   "insufficient_data_wrong": 4, "low_coverage": 5, "share_mae": 0.0123, "misplaced_share": 0.0456,
                   "share_mae_by_state": {"host": 0.031, "latency": 0.002},
                   "confusion": {"host": {"host": 60, "latency": 7, "mixed": 2}},
                   "per_cause": {"host": {"windows": 69, "precision": 1.0, "recall": 0.8696, "f1": 0.93}}},
    "incidents": {"throttling": {"planted": 4, "found": 3, "reported": 5, "right": 3, "precision": 0.6, "recall": 0.75,
                                 "median_delay_s": 1.25}},
    "regressions": None, "events_per_s": 98_765, "wall_s": 12.5, "peak_rss_mb": 456.0, "notes": ["regressions: none"],
}


def told(document: dict[str, Any], failures: list[str] | None = None) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_score(console, config(), document, failures or [])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_section_is_told_with_units() -> None:
    text = told(DOCUMENT)
    for words in ("scenario serving, seed 5, 2 hosts × 2 devices, 2 s", "1,234,567", "98,765 events/s", "456 MB",
                  "1.23", "(µs)", "99.987%", "1.50%", "2 of 3, 1 false", "not flagged: 17",
                  "macro-F1 0.876", "withheld 9, of them wrongly 4", "1.23% of a state, 4.56% of", "host 3.10%",
                  "latency 7, mixed 2", "throttling", "median", "1.25", "note: regressions: none"):
        assert words in text, words


def test_rows_that_end_elsewhere_are_left_out() -> None:
    assert "clock_samples" not in told(DOCUMENT)


def test_a_document_without_true_causes_or_incidents_is_told_too() -> None:
    text = told({**DOCUMENT, "bottleneck": None, "incidents": {}}, ["7 rows are stored twice"])
    assert "macro-F1" not in text
    assert "not right: 7 rows are stored twice" in text
