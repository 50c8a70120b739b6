from __future__ import annotations

import errno

import pytest

from fleetscope.errors import FleetscopeError, RetryError, StoreError, UsageError
from fleetscope.store.failures import database_failure, local_failure, one_line, reason


@pytest.mark.parametrize(("code", "kind"), [
    (252, RetryError), (241, RetryError), (243, RetryError), (159, RetryError), (999, RetryError),
    (516, UsageError), (497, UsageError), (60, StoreError), (62, StoreError), (None, StoreError),
])
def test_the_code_decides_what_the_caller_does_next(code: int | None, kind: type[FleetscopeError]) -> None:
    assert type(database_failure("insert into spans", "Code: 1. DB::Exception: why", code, None)) is kind


def test_a_refusal_carries_code_name_and_what_was_attempted() -> None:
    error = database_failure("insert into spans", "Code: 60. DB::Exception: no table. (UNKNOWN_TABLE)", 60,
                             "UNKNOWN_TABLE")
    assert isinstance(error, StoreError)
    assert (error.code, error.name) == (60, "UNKNOWN_TABLE")
    assert str(error) == "insert into spans: no table. (UNKNOWN_TABLE)"


@pytest.mark.parametrize("error", [
    database_failure("insert into spans", "Code: 243. DB::Exception: cannot reserve 1 MiB", 243, None),
    database_failure("insert into spans", "Code: 75. DB::Exception: write: No space left on device", 75, None),
    local_failure("insert into spans", OSError(errno.ENOSPC, "No space left on device")),
])
def test_a_full_disk_says_so_and_may_be_tried_again(error: FleetscopeError) -> None:
    assert isinstance(error, RetryError)
    assert str(error).startswith("disk full: insert into spans")


def test_messages_are_one_readable_line() -> None:
    text = one_line("answer: Code: 117. DB::Exception: Code: 117. DB::Exception: two\n  lines" + "x" * 2000)
    assert text.startswith("two lines")
    assert len(text) < 700


def test_the_innermost_cause_of_a_network_error_is_named() -> None:
    inner = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    outer = RuntimeError("HTTPConnectionPool(host='x', port=1): Max retries exceeded")
    outer.__cause__ = inner
    assert reason(outer) == "Connection refused"
