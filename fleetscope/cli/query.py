"""`fleetscope query`: the documented SQL library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetscope.cli.common import JsonOption, out, print_json
from fleetscope.cli.stores import ClickHouseOption, DataDirChoice, open_chosen

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from fleetscope.store.library import Query

NameArgument = Annotated[str | None, typer.Argument(help="Name of the query; without it the library is listed.")]
ArgOption = Annotated[list[str] | None, typer.Option("--arg", "-a", metavar="NAME=VALUE",
                                                     help="An argument of the query; may be repeated.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("query", epilog="Example: fleetscope query top_limits --arg job=llm --arg per_device=5")(query)


def query(name: NameArgument = None, arg: ArgOption = None, data_dir: DataDirChoice = None,
          clickhouse: ClickHouseOption = None, json: JsonOption = False, csv: CsvOption = False) -> None:
    """Run a query of the SQL library, or list the library."""
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
        out().print(_table(chosen, rows))


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

    table = Table("query", "what it answers", "arguments", show_lines=True)
    for q in queries:
        table.add_row(q.name, q.purpose, "\n".join(f"{a.name} {a.type}" for a in q.arguments))
    out().print(table)


def _table(chosen: Query, rows: pa.Table) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(caption=f"{rows.num_rows} rows")
    numeric = {column.name for column in chosen.columns if _is_number(rows, column.name)}
    for column in chosen.columns:
        head = f"{column.name}\n[{column.unit}]" if column.unit else column.name
        table.add_column(Text(head), justify="right" if column.name in numeric else "left")
    for row in rows.to_pylist():
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    return table


def _is_number(rows: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = rows.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _print_csv(rows: pa.Table) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows(row.values() for row in rows.to_pylist())
