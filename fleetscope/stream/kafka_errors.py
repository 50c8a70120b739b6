"""Errors of kafka-python to ours, by what the caller does next. Imports no Kafka: classes are known by name."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fleetscope.errors import FencedError, FleetscopeError, RetryError, UsageError

FENCED: Final = frozenset({
    "CommitFailedError", "FencedInstanceIdError", "FencedMemberEpochError", "IllegalGenerationError",
    "InvalidProducerEpochError", "InvalidProducerIdMappingError", "ProducerFencedError", "StaleMemberEpochError",
    "TransactionCoordinatorFencedError", "UnknownMemberIdError",
})
_TOO_LARGE: Final = frozenset({"MessageSizeTooLargeError", "RecordListTooLargeError"})
_NO_TOPIC: Final = frozenset({"UnknownTopicOrPartitionError", "UnknownTopicIdError"})
_CREDENTIALS: Final = frozenset({
    "IllegalSaslStateError", "SaslAuthenticationFailedError", "UnsupportedSaslMechanismError",
})
_USAGE: Final = frozenset({
    "AuthorizationError", "InvalidConfigurationError", "InvalidGroupIdError", "InvalidPartitionsError",
    "InvalidReplicationFactorError", "InvalidSessionTimeoutError", "InvalidTopicError",
    "InvalidTransactionTimeoutError", "KafkaConfigurationError", "OffsetMetadataTooLargeError", "PolicyViolationError",
    "SecurityDisabledError", "UnsupportedForMessageFormatError", "UnsupportedVersionError",
})
_NAME = re.compile(r"\b\w+Error\b")


def _names(error: BaseException) -> set[str]:
    """Names of the error's classes and of errors its text tells of: a failed producer wraps the first cause so."""
    return {kind.__name__ for kind in type(error).__mro__} | set(_NAME.findall(str(error)))


def translate(error: BaseException, doing: str) -> FleetscopeError:
    """Our error for ``error`` met while ``doing`` (as in "sending to raw.spans")."""
    if isinstance(error, FleetscopeError):
        return error
    names = _names(error)
    text = f"Kafka, {doing}: {error}"
    if names & FENCED:
        return FencedError(text)
    if names & _CREDENTIALS:
        return UsageError(f"Kafka refused the credentials, {doing}: {error}")
    if names & _TOO_LARGE:
        return UsageError(f"the message is too large for the topic, {doing}")
    if names & _NO_TOPIC:
        return UsageError(f"there is no such topic or partition, {doing}")
    if names & _USAGE:
        return UsageError(text)
    return RetryError(text)


class _Causes(logging.Handler):
    """Keeps the exceptions that kafka-python logs while it tries to connect; it raises only a time-out at the end."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple):
            self.errors.extend(arg for arg in record.args if isinstance(arg, BaseException))


@contextmanager
def connecting(where: str, *, authenticates: bool = False) -> Iterator[None]:
    """Turn what goes wrong while a client is built into a UsageError that names the broker and the cause.

    A broker may answer wrong credentials by ending the connection: so read for a client that ``authenticates``.
    """
    causes = _Causes()
    logger = logging.getLogger("kafka.net.manager")
    logger.addHandler(causes)
    level = logger.level
    if not logger.isEnabledFor(logging.WARNING):
        logger.setLevel(logging.WARNING)  # whoever silenced kafka-python still wants the cause in our error
    try:
        yield
    except (FleetscopeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if "KafkaTimeoutError" not in _names(error):
            raise translate(error, f"connecting to {where}") from error
        for cause in causes.errors:
            if _names(cause) & (_CREDENTIALS | {"AuthorizationError"}):
                raise UsageError(f"the Kafka broker at {where} refused the credentials: {cause}") from error
        if authenticates and any("disconnected" in str(cause) for cause in causes.errors):
            raise UsageError(f"the Kafka broker at {where} refused the credentials, or is no SASL listener: it ended "
                             "the connection during authentication") from error
        last = f": {causes.errors[-1]}" if causes.errors else ""
        raise UsageError(f"no Kafka broker at {where} answers{last}") from error
    finally:
        logger.removeHandler(causes)
        logger.setLevel(level)
