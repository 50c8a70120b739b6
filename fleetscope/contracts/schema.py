"""How a contract is described: columns with Arrow types, units and the version that brought them.

A contract is the public, versioned schema of one kind of batch. A reader takes its own version and the one before:
columns that are newer than the batch are filled with nulls, so a column added later must be nullable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

SYMBOL: Final = pa.dictionary(pa.int32(), pa.string())
"""Interned text: repeats cost an index."""
TEXT: Final = pa.string()
INT: Final = pa.int64()
FLOAT: Final = pa.float64()
BOOL: Final = pa.bool_()
IDS: Final = pa.list_(pa.int64())
ATTRIBUTES: Final = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a contract; ``unit`` is empty for names and identifiers."""

    name: str
    type: pa.DataType
    doc: str
    unit: str = ""
    nullable: bool = False
    since: int = 1
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """One kind of batch; there is one object for each.

    ``time_column`` is in ticks of the batch's clock (raw) or ns of fleet time (derived).
    """

    name: str
    version: int
    columns: tuple[Column, ...]
    doc: str
    time_column: str | None = None
    duration_column: str | None = None

    def __post_init__(self) -> None:
        for column in self.columns:
            if column.since > 1 and not column.nullable:
                raise ValueError(f"{self.name}.{column.name}: a column added after version 1 must be nullable")

    def column(self, name: str) -> Column:
        """The column called ``name``; raises KeyError."""
        return next((c for c in self.columns if c.name == name), None) or _missing(self.name, name)

    def at(self, version: int) -> tuple[Column, ...]:
        """The columns that ``version`` of this contract had."""
        return _columns(self, version)

    def schema(self, version: int | None = None) -> pa.Schema:
        """The Arrow schema of ``version`` (by default the current one)."""
        return _schema(self, version or self.version)


def _missing(contract: str, name: str) -> Column:
    raise KeyError(f"{contract} has no column {name}")


@lru_cache(maxsize=256)
def _columns(contract: Contract, version: int) -> tuple[Column, ...]:
    return tuple(c for c in contract.columns if c.since <= version)


@lru_cache(maxsize=256)
def _schema(contract: Contract, version: int) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type, c.nullable) for c in contract.at(version)])
