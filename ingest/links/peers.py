"""Which hosts are asked, where they answer, and the key that all share."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleetscope.errors import UsageError
from ingest.links.wire import MIN_KEY_BYTES

KEY_VARIABLE: Final = "FLEETSCOPE_PROBE_KEY"
MAX_PEERS: Final = 64
_PEER: Final = re.compile(r"^(?P<host>[^=\s]+)=(?:\[(?P<six>[^\]\s]+)\]|(?P<addr>[^:\s]+)):(?P<port>\d{1,5})$")


@dataclass(frozen=True, slots=True)
class Peer:
    """A host that is asked: its host id, and the socket address at which it answers."""

    host: str
    family: socket.AddressFamily
    address: tuple[str, int]

    @property
    def text(self) -> str:
        """Address and port as people write them."""
        name, port = self.address
        return f"[{name}]:{port}" if self.family == socket.AF_INET6 else f"{name}:{port}"


def parse_peers(text: str, me: str) -> tuple[Peer, ...]:
    """From ``host=address:port,host=[address]:port``; names are resolved once, now.

    Raises UsageError for what is no such list, for this host itself, a host named twice and an unknown name.
    """
    found: dict[str, Peer] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _PEER.match(entry)
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise UsageError(f"--peers: {entry!r} is not host=address:port (IPv6 addresses in brackets)")
        host = match["host"]
        if host == me:
            raise UsageError(f"--peers: {entry!r} is this host itself; leave it out, or give this host another --host")
        if host in found:
            raise UsageError(f"--peers: {host!r} is named twice")
        found[host] = _resolve(host, match["six"] or match["addr"], int(match["port"]), entry)
    if len(found) > MAX_PEERS:
        raise UsageError(f"--peers: {len(found)} peers, at most {MAX_PEERS}: a ring and two hubs need three or four")
    return tuple(found.values())


def _resolve(host: str, name: str, port: int, entry: str) -> Peer:
    try:
        answers = socket.getaddrinfo(name, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--peers: the address of {entry!r} cannot be resolved: {error}") from error
    family, _, _, _, address = answers[0]
    return Peer(host, family, (str(address[0]), int(address[1])))


def read_key(path: Path | None, environment: Mapping[str, str] = os.environ) -> bytes:
    """The shared key: the file's bytes, else the variable's, without white space around them.

    Raises UsageError where there is none, it cannot be read, or has fewer than 16 bytes.
    """
    if path is not None:
        try:
            key, where = path.read_bytes().strip(), f"--probe-key-file {path}"
        except OSError as error:
            raise UsageError(f"--probe-key-file {path} cannot be read: {error.strerror}") from error
    elif KEY_VARIABLE in environment:
        key, where = environment[KEY_VARIABLE].encode().strip(), KEY_VARIABLE
    else:
        raise UsageError(f"hosts that probe each other share a key: give --probe-key-file or {KEY_VARIABLE}")
    if len(key) < MIN_KEY_BYTES:
        raise UsageError(f"{where}: the key has {len(key)} bytes, at least {MIN_KEY_BYTES} are needed "
                         "(for example: head -c 32 /dev/urandom | base64)")
    return key
