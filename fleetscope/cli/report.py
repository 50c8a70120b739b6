"""`fleetscope report`: what limits the jobs, which host is sick, what there is to gain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fleetscope.cli.common import JsonOption, out, print_json
from fleetscope.cli.stores import ClickHouseOption, DataDirChoice, open_chosen

if TYPE_CHECKING:
    import pandas as pd

    from fleetscope.results import Results
    from views.terminal import Report

JobOption = Annotated[str, typer.Option("--job", help="Only this job: its devices, limits and gains.")]
HostOption = Annotated[str, typer.Option("--host", help="Only this host.")]
SinceOption = Annotated[str, typer.Option("--since", metavar="LENGTH",
                                          help="The newest stretch of windows: 90s, 30m, 6h, 7d, or all.")]
_LENGTH: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_NS: Final = {"s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9, "d": 86_400 * 10**9}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog="Example: fleetscope report --job llm-serve-0 --since 6h")(report)


def report(job: JobOption = "", host: HostOption = "", since: SinceOption = "1h", data_dir: DataDirChoice = None,
           clickhouse: ClickHouseOption = None, json: JsonOption = False) -> None:
    """Say what limits the jobs, which host is sick and what there is to gain, on one screen.

    Shares are of device time and add up to 100 %; a gain is an upper limit. --json has every row.
    """
    length_ns = since_ns(since)
    with open_chosen(clickhouse, data_dir) as store:
        from fleetscope.results import Results
        from fleetscope.store.migrate import require_schema

        require_schema(store)
        everything = Results(store)
        found = gather(everything if length_ns is None else everything.last(length_ns), job, host)
    if json:
        print_json(found.document())
        return
    from views.terminal import show

    show(out(), found)


def since_ns(text: str) -> int | None:
    """Length of a stretch in ns, None for ``all``; UsageError for anything else."""
    from fleetscope.errors import UsageError

    if text == "all":
        return None
    match = _LENGTH.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise UsageError(f"--since {text}: must be a number and s, m, h or d, such as 6h, or all")
    return int(match[1]) * _UNIT_NS[match[2]]


def gather(results: Results, job: str, host: str) -> Report:
    """The sections of the report. UsageError names a job or host that the range does not have."""
    from fleetscope.errors import UsageError
    from views.terminal import Report

    found = _rows(results.overview(job, host))
    overview = found[0] if found else {"windows": 0}
    if not found and (job or host):
        what = " and ".join(f"{kind} {name!r}" for kind, name in (("job", job), ("host", host)) if name)
        raise UsageError(f"no window of {what} in this range; there are jobs {_names(results, 'job')} on hosts "
                         f"{_names(results, 'host')}")
    return Report(overview, _rows(results.states(job, host)), _rows(results.verdicts(job, host)),
                  _rows(results.devices(job, host)), _rows(results.hosts()), _rows(results.gains(job, host)),
                  _rows(results.incidents(host)), job=job, host=host)


def _names(results: Results, column: str) -> str:
    frame = results.states() if column == "job" else results.hosts()
    names = sorted({str(value) for value in frame[column].dropna()})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "none"


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with None for what is missing and plain numbers."""
    import pandas as pd

    def plain(value: Any) -> Any:
        if not isinstance(value, list) and pd.isna(value):
            return None
        return value.item() if hasattr(value, "item") else value

    return [{str(name): plain(value) for name, value in row.items()} for row in frame.to_dict("records")]
