"""`fleetscope query`: the documented SQL library."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleetscope.cli.common import JsonOption, out, print_json
from fleetscope.cli.stores import ClickHouseOption, DataDirChoice, open_chosen

if TYPE_CHECKING:
    import pyarrow as pa

    from fleetscope.store.library import Query, ResultColumn

NameArgument = Annotated[str | None, typer.Argument(help="Name of the query; without it the library is listed.")]
ArgOption = Annotated[list[str] | None, typer.Option("--arg", "-a", metavar="NAME=VALUE",
                                                     help="An argument of the query; may be repeated.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")]
SEE_UNIT: Final = "see unit"
"""Unit of a result column whose rows each name theirs, in the column ``unit``."""
_UNIT_SUFFIX: Final = re.compile(r"(?<!_per)_(?:ns|ms|s)$")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("query", epilog="Example: fleetscope query top_limits --arg job=llm --arg per_device=5")(query)


def query(name: NameArgument = None, arg: ArgOption = None, data_dir: DataDirChoice = None,
          clickhouse: ClickHouseOption = None, json: JsonOption = False, csv: CsvOption = False) -> None:
    """Run a query of the SQL library, or list the library.

    People get times, shares, durations and sizes in readable units, and a block a row where the console is too narrow
    for a table. --json and --csv have every value exactly as stored, under the column's full name.
    """
    from fleetscope.errors import UsageError
    from fleetscope.store.library import find_query, load_queries

    if json and csv:
        raise UsageError("--json and --csv exclude each other")
    given = _arguments(arg or [])
    if name is None:
        if given:
            raise UsageError("--arg needs the name of a query")
        _list(list(load_queries().values()), json=json)
        return
    chosen = find_query(name)
    parameters = chosen.parameters(given)
    with open_chosen(clickhouse, data_dir) as store:
        from fleetscope.store.migrate import require_schema

        require_schema(store)
        rows = store.query(chosen.sql, parameters)
    if json:
        print_json({"query": name, "arguments": parameters, "rows": rows.to_pylist(),
                    "columns": [{"name": c.name, "unit": c.unit, "doc": c.doc} for c in chosen.columns]})
    elif csv:
        _print_csv(rows)
    else:
        _show(chosen, rows)


def _arguments(texts: list[str]) -> dict[str, str]:
    from fleetscope.errors import UsageError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {text}: must be NAME=VALUE")
        if name in found:
            raise UsageError(f"--arg {name} is given twice")
        found[name] = value
    return found


def _list(queries: list[Query], *, json: bool) -> None:
    if json:
        print_json([{"name": q.name, "purpose": q.purpose,
                     "arguments": [{"name": a.name, "type": a.type, "default": a.default, "doc": a.doc}
                                   for a in q.arguments],
                     "columns": [{"name": c.name, "unit": c.unit, "doc": c.doc} for c in q.columns]} for q in queries])
        return
    from rich.table import Table

    table = Table(show_lines=True)
    table.add_column("query", no_wrap=True)
    table.add_column("what it answers")
    table.add_column("arguments", no_wrap=True)
    for q in queries:
        table.add_row(q.name, q.purpose, "\n".join(f"{a.name} {a.type}" for a in q.arguments))
    out().print(table)


def _show(chosen: Query, rows: pa.Table) -> None:
    from views.figures import figure
    from views.grid import Head, show

    found = rows.to_pylist()
    by_row = any(column.unit == SEE_UNIT for column in chosen.columns)
    columns = [column for column in chosen.columns if not (by_row and column.name == "unit")]
    heads = [Head(_words(column), _is_number(rows, column.name)) for column in columns]
    cells = [[figure(row[column.name], (row["unit"] or "") if column.unit == SEE_UNIT else column.unit)
              for column in columns] for row in found]
    show(out(), heads, cells, caption=f"{len(found)} {'row' if len(found) == 1 else 'rows'}")


def _words(column: ResultColumn) -> str:
    """The column's name for people: without a unit that its figures say themselves, with one that they do not."""
    from views.figures import says_its_unit

    name = _UNIT_SUFFIX.sub("", column.name) if says_its_unit(column.unit) else column.name
    words = name.replace("_per_s", "/s").replace("_", " ")
    return words if column.unit in ("", SEE_UNIT) or says_its_unit(column.unit) else f"{words} [{column.unit}]"


def _is_number(rows: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = rows.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _print_csv(rows: pa.Table) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows(row.values() for row in rows.to_pylist())
