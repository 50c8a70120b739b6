"""Asks the peers and answers theirs, over one UDP port, in a thread of its own.

The stamps of an exchange are outer limits: what left and came in lies between them. Where the kernel stamps packets,
its stamps carried to MONOTONIC_RAW are used as far as they are tighter than those taken around the system calls.
Nothing here waits for a peer: what cannot be sent at once is counted and left.
"""

from __future__ import annotations

import random
import secrets
import selectors
import socket
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleetscope.errors import UsageError
from ingest.bridge import Bridge
from ingest.clocks import HZ, HostClocks
from ingest.links import stamps
from ingest.links.initiator import FourStamps, Initiator
from ingest.links.peers import Peer
from ingest.links.responder import Responder
from ingest.links.wire import ANSWER, QUESTION, SIZE, Message, identity, seal, unseal

QUESTIONS: Final = 8
PERIOD_NS: Final = HZ
SPACING_NS: Final = 3_000_000
JITTER_NS: Final = 100_000_000
"""Bursts begin within this after their time, questions within half their spacing, so that hosts do not keep step."""
_MAX_BATCH: Final = 64
_MAX_UNSTAMPED: Final = 512
_MAX_WAITING: Final = 100_000
_MAX_WAIT_S: Final = 0.5


@dataclass(slots=True)
class _Peering:
    """One peer, and when the next questions are due."""

    peer: Peer
    identity: bytes
    asks: Initiator
    slot: int
    """The burst's time before the jitter."""
    next_burst: int
    due: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Port:
    """One socket; ``unstamped`` are packets sent whose kernel stamp may come yet, by their number."""

    socket: socket.socket
    stamped: bool
    numbers: int = 0
    unstamped: OrderedDict[int, Callable[[int], None]] = field(default_factory=OrderedDict)


class Prober:
    """``start`` opens the port (0: any) on ``address`` (empty: all); ``take`` may be called from another thread."""

    def __init__(self, host: str, peers: Sequence[Peer], key: bytes, clocks: HostClocks, *, port: int = 0,
                 address: str = "", kernel_stamps: bool = True, seed: int | None = None) -> None:
        self._key, self._clocks = key, clocks
        self._random = random.Random(secrets.randbits(64) if seed is None else seed)
        self._me = identity(host)
        self._bridge = Bridge(clocks)
        self._responder = Responder(self._me, secrets.token_bytes(32))
        now, session = clocks.monotonic_raw_ns(), secrets.randbits(64)
        self._peerings = [
            _Peering(peer, identity(peer.host), Initiator(self._me, identity(peer.host), session), slot, slot)
            for peer, slot in zip(peers, range(now, now + PERIOD_NS, PERIOD_NS // max(len(peers), 1)), strict=False)]
        self._counts: Counter[str] = Counter()
        self._waiting: deque[tuple[str, FourStamps]] = deque()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ports = _open(address, port, kernel_stamps)
        self._wake_in, self._wake_out = socket.socketpair()
        self.port: int = next(iter(self._ports.values())).socket.getsockname()[1]
        self.failure: str | None = None
        """Why the thread ended, if it ended by itself."""

    def start(self) -> None:
        """Begin to ask and to answer."""
        self._bridge.cross()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more, close the sockets; what was measured can still be taken."""
        self._stop.set()
        self._wake_out.send(b"\0")
        if self._thread is not None:
            self._thread.join()
        for port in self._ports.values():
            port.socket.close()
        self._wake_in.close()
        self._wake_out.close()

    def take(self) -> tuple[list[tuple[str, FourStamps]], int]:
        """(peer's host id, exchange) measured since the last call, and the ticks before which none will come any more.
        """
        with self._lock:
            now = self._clocks.monotonic_raw_ns()
            found = list(self._waiting)
            self._waiting.clear()
            oldest = [p.asks.oldest for p in self._peerings if p.asks.oldest is not None]
            return found, min(oldest, default=now)

    def report(self) -> list[dict[str, Any]]:
        """Per peer: host, address, counts, and the round trip in ns (least and median of the last 64 exchanges)."""
        with self._lock:
            rows = []
            for peering in self._peerings:
                trips = sorted(peering.asks.round_trips)
                counts = peering.asks.counts
                rows.append({
                    "host": peering.peer.host, "address": peering.peer.text,
                    **{name: counts[name] for name in PEER_COUNTS},
                    "loss": counts["lost"] / decided if (decided := counts["lost"] + counts["answered"]) else None,
                    "rtt_min_ns": trips[0] if trips else None,
                    "rtt_median_ns": trips[len(trips) // 2] if trips else None})
            return rows

    def counts(self) -> dict[str, int]:
        """Packets answered and refused, by reason."""
        with self._lock:
            return dict(sorted((self._counts + self._responder.counts).items()))

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                for port in self._ports.values():
                    selector.register(port.socket, selectors.EVENT_READ, port)
                selector.register(self._wake_in, selectors.EVENT_READ, None)
                while not self._stop.is_set():
                    for key, _ in selector.select(self._until_due()):
                        if key.data is not None:
                            with self._lock:
                                self._drain(key.data)
                    with self._lock:
                        self._ask_due()
                        self._collect()
        except Exception as error:  # noqa: BLE001 - the agent goes on without links and says why
            self.failure = f"{type(error).__name__}: {error}"

    def _until_due(self) -> float:
        with self._lock:
            now = self._clocks.monotonic_raw_ns()
            due = [peering.due[0] if peering.due else peering.next_burst for peering in self._peerings]
            due += [wake for peering in self._peerings if (wake := peering.asks.wake(now)) is not None]
        return min(max(min(due, default=now + HZ) - now, 0) / HZ, _MAX_WAIT_S)

    def _ask_due(self) -> None:
        for peering in self._peerings:
            now = self._clocks.monotonic_raw_ns()
            if now >= peering.next_burst and not peering.due:
                peering.slot += ((now - peering.slot) // PERIOD_NS + 1) * PERIOD_NS
                peering.next_burst = peering.slot + self._random.randrange(JITTER_NS)
                peering.asks.begin()
                peering.due.extend(now + i * SPACING_NS + self._random.randrange(SPACING_NS // 2)
                                   for i in range(QUESTIONS + 1))
            while peering.due and peering.due[0] <= self._clocks.monotonic_raw_ns():
                peering.due.popleft()
                self._ask(peering, follow_up=not peering.due)

    def _ask(self, peering: _Peering, *, follow_up: bool) -> None:
        port = self._ports.get(peering.peer.family)
        if port is None:
            self._counts["no_socket"] += 1
            return
        question = peering.asks.question(self._random.randbytes(8), self._clocks.monotonic_raw_ns(),
                                         follow_up=follow_up)
        data = seal(self._key, question)

        def left(before: int) -> None:
            peering.asks.left(question.sequence, before)

        self._send(port, data, peering.peer.address, left)

    def _send(self, port: _Port, data: bytes, address: Any, left: Callable[[int], None]) -> None:
        """``left`` is told that the packet left no earlier than some tick, once or twice."""
        before = self._clocks.monotonic_raw_ns()
        try:
            port.socket.sendto(data, socket.MSG_DONTWAIT, address)
        except OSError:
            self._counts["not_sent"] += 1
            if port.stamped:  # whether the failed packet was numbered differs between kernels
                port.stamped, port.numbers = stamps.switch_on(port.socket), 0
                port.unstamped.clear()
            return
        left(before)
        if port.stamped:
            port.unstamped[port.numbers & 0xFFFFFFFF] = left
            port.numbers += 1
            if len(port.unstamped) > _MAX_UNSTAMPED:
                port.unstamped.popitem(last=False)
            self._stamp_sent(port)

    def _stamp_sent(self, port: _Port) -> None:
        found = stamps.sent(port.socket)
        if not found:
            return
        self._bridge.cross()
        for number, realtime in found:
            left = port.unstamped.pop(number, None)
            between = self._bridge.to_raw(realtime)
            if left is not None and between is not None:
                self._counts["kernel_sent"] += 1
                left(between[0])

    def _drain(self, port: _Port) -> None:
        if port.stamped:
            self._stamp_sent(port)
        for _ in range(_MAX_BATCH):
            try:
                data, ancillary, _, address = port.socket.recvmsg(SIZE + 1, stamps.ANCILLARY_BYTES, socket.MSG_DONTWAIT)
            except OSError:
                return
            self._take_in(port, data, address, self._came(ancillary))

    def _came(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        """The earliest tick by which the packet was certainly there."""
        after = self._clocks.monotonic_raw_ns()
        realtime = stamps.received(ancillary)
        self._bridge.cross()
        between = None if realtime is None else self._bridge.to_raw(realtime)
        if between is None or between[1] >= after:
            return after
        self._counts["kernel_received"] += 1
        return between[1]

    def _take_in(self, port: _Port, data: bytes, address: Any, came: int) -> None:
        if not self._responder.admit(str(address[0]), came):
            return
        message = unseal(self._key, data)
        if isinstance(message, str):
            self._counts[message] += 1
        elif message.kind == QUESTION:
            self._answer(port, message, address, came)
        elif message.kind == ANSWER:
            peering = next((p for p in self._peerings if p.identity == message.sender), None) \
                or next((p for p in self._peerings if p.peer.address == tuple(address[:2])), None)
            if peering is None:
                self._counts["unexpected"] += 1
            else:
                peering.asks.answered(message, came)

    def _answer(self, port: _Port, question: Message, address: Any, came: int) -> None:
        answer = self._responder.answer(question, came, came)
        if answer is None:
            return
        who, session, sequence = question.sender, question.session, question.sequence
        sent = max(self._clocks.monotonic_raw_ns(), came)

        def left(before: int) -> None:
            self._responder.sent(who, session, sequence, max(before, sent))

        self._send(port, seal(self._key, answer._replace(sent=sent)), address, left)

    def _collect(self) -> None:
        now = self._clocks.monotonic_raw_ns()
        for peering in self._peerings:
            for one in peering.asks.take(now):
                if len(self._waiting) >= _MAX_WAITING:
                    self._waiting.popleft()
                    self._counts["not_taken"] += 1
                self._waiting.append((peering.peer.host, one))


PEER_COUNTS: Final = ("sent", "answered", "lost", "duplicate", "late", "overtaken", "impossible", "wrong_host", "used",
                      "exact", "peer_restarts")


def _open(address: str, port: int, kernel_stamps: bool) -> dict[int, _Port]:
    """A socket for IPv4 and one for IPv6 on the same port, as far as the host has them; UsageError where it has none.
    """
    ports: dict[int, _Port] = {}
    reasons = []
    for family, everywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        if address and (":" in address) != (family == socket.AF_INET6):
            continue
        one = None
        try:
            one = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address or everywhere, port))
        except OSError as error:
            reasons.append(error.strerror or str(error))
            if one is not None:
                one.close()
            continue
        port = port or one.getsockname()[1]
        ports[family] = _Port(one, kernel_stamps and stamps.switch_on(one))
    if not ports:
        raise UsageError(f"--probe-port {port}: no UDP socket on {address or 'any address'}: {', '.join(reasons)}")
    return ports
