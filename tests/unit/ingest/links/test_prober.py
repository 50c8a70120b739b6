"""Probers on real sockets of this machine: exchanges, forged and repeated packets, silence, and counts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest

from fleetscope.errors import UsageError
from ingest.clocks import LinuxClocks
from ingest.collectors.links import Links
from ingest.hostroot import HostRoot
from ingest.links.initiator import FourStamps
from ingest.links.peers import parse_peers
from ingest.links.prober import Prober
from ingest.links.wire import ANSWER, NO_COOKIE, QUESTION, SIZE, Message, identity, seal, unseal

KEY = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def running() -> Iterator[Callable[..., Prober]]:
    with ExitStack() as stack:
        def start(host: str, peers: str = "", **options: Any) -> Prober:
            made = Prober(host, parse_peers(peers, host), options.pop("key", KEY), LinuxClocks(), address="127.0.0.1",
                          **options)
            made.start()
            stack.callback(made.stop)
            return made

        yield start


def until(done: Callable[[], bool]) -> None:
    """Wait for what a thread brings about; fails after 20 s."""
    pause = Event()
    for _ in range(2_000):
        if done():
            return
        pause.wait(0.01)
    pytest.fail("it did not happen within 20 s")


@pytest.mark.parametrize("kernel_stamps", [True, False])
def test_exchanges_of_one_machine_hold_an_offset_of_zero(running: Callable[..., Prober], kernel_stamps: bool) -> None:
    b = running("b", kernel_stamps=kernel_stamps)
    a = running("a", f"b=127.0.0.1:{b.port}", kernel_stamps=kernel_stamps)
    found: list[tuple[str, FourStamps]] = []
    until(lambda: found.extend(a.take()[0]) or len(found) >= 16)  # type: ignore[func-returns-value]
    assert {host for host, _ in found} == {"b"}
    for _, one in found:
        assert one.sent - one.after <= 0 <= one.received - one.before
    assert any(one.exact for _, one in found)
    assert ("kernel_sent" in a.counts()) == kernel_stamps
    (report,) = a.report()
    assert report["rtt_min_ns"] <= report["rtt_median_ns"]


def test_nothing_comes_from_before_what_was_promised(running: Callable[..., Prober]) -> None:
    b = running("b")
    a = running("a", f"b=127.0.0.1:{b.port}")
    promised, seen = 0, 0

    def look() -> bool:
        nonlocal promised, seen
        found, through = a.take()
        assert all(one.before >= promised for _, one in found)
        assert through >= promised
        promised, seen = through, seen + len(found)
        return seen >= 16

    until(look)


def test_packets_that_are_no_questions_of_ours_get_no_answer_and_are_counted(running: Callable[..., Prober]) -> None:
    b = running("b")
    question = Message(QUESTION, 0, 7, 1, b"n" * 8, NO_COOKIE, identity("a"))
    good = seal(KEY, question)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(20)
        for bad in (good[:-1], good + b"x", b"", b"X" + good[1:], good[:4] + b"\2" + good[5:], good[:-1] + b"\0",
                    seal(b"another key of 32 bytes.........", question), seal(KEY, question._replace(kind=9)),
                    seal(KEY, question._replace(kind=ANSWER)), seal(KEY, question._replace(sender=identity("b")))):
            one.sendto(bad, ("127.0.0.1", b.port))
        one.sendto(good, ("127.0.0.1", b.port))
        data = one.recv(4096)
    answer = unseal(KEY, data)
    assert isinstance(answer, Message)
    assert (answer.kind, answer.nonce, answer.sender) == (ANSWER, b"n" * 8, identity("b"))
    assert len(data) == SIZE == len(good)  # never more than was asked with
    counts = b.counts()
    assert {name: counts[name] for name in ("size", "foreign", "version", "kind", "unexpected", "own", "answered")} \
        == {"size": 3, "foreign": 1, "version": 1, "kind": 1, "unexpected": 1, "own": 1, "answered": 1}
    assert counts["forged"] >= 1


def test_a_repeated_question_is_answered_once(running: Callable[..., Prober]) -> None:
    b = running("b")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(20)

        def ask(sequence: int, cookie: bytes) -> Message:
            one.sendto(seal(KEY, Message(QUESTION, 0, 7, sequence, b"n" * 8, cookie, identity("a"))),
                       ("127.0.0.1", b.port))
            answer = unseal(KEY, one.recv(4096))
            assert isinstance(answer, Message)
            return answer

        cookie = ask(1, NO_COOKIE).cookie
        cookie = ask(2, cookie).cookie
        repeated = seal(KEY, Message(QUESTION, 0, 7, 3, b"n" * 8, cookie, identity("a")))
        for _ in range(5):
            one.sendto(repeated, ("127.0.0.1", b.port))
        assert isinstance(unseal(KEY, one.recv(4096)), Message)
        last = ask(4, cookie)
        assert (last.sequence, last.earlier) == (4, 3)
    assert b.counts()["replayed"] == 4


def test_another_key_or_another_host_at_the_address_gives_no_exchange(running: Callable[..., Prober]) -> None:
    stranger, other = running("b", key=b"another key of 32 bytes........."), running("c")
    a = running("a", f"b=127.0.0.1:{stranger.port},d=127.0.0.1:{other.port}")
    until(lambda: a.report()[0]["lost"] >= 8 and a.report()[1]["wrong_host"] >= 8)
    assert a.take()[0] == []
    assert stranger.counts()["forged"] >= 8


def test_a_silent_peer_is_counted_as_lost_and_missing_round_trips_are_missing(
        running: Callable[..., Prober], tmp_path: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        a = running("a", f"b=127.0.0.1:{silent.getsockname()[1]}")
        until(lambda: a.report()[0]["lost"] >= 8)
    with HostRoot(tmp_path) as root:
        readings = {(r.counter, r.instance): r for r in Links(a).collect(root)}
        assert readings["peer_probes_lost", "b"].raw == a.report()[0]["lost"]
        assert readings["peer_rtt_min", "b"].status == "missing"
        assert {f.text for f in Links(a).inventory(root)} == {a.report()[0]["address"]}
        a.failure = "OSError: gone"
        Links(a).collect(root)
        assert root.unreadable["links", "io_error"] == 1


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--probe-port {port}: no UDP socket on 127.0.0.1: Address already"):
            Prober("a", (), KEY, LinuxClocks(), port=port, address="127.0.0.1")


def test_both_families_share_the_port() -> None:
    made = Prober("a", (), KEY, LinuxClocks())
    try:
        ports = {port.socket.getsockname()[1] for port in made._ports.values()}
        assert ports == {made.port}
    finally:
        made.stop()
