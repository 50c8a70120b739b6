"""`make bench`: run the sections, print a table and write bench/results/latest.json."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.measure import RESULTS, environment, read_results, write_results
from bench.sections import Bench, Options, Section, sections

RATIOS: Final = ("ratio_to_json_pipeline", "ratio_to_json_pipeline_strict", "ratio_to_json_pipeline_one_process",
                 "cpu_ratio_to_json_pipeline")
OURS: Final = "end_to_end_kafka"
THEIRS: Final = "json_pipeline_kafka"
WIDTH: Final = 130
COLUMNS: Final = {"events": "events", "events_per_s": "events/s", "cpu_s_per_million": "CPU s/M", "peak_rss_mb": "MB",
                  "p99_latency_s": "p99 s", "bytes_per_event_wire": "B wire", "bytes_per_event_disk": "B disk",
                  "runs": "runs"}
"""Figures that the table shows, and their headings."""
_RATE: Final = "events_per_s"
_CPU: Final = "cpu_s_per_million"


def parser(known: Sequence[Section]) -> argparse.ArgumentParser:
    """The command line; its defaults are those of ``Options``."""
    default = Options()
    result = argparse.ArgumentParser(
        prog="bench/run.py", description="Measure the pipeline and the one people write first.",
        epilog="sections: " + "; ".join(f"{s.name} ({s.doc})" for s in known)
               + ".  example: bench/run.py --section json --seconds 5 --repeat 1")
    result.add_argument("--section", action="append", choices=[s.name for s in known],
                        help="run only this one (may be given again)")
    result.add_argument("--seconds", type=_positive(float), default=default.seconds, help="simulated time")
    result.add_argument("--hosts", type=_positive(int), default=default.hosts)
    result.add_argument("--devices", type=_positive(int), default=default.devices, help="for each host")
    result.add_argument("--seed", type=int, default=default.seed)
    result.add_argument("--scenario", default=default.scenario)
    result.add_argument("--repeat", type=_positive(int), default=default.repeat, help="runs a median is taken of")
    result.add_argument("--partitions", type=_positive(int), default=default.partitions)
    result.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs already")
    result.add_argument("--short", action="store_true", help="section clocks: one seed over 300 s")
    result.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the figures go")
    result.add_argument("--json", action="store_true", help="print the whole document on stdout, nothing else")
    return result


def _positive(kind: type[Any]) -> Any:
    def parse(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    parse.__name__ = kind.__name__
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code is 0, or 2 for wrong usage and for a results file that cannot be merged into."""
    known = sections()
    options = parser(known).parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    try:
        read_results(options.results)
    except ValueError as error:
        console.print(f"bench: {error}", style="red", markup=False)
        return 2
    chosen = [s for s in known if not options.section or s.name in options.section]
    with Bench(_options(options), lambda text: console.print(text, style="dim", markup=False)) as bench:
        figures = run_sections(chosen, bench)
    document = write_results(figures, options.results)
    if options.json:
        json.dump(document, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        out = Console(highlight=False)
        out.width = max(out.width, WIDTH)  # in a pipe the names would be cut to 80 columns
        out.print(table(figures))
    return 0


def _options(given: argparse.Namespace) -> Options:
    names = Options.__dataclass_fields__
    return Options(**{name: value for name, value in vars(given).items() if name in names})


def run_sections(chosen: Sequence[Section], bench: Bench) -> dict[str, Any]:
    """The figures of the sections together with the machine's and the ratios of the two pipelines through Kafka."""
    figures: dict[str, Any] = {"environment": environment(),
                               "workload": {name: getattr(bench.options, name) for name in
                                            ("seconds", "hosts", "devices", "seed", "scenario", "partitions")}}
    for section in chosen:
        bench.say(f"section {section.name}: {section.doc}")
        figures |= section.run(bench)
    return with_ratios(figures)


def with_ratios(figures: Mapping[str, Any]) -> dict[str, Any]:
    """``figures`` with our pipeline through Kafka set against the other, where this run measured both.

    ``ratio_to_json_pipeline`` is events/s over those of its one process, ``ratio_to_json_pipeline_strict`` over the
    best of its variants, ``ratio_to_json_pipeline_one_process`` has one process on both sides; the CPU ratio says how
    many times less CPU an event takes than in the cheapest variant. Where the run measured only one of the pipelines
    they become None, which takes older ones out of the results.
    """
    ours, theirs = figures.get(OURS), figures.get(THEIRS)
    if ours is None and theirs is None:
        return dict(figures)
    if ours is None or theirs is None:
        return {**figures, **dict.fromkeys(RATIOS)}
    mine = (figures.get(f"{OURS}_variants") or {}).get("processes_1", ours)
    others = [theirs, *(figures.get(f"{THEIRS}_variants") or {}).values()]
    return {**figures, **dict(zip(RATIOS, (
        ours[_RATE] / theirs[_RATE],
        ours[_RATE] / max(other[_RATE] for other in others),
        mine[_RATE] / theirs[_RATE],
        _over(min((other[_CPU] for other in others if other.get(_CPU)), default=None), ours.get(_CPU)),
    ), strict=True))}


def _over(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def table(figures: Mapping[str, Any]) -> Table:
    """One row for each pipeline and variant that was measured, one column for each figure some of them have."""
    sets = dict(_sets(figures))
    shown = [name for name in COLUMNS if any(isinstance(value.get(name), int | float) for value in sets.values())]
    ratios = [f"{name}: {figures[name]:.2f}" for name in RATIOS if figures.get(name)]
    result = Table(title="bench", caption="\n".join(ratios) or None)
    result.add_column("pipeline")
    for name in shown:
        result.add_column(COLUMNS[name], justify="right")
    for pipeline, value in sets.items():
        result.add_row(pipeline, *(_text(value.get(name)) for name in shown))
    return result


def _sets(figures: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in figures.items():
        if not isinstance(value, Mapping):
            continue
        if isinstance(value.get(_RATE), int | float):
            yield name, value
            continue
        for variant, inner in value.items():
            if isinstance(inner, Mapping) and isinstance(inner.get(_RATE), int | float):
                yield f"  {name.removesuffix('_variants')} {variant}", inner


def _text(value: object) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
