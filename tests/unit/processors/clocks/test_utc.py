"""Fleet time that slews towards UTC, and how far it is from it."""

from __future__ import annotations

from itertools import pairwise

from processors.clocks.fixed import ONE_Q32
from processors.clocks.fleet_state import NS, Group, HostClock
from processors.clocks.segments import Segment
from processors.clocks.utc import SLEW_PPB, slew_ppb, utc_at, utc_cell


def host(offsets_ns: list[int | None], epochs: list[int] | None = None) -> HostClock:
    """A reference at tick 0 with fleet time 0; a piece a second of UTC at these offsets, None: a gap."""
    made = HostClock("a", cursor=0, value=0)
    for i, offset in enumerate(offsets_ns):
        made.utc_segments.append(Segment(
            (epochs or [0] * len(offsets_ns))[i], i * NS, (i + 1) * NS, i * NS, i * NS + (offset or 0), ONE_Q32,
            None if offset is None else 50, None, "gap" if offset is None else "settled", 0))
    return made


def test_fleet_time_comes_to_utc_by_at_most_5_ppm_and_stays() -> None:
    fleet, jump = 0, 30_000
    away = []
    for second in range(60):
        ppb = slew_ppb(second * NS + jump, fleet)
        assert abs(ppb) <= SLEW_PPB
        fleet += NS + ppb
        away.append((second + 1) * NS + jump - fleet)
    assert all(later <= earlier for earlier, later in pairwise(away))
    assert abs(away[-1]) < 200
    assert slew_ppb(None, 5) == 0


def test_the_bound_against_utc_covers_what_is_still_to_be_slewed() -> None:
    reference = host([30_000, 30_500])
    cell = utc_cell(reference, Group(1, "a", utc_epoch=0), 2 * NS, 2 * NS)
    assert cell.err_ns is not None
    for t in (0, NS - 1, NS, 2 * NS - 1):
        assert abs((utc_at(reference, t) or 0) - t) + 50 <= cell.err_ns
    assert [(first, last) for first, last, *_ in cell.parts] == [(0, 2 * NS)]


def test_a_gap_of_utc_cuts_the_cell_and_takes_the_bound_of_all_of_it() -> None:
    cell = utc_cell(host([0, None, 0]), Group(1, "a", utc_epoch=0), 3 * NS, 3 * NS)
    assert [err is None for *_, err, _ in cell.parts] == [False, True, False]
    assert cell.err_ns is None


def test_a_step_of_utc_begins_an_epoch_where_it_is_known() -> None:
    group = Group(1, "a", utc_epoch=0)
    cell = utc_cell(host([0, None, 9_000], [0, 0, 1]), group, 3 * NS, 3 * NS)
    assert [(first, begun) for first, _, begun, *_ in cell.parts] == [(0, 0), (NS, 0), (2 * NS, 1)]
    assert group.utc_epoch == 1
