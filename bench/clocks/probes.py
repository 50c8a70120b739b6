"""Series of probes between two clocks whose truth is known, from the simulator's clocks and latencies.

Steps are planned at times drawn from the seed; everything follows from (seed, case).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.clocks.hull import Node
from processors.clocks.probes import Exchange, local_to_remote, remote_to_local
from simulator.clocks import NS, Clock, HostClocks, Ints, host_clocks
from simulator.faults.plan import HostPlan
from simulator.faults.settings import Clocks, Latency, Probing, WarmUp
from simulator.faults.timeline import Change
from simulator.probes import Path, Probe, Stamps

START_UNIX_NS: Final = 1_767_225_600 * NS
HEAVY_OUT: Final = Latency(base_ns=8_000, spread_ns=2_000, tail="lognormal", sigma=1.0)
HEAVY_BACK: Final = Latency(base_ns=8_500, spread_ns=2_500, tail="lognormal", sigma=1.0)
"""A network of about 20 µs round trips with a heavy tail."""
WARM: Final = Clocks(host_ppm=20.0, device_ppm=20.0, wander_ppm_per_s=0.035, warm_up=WarmUp(ppm=4.0, tau_s=120.0))
"""20 ppm, wander, and a ramp after power on: within 0.1 ppm/s for any two of these clocks after the first minute."""
SOURCE: Final = "source"


@dataclass(frozen=True, slots=True)
class Series:
    """Probes of one pair in the order of measurement; ``burst`` is the number of exchanges in each.

    ``source`` is mapped to ``target``. ``steps``: true times (ns) at which one of them stepped. ``rates``: (true time,
    source tick, ppb) of changes that are published. ``forward``: the source is the side that measures.
    """

    case: str
    source: Clock
    target: Clock
    stamps: list[Stamps]
    seconds: int
    steps: tuple[int, ...] = ()
    rates: tuple[tuple[int, int, int], ...] = ()
    forward: bool = False

    def exchanges(self) -> list[list[Exchange]]:
        """Burst by burst, local to remote as they were measured."""
        local, remote = (self.source, self.target) if self.forward else (self.target, self.source)
        found = []
        for stamps in self.stamps:
            last = stamps.first if stamps.last is None else stamps.last
            columns = (c.tolist() for c in (stamps.before, stamps.first, last, stamps.after))
            found.append([Exchange(local.name, None, remote.name, *row, local.hz, remote.hz)
                          for row in zip(*columns, strict=True)])
        return found

    def nodes(self) -> list[list[Node]]:
        """Burst by burst, as nodes of the pair source → target."""
        convert = local_to_remote if self.forward else remote_to_local
        return [[convert(exchange) for exchange in burst] for burst in self.exchanges()]

    def truth(self, tau_ns: Ints) -> tuple[Ints, Ints]:
        """(source ticks, target ns) at true times."""
        return self.source.read(tau_ns), self.target.read(tau_ns)


def _series(case: str, seed: int, seconds: int, source: Clock, target: Clock, out: Latency, back: Latency,
            **more: object) -> Series:
    probing = Probing()
    rng = np.random.default_rng([seed, 101])
    inside = Path(probing.turnaround) if out.base_ns > 2_000 else None
    probe = Probe(target, source, None, Path(out), Path(back), inside, 8, 500_000_000, probing, rng)
    return Series(case, source, target, probe.stamps(0, seconds * NS), seconds, **more)  # type: ignore[arg-type]


def _two_steps(seed: int, seconds: int) -> tuple[list[Change], tuple[int, ...]]:
    """One in each half, of 20 µs to 20 ms in either direction."""
    rng = np.random.default_rng([seed, 102])
    at = [round(float(share) * seconds * NS) for share in rng.uniform((0.1, 0.55), (0.45, 0.9))]
    sizes = 10 ** rng.uniform(4.3, 7.3, 2) * rng.choice([-1, 1], 2)
    return [Change(t, "jump", round(float(s)), "step") for t, s in zip(at, sizes, strict=True)], tuple(at)


def _device(seed: int, changes: list[Change], settings: Clocks, hz: int = NS) -> HostClocks:
    return host_clocks(seed, 0, 1, START_UNIX_NS, [hz], settings, HostPlan(changes={"dev0": changes}))


def pcie(seed: int, seconds: int = 3_600, hz: int = NS) -> Series:
    """A free-running device clock over PCIe, two steps."""
    changes, at = _two_steps(seed, seconds)
    made, probing = _device(seed, changes, WARM, hz), Probing()
    return _series("host-device", seed, seconds, made.devices[0], made.raw, probing.pcie_out, probing.pcie_back,
                   steps=at)


def pcie_100mhz(seed: int, seconds: int = 3_600) -> Series:
    """The same with a tick of 10 ns."""
    return pcie(seed, seconds, 100_000_000)


def network(seed: int, seconds: int = 3_600) -> Series:
    """Two hosts over a network with a heavy tail, two steps."""
    changes, at = _two_steps(seed, seconds)
    near = host_clocks(seed, 0, 0, START_UNIX_NS, [NS], WARM)
    far = host_clocks(seed, 1, 0, START_UNIX_NS, [NS], WARM, HostPlan(changes={near.raw.name: changes}))
    return _series("host-host", seed, seconds, far.raw, near.raw, HEAVY_OUT, HEAVY_BACK, steps=at)


def disciplined(seed: int, seconds: int = 3_600) -> Series:
    """REALTIME under a daemon that slews it, from MONOTONIC_RAW, two steps."""
    changes, at = _two_steps(seed, seconds)
    rng = np.random.default_rng([seed, 103])
    for start in rng.integers(0, seconds * NS, 20).tolist():  # ten corrections of 20 ppm a while
        amount = int(rng.choice([-20_000, 20_000]))
        changes += [Change(start, "slew", amount), Change(start + 15 * NS, "slew", -amount)]
    made = host_clocks(seed, 0, 0, START_UNIX_NS, [NS], WARM, HostPlan(changes={"realtime": changes}))
    probing = Probing()
    rng = np.random.default_rng([seed, 101])
    probe = Probe(made.raw, made.realtime, None, Path(probing.syscall), Path(probing.syscall), None, 8, 500_000_000,
                  probing, rng)
    return Series("disciplined", made.raw, made.realtime, probe.stamps(0, seconds * NS), seconds, at, forward=True)


def dvfs(seed: int, seconds: int = 3_600) -> Series:
    """A counter of core cycles between 40 % and 100 %, changes every 10 s in the mean and published."""
    rng = np.random.default_rng([seed, 104])
    changes, at, before = [], 5 * NS, 1.0
    while at < seconds * NS:
        factor = float(rng.choice([0.4, 0.55, 0.7, 0.85, 1.0]))
        changes += [Change(at, "rate", round(factor * NS), "dvfs")] if factor != before else []
        at, before = at + max(round(float(rng.exponential(10.0)) * NS), NS // 100), factor
    made, probing = _device(seed, changes, WARM), Probing()
    device = made.devices[0]
    assert device.pieces is not None
    rates = tuple((when, device.at(when), ppb - NS) for when, ppb in device.pieces.rates())
    return _series("dvfs", seed, seconds, device, made.raw, probing.pcie_out, probing.pcie_back, rates=rates)


CASES: Final[dict[str, Callable[[int, int], Series]]] = {
    "host-device": pcie, "host-device 100 MHz": pcie_100mhz, "host-host": network, "disciplined": disciplined,
    "dvfs": dvfs,
}
