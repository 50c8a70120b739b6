"""Where the rows of a history go: tables of a store, or Parquet files in a folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from fleetscope.contracts.batch import Batch, Header
from fleetscope.contracts.derived import WINDOWS
from fleetscope.errors import Origin, UsageError
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import arrange, table_of
from simulator.history.generate import Block
from simulator.history.plan import Plan

OPERATORS_TABLE: Final = "operator_hours"
"""Table, or prefix of the files, of hourly rows of operators."""

_RELEASE_EVERY: Final = 16
_FORM: Final = 1
"""Changes with the rows that the same settings give: tokens of inserts depend on it."""


class Sink(Protocol):
    """Takes the rows of one history."""

    def statics(self, batches: list[Batch]) -> None:
        """Batches of one contract, `aligned_inventory` or `aligned_marks`; called once for each."""
        ...

    def block(self, block: Block) -> None:
        """The next block."""
        ...

    def close(self) -> None:
        """No more comes."""
        ...


class StoreSink:
    """Inserts each block under a token made of the plan: running an interrupted history again adds what is missing.

    Hourly rows go to table `operator_hours` where the store has one, and are counted in ``skipped_operators`` where it
    has none. Raises StoreError or RetryError as the store does.
    """

    def __init__(self, store: Store, plan: Plan, block_rows: int) -> None:
        described = {"form": _FORM, "seed": plan.seed, "start_ns": plan.start_ns, "block_rows": block_rows,
                     "history": plan.history.model_dump(mode="json"),
                     "machines": [job.machine.model_dump(mode="json") for job in plan.jobs]}
        self._run = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:24]
        self._store = store
        self._inserts = 0
        self.skipped_operators = 0
        self._operators = store.query("SELECT count() AS n FROM system.tables WHERE database = {d:String} AND name = "
                                      "{t:String}", {"d": store.database, "t": OPERATORS_TABLE}).column(0)[0].as_py()

    def statics(self, batches: list[Batch]) -> None:
        """One insert."""
        table = table_of(batches[0].header.contract)
        self._store.insert(table, arrange(batches), token=f"history-{self._run}-{table}")

    def block(self, block: Block) -> None:
        """One insert."""
        if block.table == "windows":
            header = Header(WINDOWS.name, WINDOWS.version, "", "history", 0, block.number, block.rows.num_rows)
            rows = arrange([Batch(header, block.rows, Origin("history", 0, block.number))])
        elif self._operators:
            rows = block.rows
        else:
            self.skipped_operators += block.rows.num_rows
            return
        table = "windows" if block.table == "windows" else OPERATORS_TABLE
        self._store.insert(table, rows, token=f"history-{self._run}-{table}-{block.number}")
        self._inserts += 1
        if self._inserts % _RELEASE_EVERY == 0:
            self._store.release()

    def close(self) -> None:
        """Nothing waits."""


class ParquetSink:
    """Files of a folder: windows-NNNNN.parquet and operator_hours-NNNNN.parquet a block, inventory and marks.

    A file appears under its name once it is whole. UsageError where the folder cannot be written or holds such files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
        if found := sorted(folder.glob("*.parquet")):
            raise UsageError(f"{folder} already holds {found[0].name}: rows of two histories would be mixed")

    def statics(self, batches: list[Batch]) -> None:
        """One file."""
        table = table_of(batches[0].header.contract)
        hosts = [pa.array([batch.header.host] * len(batch), pa.string()).dictionary_encode() for batch in batches]
        rows = pa.Table.from_batches([batch.rows for batch in batches])
        self._write(table, rows.append_column("host", pa.chunked_array(hosts)))

    def block(self, block: Block) -> None:
        """One file."""
        rows = block.rows if isinstance(block.rows, pa.Table) else pa.Table.from_batches([block.rows])
        name = "windows" if block.table == "windows" else OPERATORS_TABLE
        self._write(f"{name}-{block.number:05d}", rows)

    def close(self) -> None:
        """Every file is whole already."""

    def _write(self, name: str, rows: pa.Table) -> None:
        part = self._folder / f"{name}.part"
        try:
            pq.write_table(rows.unify_dictionaries(), part, compression="zstd")
            part.rename(self._folder / f"{name}.parquet")
        except OSError as error:
            raise UsageError(f"cannot write {part}: {error.strerror or error}") from error
