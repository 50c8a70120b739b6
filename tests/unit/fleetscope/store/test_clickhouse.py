from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from fleetscope.errors import RetryError, StoreError, UsageError
from fleetscope.settings import StoreSettings
from fleetscope.store.clickhouse import ClickHouseStore, open_store
from tests.support.stores import PASSWORD, Server

TABLE = ("CREATE TABLE t (n Int64, s LowCardinality(Nullable(String)), day Date DEFAULT toDate(n)) ENGINE = MergeTree "
         "PARTITION BY day ORDER BY n SETTINGS non_replicated_deduplication_window = 100")
HOSTILE = "Robert'); DROP TABLE t;-- \\ \t \n \" ` {n:Int64} %(n)s %s é 😀"


def numbers(count: int, start: int = 0) -> pa.Table:
    return pa.table({"n": pa.array(range(start, start + count), pa.int64()),
                     "s": pa.array(["a", None] * (count // 2) + ["b"] * (count % 2)).dictionary_encode()})


def count(store: ClickHouseStore) -> int:
    return int(store.command("SELECT count() FROM t"))


def test_a_command_returns_its_value(store: ClickHouseStore) -> None:
    assert store.command("SELECT 1 + 1") == "2"
    assert store.command(TABLE) == ""


def test_the_same_token_stores_once_and_another_stores_again(store: ClickHouseStore) -> None:
    store.command(TABLE)
    for token in ("one", "one", "two", "one"):
        store.insert("t", numbers(10), token=token)
    assert count(store) == 20


def test_inserts_without_a_token_are_all_stored(store: ClickHouseStore) -> None:
    store.command(TABLE)
    store.insert("t", numbers(10))
    store.insert("t", numbers(10))
    assert count(store) == 20


def test_a_repeated_block_over_several_partitions_stores_once(store: ClickHouseStore) -> None:
    store.command(TABLE)
    rows = numbers(60)
    store.insert("t", rows, token="x")
    store.insert("t", rows, token="x")
    assert count(store) == 60
    assert int(store.command("SELECT uniq(_partition_id) FROM t")) == 60


def test_many_chunks_are_one_block(store: ClickHouseStore) -> None:
    store.command(TABLE.replace("PARTITION BY day ", ""))
    rows = pa.concat_tables([numbers(50, start) for start in range(0, 5000, 50)])
    store.insert("t", rows, token="x")
    store.insert("t", rows, token="x")
    assert count(store) == 5000
    assert int(store.command("SELECT uniq(_part) FROM t")) == 1


def test_no_rows_are_no_insert(store: ClickHouseStore) -> None:
    store.insert("missing_table", numbers(0))


def test_parameters_are_bound_by_the_server(store: ClickHouseStore) -> None:
    row = store.query("SELECT {s:String} AS s, {n:Int64} AS n, {many:Array(String)} AS many, {none:Nullable(String)} "
                      "AS none, {f:Float64} AS f, {b:Bool} AS b",
                      {"s": HOSTILE, "n": -(2**63), "many": [HOSTILE, ""], "none": None, "f": 0.1, "b": True})
    assert row.to_pylist() == [{"s": HOSTILE, "n": -(2**63), "many": [HOSTILE, ""], "none": None, "f": 0.1, "b": True}]


def test_a_parameter_without_its_place_is_refused_rather_than_pasted(store: ClickHouseStore) -> None:
    with pytest.raises(StoreError, match="parameter n has no place"):
        store.query("SELECT %(n)s", {"n": 1})


def test_a_missing_parameter_is_named(store: ClickHouseStore) -> None:
    with pytest.raises(StoreError, match="`n`"):
        store.query("SELECT {n:Int64}")


def test_large_and_missing_integers_come_back_exactly(store: ClickHouseStore) -> None:
    sql = "SELECT arrayJoin([toNullable(9007199254740993), NULL]) AS n, toInt64(-9223372036854775807) AS full"
    assert store.query(sql).to_pylist()[0] == {"n": 2**53 + 1, "full": -(2**63) + 1}
    frame = store.frame(sql)
    assert frame["n"].tolist() == [2**53 + 1, pd.NA]
    assert frame["full"].tolist() == [-(2**63) + 1] * 2


def test_an_empty_result_has_its_columns(store: ClickHouseStore) -> None:
    assert store.query("SELECT 1 AS a, 'x' AS b WHERE 0;").column_names == ["a", "b"]


def test_a_refused_statement_carries_code_and_name(store: ClickHouseStore) -> None:
    with pytest.raises(StoreError) as failure:
        store.query("SELECT * FROM no_such_table")
    assert failure.value.code == 60
    assert failure.value.name == "UNKNOWN_TABLE"
    assert "\n" not in str(failure.value)


def test_a_block_that_does_not_fit_the_table_is_refused_and_stores_nothing(store: ClickHouseStore) -> None:
    store.command(TABLE)
    with pytest.raises(StoreError, match="insert into t"):
        store.insert("t", numbers(5).append_column("unknown", pa.array([1] * 5)))
    assert count(store) == 0


def test_many_threads_insert_and_read_at_once(store: ClickHouseStore) -> None:
    store.command(TABLE.replace("PARTITION BY day ", ""))

    def work(worker: int) -> int:
        for i in range(5):
            store.insert("t", numbers(1000, worker * 1_000_000 + i * 1000), token=f"{worker}-{i}")
        return int(store.query("SELECT count() AS c FROM t WHERE intDiv(n, 1000000) = {w:Int64}",
                               {"w": worker}).to_pylist()[0]["c"])

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [5000] * 6
    assert store.command("SELECT count(), uniqExact(n) FROM t") == "30000\t30000"


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(StoreSettings(path=tmp_path / "store"))
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.command("SELECT 1")


def test_the_version_is_the_servers(store: ClickHouseStore) -> None:
    assert int(store.version().split(".")[0]) >= 25


@pytest.mark.parametrize("code", [252, 241, 202])
def test_a_passing_fault_of_the_server_may_be_tried_again(server: Server, code: int) -> None:
    with open_store(server.settings()) as store:
        store.command(TABLE)
        server.fail_next_insert(f"code:{code}")
        with pytest.raises(RetryError, match="insert into t"):
            store.insert("t", numbers(10), token="x")
        store.insert("t", numbers(10), token="x")
        assert count(store) == 10


def test_a_repeat_after_a_lost_acknowledgement_stores_nothing_twice(server: Server) -> None:
    with open_store(server.settings()) as store:
        store.command(TABLE)
        server.fail_next_insert("lost")
        with pytest.raises(RetryError, match="insert into t: no answer from ClickHouse"):
            store.insert("t", numbers(10), token="x")
        store.insert("t", numbers(10), token="x")
        assert count(store) == 10


def test_a_database_is_made_only_on_request(server: Server) -> None:
    settings = server.settings()
    with open_store(settings, create=False) as store:
        assert store.command("SELECT count() FROM system.databases WHERE name = {n:String}",
                             {"n": settings.database}) == "0"
    with open_store(settings) as store:
        assert store.command("SELECT currentDatabase()") == settings.database


def test_nobody_listening_is_one_line_that_names_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UsageError, match=rf"^cannot reach ClickHouse at 127.0.0.1:{port}: Connection refused$"):
        open_store(StoreSettings(host="127.0.0.1", port=port, connect_timeout_s=1))


def test_a_wrong_password_is_refused_without_showing_it(server: Server) -> None:
    with pytest.raises(UsageError, match="refused user fleet: Authentication failed") as failure:
        open_store(server.settings(password="wrong-guess"))
    assert "wrong-guess" not in str(failure.value)


def test_the_password_may_stand_in_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(PASSWORD + "\n")
    with open_store(server.settings(password="", password_file=tmp_path / "secret")) as store:
        assert store.command("SELECT 1") == "1"
    with pytest.raises(UsageError, match="No such file"):
        open_store(server.settings(password_file=tmp_path / "absent"))


def test_a_server_that_is_too_old_is_refused_with_the_least_version(tmp_path: Path) -> None:
    old = Server(tmp_path / "engine", "--claim-version", "24.8.4.13")
    try:
        with pytest.raises(UsageError, match=r"ClickHouse 24\.8\.4\.13 is too old: at least 25\.3"):
            open_store(old.settings())
    finally:
        old.stop()


def test_something_else_on_the_port_is_no_clickhouse() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    page = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    try:
        with pytest.raises(UsageError, match="does not answer as ClickHouse"):
            open_store(StoreSettings(host="127.0.0.1", port=page.server_address[1]))
    finally:
        page.shutdown()
        page.server_close()


@pytest.mark.parametrize(("name", "message"), [
    ("file", "is not a folder"), ("file/store", "Not a directory"), ("what?", "question mark"),
])
def test_a_data_folder_that_cannot_be_one_is_one_line(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=message):
        open_store(StoreSettings(path=tmp_path / name))


def test_a_folder_held_by_another_process_names_the_holder(tmp_path: Path) -> None:
    program = ("import sys; from pathlib import Path; from fleetscope.settings import StoreSettings; "
               "from fleetscope.store.clickhouse import open_store; "
               "s = open_store(StoreSettings(path=Path(sys.argv[1]))); print('open', flush=True); sys.stdin.read()")
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "store")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(UsageError, match=f"in use by process {process.pid}"):
            open_store(StoreSettings(path=tmp_path / "store"))
    finally:
        process.kill()
        process.communicate()


def test_a_second_folder_in_one_process_is_refused_and_the_first_lives_on(tmp_path: Path) -> None:
    with open_store(StoreSettings(path=tmp_path / "one")) as one:
        with pytest.raises(UsageError, match=r"two.*different path"):
            open_store(StoreSettings(path=tmp_path / "two"))
        assert one.command("SELECT 1") == "1"
    with open_store(StoreSettings(path=tmp_path / "two")) as two:
        assert two.command("SELECT 2") == "2"


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    program = ("import os, signal, sys; from pathlib import Path; import pyarrow as pa; "
               "from fleetscope.settings import StoreSettings; from fleetscope.store.clickhouse import open_store; "
               "s = open_store(StoreSettings(path=Path(sys.argv[1]))); "
               "s.command('CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n'); "
               "s.insert('t', pa.table({'n': list(range(1000))})); os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, check=False)
    assert done.returncode == -9
    with open_store(StoreSettings(path=tmp_path / "store")) as store:
        assert count(store) == 1000


def test_the_embedded_engine_prints_nothing_of_its_own(tmp_path: Path) -> None:
    program = ("import sys; from pathlib import Path; from fleetscope.errors import StoreError; "
               "from fleetscope.settings import StoreSettings; from fleetscope.store.clickhouse import open_store\n"
               "with open_store(StoreSettings(path=Path(sys.argv[1]))) as s:\n"
               "    s.command('SELECT 1')\n"
               "    try:\n        s.query('SELECT nonsense')\n    except StoreError:\n        pass\n")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
