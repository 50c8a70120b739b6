"""A real agent with a prober in a process of its own; what it publishes goes to a file, as a broker would get it.

Run as ``python -m tests.support.probe_agent HOST PEERS PORT ADDRESS KEY_FILE OUT SECONDS``. Prints what its links were
like and the processor time it took, as JSON.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import Encoded, decode
from ingest.agent import Agent
from ingest.clocks import LinuxClocks
from ingest.hostroot import HostRoot
from ingest.links.peers import parse_peers, read_key
from ingest.links.prober import Prober


class FileSender:
    """A line of JSON a message: topic, key, value and headers, binary ones in base 64."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")

    def send(self, topic: str, message: Encoded) -> None:
        headers = [[name, base64.b64encode(value).decode()] for name, value in message.headers]
        key, value = (base64.b64encode(part).decode() for part in (message.key, message.value))
        self._file.write(json.dumps([topic, key, value, headers]) + "\n")

    def flush(self, timeout_s: float = 30.0) -> None:
        self._file.flush()


def published(path: Path, topic: str) -> Iterator[Batch]:
    """The batches of one topic in the file that an agent wrote."""
    for line in path.read_text().splitlines():
        where, key, value, headers = json.loads(line)
        if where == topic:
            yield decode(base64.b64decode(key), base64.b64decode(value),
                         [(name, base64.b64decode(data)) for name, data in headers])


def main(host: str, peers: str, port: str, address: str, key_file: str, out: str, seconds: str) -> None:
    """Run the agent for so long."""
    prober = Prober(host, parse_peers(peers, host), read_key(Path(key_file)), LinuxClocks(), port=int(port),
                    address=address)
    before = time.process_time()
    with HostRoot(Path("/")) as root:
        Agent(host, FileSender(Path(out)), root, prober=prober).run(threading.Event(), float(seconds))
    print(json.dumps({"links": prober.report(), "counts": prober.counts(), "failure": prober.failure,
                      "cpu_s": time.process_time() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
