"""Real agents exchange stamps over networks that delay, lose, repeat and reorder; the truth is known.

All agents run on one machine, so their MONOTONIC_RAW is one clock: the true offset is 0, or, where time namespaces
exist, exactly the offset that the namespace was given. What the agents publish goes through the fleet clock step.

The network is a relay in user space on the loopback interface, which every machine can run, or between network
namespaces, which needs root. Where the kernel has netem, namespaces are tried with it too.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.topics import CLOCK_LINKS
from fleetscope.step import replay
from processors.clocks.fleet import FleetClockStep
from tests.support.probe_agent import published
from tests.unit.processors.clocks.fleets import maps, references

NS = 1_000_000_000
SECONDS = 9.0
PROJECT = Path(__file__).parents[2]
CLEAN = {"delay_us": 50}
BAD = {"delay_us": 300, "jitter_us": 150, "loss": 0.08, "again": 0.05}
SLOW_BACK = {"delay_us": 900, "jitter_us": 1_500, "loss": 0.08, "again": 0.05}
CONGESTED = {"delay_us": 100, "jitter_us": 40, "burst_us": 2_000}


@dataclass
class Trial:
    """Agents to run: ``inside`` is the command that puts a host's process where it belongs."""

    folder: Path
    peers: dict[str, str]
    ports: dict[str, int]
    inside: dict[str, list[str]] = field(default_factory=dict)
    ahead_ns: dict[str, int] = field(default_factory=dict)
    reports: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """All agents side by side until they end by themselves."""
        key = self.folder / "key"
        key.write_text(secrets.token_hex(32))
        started = {host: subprocess.Popen(
            [*self.inside.get(host, []), sys.executable, "-m", "tests.support.probe_agent", host, self.peers[host],
             str(self.ports[host]), "", str(key), str(self.folder / host), str(SECONDS)],
            cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for host in self.peers}
        for host, process in started.items():
            out, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
            self.reports[host] = json.loads(out)
            assert self.reports[host]["failure"] is None

    def score(self, label: str) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """(error, bound) in ns by pair of hosts, each 20 ms where both are settled.

        Wherever there is a bound, settled or provisional, from the first batch of all to the last, the truth is within.
        """
        batches = sorted((b for host in self.peers for b in published(self.folder / host, CLOCK_LINKS.name)),
                         key=self._true_ns)
        outputs = replay(FleetClockStep(), batches)
        assert {len(seen) for seen in references(outputs).values()} == {1}
        assert len(set().union(*references(outputs).values())) == 1, "no common reference"
        found = maps(outputs)
        first, last = (edge(map(self._true_ns, group)) for edge, group in ((max, self._ends(batches, 0)),
                                                                           (min, self._ends(batches, -1))))
        scored: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for at in range(first, last, NS // 50):
            pieces = {h: found[h].find(at + self.ahead_ns.get(h, 0)) for h in self.peers}
            for pair in itertools.combinations(sorted(self.peers), 2):
                (one, left), (other, right) = ((h, piece) for h, piece in pieces.items() if h in pair)
                if left is None or right is None or left.err_ns is None or right.err_ns is None:
                    continue
                error = abs(left.at(at + self.ahead_ns.get(one, 0)) - right.at(at + self.ahead_ns.get(other, 0)))
                assert error <= left.err_ns + right.err_ns, (pair, at, left, right)
                if left.state == right.state == "settled":
                    scored.setdefault(pair, []).append((error, left.err_ns + right.err_ns))
        epochs = {host: {s.epoch for s in found[host].segments} for host in self.peers}
        assert all(len(seen) == 1 for seen in epochs.values()), f"false steps: {epochs}"
        self._tell(label, scored)
        assert all(len(scored.get(pair, ())) >= 30 for pair in itertools.combinations(sorted(self.peers), 2))
        return scored

    def _true_ns(self, batch: Batch) -> int:
        return (batch.header.flushed_ticks or 0) - self.ahead_ns.get(batch.header.host, 0)

    def _ends(self, batches: list[Batch], which: int) -> list[Batch]:
        return [[b for b in batches if b.header.host == host][which] for host in self.peers]

    def _tell(self, label: str, scored: dict[tuple[str, str], list[tuple[int, int]]]) -> None:
        print(f"\n{label}")
        for pair, found in scored.items():
            errors, bounds = zip(*found, strict=True)
            print(f"  {'–'.join(pair)}: {len(found)} comparisons, error median {statistics.median(errors):,.0f} ns, "
                  f"max {max(errors):,} ns; bound median {statistics.median(bounds):,.0f} ns, max {max(bounds):,} ns")
        for host, report in self.reports.items():
            for link in report["links"]:
                print(f"  {host} → {link['host']}: {link}")
            print(f"  {host}: {report['cpu_s']:.2f} s of processor time, {report['counts']}")


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def relay(cleanup: ExitStack, routes: list[dict[str, Any]], inside: Sequence[str] = ()) -> None:
    """Started, and ended with the test."""
    process = subprocess.Popen([*inside, sys.executable, "-m", "tests.support.probe_relay",
                                json.dumps({"seed": 3, "routes": routes})], cwd=PROJECT)
    cleanup.callback(process.wait)
    cleanup.callback(process.kill)


def free_ports(count: int) -> list[int]:
    """UDP ports that were free on the loopback interface just now."""
    import socket

    with ExitStack() as stack:
        opened = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for one in opened:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in opened]


def test_agents_over_good_and_bad_networks_hold_the_truth_within_their_bounds(
        tmp_path: Path, cleanup: ExitStack) -> None:
    ways = {"b": (BAD, BAD), "c": (BAD, SLOW_BACK), "d": (CONGESTED, CLEAN)}
    ports = dict(zip(("a", "b", "c", "d", "e"), free_ports(5), strict=True))
    between = dict(zip(ways, free_ports(3), strict=True))
    relay(cleanup, [{"listen": ["127.0.0.1", between[host]], "target": ["127.0.0.1", ports["a"]], "out": out,
                     "back": back} for host, (out, back) in ways.items()])
    trial = Trial(tmp_path, {"a": ""} | {host: f"a=127.0.0.1:{between[host]}" for host in ways}
                  | {"e": f"a=127.0.0.1:{ports['a']}"}, ports)
    trial.run()
    scored = trial.score("loopback; b: jitter and loss, c: asymmetric, d: congested every other second, e: direct")
    for host, (out, back) in ways.items():
        (link,) = trial.reports[host]["links"]
        assert link["used"] > 0.3 * link["sent"] > 0
        assert link["lost"] > 0 or "loss" not in out, host
        # The relay never sends early, and the bound is half of a quick round trip and what drifts between bursts.
        assert link["rtt_min_ns"] >= (out["delay_us"] + back["delay_us"]) * 1000
        assert _bound(scored["a", host]) < 0.5 * link["rtt_median_ns"] + 150_000, host
    (link,) = trial.reports["e"]["links"]
    assert link["exact"] > 0.5 * link["used"] > 0
    assert trial.reports["e"]["counts"]["kernel_sent"] > 0
    assert _bound(scored["a", "e"]) < 100_000


def _bound(scored: list[tuple[int, int]]) -> float:
    return statistics.median(bound for _, bound in scored)


def command(*words: str) -> str | None:
    """None where the command works, else why not."""
    if shutil.which(words[0]) is None:
        return f"there is no {words[0]}"
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{' '.join(words)}: {done.stderr.strip() or done.returncode}"


@dataclass
class Star:
    """Namespaces of the hosts, each with a pair of veth to the one in the middle, where packets are forwarded."""

    hosts: tuple[str, ...]
    prefix: str

    def namespace(self, host: str) -> str:
        return f"{self.prefix}{host}"

    def address(self, host: str, *, middle: bool = False, six: bool = False) -> str:
        number, end = self.hosts.index(host) + 1, 1 if middle else 2
        return f"fd00:77:{number}::{end}" if six else f"10.77.{number}.{end}"

    def build(self, cleanup: ExitStack) -> None:
        middle = self.namespace("m")
        for name in (middle, *map(self.namespace, self.hosts)):
            if reason := command("ip", "netns", "add", name):
                pytest.skip(f"network namespaces cannot be made: {reason}")
            cleanup.callback(subprocess.run, ["ip", "netns", "del", name], check=True)
        for host in self.hosts:
            here, there = self.namespace(host), f"to-{host}"
            if reason := command(*f"ip link add wire netns {here} type veth peer name {there} netns {middle}".split()):
                pytest.skip(f"this kernel makes no veth: {reason}")
            words = []
            for name, device, end in ((here, "wire", False), (middle, there, True)):
                words += [f"ip -n {name} addr add {self.address(host, middle=end)}/24 dev {device}",
                          f"ip -n {name} addr add {self.address(host, middle=end, six=True)}/64 dev {device} nodad",
                          f"ip -n {name} link set {device} up"]
            words += [f"ip -n {here} link set lo up",
                      f"ip -n {here} route add default via {self.address(host, middle=True)}",
                      f"ip -n {here} -6 route add default via {self.address(host, middle=True, six=True)}"]
            for line in words:
                assert command(*line.split()) is None
        for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            assert command("ip", "netns", "exec", middle, "sysctl", "-qw", setting) is None

    def inside(self, host: str, ahead_s: int = 0) -> list[str]:
        """Command that runs a process in the host's namespace, with MONOTONIC and BOOTTIME that much ahead."""
        shift = ["unshare", "--time", "--fork", "--monotonic", str(ahead_s), "--boottime", str(ahead_s)]
        return ["ip", "netns", "exec", self.namespace(host), *(shift if ahead_s else [])]


def star(cleanup: ExitStack, *hosts: str) -> Star:
    """Built, and removed with the test."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Star(hosts, f"fs{secrets.token_hex(2)}")
    made.build(cleanup)
    return made


def time_namespaces() -> bool:
    """Whether a process can be given a MONOTONIC_RAW of its own."""
    return command("unshare", "--time", "--fork", "--monotonic", "1", "true") is None


def test_agents_in_namespaces_with_clocks_of_their_own_hold_the_truth_within_their_bound(
        tmp_path: Path, cleanup: ExitStack) -> None:
    net = star(cleanup, "a", "b", "c", "d")
    ahead = {"a": 0, "b": 86_400, "c": 3_600_000, "d": 7} if time_namespaces() else {}
    # A ring of three over the relay in the middle, one side of it over IPv6; a fourth host only a router away.
    routes, peers = [], {"d": f"a={net.address('a')}:7100"}
    for port, one, other, out, back, six in ((7201, "a", "b", BAD, CLEAN, False), (7202, "b", "c", CLEAN, CLEAN, True),
                                             (7203, "c", "a", CONGESTED, SLOW_BACK, False)):
        listen = net.address(one, middle=True, six=six)
        routes.append({"listen": [listen, port], "target": [net.address(other, six=six), 7100], "out": out,
                       "back": back})
        peers[one] = f"{other}=[{listen}]:{port}" if six else f"{other}={listen}:{port}"
    relay(cleanup, routes, ["ip", "netns", "exec", net.namespace("m")])
    trial = Trial(tmp_path, dict(sorted(peers.items())), dict.fromkeys(peers, 7100),
                  {h: net.inside(h, ahead.get(h, 0)) for h in peers}, {h: s * NS for h, s in ahead.items()})
    trial.run()
    clocks = "clocks up to 1,000 h apart" if ahead else "one clock: this kernel has no time namespaces"
    scored = trial.score(f"namespaces, a ring over a relay and a host behind a router, {clocks}")
    assert _bound(scored["a", "d"]) < 100_000


def test_two_agents_over_netem_hold_the_truth_within_their_bound(tmp_path: Path, cleanup: ExitStack) -> None:
    net = star(cleanup, "a", "b")
    shape = {"a": "delay 300us 100us loss 5%", "b": "delay 1500us 400us loss 5% duplicate 3%"}
    for host, how in shape.items():
        if reason := command("ip", "netns", "exec", net.namespace("m"), "tc", "qdisc", "add", "dev", f"to-{host}",
                             "root", "netem", *how.split()):
            pytest.skip(f"no netem: {reason} (delay, jitter, asymmetry and loss are tried with the relay instead)")
    trial = Trial(tmp_path, {"a": f"b={net.address('b')}:7100", "b": f"a={net.address('a')}:7100"},
                  {"a": 7100, "b": 7100}, {h: net.inside(h) for h in "ab"})
    trial.run()
    trial.score("namespaces, netem")
