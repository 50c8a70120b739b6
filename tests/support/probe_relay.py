"""A UDP relay in user space that adds delay, jitter, asymmetry, loss, repeats and disorder; where netem is missing.

Run as ``python -m tests.support.probe_relay JSON``: {"seed": …, "routes": [{"listen": [address, port], "target":
[address, port], "out": {...}, "back": {...}}]}. ``out`` is the way to the target. A way has ``delay_us``, ``jitter_us``
(mean of an exponential, drawn anew for each packet, so that packets overtake each other), ``loss`` and ``again``
(shares), and ``burst_us`` added to every packet while the seconds since the start have an odd number.
"""

from __future__ import annotations

import heapq
import json
import random
import selectors
import socket
import sys
import time
from typing import Any


class Relay:
    """All routes of one process."""

    def __init__(self, seed: int, routes: list[dict[str, Any]]) -> None:
        self.selector = selectors.SelectSelector()  # epoll waits for whole ms
        self.waiting: list[tuple[int, int, socket.socket, bytes, Any]] = []
        self.number = 0
        self.start = time.monotonic_ns()
        for number, route in enumerate(routes):
            family = socket.AF_INET6 if ":" in route["listen"][0] else socket.AF_INET
            near, far = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
            near.bind(tuple(route["listen"]))
            client: dict[str, Any] = {}
            self.selector.register(near, selectors.EVENT_READ,
                                   (near, far, client, tuple(route["target"]), route.get("out", {}),
                                    random.Random(f"{seed}/{number}/out")))
            self.selector.register(far, selectors.EVENT_READ, (far, near, client, None, route.get("back", {}),
                                                                 random.Random(f"{seed}/{number}/back")))

    def run(self) -> None:
        """For ever."""
        while True:
            now = time.monotonic_ns()
            while self.waiting and self.waiting[0][0] <= now:
                _, _, one, data, address = heapq.heappop(self.waiting)
                one.sendto(data, address)
            timeout = (self.waiting[0][0] - now) / 1e9 if self.waiting else None
            for key, _ in self.selector.select(timeout):
                self._take(*key.data)

    def _take(self, here: socket.socket, there: socket.socket, client: dict[str, Any], target: Any,
              way: dict[str, float], chance: random.Random) -> None:
        data, address = here.recvfrom(2048)
        if target is not None:
            client["at"] = address
        elif "at" not in client:
            return
        if chance.random() < way.get("loss", 0):
            return
        for _ in range(2 if chance.random() < way.get("again", 0) else 1):
            delay_us = way.get("delay_us", 0) + chance.expovariate(1) * way.get("jitter_us", 0)
            now = time.monotonic_ns()
            if (now - self.start) // 1_000_000_000 % 2:
                delay_us += way.get("burst_us", 0)
            self.number += 1
            heapq.heappush(self.waiting, (now + round(delay_us * 1000), self.number, there, data,
                                          target or client["at"]))


if __name__ == "__main__":
    Relay(**json.loads(sys.argv[1])).run()
