"""A blocking call on a helper thread whose callbacks run on the caller's thread.

kafka-python calls rebalance listeners on its input/output thread, where a blocking call (commit, committed, position)
cannot be made and a slow one stops the heartbeats. The callbacks of ``Consumer`` may do all of that, so ``poll`` runs
here and the listener hands each callback back to the thread that polls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Call = Callable[[], None]


class Handover(Generic[Result]):
    """One call at a time. ``ask`` may be called from any thread while ``run`` waits, and also between two runs."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], Result] | None] = SimpleQueue()
        self._events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._busy = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Result]) -> Result:
        """The result of ``call``; runs asked callbacks meanwhile, here.

        An exception of a callback is raised when ``call`` is over, in place of its result. A run that was interrupted
        here (KeyboardInterrupt) goes on over there: the next run returns its result instead of making its own call.
        """
        if not self._busy:
            self._busy = True
            self._calls.put(call)
        raised: Exception | None = None
        while True:
            kind, content = self._events.get()
            if kind == "callback":
                callback, done = content
                try:
                    callback()
                except Exception as error:  # noqa: BLE001 - raised below, on the thread it belongs to
                    raised = raised or error
                finally:
                    done()
                continue
            self._busy = False
            if raised is not None:
                raise raised
            if kind == "error":
                raise content
            result: Result = content
            return result

    def ask(self, callback: Call, done: Call) -> None:
        """Have ``callback`` run by the thread inside ``run`` (or by the next run), then ``done``."""
        self._events.put(("callback", (callback, done)))

    def close(self, timeout_s: float) -> bool:
        """End the helper thread; False where its call did not return in time."""
        self._calls.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                result = call()
            except Exception as error:  # noqa: BLE001 - raised by run
                self._events.put(("error", error))
            else:
                self._events.put(("result", result))
