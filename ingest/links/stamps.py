"""Kernel stamps of packets (SO_TIMESTAMPING, software), as far as the kernel and the driver give them.

They are taken in the driver's transmit path and at the start of the receive path, so they leave out what system calls,
queues and the waking of a process cost; user-space stamps have all that. They are REALTIME and are carried to
MONOTONIC_RAW by `ingest.bridge`. Constants and layouts: linux/net_tstamp.h, linux/errqueue.h; 64-bit systems.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final, NamedTuple

SO_TIMESTAMPING: Final = 37
SO_SELECT_ERR_QUEUE: Final = 45
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE, _OPT_ID, _OPT_TSONLY = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11
FLAGS: Final = _TX_SOFTWARE | _RX_SOFTWARE | _SOFTWARE | _OPT_ID | _OPT_TSONLY
_RECV_ERR: Final = frozenset(((socket.IPPROTO_IP, 11), (socket.IPPROTO_IPV6, 25)))
_TIMESPEC: Final = struct.Struct("=qq")
_EXTENDED_ERROR: Final = struct.Struct("=IBBBBII")
_ORIGIN_TIMESTAMPING: Final = 4
ANCILLARY_BYTES: Final = 512
_NS: Final = 1_000_000_000


class Sent(NamedTuple):
    """The ``number``-th packet that the socket sent (from 0) left when REALTIME read ``realtime_ns``."""

    number: int
    realtime_ns: int


def switch_on(one: socket.socket) -> bool:
    """Ask for stamps of both directions; False where the kernel has none. Numbers of sent packets begin at 0 again."""
    try:
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, FLAGS)
    except OSError:
        return False
    return struct.calcsize("l") == 8


def received(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """REALTIME in ns when the packet came in, from what recvmsg gave with it; None where it has no stamp."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING) and len(data) >= _TIMESPEC.size:
            seconds, ns = _TIMESPEC.unpack_from(data)
            return seconds * _NS + ns or None
    return None


def sent(one: socket.socket) -> list[Sent]:
    """Stamps of sent packets that wait in the socket's error queue; empties it, whatever it holds."""
    found: list[Sent] = []
    while True:
        try:
            _, ancillary, _, _ = one.recvmsg(1, ANCILLARY_BYTES, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            return found
        number, realtime = _number(ancillary), received(ancillary)
        if number is not None and realtime is not None:
            found.append(Sent(number, realtime))


def _number(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) in _RECV_ERR and len(data) >= _EXTENDED_ERROR.size:
            _, origin, _, _, _, _, number = _EXTENDED_ERROR.unpack_from(data)
            return int(number) if origin == _ORIGIN_TIMESTAMPING else None
    return None
