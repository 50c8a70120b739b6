"""`fleetscope doctor`: what is reachable, versions, lag, clocks, coverage, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetscope.cli.common import DEFAULT_DATA_DIR, EXIT_FINDINGS, JsonOption, out, print_json, settings

if TYPE_CHECKING:
    from fleetscope.cli.doctor_report import Part, Report
    from fleetscope.settings import Settings, StoreSettings

_EPILOG = "Examples: fleetscope doctor · fleetscope doctor --data-dir fleetscope-data · fleetscope doctor --kafka " \
    "broker:9092 --clickhouse --json"
DataDirOption = Annotated[Path | None, typer.Option(
    "--data-dir", help=f"Folder of the embedded store (without a server: {DEFAULT_DATA_DIR}, if there).",
    show_default=False)]
KafkaOption = Annotated[str | None, typer.Option(
    "--kafka", metavar="[HOST:PORT]", help="Look at this Kafka too (alone: the one in the settings).")]
ClickHouseOption = Annotated[str | None, typer.Option(
    "--clickhouse", metavar="[HOST:PORT]", help="Look at this ClickHouse too (alone: the one in the settings).")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=_EPILOG)(doctor)


def doctor(data_dir: DataDirOption = None, kafka: KafkaOption = None, clickhouse: ClickHouseOption = None,
           as_json: JsonOption = False) -> None:
    """Say what is reachable, how healthy clocks, coverage and lag are, and what to do.

    Looks at this host and its packages; at the servers that options or FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS and
    FLEETSCOPE_STORE__HOST name; at the embedded store. Changes nothing.

    Exit code 0: nothing to do; 1: warnings; 2: a server or store that was asked for is missing.
    """
    report = examine(settings(), data_dir, kafka, clickhouse)
    if as_json:
        print_json(report.document())
    else:
        report.show(out())
    if not report.ok:
        raise typer.Exit(EXIT_FINDINGS)


def examine(given: Settings, data_dir: Path | None, kafka: str | None, clickhouse: str | None) -> Report:
    """Look at everything. ``kafka`` and ``clickhouse``: None where not asked for, '' for the server in the settings.

    Raises UsageError where something that was asked for is missing or in use; what only the environment names becomes
    a finding.
    """
    from fleetscope import __version__
    from fleetscope.cli.doctor_host import look_at_host, look_at_python
    from fleetscope.cli.doctor_report import Report
    from fleetscope.errors import UsageError

    if clickhouse is not None and data_dir is not None:
        raise UsageError("--clickhouse and --data-dir exclude each other")
    report = Report(__version__)
    report.parts += [look_at_python(), look_at_host(data_dir or DEFAULT_DATA_DIR)]
    _kafka(report, given, kafka)
    _store(report, given, data_dir, clickhouse)
    return report


def _kafka(report: Report, given: Settings, kafka: str | None) -> None:
    from fleetscope.cli.doctor_kafka import look_at_kafka
    from fleetscope.errors import FleetscopeError

    if kafka is None and "bootstrap_servers" not in given.kafka.model_fields_set:
        report.not_checked["kafka"] = "no broker is named: --kafka HOST:PORT or FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS"
        return
    if kafka:
        _check_addresses(kafka)
        given = given.model_copy(update={"kafka": given.kafka.model_copy(update={"bootstrap_servers": kafka})})
    try:
        report.parts.append(look_at_kafka(given))
    except FleetscopeError as error:
        if kafka is not None:
            raise
        report.parts.append(_missing("kafka", f"Kafka at {given.kafka.bootstrap_servers}", error,
                                     "Start the broker, or correct FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS."))


def _check_addresses(kafka: str) -> None:
    from fleetscope.errors import UsageError

    for address in kafka.split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise UsageError(f"--kafka {kafka}: must be HOST:PORT, or several with commas between")


def _store(report: Report, given: Settings, data_dir: Path | None, clickhouse: str | None) -> None:
    from fleetscope.errors import FleetscopeError, UsageError

    named = _chosen(given, data_dir, clickhouse)
    asked = data_dir is not None or clickhouse is not None
    if named is None:
        report.not_checked["store"] = (f"none is named and there is no {DEFAULT_DATA_DIR}: --data-dir D, --clickhouse "
                                       "HOST:PORT or FLEETSCOPE_STORE__HOST")
        return
    by_environment = data_dir is None and ("host" in given.store.model_fields_set or given.store.path is not None)
    try:
        report.parts.append(_opened(named))
    except FleetscopeError as error:
        if asked:
            raise
        if not by_environment and isinstance(error, UsageError):
            report.not_checked["store"] = str(error)  # the folder that happens to be here, held by another command
            return
        report.parts.append(_missing("store", "Store", error, "Start the server, or correct FLEETSCOPE_STORE__HOST, "
                                     "__PORT, __USERNAME and __PASSWORD."))


def _chosen(given: Settings, data_dir: Path | None, clickhouse: str | None) -> StoreSettings | None:
    from fleetscope.cli.stores import server_settings
    from fleetscope.errors import UsageError
    from fleetscope.settings import StoreSettings

    if data_dir is not None:
        if not (data_dir / "store").is_dir():
            raise UsageError(f"{data_dir} holds no store; make one with: fleetscope demo --data-dir {data_dir}")
        return StoreSettings(path=data_dir / "store")
    if clickhouse == "":
        return given.store.model_copy(update={"path": None})
    if clickhouse is not None:
        return server_settings(clickhouse)
    named = server_settings(None)
    if named is None and (DEFAULT_DATA_DIR / "store").is_dir():
        return StoreSettings(path=DEFAULT_DATA_DIR / "store")
    return named


def _opened(named: StoreSettings) -> Part:
    from fleetscope.cli.doctor_store import look_at_store
    from fleetscope.store.clickhouse import open_store

    title = f"Store, ClickHouse at {named.host}:{named.port}" if named.path is None else f"Store in {named.path.parent}"
    with open_store(named, create=False) as store:
        return look_at_store(store, title)


def _missing(name: str, title: str, error: Exception, advice: str) -> Part:
    from fleetscope.cli.doctor_report import Part

    part = Part(name, title, {"reachable": False})
    part.find("critical", name, str(error), advice)
    return part
