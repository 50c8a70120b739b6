"""What the pipeline found, as pandas frames: for notebooks and scripts, and for the report.

    from fleetscope.results import Results, open_results

    with open_results("fleetscope-data") as results:
        results.gains(job="llm-serve-0")

Every method runs one documented query of the SQL library (`fleetscope query NAME`); its columns and units stand there.
Integers keep 64 bits, missing values are pd.NA or NaN, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleetscope.store.library import find_query

if TYPE_CHECKING:
    import pandas as pd

    from fleetscope.store.abstract import Store

END_OF_TIME_NS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Range:
    """``[from_ns, to_ns)`` in fleet time, ns since 1970."""

    from_ns: int = 0
    to_ns: int = END_OF_TIME_NS


class Results:
    """The results in one store, over ``range``; narrower by job or host where a method takes them."""

    def __init__(self, store: Store, range: Range | None = None) -> None:  # noqa: A002
        self.store = store
        self.range = range or Range()

    def last(self, length_ns: int) -> Results:
        """The same results over the newest ``length_ns``; all of them where there is no window."""
        found = self.overview()
        if found.empty:
            return self
        end = int(found.iloc[0]["end_ns"])
        return Results(self.store, Range(max(end - length_ns, 0), end))

    def query(self, name: str, **arguments: object) -> pd.DataFrame:
        """Any query of the library over the range. UsageError names an unknown query or argument."""
        query = find_query(name)
        known = {argument.name for argument in query.arguments}
        given: dict[str, object] = {"from_ns": self.range.from_ns, "to_ns": self.range.to_ns}
        texts = {key: str(value) for key, value in given.items() if key in known}
        texts |= {key: str(value) for key, value in arguments.items()}
        return self.store.frame(query.sql, query.parameters(texts))

    def overview(self, job: str = "", host: str = "") -> pd.DataFrame:
        """One row: time, hosts, devices, jobs, coverage; none where there is no window."""
        return self.query("report_overview", job=job, host=host)

    def states(self, job: str = "", host: str = "") -> pd.DataFrame:
        """Time by job and state; the states of a job add up to its devices' time."""
        return self.query("report_states", job=job, host=host)

    def devices(self, job: str = "", host: str = "") -> pd.DataFrame:
        """Time by host, device and state."""
        return self.query("time_accounting", job=job, host=host)

    def verdicts(self, job: str = "", host: str = "") -> pd.DataFrame:
        """What limits each job, with limits, confidence and advice."""
        return self.query("report_verdicts", job=job, host=host)

    def hosts(self) -> pd.DataFrame:
        """Hosts, the sickest first."""
        return self.query("report_hosts")

    def gains(self, job: str = "", host: str = "", top: int = 1000) -> pd.DataFrame:
        """What there is to gain at most, by job and cause."""
        return self.query("report_gains", job=job, host=host, top=top)

    def incidents(self, host: str = "", top: int = 1000) -> pd.DataFrame:
        """What went wrong, the worst first."""
        return self.query("report_incidents", host=host, top=top)

    def clocks(self, host: str = "") -> pd.DataFrame:
        """Error bounds, steps and gaps of every clock, over all time."""
        return self.query("clock_health", host=host)

    def coverage(self, host: str = "") -> pd.DataFrame:
        """What arrived of what was produced."""
        return self.query("coverage_by_host", host=host)


@contextmanager
def open_results(data_dir: str | Path | None = None, clickhouse: str | None = None) -> Iterator[Results]:
    """Results of an embedded store's folder, else of a server ``HOST:PORT``, else of what the environment names.

    UsageError where there is no store, another process holds it, or its schema is not that of this version.
    """
    from fleetscope.errors import UsageError
    from fleetscope.settings import Settings
    from fleetscope.store.clickhouse import open_store
    from fleetscope.store.migrate import require_schema

    if data_dir is not None and clickhouse is not None:
        raise UsageError("data_dir and clickhouse exclude each other")
    settings = Settings().store
    if data_dir is not None:
        settings = settings.model_copy(update={"path": Path(data_dir) / "store"})
    elif clickhouse is not None:
        host, _, port = clickhouse.rpartition(":")
        settings = settings.model_copy(update={"path": None, "host": host, "port": int(port)})
    with open_store(settings) as store:
        require_schema(store)
        yield Results(store)
