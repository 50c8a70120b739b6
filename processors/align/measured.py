"""The clocks of one host: samples in, maps to the host's reference clock out, and how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from fleetscope.contracts.batch import Batch, StreamKey
from fleetscope.incarnations import base_of, life_of
from processors.align.host import Host, LocalClock
from processors.align.progress import END, Beat
from processors.clocks.pair import Pair, PairRules, add_probes, advance, change_frequency, finish, restart
from processors.clocks.probes import NS, Pairing, arrivals, assumptions_for
from processors.clocks.segments import Segment, beyond

RAW_CLOCK: Final = "monotonic_raw"


@dataclass(frozen=True, slots=True)
class Measuring:
    """Thresholds for the fits of a host's clocks."""

    rules: PairRules
    patience_s: float

    def take(self, host: Host, batch: Batch) -> None:
        """Samples of clocks of the host itself; others are counted."""
        found, bad = arrivals(batch.rows, batch.header.flushed_ticks)
        host.bad_samples += bad
        for pairing, measured in found.items():
            clock = self._clock(host, batch, pairing, measured[-1].local)
            if clock is None:
                host.bad_samples += len(measured)
                continue
            rules = self._rules(pairing.remote_clock)
            if clock.pair.source_hz != pairing.remote_hz:
                change_frequency(clock.pair, pairing.remote_hz, rules)
            if (batch.header.epoch, life_of(batch.header.producer)) > (clock.epoch, life_of(clock.producer)):
                clock.epoch, clock.producer = batch.header.epoch, batch.header.producer
                clock.reopen()
                if clock.pair.done is not None and measured[0].local <= clock.pair.done:
                    restart(clock.pair, rules)  # its producer and the clock that it measures with began again
            add_probes(clock.pair, measured, rules)

    def learn(self, host: Host, batch: Batch) -> None:
        """How many bits the counters of the host have, by its inventory."""
        names = ("kind", "attribute", "component", "number")
        for kind, attribute, name, bits in zip(*(batch.rows.column(n).to_pylist() for n in names), strict=True):
            if kind == "clock" and attribute == "bits" and bits is not None and 8 <= bits <= 64:
                host.bits[name] = int(bits)
                if name in host.clocks:
                    host.clocks[name].wraps_at(int(bits))

    def advance(self, host: Host, *, final: bool = False) -> None:
        """What the producers promised of their samples, as far as those came; ``final``: no more will."""
        progress = host.progress
        for key, lane in progress.lanes.items():
            if key.contract != "clock_samples":
                continue
            while lane.beats and (final or self._arrived(host, key.producer, lane.beats[0])):
                beat = lane.beats.pop(0)
                host.samples_through = END if beat.closed else beat.through
                for name, clock in host.clocks.items():
                    if base_of(clock.producer) == base_of(key.producer):
                        self._advance_to(name, clock, None if beat.closed else beat.through)

    def finish(self, host: Host) -> None:
        """No sample comes any more."""
        self.advance(host, final=True)
        for name, clock in host.clocks.items():
            self._advance_to(name, clock, None)
        host.samples_through = END

    def give_up(self, host: Host, sent: int) -> None:
        """The host is silent, and was not heard after host time ``sent``: what it sent until then waits no longer for
        the samples that would have followed."""
        self.advance(host)
        through = sent + round(self.rules.limit_s * NS)
        for name, clock in host.clocks.items():
            if not clock.closed:
                advance(clock.pair, through, self._rules(name))
        if host.samples_through is None or host.samples_through < through:
            host.samples_through = through

    def decided(self, host: Host) -> Iterator[tuple[str, list[Segment]]]:
        """New pieces by clock; they stand in the clocks' maps."""
        for name, clock in host.clocks.items():
            ready = clock.pair.take()
            if clock.closed and not clock.sealed and (ready or clock.map.segments):
                ready.append(beyond((ready or clock.map.segments)[-1]))
                clock.sealed = True
            if ready:
                clock.map.extend(ready)
                yield name, ready

    def _arrived(self, host: Host, producer: str, beat: Beat) -> bool:
        """Whether the samples the beat counts have come, and those of the producer's processes before."""
        progress, patience_ns = host.progress, round(self.patience_s * NS)
        own = StreamKey(producer, beat.epoch, "clock_samples")
        former = ((stream, tally.beats[-1]) for stream, tally in progress.tallies.items()
                  if stream.contract == own.contract and tally.beats and stream != own
                  and base_of(stream.producer) == base_of(producer)
                  and progress.is_former(stream.producer, stream.epoch))
        return all(progress.arrived(stream, counted, host.ledger, patience_ns)
                   for stream, counted in ((own, beat), *former))

    def _clock(self, host: Host, batch: Batch, pairing: Pairing, at: int) -> LocalClock | None:
        if pairing.local_clock != RAW_CLOCK or pairing.remote_host not in (None, host.name):
            return None
        name = pairing.remote_clock
        clock = host.clocks.get(name)
        if clock is None:
            made = LocalClock(Pair(pairing.remote_hz), batch.header.producer, epoch=batch.header.epoch)
            made.wraps_at(host.bits.get(name, 64))
            return host.clocks.setdefault(name, made)
        if base_of(clock.producer) != base_of(batch.header.producer) and not self._taken_over(clock, batch, at):
            return None
        return clock

    def _taken_over(self, clock: LocalClock, batch: Batch, at: int) -> bool:
        """One producer measures a clock, since only it can say how far; another one follows when that one is silent."""
        latest = clock.pair.burst or (clock.pair.nodes[-1] if clock.pair.nodes else None)
        if not clock.closed and latest is not None and at - latest.local <= self.rules.limit_s * NS:
            return False
        clock.producer, clock.epoch = batch.header.producer, batch.header.epoch
        clock.reopen()
        return True

    def _advance_to(self, name: str, clock: LocalClock, through: int | None) -> None:
        """``through`` None: the producer closed."""
        if through is None:
            clock.closed = True
            finish(clock.pair, self._rules(name))
        else:
            clock.reopen()
            advance(clock.pair, through, self._rules(name))

    def _rules(self, clock: str) -> PairRules:
        return replace(self.rules, assumptions=assumptions_for(clock))
