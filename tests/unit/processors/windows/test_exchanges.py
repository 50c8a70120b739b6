"""What the rows of a host say of collectives and transfers."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest

from processors.windows.chunks import NO_CODE, NUMBER_BITS, SIZE_BITS, Rows
from processors.windows.exchanges import Exchange, exchanges
from processors.windows.works import COLLECTIVE, D2H, H2D, NONE, Peaks

RATE = 10e9
"""10 bytes/ns."""
PEAKS = {0: Peaks(h2d_bytes_per_s=RATE, d2h_bytes_per_s=RATE), 1: Peaks(h2d_bytes_per_s=RATE, d2h_bytes_per_s=RATE)}
US = 1_000
NO_PATHS: dict[int, frozenset[str]] = {}


@dataclass(frozen=True)
class Row:
    start: int
    length: int
    role: int = H2D
    device: int = 0
    bytes: int = -1
    tag: int = NONE
    err: int = 100


def met(group: int, number: int, size: int) -> int:
    return (group << NUMBER_BITS | number) << SIZE_BITS | size


def rows(*given: Row) -> Rows:
    def ints(values: list[int]) -> np.ndarray:
        return np.array(values, np.int64)

    none = {f.name: np.full(len(given), NONE, np.int64) for f in fields(Rows)}
    return Rows(**(none | {
        "start": ints([r.start for r in given]), "stop": ints([r.start + r.length for r in given]),
        "role": ints([r.role for r in given]), "device": ints([r.device for r in given]),
        "bytes": ints([r.bytes for r in given]), "err": ints([r.err for r in given]),
        "tag": ints([r.tag for r in given]), "waits": ints([]), "job": ints([NO_CODE for _ in given])}))


def of(*given: Row, paths: dict[int, frozenset[str]] = NO_PATHS, peaks: dict[int, Peaks] = PEAKS) -> Exchange:
    found = exchanges(rows(*given), peaks, paths)
    assert found is not None
    return found


def test_kernels_exchange_nothing() -> None:
    assert exchanges(rows(Row(0, 10, role=0)), PEAKS, NO_PATHS) is None


def test_all_members_on_the_host_show_when_the_last_one_came() -> None:
    found = of(Row(0, 100, COLLECTIVE, 0, 8, met(1, 7, 2)), Row(60, 40, COLLECTIVE, 1, 8, met(1, 7, 2)),
               Row(200, 10, COLLECTIVE, 0, 8, met(1, 8, 2)))
    assert found.arrived.tolist() == [60, 60, NONE]  # the other member of the last one is not there yet


def test_members_elsewhere_are_told_by_the_fastest_of_the_same_size() -> None:
    found = of(*(Row(1_000 * n, length, COLLECTIVE, 0, 8, met(1, n, 4)) for n, length in enumerate((90, 30, 60))),
               Row(9_000, 500, COLLECTIVE, 0, 16, met(1, 9, 4)))
    assert found.ceiling.tolist() == [30, 30, 30, 500]
    assert (found.arrived == NONE).all()


def test_of_many_the_fastest_but_one_counts() -> None:
    found = of(*(Row(1_000 * n, 50 + n, COLLECTIVE, 0, 8, met(1, n, 0)) for n in range(8)))
    assert set(found.ceiling.tolist()) == {51}


def test_few_bytes_cannot_move_for_long_even_if_every_collective_waited() -> None:
    found = of(*(Row(10**7 * n, 5 * 10**6, COLLECTIVE, 0, 100, met(1, n, 4)) for n in range(4)))
    assert found.ceiling.tolist() == pytest.approx([100 * US + 80] * 4)


def test_a_stated_bus_bounds_what_moving_takes() -> None:
    peaks = {0: Peaks(bus_bytes_per_s=1e9)}
    slow = [Row(10_000 * n, 4_000, COLLECTIVE, 0, 1_000, met(1, n, 4)) for n in range(3)]
    assert of(*slow, peaks=peaks).ceiling.tolist() == pytest.approx([1_000 / 0.7] * 3)


def test_transfers_at_the_links_rate_have_a_set_up_and_no_company() -> None:
    found = of(*(Row(n * 10**6, size // 10 + 2 * US, bytes=size) for n, size in enumerate((10_000, 10**6, 5 * 10**6))))
    assert found.ceiling.tolist() == [1_000, 100_000, 500_000]
    assert found.shared.tolist() == [0, 0, 0]


def test_small_transfers_with_a_long_set_up_say_nothing_of_the_path() -> None:
    found = of(*(Row(n * 10**6, 40 * US, bytes=256) for n in range(5)))
    assert found.ceiling.tolist() == pytest.approx([25.6] * 5)


def test_large_transfers_alone_show_a_path_that_gives_less() -> None:
    sizes = (10**6, 2 * 10**6, 4 * 10**6, 8 * 10**6)
    found = of(*(Row(n * 10**8, size + 5 * US, D2H, bytes=size) for n, size in enumerate(sizes)))
    assert found.ceiling.tolist() == pytest.approx([size * 1.0 for size in sizes], rel=1e-6)


def test_time_lost_beside_others_on_the_path_is_theirs() -> None:
    alone = [Row(n * 10**6, 100 * US + US, bytes=10**6) for n in range(4)]
    beside = [Row(10**7, 200 * US, bytes=10**6), Row(10**7, 200 * US, device=1, bytes=10**6)]
    found = of(*alone, *beside)
    assert found.shared.tolist()[:5] == pytest.approx([0, 0, 0, 0, 99 * US])
    other = of(*alone, *beside, paths={0: frozenset({"rp0"}), 1: frozenset({"rp1"})})
    assert other.shared.tolist() == [0] * 6


def test_a_link_that_gave_nothing_for_a_while_is_the_paths_time() -> None:
    quick = [Row(n * 10**8, 100 * US + US, bytes=10**6) for n in range(8)]
    found = of(*quick, Row(10**9, 45_000 * US, bytes=10**6))
    assert found.ceiling[-1] == pytest.approx(45_000 * US - 50 * US)


def test_rows_without_a_bound_or_a_size_are_left_to_the_peaks() -> None:
    found = of(Row(0, 100, bytes=10, err=-1), Row(200, 100), Row(400, 100, bytes=10))
    assert np.isnan(found.ceiling).tolist() == [True, True, False]
