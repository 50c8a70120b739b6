"""One message after another on its way, with one fault at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fleetscope.contracts.codec import Encoded
from simulator.faults.plan import FLUSH_NS, NS, HostPlan, Spool
from simulator.faults.settings import Collection
from simulator.faults.transit import Publication, Transit
from simulator.truth import NoSink, Tally


def message(number: int, contract: str = "spans") -> Publication:
    return Publication(f"raw.{contract}", Encoded(b"h", b"%012d" % number, ()), 10, contract, (number + 1) * FLUSH_NS)


class Way:
    """A transit that is given one message a flush and asked for what is due first, as a host does."""

    def __init__(self, collection: Collection, plan: HostPlan | None = None) -> None:
        self.tallies = {name: Tally() for name in ("spans", "counters", "heartbeats")}
        self.transit = Transit("h", collection, plan or HostPlan(), np.random.default_rng(3), self.tallies, NoSink())

    def run(self, count: int, contract: str = "spans") -> list[tuple[int, int]]:
        """(number of the message, number of the flush at which it arrived) of everything that arrives in time."""
        arrived: list[tuple[int, int]] = []
        for number in range(count):
            flush_ns = (number + 1) * FLUSH_NS
            arrived += self._noted(list(self.transit.due(flush_ns)))
            arrived += self._noted(list(self.transit.send(message(number, contract), None)))
        return arrived

    @staticmethod
    def _noted(publications: Sequence[Publication]) -> list[tuple[int, int]]:
        return [(int(p.message.value), p.flushed_ns // FLUSH_NS - 1) for p in publications]


def test_without_faults_everything_arrives_at_once_in_order() -> None:
    way = Way(Collection())
    assert way.run(5) == [(n, n) for n in range(5)]
    assert not way.transit.waiting


def test_lost_batches_are_counted_and_never_arrive() -> None:
    way = Way(Collection(lost_share=0.3))
    arrived = way.run(200)
    assert 100 < len(arrived) < 180
    assert way.tallies["spans"].lost == 10 * (200 - len(arrived))


def test_a_burst_loses_what_is_published_in_it_and_nothing_else() -> None:
    way = Way(Collection(), HostPlan(bursts=[(NS, 2 * NS, 1.0)]))
    assert [number for number, _ in way.run(12)] == [0, 1, 2, 3, 9, 10, 11]
    assert way.tallies["spans"].lost == 50


def test_late_batches_arrive_within_their_bounds_after_others_and_only_once() -> None:
    way = Way(Collection(late_share=0.4, late_min_s=1.0, late_max_s=2.0))
    arrived = way.run(100)
    late = [at - number for number, at in arrived if at != number]
    assert late
    assert 5 <= min(late) <= max(late) <= 11
    rest = list(way.transit.rest(0))
    assert sorted([n for n, _ in arrived] + [int(p.message.value) for p in rest]) == list(range(100))
    assert way.tallies["spans"].late == 10 * (len(late) + len(rest))


def test_reordered_batches_are_overtaken_by_less_than_they_may() -> None:
    arrived = Way(Collection(reordered_share=0.5, reorder_s=1.0)).run(200)
    order = [number for number, _ in arrived]
    assert order != sorted(order)
    assert max(at - number for number, at in arrived) <= 5


def test_a_redelivered_batch_comes_again_five_messages_later() -> None:
    way = Way(Collection(redelivered_share=1.0))
    assert way.run(8) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (0, 5), (6, 6), (1, 6), (7, 7), (2, 7)]
    assert way.tallies["spans"].redelivered == 80


def test_a_cut_way_holds_everything_up_and_delivers_it_in_order_when_it_is_over() -> None:
    way = Way(Collection(), HostPlan(spools=[Spool(FLUSH_NS, 5 * FLUSH_NS, 0)]))
    assert way.run(6, "heartbeats") == [(0, 0), (1, 4), (2, 4), (3, 4), (4, 4), (5, 5)]
    assert way.tallies["heartbeats"].late == 30


def test_a_spool_sends_the_last_messages_before_the_cut_again_first() -> None:
    way = Way(Collection(), HostPlan(spools=[Spool(3 * FLUSH_NS, 5 * FLUSH_NS, 2 * FLUSH_NS)]))
    assert way.run(6) == [(0, 0), (1, 1), (2, 2), (1, 4), (2, 4), (3, 4), (4, 4), (5, 5)]
    assert way.tallies["spans"].redelivered == 20


def test_a_late_batch_that_falls_due_while_the_way_is_cut_waits_for_its_end() -> None:
    way = Way(Collection(late_share=1.0, late_min_s=0.4, late_max_s=0.4),
              HostPlan(spools=[Spool(2 * FLUSH_NS, 8 * FLUSH_NS, 0)]))
    assert min(at for _, at in way.run(12)) == 7


@pytest.mark.parametrize("contract", ["heartbeats"])
def test_shares_are_of_spans_and_counters_alone(contract: str) -> None:
    assert len(Way(Collection(lost_share=1.0)).run(20, contract)) == 20
