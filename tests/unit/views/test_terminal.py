"""The report on a terminal: what people read of rows."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from views.terminal import Report, show

S = 10**9
OVERVIEW = {"begin_ns": 0, "end_ns": 60 * S, "windows": 60, "hosts": 1, "devices": 1, "jobs": 1,
            "device_time_ns": 60 * S, "coverage": 1.0, "coverage_min": 0.98}
NOTHING = {"windows": 0}


def state(name: str, time_ns: int, job: str | None = "llm") -> dict[str, Any]:
    return {"job": job, "devices": 1, "state_name": name, "time_ns": time_ns, "share": time_ns / (60 * S),
            "demand_share": None}


def verdict(cause: str, windows: int, job: str | None = "llm") -> dict[str, Any]:
    return {"job": job, "cause": cause, "windows": windows, "of_windows": 60, "share": 0.5, "share_low": 0.4,
            "share_high": 0.6, "confidence": 0.25, "recoverable_ns": S, "runner_up": None, "advice": f"mend {cause}."}


def host(name: str, **changes: Any) -> dict[str, Any]:
    return {"host": name, "devices": 1, "critical": 0, "warnings": 0, "open": 0, "kinds": "", "worst_state": None,
            "excess": None, "coverage_min": 1.0, "err_max_ns": 700} | changes


def report(**changes: Any) -> Report:
    given: dict[str, Any] = {
        "overview": OVERVIEW, "states": [state("compute", 30 * S), state("host_input", 30 * S)], "devices": [],
        "verdicts": [verdict("host_input", 40), verdict("compute", 18), verdict("latency", 2)],
        "hosts": [host("h1")], "gains": [], "incidents": []}
    return Report(**(given | changes))


def text(shown: Report, width: int = 200) -> str:
    into = StringIO()
    show(Console(file=into, width=width, highlight=False), shown)
    return into.getvalue()


def test_a_range_without_windows_says_so_and_draws_nothing() -> None:
    shown = text(report(overview=NOTHING))
    assert "no window in this range" in shown
    assert "100 %" not in shown


def test_the_bar_has_each_state_by_its_share() -> None:
    line = next(line for line in text(report()).splitlines() if line.startswith("llm  █"))
    assert line.count("█") == line.count("i", 0, line.index("compute")) == 12
    assert "compute 50.0%, host input 50.0%" in line


def test_a_verdict_is_a_sentence_with_limits_and_rare_ones_are_left_out() -> None:
    shown = text(report())
    assert "host input in 40 of 60 device windows, 50.0% of their time (limits 40.0% to 60.0%; confidence 0.25). " \
           "mend host_input." in shown
    assert "latency" not in shown.split("What limits each job")[1].split("What you gain")[0]


def test_a_host_stands_out_by_incidents_excess_or_coverage_only() -> None:
    shown = text(report(hosts=[host("sick", critical=2, warnings=1, kinds="throttling"),
                               host("slow", excess=0.3, worst_state="throttled"), host("gap", coverage_min=0.5),
                               host("well", excess=0.01, worst_state="latency")]))
    part = shown.split("Which host is sick")[1].split("Incidents")[0]
    assert "2 critical incidents and 1 warnings (throttling)" in part
    assert "30.0% more throttled than its peers" in part
    assert "coverage down to 50.0%" in part
    assert "well" not in part
    assert "none of 1 stands out" in text(report())


def test_names_with_markup_are_shown_as_they_are() -> None:
    shown = text(report(states=[state("compute", S, "[red]<script>")], verdicts=[verdict("compute", 60, "[/]")]))
    assert "[red]<script>" in shown
    assert "[/]" in shown


def test_at_eighty_columns_no_line_is_longer() -> None:
    assert max(map(len, text(report(), 80).splitlines())) <= 80
