"""What adjtimex says, from fields set by hand and from this machine."""

from __future__ import annotations

import pytest

from ingest.timex import decode, read_timex


def fields(**values: int) -> list[int]:
    places = {"offset": 1, "freq": 2, "max_error": 3, "est_error": 4, "status": 5, "tick": 11, "tai": 20}
    found = [0] * 64
    found[11] = 10_000
    for name, value in values.items():
        found[places[name]] = value
    return found


@pytest.mark.parametrize(("freq", "tick", "ppb"), [
    (0, 10_000, 0), (65_536, 10_000, 1_000), (-12 * 65_536 - 32_768, 10_000, -12_500), (0, 10_001, 100_000),
    (65_536, 9_999, -99_000)])
def test_the_rate_is_frequency_and_tick_together(freq: int, tick: int, ppb: int) -> None:
    assert decode(0, fields(freq=freq, tick=tick)).rate_ppb == ppb


def test_the_offset_is_in_ns_only_where_the_status_says_so() -> None:
    assert decode(0, fields(offset=7)).offset_ns == 7_000
    assert decode(0, fields(offset=7, status=0x2000)).offset_ns == 7


def test_a_correction_under_way_leaves_no_known_rate() -> None:
    assert decode(0, fields(offset=1)).rate_ppb is None
    assert decode(0, fields(), slew_us=-3).rate_ppb is None
    assert decode(0, fields(), slew_us=-3).steady_ppb == 0


def test_state_and_status_have_their_words() -> None:
    assert not decode(5, fields(status=0x40)).disciplined
    assert decode(5, fields(status=0x41)).flags == "pll,unsynchronized"
    assert decode(0, fields(status=0x2000)).flags == "none"


def test_what_is_an_int_in_the_structure_may_have_anything_above_it() -> None:
    assert decode(0, fields(tai=(7 << 32) | 37, status=(5 << 32) | 1)).tai_s == 37
    assert decode(0, fields(tai=(1 << 32) - 2)).tai_s == -2


def test_this_kernel_answers_within_its_own_limits() -> None:
    found = read_timex()
    assert found is not None
    assert 9_000 <= found.tick_us <= 11_000
    assert abs(found.frequency_ppb) <= 500_000
    assert 0 <= found.max_error_us <= 16_000_000
