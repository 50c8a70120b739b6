"""ClickHouse behind the Store protocol: a server over HTTP, or the embedded engine (chDB) over a folder.

The only module that imports clickhouse_connect. Each concurrent call borrows a client of its own: a client of the
embedded engine serves one call at a time, and a new one costs some 10 ms.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import clickhouse_connect
import pandas as pd
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error, OperationalError

from fleetscope.errors import FleetscopeError, StoreError, UsageError
from fleetscope.settings import StoreSettings
from fleetscope.store import failures, lock
from fleetscope.store.abstract import Parameter
from fleetscope.store.block import one_block, to_frame, without_nulls
from fleetscope.store.shared_file import SUPPORTED, SharedFile, insert_statement

MINIMUM_VERSION: Final = (25, 3)
"""The oldest long-term release line with the reworked deduplication of inserts (2024), which exactly once rests on."""

_SETTINGS: Final[dict[str, Any]] = {
    "async_insert": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    # History may span many days: each is a partition, and refusing the block would stop the flow for good.
    "max_partitions_per_insert_block": 0,
    "do_not_merge_across_partitions_select_final": 1,
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_low_cardinality_as_dictionary": 0,
}
_INSERT: Final[dict[str, Any]] = {"max_insert_block_size": 1 << 40, "min_insert_block_size_rows": 0,
                                  "min_insert_block_size_bytes": 0}
_EMBEDDED_SETTINGS: Final[dict[str, Any]] = {
    "max_threads": 2,
    "max_insert_threads": 1,
    "max_memory_usage": 512 * 1024**2,
    "max_bytes_before_external_group_by": 192 * 1024**2,
    "max_bytes_before_external_sort": 192 * 1024**2,
    "input_format_parallel_parsing": 0,
}
_EMBEDDED_OPTIONS: Final[dict[str, Any]] = {
    # The engine counts the whole process here, this program's own rows included: a limit would refuse inserts because
    # of memory that is not the engine's. Each query and merge has its own limit above.
    "max_server_memory_usage": 0,
    "mark_cache_size": 32 * 1024**2,
    "index_mark_cache_size": 8 * 1024**2,
    "index_uncompressed_cache_size": 0,
    "mmap_cache_size": 100,
    "compiled_expression_cache_size": 8 * 1024**2,
    "background_pool_size": 1,
    "background_merges_mutations_concurrency_ratio": 1,
    "background_schedule_pool_size": 1,
}
_PLACEHOLDER: Final = re.compile(r"\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*:")

logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())


def open_store(settings: StoreSettings, *, create: bool = True) -> ClickHouseStore:
    """The store that ``settings`` name; its database is made where it is missing, unless ``create`` is false: then only
    the system's tables can be read, and `migrate.require_schema` says what to do.

    Raises UsageError where the server is away, refuses the user or is too old, and where the folder of the embedded
    engine cannot be used or belongs to another process.
    """
    store = _open_embedded(settings) if settings.path is not None else _open_server(settings)
    try:
        _prepare(store, create=create)
    except BaseException:
        store.close()
        raise
    return store


class ClickHouseStore:
    """See `fleetscope.store.abstract.Store`. Any number of threads may use it at once."""

    def __init__(self, connect: Callable[[str | None], Client], database: str, first: Client,
                 on_close: Callable[[], None] | None = None, *, embedded: bool = False) -> None:
        self._connect = connect
        self._database = database
        self._on_close = on_close
        self._embedded = embedded
        self._guard = threading.Lock()
        self._idle = [first]  # one stays open throughout: the embedded engine stops with its last client
        self._files: list[SharedFile] = []
        self._closed = False

    @property
    def database(self) -> str:
        """Name of the database that unqualified tables are looked up in."""
        return self._database

    def command(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> str:
        """Run a statement; return its one value as ClickHouse prints it (tab-separated), '' where there is none."""
        with self._client(_title(sql)) as client:
            return client.raw_query(sql, _bound(sql, parameters)).decode().rstrip("\n")

    def insert(self, table: str, rows: pa.Table, *, token: str = "") -> None:
        """Insert ``rows`` as one block. A call without a token gets one of its own: the server would otherwise take a
        block with the same content for a repeat and drop it."""
        if rows.num_rows == 0:
            return
        settings = {**_INSERT, "insert_deduplication_token": token or uuid.uuid4().hex}
        block = without_nulls(one_block(rows))
        with self._client(f"insert into {table}") as client:
            if self._embedded and SUPPORTED:
                with self._shared_file() as file:
                    file.write(block)
                    client.raw_query(insert_statement(self._database, table, block.column_names, file.path, settings))
            else:
                client.insert_arrow(table, block, database=self._database, settings=settings)

    @contextmanager
    def _shared_file(self) -> Iterator[SharedFile]:
        with self._guard:
            file = self._files.pop() if self._files else SharedFile()
        try:
            yield file
        finally:
            with self._guard:
                closed = self._closed
                if not closed:
                    self._files.append(file)
            if closed:
                file.close()

    def query(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pa.Table:
        """The result as Arrow; text comes as strings, integers as they are stored."""
        with self._client(_title(sql)) as client:
            data = client.raw_query(_without_end(sql), _bound(sql, parameters), fmt="ArrowStream")
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_all()

    def frame(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pd.DataFrame:
        """The result as a pandas frame; nullable integer columns have pandas' nullable types (Int64)."""
        return to_frame(self.query(sql, parameters))

    def version(self) -> str:
        """The server's version, such as '26.9.2.1'."""
        return self.command("SELECT version()")

    def release(self) -> None:
        """Give memory that the engine freed back to the system, where it runs in this process; never raises."""
        if self._embedded and not self._closed:
            with contextlib.suppress(FleetscopeError):  # a convenience: the next call may go through
                self.command("SYSTEM JEMALLOC PURGE")

    def close(self) -> None:
        """Close all clients; calls still running close theirs when they end."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            idle, self._idle = self._idle, []
            files, self._files = self._files, []
        for client in idle:
            client.close()
        for file in files:
            file.close()
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _client(self, doing: str) -> Iterator[Client]:
        try:
            client = self._borrow()
            try:
                yield client
            finally:
                self._give_back(client)
        except OperationalError as error:
            raise failures.network_failure(doing, error) from error
        except Error as error:
            raise failures.database_failure(doing, str(error), error.code, error.name) from error
        except ClickHouseError as error:
            raise StoreError(f"{doing}: {failures.one_line(str(error))}") from error
        except OSError as error:
            raise failures.local_failure(doing, error) from error

    def _borrow(self) -> Client:
        with self._guard:
            if self._closed:
                raise StoreError("the store is closed")
            if self._idle:
                return self._idle.pop()
        return self._connect(self._database)

    def _give_back(self, client: Client) -> None:
        with self._guard:
            if not self._closed:
                self._idle.append(client)
                return
        client.close()


def _open_server(settings: StoreSettings) -> ClickHouseStore:
    password = settings.password.get_secret_value()
    if settings.password_file is not None:
        try:
            password = settings.password_file.read_text().strip()
        except OSError as error:
            raise UsageError(f"password file {settings.password_file}: {error.strerror}") from error

    def connect(database: str | None) -> Client:
        return clickhouse_connect.get_client(
            interface="https" if settings.secure else "http", host=settings.host, port=settings.port,
            username=settings.username, password=password, database=database or "__default__",
            verify=settings.verify, ca_cert=str(settings.ca_cert) if settings.ca_cert else None,
            connect_timeout=settings.connect_timeout_s, autogenerate_session_id=False, settings=dict(_SETTINGS),
            show_clickhouse_errors="scrub",
        )

    where = f"ClickHouse at {settings.host}:{settings.port}"
    try:
        first = connect(None)
    except OperationalError as error:
        raise UsageError(f"cannot reach {where}: {failures.reason(error)}") from error
    except Error as error:
        if error.code is None:
            raise UsageError(f"{where} does not answer as ClickHouse: {failures.one_line(str(error))}") from error
        raise UsageError(f"{where} refused user {settings.username}: {failures.one_line(str(error))}") from error
    return ClickHouseStore(connect, settings.database, first)


def _open_embedded(settings: StoreSettings) -> ClickHouseStore:
    assert settings.path is not None
    folder = settings.path.expanduser().resolve()
    if "?" in str(folder):
        raise UsageError(f"data folder {folder}: the embedded engine takes no path with a question mark")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"data folder {folder} is not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"data folder {folder}: {error.strerror}") from error
    lock.acquire(folder)

    def connect(database: str | None) -> Client:
        return clickhouse_connect.get_client(
            interface="chdb", path=str(folder), database=database, chdb_options=dict(_EMBEDDED_OPTIONS),
            settings={**_SETTINGS, **_EMBEDDED_SETTINGS}, show_clickhouse_errors="scrub",
        )

    try:
        first = connect(None)
    except (ClickHouseError, OSError, RuntimeError) as error:
        lock.release(folder)
        raise UsageError(f"data folder {folder}: {failures.one_line(str(error))}") from error
    except ImportError as error:
        lock.release(folder)
        raise UsageError("the embedded engine is not installed: pip install 'fleetscope[embedded]'") from error
    return ClickHouseStore(connect, settings.database, first, lambda: lock.release(folder), embedded=True)


def _prepare(store: ClickHouseStore, *, create: bool) -> None:
    with store._client("open the store") as client:
        version = str(client.server_version)
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if numbers < MINIMUM_VERSION:
            least = ".".join(map(str, MINIMUM_VERSION))
            raise UsageError(f"ClickHouse {version} is too old: at least {least} is needed, older ones deduplicate "
                             "inserts differently")
        known = client.raw_query("SELECT count() FROM system.databases WHERE name = {name:String}",
                                 {"name": store.database})
        if known.strip() == b"0":
            if not create:
                return
            client.raw_query(f"CREATE DATABASE IF NOT EXISTS `{store.database}`")
        client.database = store.database


def _bound(sql: str, parameters: Mapping[str, Parameter] | None) -> dict[str, Parameter] | None:
    """Parameters for the server to bind. One without its {name:Type} is refused: the client library would fall back
    to pasting text into the statement."""
    if not parameters:
        return None
    placed = set(_PLACEHOLDER.findall(sql))
    for name in parameters:
        if name not in placed:
            raise StoreError(f"{_title(sql)}: parameter {name} has no place {{{name}:Type}} in the statement")
    return dict(parameters)


def _title(sql: str) -> str:
    """The first words of a statement, to say what failed."""
    lines = (line.strip() for line in sql.splitlines())
    words = " ".join(line for line in lines if line and not line.startswith("--"))
    return words if len(words) <= 60 else words[:60] + "…"


def _without_end(sql: str) -> str:
    return sql.rstrip().rstrip(";")
