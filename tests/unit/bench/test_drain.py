"""When a pipeline counts as drained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from bench import drain
from bench.drain import NotDrainedError, drained_at


class Scripted:
    """A pipeline whose state at each look is given; the last one stays."""

    def __init__(self, looks: Sequence[bool], error: BaseException | None = None) -> None:
        self._looks = list(looks)
        self.error = error

    def drained(self, idle_s: float) -> bool:
        assert idle_s == 0.0
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]


class Hand:
    """Time moved by the waits."""

    def __init__(self) -> None:
        self.at = 100.0

    def perf_counter(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    clock = Hand()
    monkeypatch.setattr(drain, "time", clock)
    monkeypatch.setattr(drain, "cpu_seconds", lambda: clock.at * 2)
    return clock


def moment(pipeline: Scripted, idle_s: float = 0.5, timeout_s: float = 10.0) -> drain.Moment:
    return drained_at(cast("Any", pipeline), idle_s, timeout_s)


def test_the_moment_is_when_it_became_idle_not_when_that_was_known(hand: Hand) -> None:
    ended = moment(Scripted([False, False, True]))
    assert ended.wall_s == pytest.approx(100.0 + 2 * drain.LOOK_S)
    assert ended.cpu_s == pytest.approx(2 * ended.wall_s)
    assert hand.at >= ended.wall_s + 0.5


def test_work_that_was_still_on_its_way_starts_the_wait_again(hand: Hand) -> None:
    ended = moment(Scripted([True, True, True, False, True]))
    assert ended.wall_s == pytest.approx(100.0 + 4 * drain.LOOK_S)


def test_a_pipeline_that_stays_busy_is_reported(hand: Hand) -> None:
    with pytest.raises(NotDrainedError, match="after 3 s"):
        moment(Scripted([False]), timeout_s=3.0)


def test_what_stopped_a_unit_is_raised(hand: Hand) -> None:
    with pytest.raises(KeyError, match="broken"):
        moment(Scripted([False], KeyError("broken")))
