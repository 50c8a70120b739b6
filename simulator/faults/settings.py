"""Sections ``clocks`` and ``collection`` of a scenario: oscillators, probes, and everything that goes wrong with them.

Times of events are seconds since the start of the run (``at_s``) or a share of its length (``at_share``).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Length = Annotated[float, Field(gt=0, le=86_400, description="s")]


class Section(BaseModel):
    """A part of a scenario: unknown keys are refused and nothing changes once it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Event(Section):
    """Something planned for one host, or for every host."""

    at_s: float | None = Field(None, ge=0)
    at_share: float | None = Field(None, ge=0, lt=1)
    host: int | None = Field(None, ge=0, description="index; None: every host")

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if (self.at_s is None) == (self.at_share is None):
            raise ValueError("give either at_s or at_share")
        return self


class DeviceEvent(Event):
    """Something planned for one device, or for every device of the host."""

    device: int | None = Field(None, ge=0, description="index; None: every device")


# clocks


class RealtimeStep(Event):
    """The time daemon sets REALTIME."""

    kind: Literal["realtime_step"]
    ms: float = Field(ge=-1e9, le=1e9, description="forwards is positive")


class RealtimeSlew(Event):
    """The time daemon lets REALTIME run faster or slower until it has made up for ``ms``."""

    kind: Literal["realtime_slew"]
    ms: float = Field(ge=-1e6, le=1e6)
    ppm: float = Field(500.0, gt=0, le=100_000)


class Leap(Event):
    """A leap second of REALTIME: at once, or smeared over ``smear_s`` from then on."""

    kind: Literal["leap"]
    insert: bool = Field(True, description="a second comes twice; false: one is left out")
    smear_s: float = Field(0.0, ge=0, le=200_000, description="0: a step")


class DeviceReset(DeviceEvent):
    """The device's timestamp counter restarts near 0; work that was under way is not recorded."""

    kind: Literal["device_reset"]


class Suspend(Event):
    """The host sleeps: MONOTONIC and MONOTONIC_RAW stand still, BOOTTIME, REALTIME and the devices go on.

    Begin and end are taken to the next flush before and after.
    """

    kind: Literal["suspend"]
    for_s: Length = 1.0


class Reboot(Event):
    """The host restarts: its monotonic clocks begin near 0, devices are reset, its agent begins a new epoch."""

    kind: Literal["reboot"]
    for_s: Length = 1.0
    tail_s: float = Field(0.0, ge=0, le=60, description="what was published in these last seconds never left the host")


class Stuck(DeviceEvent):
    """A clock shows the same reading for a while, then goes on from there."""

    kind: Literal["stuck"]
    clock: Literal["device", "realtime", "monotonic_raw"] = "device"
    for_s: Length = 1.0


class RateChange(DeviceEvent):
    """The device's counter runs at ``factor`` times its nominal frequency for a while."""

    kind: Literal["rate"]
    factor: float = Field(ge=0.01, le=4)
    for_s: Length = 1.0


ClockEvent = Annotated[
    RealtimeStep | RealtimeSlew | Leap | DeviceReset | Suspend | Reboot | Stuck | RateChange,
    Field(discriminator="kind")]


class WarmUp(Section):
    """Rate of devices and hosts settles exponentially after power on: ``ppm`` more at first."""

    ppm: float = Field(ge=-100, le=100)
    tau_s: float = Field(120.0, gt=0)


class Thermal(Section):
    """Oscillators follow the temperature of a load that goes on and off; temperature lags by ``tau_s``."""

    ppm_per_c: float = Field(0.1, ge=-10, le=10)
    swing_c: float = Field(25.0, ge=0, le=100, description="temperature under load above that when idle")
    tau_s: float = Field(60.0, gt=0)
    period_s: float = Field(120.0, gt=0)
    duty: float = Field(0.5, ge=0, le=1)


class Dvfs(Section):
    """Device counters count core cycles: their rate follows a schedule of levels, drawn for each device."""

    low: float = Field(0.4, ge=0.01, le=1, description="lowest level as a share of nominal")
    levels: int = Field(5, ge=2, le=64)
    dwell_s: float = Field(1.0, gt=0.001, description="mean time at one level")
    published: bool = Field(False, description="changes come as clock samples of kind rate")


class Ahead(Section):
    """REALTIME of a host lies in the future."""

    host: int | None = Field(None, ge=0, description="None: every host")
    seconds: float = Field(ge=-1e9, le=1e9)


class Latency(Section):
    """One direction of a path: ``base_ns`` + a random part; of that the slow ones take ``slow_factor`` times as much.

    The random part is exponential of mean ``spread_ns``, or lognormal of median ``spread_ns`` and ``sigma``.
    """

    base_ns: float = Field(ge=0, le=1e9)
    spread_ns: float = Field(ge=0, le=1e9)
    tail: Literal["exponential", "lognormal"] = "exponential"
    sigma: float = Field(1.0, ge=0, le=4)
    slow_share: Share = 0.02
    slow_factor: float = Field(10.0, ge=1, le=10_000)


class Congestion(Event):
    """One direction of a path takes ``extra_ns`` more for a while; ``spread_ns`` is the mean of what comes on top."""

    path: Literal["pcie", "network"] = "network"
    direction: Literal["out", "back"] = "out"
    for_s: Length = 1.0
    extra_ns: float = Field(50_000, ge=0, le=1e9)
    spread_ns: float = Field(0.0, ge=0, le=1e9)


class Probing(Section):
    """How clocks are compared. Shares are of exchanges."""

    rate_hz: float = Field(1.0, gt=0, le=5, description="bursts a second")
    device_exchanges: int = Field(8, ge=1, le=64)
    link_exchanges: int = Field(8, ge=1, le=64)
    realtime_exchanges: int = Field(4, ge=1, le=64)
    pcie_out: Latency = Latency(base_ns=420, spread_ns=120)
    pcie_back: Latency = Latency(base_ns=640, spread_ns=180)
    network_out: Latency = Latency(base_ns=8_200, spread_ns=1_200)
    network_back: Latency = Latency(base_ns=8_800, spread_ns=1_600)
    syscall: Latency = Latency(base_ns=35, spread_ns=20)
    turnaround: Latency = Latency(base_ns=1_500, spread_ns=400)
    overlapping: bool = Field(False, description="the next exchange of a burst begins before the last one is back")
    lost_share: Share = 0.0
    duplicate_share: Share = 0.0
    disordered: bool = Field(False, description="rows of a burst come in any order")
    unset_share: Share = Field(0.0, description="the remote stamp is 0")
    absurd_share: Share = Field(0.0, description="a stamp that no clock shows, within what the contract allows")
    nan_share: Share = Field(0.0, description="a stamp with the bits of a NaN: the codec refuses the whole message")
    congestion: tuple[Congestion, ...] = ()


class Clocks(Section):
    """Clocks of the fleet and how they are probed. Everything follows from the seed."""

    host_ppm: float = Field(20.0, ge=0, le=1_000, description="bound on the rate of a host's MONOTONIC_RAW")
    device_ppm: float = Field(30.0, ge=0, le=1_000)
    wander_ppm_per_s: float = Field(0.05, ge=0, le=10, description="bound on the change of rate")
    realtime_error_ms: float = Field(1.5, ge=0, le=1e6, description="bound on REALTIME's error at the start")
    device_bits: int = Field(64, ge=16, le=64, description="width of the devices' timestamp counters")
    device_grain_ticks: int = Field(1, ge=1, le=1_000_000_000, description="counters advance by this many at a time")
    same_epoch: bool = Field(False, description="all devices of a host began to count at the same time")
    warm_up: WarmUp | None = None
    thermal: Thermal | None = None
    dvfs: Dvfs | None = None
    boottime: bool = Field(False, description="the agent compares BOOTTIME with MONOTONIC_RAW, too")
    ahead: tuple[Ahead, ...] = ()
    events: tuple[ClockEvent, ...] = ()
    probes: Probing = Probing()


# collection


class Ring(Section):
    """Buffer between a source and the agent, one for each clock's spans; what does not fit is dropped and counted."""

    rows: int = Field(ge=1, le=100_000_000)
    drain_rows_per_s: float = Field(gt=0, le=1e9)


class Stall(Event):
    """The agent does not read its rings for a while."""

    kind: Literal["stall"]
    for_s: Length = 1.0


class LossBurst(Event):
    """Of the batches of spans and counters published meanwhile this share is lost."""

    kind: Literal["loss_burst"]
    for_s: Length = 1.0
    share: float = Field(1.0, gt=0, le=1)


class Spool(Event):
    """The way to the broker is cut: messages wait on the host and go out in order when it is back.

    What was published in the last ``repeat_s`` before is sent again first, as after a lost acknowledgement.
    """

    kind: Literal["spool"]
    for_s: Length = 1.0
    repeat_s: float = Field(0.0, ge=0, le=600)


class AgentCrash(Event):
    """The agent dies and is started again ``for_s`` later with a new epoch; nobody records what happens meanwhile."""

    kind: Literal["agent_crash"]
    for_s: Length = 1.0
    tail_s: float = Field(0.0, ge=0, le=60, description="what was published in these last seconds never left the host")


class HostCrash(Event):
    """The host dies and does not come back; nothing of it is closed."""

    kind: Literal["host_crash"]
    tail_s: float = Field(1.0, ge=0, le=60, description="what was published in these last seconds never left the host")


class SequenceRestart(Event):
    """As an agent's crash, but the new process takes the old one's epoch and numbers its batches from 0."""

    kind: Literal["sequence_restart"]
    for_s: Length = 0.4


class DeviceVanish(DeviceEvent):
    """The device falls off the bus: no spans, no probes, counters missing. Its clock restarts when it is back."""

    kind: Literal["device_vanish"]
    for_s: Length = 1.0
    reset: bool = True


class CounterEvent(DeviceEvent):
    """Something about readings of counters. ``labelled``: the agent notices and says so in ``status``."""

    counter: str | None = Field(None, description="None: every counter it applies to")
    labelled: bool = True


class CounterStuck(CounterEvent):
    """Readings repeat the last one."""

    kind: Literal["counter_stuck"]
    for_s: Length = 1.0


class CounterReset(CounterEvent):
    """Monotonic counters begin from 0."""

    kind: Literal["counter_reset"]


class CounterWrap(CounterEvent):
    """From then on the register stands ``margin`` below its top and wraps at ``bits``."""

    kind: Literal["counter_wrap"]
    bits: int = Field(32, ge=8, le=62)
    margin: int = Field(1_000_000, ge=1)


class CounterSentinel(CounterEvent):
    """Readings are ``value``; a source that says N/A has none."""

    kind: Literal["counter_sentinel"]
    for_s: Length = 1.0
    value: int | Literal["N/A"] = 0xFFFF_FFFF


class CounterSaturated(CounterEvent):
    """Monotonic counters stand at the top of ``bits``."""

    kind: Literal["counter_saturated"]
    for_s: Length = 1.0
    bits: int = Field(32, ge=8, le=62)


CounterFault = CounterStuck | CounterReset | CounterWrap | CounterSentinel | CounterSaturated
CollectionEvent = Annotated[
    Stall | LossBurst | Spool | AgentCrash | HostCrash | SequenceRestart | DeviceVanish | CounterStuck | CounterReset
    | CounterWrap | CounterSentinel | CounterSaturated, Field(discriminator="kind")]


class Collection(Section):
    """What goes wrong between sources and broker. Shares are of batches of spans and counters."""

    lost_share: Share = 0.0
    redelivered_share: Share = 0.0
    corrupt_share: Share = 0.0
    dropping_share: Share = Field(0.0, description="batches that lose rows at the source")
    dropped_rows_share: float = Field(0.1, ge=0, lt=1, description="rows such a batch loses")
    late_share: Share = 0.0
    late_min_s: float = Field(1.0, gt=0, le=3_600)
    late_max_s: float = Field(30.0, gt=0, le=3_600)
    reordered_share: Share = 0.0
    reorder_s: float = Field(1.0, gt=0, le=60, description="longest time by which a reordered batch is overtaken")
    ring: Ring | None = None
    events: tuple[CollectionEvent, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.late_max_s < self.late_min_s:
            raise ValueError(f"late_max_s {self.late_max_s:g} is below late_min_s {self.late_min_s:g}")
        total = self.lost_share + self.corrupt_share + self.redelivered_share + self.late_share + self.reordered_share
        if total > 1:
            raise ValueError(f"shares of lost, corrupt, redelivered, late and reordered batches add up to {total:g}, "
                             "above 1")
        return self
