"""docs/accuracy.md and its plots, from the figures alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.accuracy import svg
from bench.accuracy.document import COUNTS, confusion_pairs
from bench.accuracy.poor import accounted, shortfalls
from simulator.grading.verdicts import LABELS

NOTES: Final = Path(__file__).with_name("notes.md")
METHOD: Final = Path(__file__).with_name("method.md")
_STATES_SHOWN: Final = 12


def plots(document: Mapping[str, Any]) -> dict[str, str]:
    """SVG text by file name."""
    scenarios = {name: item for name, item in document["scenarios"].items() if item["runs"]}
    names = list(scenarios)
    graded = [name for name in names if scenarios[name]["bottleneck"]]
    made = {}
    for pair, words in (("host_device", "Host to device"), ("host_host", "Host to host")):
        made[f"clocks-{pair.replace('_', '-')}.svg"] = svg.points(
            f"{words}: clock error and stated bound, worst run", names,
            [svg.Series(text, [_of(scenarios[name]["clocks"][pair], key, 1e-3) for name in names])
             for text, key in (("error p50", "p50_ns"), ("error p99", "p99_ns"), ("bound p50", "bound_p50_ns"),
                               ("bound p99", "bound_p99_ns"))], "µs")
    made["verdicts.svg"] = svg.bars(
        "Verdicts by scenario", graded,
        [svg.Series(text, [scenarios[name]["bottleneck"][key] for name in graded])
         for text, key in (("macro-F1", "macro_f1"), ("accuracy", "accuracy"))], 1.0)
    overall = document["overall"]["bottleneck"]
    states = dict(list((overall or {"share_mae_by_state": {}})["share_mae_by_state"].items())[:_STATES_SHOWN])
    made["shares.svg"] = svg.bars(
        "Mean error of each state's share of a window, all scenarios", list(states),
        [svg.Series("mean |share − true share|", [100 * error for error in states.values()])],
        _round_up(max([100 * error for error in states.values()], default=1.0)), " %")
    pairs = confusion_pairs([overall["confusion"]] if overall else [])
    made["confusion.svg"] = svg.matrix("Windows by true and given cause, all scenarios",
                                       _ordered(true for true, _ in pairs),
                                       _ordered(name for pair in pairs for name in pair), pairs)
    return made


def page(document: Mapping[str, Any], folder: str) -> str:
    """The whole document; ``folder`` holds the plots beside it."""
    scenarios, overall = document["scenarios"], document["overall"]
    parts = [
        "# Accuracy\n",
        "Written by `make accuracy`; edit `bench/accuracy/`, not this file. Every scenario runs through the whole "
        "embedded pipeline and is graded against ground truth that the pipeline never sees.\n",
        "## What was run\n", _run(document), METHOD.read_text(encoding="utf-8"),
        "## Rows\n", _rows(scenarios),
        "## Clocks\n", _clocks(scenarios), _image(folder, "clocks-host-device.svg", "Host to device, by scenario"),
        _image(folder, "clocks-host-host.svg", "Host to host, by scenario"),
        "## Verdicts and shares\n", _verdicts(scenarios), _image(folder, "verdicts.svg", "Verdicts by scenario"),
        "Over all scenarios:\n", _causes(overall["bottleneck"]),
        _image(folder, "confusion.svg", "Windows by true and given cause"),
        _image(folder, "shares.svg", "Error of shares by state"),
        "## Incidents\n", _incidents(overall["incidents"]),
        "## Regressions\n", _regressions(overall["regressions"]),
        "## What is poor today\n", _poor(shortfalls(scenarios)), NOTES.read_text(encoding="utf-8"),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _run(document: Mapping[str, Any]) -> str:
    machine = document["environment"]
    runs = document["runs"]
    seeds = sorted({run["run"]["seed"] for run in runs})
    sizes = {name: sorted({str(run["run"][name]) for run in runs if run["run"][name] is not None})
             for name in ("seconds", "hosts", "devices")}
    given = ", ".join(f"{name} {' and '.join(values)}" for name, values in sizes.items() if values)
    whole = sorted({run["run"]["scenario"] for run in runs if run["whole"]})
    but = f"; as they state, because what they plan does not fit: {', '.join(whole)}" if whole else ""
    options = [f"--{name} {values[0]}" for name, values in sizes.items() if len(values) == 1]
    again = f'make accuracy ACCURACY_ARGS="{" ".join(["--seeds", *map(str, seeds), *options])}"'
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    return _table(("", ""), [
        ("code", f"commit {document['commit']}"), ("when", machine["measured_at"]),
        ("machine", f"{machine['cores']} cores, {machine['cpu']}"),
        ("versions", f"Python {machine['python']}, {versions}"),
        ("seeds", ", ".join(map(str, seeds))), ("size", f"{given or 'as each scenario states'}{but}"),
        ("runs", f"{len(runs)} in {document['elapsed_s']:,.0f} s"), ("again", f"`{again}`"),
    ])


def _rows(scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    heads = ("scenario", "runs", *(name.replace("_", " ") for name in COUNTS), "unaccounted")
    rows = []
    for name, item in scenarios.items():
        events = item["events"]
        if not item["runs"]:
            rows.append((name, f"**failed**: {_plain('; '.join(item['failures']))}", *[""] * (len(heads) - 2)))
            continue
        rows.append((name, str(item["runs"]), *(f"{events[key]:,}" for key in COUNTS),
                     f"{events['produced'] - accounted(events):,}"))
    return _table(heads, rows, numbers=range(1, len(heads)))


def _clocks(scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, item in scenarios.items():
        for pair, words in (("host_device", "device"), ("host_host", "host"), ("loop", "loop")):
            score = item["clocks"][pair] if item["runs"] else None
            if score is None:
                continue
            steps = "" if score["steps_true"] is None else \
                f"{score['steps_found']} of {score['steps_true']}, {score['steps_false']} false"
            rows.append((name, words, *(f"{score[key] / 1000:.2f}" for key in (
                "p50_ns", "p99_ns", "max_ns", "bound_p50_ns", "bound_p99_ns")),
                f"{score['bound_coverage']:.3%}", f"{score['gap_share']:.2%}", steps,
                f"{item['inversions']:,}" if pair == "host_device" else ""))
    return _table(("scenario", "host to", "error p50 µs", "p99 µs", "max µs", "bound p50 µs", "bound p99 µs",
                   "truth inside", "no bound", "steps found", "inversions"), rows, numbers=range(2, 9))


def _verdicts(scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, item in scenarios.items():
        score = item["bottleneck"] if item["runs"] else None
        if score is None:
            continue
        causes = sorted(score["per_cause"].items(), key=lambda cause: -cause[1]["windows"])[:2]
        rows.append((name, f"{score['windows']:,}", _figure(score["macro_f1"]), _figure(score["accuracy"]),
                     f"{score['share_mae']:.2%}", f"{score['misplaced_share']:.1%}", f"{score['low_coverage']:,}",
                     f"{score['insufficient_data_wrong']:,} of {score['insufficient_data']:,}",
                     ", ".join(f"{cause} ({own['windows']})" for cause, own in causes)))
    if not rows:
        return "No run has true causes.\n"
    return _table(("scenario", "windows", "macro-F1", "accuracy", "share MAE", "time in a wrong state", "low coverage",
                   "withheld wrongly", "most frequent true causes"), rows, numbers=range(1, 8))


def _causes(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return ""
    rows = [(name, f"{own['windows']:,}", _figure(own["precision"]), _figure(own["recall"]), _figure(own["f1"]))
            for name, own in sorted(score["per_cause"].items(), key=lambda item: -item[1]["windows"])]
    rows.append(("**all**", f"{score['windows']:,}", "", f"{_figure(score['accuracy'])} (accuracy)",
                 f"{_figure(score['macro_f1'])} (mean)"))
    return _table(("true cause", "windows", "precision", "recall", "F1"), rows, numbers=range(1, 5))


def _incidents(kinds: Mapping[str, Mapping[str, Any]]) -> str:
    if not kinds:
        return "None was planted and none reported.\n"
    rows = [(kind, *(f"{own[key]:,}" for key in ("planted", "found", "reported", "right")), _figure(own["precision"]),
             _figure(own["recall"]), _figure(own["median_delay_s"])) for kind, own in kinds.items()]
    return _table(("kind", "planted", "found", "reported", "right", "precision", "recall", "median delay s"), rows,
                  numbers=range(1, 8))


def _regressions(score: Mapping[str, int | None] | None) -> str:
    if score is None:
        return "No run plants a change that makes work slower or faster.\n"
    if score["found"] is None:
        return f"{score['planted']} changes planted; no step looks for regressions yet.\n"
    return f"{score['planted']} planted, {score['found']} found, {score['false']} false.\n"


def _poor(found: Mapping[str, Sequence[str]]) -> str:
    if not found:
        return "Nothing falls short of its aim.\n"
    return "\n".join(f"- **{name}**: " + "; ".join(_plain(line) for line in lines) for name, lines in found.items())


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    right = set(numbers)
    rule = "|".join("---:" if at in right else "---" for at in range(len(heads)))
    lines = ["| " + " | ".join(heads) + " |", f"|{rule}|", *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join(lines) + "\n"


def _image(folder: str, name: str, words: str) -> str:
    return f"![{words}]({folder}/{name})\n"


def _plain(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _of(score: Mapping[str, Any] | None, key: str, factor: float) -> float | None:
    return None if score is None or score[key] is None else score[key] * factor


def _ordered(names: Iterable[str]) -> list[str]:
    found = set(names)
    return [*(name for name in LABELS if name in found), *sorted(found - set(LABELS))]


def _round_up(value: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below."""
    scale = 1.0
    while scale > value > 0:
        scale /= 10
    while scale * 10 < value:
        scale *= 10
    return next(scale * step for step in (1, 2, 5, 10) if scale * step >= value)
