"""Kernel stamps of packets: ancillary data made by hand, and this kernel's own."""

from __future__ import annotations

import socket
import struct
import time

from ingest.links import stamps

SEEN = (socket.SOL_SOCKET, stamps.SO_TIMESTAMPING, struct.pack("=6q", 12, 345, 0, 0, 0, 0))


def test_the_software_stamp_is_the_first_of_three() -> None:
    assert stamps.received([SEEN]) == 12_000_000_345
    assert stamps.received([]) is None
    assert stamps.received([(SEEN[0], SEEN[1], bytes(48))]) is None
    assert stamps.received([(SEEN[0], SEEN[1], b"short")]) is None


def test_numbers_of_sent_packets_are_those_of_stamps_alone() -> None:
    error = struct.pack("=IBBBBII", 42, 4, 0, 0, 0, 0, 9)
    assert stamps._number([(socket.IPPROTO_IP, 11, error)]) == 9
    assert stamps._number([(socket.IPPROTO_IPV6, 25, error)]) == 9
    assert stamps._number([(socket.IPPROTO_IP, 11, struct.pack("=IBBBBII", 111, 2, 3, 3, 0, 0, 9))]) is None
    assert stamps._number([(socket.IPPROTO_IP, 11, b"short"), SEEN]) is None


def test_this_kernel_stamps_what_leaves_and_comes_between_the_calls_around_it() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET,
                                                                               socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        other.settimeout(10)
        assert stamps.switch_on(one)
        assert stamps.switch_on(other)
        first, deadline = 1, time.monotonic() + 10
        while True:  # the kernel may begin to stamp a little later than it was asked
            one.sendto(b"x", other.getsockname())
            _, ancillary, _, _ = other.recvmsg(10, stamps.ANCILLARY_BYTES)
            assert len(stamps.sent(one)) == 1
            if stamps.received(ancillary) is not None:
                break
            assert time.monotonic() < deadline
            first += 1
        for number in range(first, first + 3):
            before = time.time_ns()
            one.sendto(b"x", other.getsockname())
            _, ancillary, _, _ = other.recvmsg(10, stamps.ANCILLARY_BYTES)
            after = time.time_ns()
            (sent,) = stamps.sent(one)
            came = stamps.received(ancillary)
            assert sent.number == number
            assert came is not None
            assert before <= sent.realtime_ns <= came <= after
        assert stamps.switch_on(one)
        one.sendto(b"x", other.getsockname())
        assert [s.number for s in stamps.sent(one)] == [0]
