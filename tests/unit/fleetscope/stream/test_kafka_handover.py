"""A call on a helper thread, its callbacks on the caller's."""

from __future__ import annotations

import threading

import pytest

from fleetscope.stream.kafka_handover import Handover


def test_the_call_runs_elsewhere_and_its_callbacks_here() -> None:
    handover: Handover[str] = Handover("test")
    where: dict[str, threading.Thread] = {}

    def call() -> str:
        where["call"] = threading.current_thread()
        done = threading.Event()
        handover.ask(lambda: where.update(callback=threading.current_thread()), done.set)
        assert done.wait(5)
        return "result"

    assert handover.run(call) == "result"
    assert where["callback"] is threading.current_thread()
    assert where["call"] is not threading.current_thread()
    assert handover.close(5)


def test_an_error_of_the_call_is_raised_here_and_the_next_run_works() -> None:
    handover: Handover[int] = Handover("test")

    def fail() -> int:
        raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        handover.run(fail)
    assert handover.run(lambda: 2) == 2
    assert handover.close(5)


def test_an_error_of_a_callback_is_raised_after_the_call_was_let_go_on() -> None:
    handover: Handover[int] = Handover("test")
    went_on = threading.Event()

    def refuse() -> None:
        raise ValueError("refused")

    def call() -> int:
        done = threading.Event()
        handover.ask(refuse, done.set)
        assert done.wait(5)
        went_on.set()
        return 1

    with pytest.raises(ValueError, match="refused"):
        handover.run(call)
    assert went_on.is_set()
    assert handover.close(5)


def test_an_interrupted_run_loses_no_result() -> None:
    handover: Handover[str] = Handover("test")
    release = threading.Event()

    def call() -> str:
        handover.ask(interrupt, lambda: None)
        assert release.wait(5)
        return "first"

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        handover.run(call)
    release.set()
    assert handover.run(lambda: "second") == "first"
    assert handover.run(lambda: "second") == "second"
    assert handover.close(5)


def test_close_tells_when_the_call_does_not_return() -> None:
    handover: Handover[None] = Handover("test")
    release = threading.Event()

    def call() -> None:
        handover.ask(interrupt, lambda: None)
        release.wait(5)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        handover.run(call)
    assert not handover.close(0.05)
    release.set()
