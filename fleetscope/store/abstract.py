"""What the pipeline needs of a database: a server over HTTP and the embedded engine alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

import pandas as pd
import pyarrow as pa

Parameter = str | int | float | bool | None | list[str] | list[int]


class Store(Protocol):
    """A ClickHouse database. Every method raises StoreError (refused), RetryError (passing) or UsageError (away)."""

    @property
    def database(self) -> str: ...

    def command(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> str:
        """Run a statement that returns nothing or one value; parameters are bound by the server ({name:Type})."""
        ...

    def insert(self, table: str, rows: pa.Table, *, token: str = "") -> None:
        """Insert ``rows`` as one block; the same ``token`` twice within the deduplication window stores them once."""
        ...

    def query(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pa.Table:
        """The result as Arrow; integers keep 64 bits."""
        ...

    def frame(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pd.DataFrame:
        """The result as a pandas frame; integers keep 64 bits, missing values are pd.NA or NaN, never 0."""
        ...

    def version(self) -> str: ...
    def release(self) -> None:
        """Give memory that the engine freed back to the system, where it runs in this process; never raises."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None: ...
