"""Samples of all clocks of a host, in two heaps: for the fleet clock step, and for the host itself."""

from __future__ import annotations

from typing import NamedTuple

from ingest.clocks import REALTIME, REFERENCE, Exchange, HostClocks, burst, names, quickest
from ingest.links.initiator import FourStamps
from ingest.links.prober import Prober
from ingest.ptp import PtpClocks
from ingest.suspend import SuspendWatch
from ingest.timex import Timex


class Sample(NamedTuple):
    """A row of clock_samples measured by this host; stamps in ns."""

    kind: str
    clock: str
    before: int
    first: int | None = None
    last: int | None = None
    after: int | None = None
    host: str | None = None
    rate_ppb: int | None = None


def rate_samples(timex: Timex | None, at: Exchange) -> list[Sample]:
    """What adjtimex says of REALTIME's rate, as a row of kind ``rate``; ``at``: both clocks at this look.

    Stated at every look, so that a change falls between two rows. While a correction of unknown speed is under way
    there is no rate to state.
    """
    rate = None if timex is None else timex.rate_ppb
    return [] if rate is None else [Sample("rate", REALTIME, at.before, at.other, rate_ppb=rate)]


class ClockSampler:
    """``links`` goes to the fleet clock step, ``own`` to the host; the caller empties them."""

    def __init__(self, clocks: HostClocks, ptp: PtpClocks | None = None, prober: Prober | None = None) -> None:
        self.links: list[Sample] = []
        self.own: list[Sample] = []
        self.slept: list[tuple[int, int]] = []
        """(ticks when it was noticed, ns slept)."""
        self._clocks, self._ptp, self._prober = clocks, ptp, prober
        self._suspend = SuspendWatch(clocks)
        self._links_through: int | None = None

    def read(self) -> None:
        """A burst of every clock of the host."""
        timex = self._clocks.discipline()
        slept = self._suspend.look()
        if slept:
            self.slept.append((self._clocks.monotonic_raw_ns(), slept))
        for clock in names(timex):
            kept = quickest(burst(self._clocks, clock))
            heap = self.links if clock == REALTIME else self.own
            heap.extend(_three(clock, exchange) for exchange in kept)
            if clock == REALTIME and kept:
                self.links.extend(rate_samples(timex, kept[0]))
        if self._ptp is not None:
            for name, exchanges in self._ptp.read().items():
                self.own.extend(_three(name, exchange) for exchange in exchanges)

    def gather(self) -> None:
        """Take what the prober measured."""
        if self._prober is not None:
            found, self._links_through = self._prober.take()
            self.links.extend(_four(host, stamps) for host, stamps in found)

    def links_through(self, now: int) -> int:
        """Rows for the fleet clock step that come later are not earlier than this."""
        return min((s.before for s in self.links), default=now) if self._links_through is None \
            else min(now, self._links_through, *(s.before for s in self.links))

    def oldest(self) -> int | None:
        """The earliest stamp that waits; None where nothing does."""
        return min((s.before for heap in (self.links, self.own) for s in heap), default=None)


def _three(clock: str, exchange: Exchange) -> Sample:
    return Sample("exchange", clock, exchange.before, exchange.other, None, exchange.after)


def _four(host: str, stamps: FourStamps) -> Sample:
    return Sample("exchange", REFERENCE, stamps.before, stamps.received, stamps.sent, stamps.after, host)
