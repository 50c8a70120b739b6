"""What a failed database call means to the caller: wait and repeat, change something, or stop."""

from __future__ import annotations

import errno
import re
from typing import Final

from fleetscope.errors import FleetscopeError, RetryError, StoreError, UsageError

_PASSING: Final = {
    159: "TIMEOUT_EXCEEDED", 202: "TOO_MANY_SIMULTANEOUS_QUERIES", 203: "NO_FREE_CONNECTION", 209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR", 225: "NO_ZOOKEEPER", 236: "ABORTED", 241: "MEMORY_LIMIT_EXCEEDED",
    242: "TABLE_IS_READ_ONLY", 252: "TOO_MANY_PARTS", 279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS", 286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", 319: "UNKNOWN_STATUS_OF_INSERT",
    394: "QUERY_WAS_CANCELLED", 745: "SERVER_OVERLOADED", 999: "KEEPER_EXCEPTION",
}
_PERSON: Final = {192: "UNKNOWN_USER", 193: "WRONG_PASSWORD", 194: "REQUIRED_PASSWORD", 497: "ACCESS_DENIED",
                  516: "AUTHENTICATION_FAILED"}
_NOT_ENOUGH_SPACE: Final = 243
_NO_SPACE_TEXT: Final = "No space left on device"
_PREFIX: Final = re.compile(r"^.*?(?:Code: \d+\. DB::Exception: )+", re.DOTALL)
_MAX_CHARS: Final = 600


def one_line(text: str) -> str:
    """A server's message without its repeated prefix, on one line, cut to a readable length."""
    line = " ".join(_PREFIX.sub("", text, count=1).split())
    return line if len(line) <= _MAX_CHARS else line[:_MAX_CHARS] + " …"


def database_failure(doing: str, text: str, code: int | None, name: str | None) -> FleetscopeError:
    """The error for an answer with ``code``; ``doing`` says what was attempted, such as 'insert into spans'."""
    message = f"{doing}: {one_line(text)}"
    if code == _NOT_ENOUGH_SPACE or _NO_SPACE_TEXT in text:
        return RetryError(f"disk full: {message}")
    if code in _PERSON:
        return UsageError(f"ClickHouse refused the user: {message}")
    if code in _PASSING:
        return RetryError(message)
    return StoreError(message, code=code, name=name)


def network_failure(doing: str, error: BaseException) -> RetryError:
    """The error for a call that got no answer."""
    return RetryError(f"{doing}: no answer from ClickHouse: {reason(error)}")


def local_failure(doing: str, error: OSError) -> FleetscopeError:
    """The error for a file of our own that could not be written, such as the block on its way to the engine."""
    if error.errno == errno.ENOSPC:
        return RetryError(f"disk full: {doing}: {error.strerror}")
    return StoreError(f"{doing}: {error}")


def reason(error: BaseException) -> str:
    """The innermost cause of a network error in a few words: 'Connection refused' rather than the pool's essay."""
    seen: set[int] = set()
    inner: BaseException = error
    while id(inner) not in seen:
        seen.add(id(inner))
        deeper = getattr(inner, "reason", None) or inner.__cause__
        if not isinstance(deeper, BaseException):
            break
        inner = deeper
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    text = " ".join(str(inner).split()) or type(inner).__name__
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text)
    return found.group(1) if found else text[:200]
