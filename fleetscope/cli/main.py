"""The command `fleetscope`: one file a command, errors become one line and an exit code."""

from __future__ import annotations

import sys

import typer

from fleetscope import __version__
from fleetscope.cli import agent, demo, doctor, migrate, process, query, report, score, simulate
from fleetscope.errors import FleetscopeError

app = typer.Typer(
    name="fleetscope",
    help="Performance of fleets of PCIe-attached ML accelerators: where time is lost, continuously, with error bounds.",
    epilog="Start with: fleetscope demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _module in (demo, report, query, score, simulate, agent, process, migrate, doctor):
    _module.register(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fleetscope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options that hold for every command."""


_VALUE_OPTIONAL = ("--kafka", "--clickhouse")
"""Options that may stand alone: then they mean the server in the settings, and get an empty value here."""


def _with_values(arguments: list[str]) -> list[str]:
    completed: list[str] = []
    for index, argument in enumerate(arguments):
        completed.append(argument)
        following = arguments[index + 1] if index + 1 < len(arguments) else "-"
        if argument in _VALUE_OPTIONAL and following.startswith("-"):
            completed.append("")
    return completed


def main() -> None:
    """Entry point: exit code 0 done, 1 findings, 2 wrong usage or a missing server."""
    try:
        app(args=_with_values(sys.argv[1:]))
    except FleetscopeError as error:
        typer.secho(f"fleetscope: {error}", err=True, fg=typer.colors.RED)
        sys.exit(2)
    except OSError as error:
        typer.secho(f"fleetscope: {error.strerror or error}", err=True, fg=typer.colors.RED)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("fleetscope: interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
