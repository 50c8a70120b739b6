"""Writes docs/contracts.md from the contracts and topics in the code: `python docs/make_contracts.py`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fleetscope.contracts.derived import ALIGNED, DERIVED, REQUESTS
from fleetscope.contracts.raw import RAW
from fleetscope.contracts.schema import ATTRIBUTES, BOOL, FLOAT, IDS, INT, SYMBOL, TEXT, Column, Contract
from fleetscope.contracts.topics import TOPICS
from fleetscope.store.arrange import table_of
from fleetscope.store.migrate import DEFAULT_TTL_DAYS

TARGET = Path(__file__).with_name("contracts.md")

_TYPES = {SYMBOL: "symbol", TEXT: "text", INT: "int64", FLOAT: "float64", BOOL: "bool", IDS: "list of int64",
          ATTRIBUTES: "map text → text"}

_HEAD = """# Contracts

Made by `python docs/make_contracts.py` from `fleetscope/contracts/`; a test fails when this file differs from the code.

One message is one batch: an Arrow IPC stream in one zstd frame, with its header in the message's headers
(`fs-contract`, `fs-version`, `fs-host`, `fs-producer`, `fs-epoch`, `fs-sequence`, `fs-rows`, times, counts). The key is
the host. A row's identity is (producer, epoch, contract, sequence, row). A message of an aligned contract (since its
version 2) may hold the rows of several batches of one host, one after the other: `fs-parts` then says for each of them
producer, epoch, clock, sequence, first row, rows and rows of the whole sequence, and those are its rows' identities.
Code reads its own version of a contract and the one before; a column added later is nullable and filled with nulls.
`symbol` is text by dictionary (repeats cost an index). Null means missing, never 0. Raw times are ticks of the
batch's clock, times of everything else are ns of fleet time since 1970.
"""


def text() -> str:
    """The whole document."""
    parts = [_HEAD, "\n## Topics\n\n", _topics(), "\n## What producers publish\n", *map(_contract, RAW),
             "\n## What `align` makes of it\n\nEvery column of the raw contract, then:\n", *map(_aligned, ALIGNED),
             "\n## What the steps publish\n", *map(_contract, (*DERIVED, *REQUESTS))]
    return "".join(parts)


def _topics() -> str:
    rows = [[f"`{t.name}`", ", ".join(f"`{c}`" for c in t.contracts) or "state of the steps",
             "as set" if t.partitions == 0 else str(t.partitions),
             "compacted" if t.cleanup == "compact" else f"{t.retention_hours} h", t.doc] for t in TOPICS]
    return ("Names get the prefix of the settings (`fleetscope.`). Partitions \"as set\" come from "
            "`FLEETSCOPE_KAFKA__PARTITIONS`.\n\n"
            + _table(("topic", "carries", "partitions", "kept", "what"), rows))


def _contract(contract: Contract) -> str:
    return f"\n### {contract.name}, version {contract.version}\n\n{_doc(contract)}\n\n{_columns(contract.columns)}"


def _aligned(contract: Contract) -> str:
    raw = next(c for c in RAW if f"aligned_{c.name}" == contract.name)
    added = contract.columns[len(raw.columns):]
    return f"\n### {contract.name}, version {contract.version}\n\n{_doc(contract)}\n\n{_columns(added)}"


def _doc(contract: Contract) -> str:
    try:
        table = table_of(contract.name)
    except KeyError:  # not stored as it is
        return contract.doc
    days = DEFAULT_TTL_DAYS[table]
    return f"{contract.doc} Table `{table}`, kept {f'{days} days' if days else 'for ever'} by default."


def _columns(columns: Iterable[Column]) -> str:
    return _table(("column", "type", "null", "unit", "meaning"),
                  [[f"`{c.name}`", _TYPES[c.type], "yes" if c.nullable else "", c.unit, _meaning(c)] for c in columns])


def _meaning(column: Column) -> str:
    notes = [f"since version {column.since}"] if column.since > 1 else []
    if column.minimum is not None:
        notes.append(f"at least {column.minimum}")
    return column.doc + (f" ({', '.join(notes)})" if notes else "")


def _table(head: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
