"""ClickHouse's HTTP interface over the embedded engine: enough for the real client library to run its HTTP path.

Run as a program: ``python clickhouse_http.py FOLDER [--user U --password P --claim-version V]``; it prints the port.
Each request has an engine connection of its own, so settings do not leak. ``GET /_fault?kind=…`` arms one fault for
the next insert: ``code:252`` answers with that error, ``lost`` stores the rows and closes without an answer.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import os
import re
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame
import zstandard

TRANSPORT = frozenset({
    "query", "database", "buffer_size", "session_id", "session_timeout", "session_check", "query_id", "quota_key",
    "compress", "decompress", "wait_end_of_query", "client_protocol_version", "role", "user", "password",
    "default_format", "send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression",
    "cancel_http_readonly_queries_on_client_close",
})
INSERT = re.compile(rb"^\s*(INSERT\s+INTO\s+.+?)\s+FORMAT\s+(\w+)\s*\n", re.IGNORECASE | re.DOTALL)
FORMAT = re.compile(rb"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
CODE = re.compile(r"Code: (\d+)\. DB::Exception")
RESULT = re.compile(rb"^\s*(?:--[^\n]*\n\s*)*(SELECT|WITH|SHOW|DESCRIBE|EXPLAIN|EXISTS)\b", re.IGNORECASE)
PACK = {"lz4": lz4.frame.compress, "zstd": zstandard.ZstdCompressor().compress, "gzip": gzip.compress}


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: ClassVar[str] = ""
    credentials: ClassVar[str] = ""
    claimed_version: ClassVar[str] = ""
    fault: ClassVar[str] = ""

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/ping":
            self.answer(200, b"Ok.\n")
        elif url.path == "/_fault":
            Handler.fault = dict(parse_qsl(url.query))["kind"]
            self.answer(200, b"")
        else:
            self.serve(dict(parse_qsl(url.query, keep_blank_values=True)), b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(parts)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.serve(dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True)), body)

    def serve(self, params: dict[str, str], body: bytes) -> None:
        if self.headers.get("Authorization", "") != self.credentials:
            self.refuse(403, 516, "Code: 516. DB::Exception: Authentication failed: password is incorrect, or there is "
                                  "no user with such name. (AUTHENTICATION_FAILED)")
            return
        statement = params.get("query", "").encode()
        statement = statement + b"\n" + body if statement else body
        insert = INSERT.match(statement)
        if insert and Handler.fault.startswith("code:"):
            code, Handler.fault = int(Handler.fault[5:]), ""
            self.refuse(500, code, f"Code: {code}. DB::Exception: planted. (PLANTED)")
            return
        try:
            result, shown = self.execute(params, statement, insert)
        except Exception as error:  # noqa: BLE001 - the engine's error, whatever its type, is the answer
            text = str(error)
            found = CODE.search(text)
            self.refuse(500, int(found[1]) if found else 1001, text)
            return
        if insert and Handler.fault == "lost":
            Handler.fault = ""
            self.close_connection = True
            return
        if self.claimed_version and b"version(), timezone()" in statement:
            result = f"{self.claimed_version}\tUTC\n".encode()
        self.answer(200, result, {"X-ClickHouse-Format": shown} if shown else {}, params)

    def execute(self, params: dict[str, str], statement: bytes, insert: re.Match[bytes] | None) -> tuple[bytes, str]:
        connection = chdb.connect(self.folder)
        try:
            if params.get("database", "__default__") != "__default__":
                connection.query(f"USE `{params['database']}`")
            for name, value in params.items():
                if name not in TRANSPORT and not name.startswith("param_"):
                    connection.query(f"SET {name} = {quoted(value)}")
            bound = {name[6:]: value for name, value in params.items() if name.startswith("param_")}
            if insert:
                return self.insert(connection, insert[1].decode(), insert[2].decode(), statement[insert.end():]), ""
            found = FORMAT.search(statement)
            shown = found[1].decode() if found else "TabSeparated" if RESULT.match(statement) else ""
            return connection.query(statement.decode(), shown or "TabSeparated", params=bound).bytes() or b"", shown
        finally:
            connection.close()

    def insert(self, connection: Any, head: str, kind: str, data: bytes) -> bytes:
        with tempfile.NamedTemporaryFile(suffix=".block") as file:
            file.write(data)
            file.flush()
            connection.query(f"{head} FROM INFILE {quoted(file.name)} FORMAT {kind}")
        return b""

    def refuse(self, status: int, code: int, text: str) -> None:
        self.answer(status, text.encode() + b"\n", {"X-ClickHouse-Exception-Code": str(code)})

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None,
               params: dict[str, str] | None = None) -> None:
        headers = {"X-ClickHouse-Summary": "{}", "X-ClickHouse-Timezone": "UTC", **(headers or {})}
        accepted = self.headers.get("Accept-Encoding", "")
        if (params or {}).get("enable_http_compression") == "1":
            for name, pack in PACK.items():
                if name in accepted:
                    body, headers["Content-Encoding"] = pack(body), name
                    break
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    parser.add_argument("--claim-version", default="")
    options = parser.parse_args()
    Handler.folder = os.path.realpath(options.folder)
    Handler.credentials = "Basic " + base64.b64encode(f"{options.user}:{options.password}".encode()).decode()
    Handler.claimed_version = options.claim_version
    keep = chdb.connect(Handler.folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    finally:
        keep.close()


if __name__ == "__main__":
    sys.exit(main())
