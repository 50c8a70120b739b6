"""Errors of kafka-python become ours, by what the caller does next."""

from __future__ import annotations

import logging

import kafka.errors
import pytest

from fleetscope.errors import FencedError, FleetscopeError, RetryError, UsageError
from fleetscope.stream.kafka_errors import connecting, translate


@pytest.mark.parametrize(("error", "kind"), [
    (kafka.errors.ProducerFencedError(), FencedError),
    (kafka.errors.InvalidProducerEpochError(), FencedError),
    (kafka.errors.CommitFailedError(), FencedError),
    (kafka.errors.IllegalGenerationError(), FencedError),
    (kafka.errors.UnknownMemberIdError(), FencedError),
    (kafka.errors.SaslAuthenticationFailedError(), UsageError),
    (kafka.errors.TopicAuthorizationFailedError(), UsageError),
    (kafka.errors.GroupAuthorizationFailedError(), UsageError),
    (kafka.errors.MessageSizeTooLargeError(), UsageError),
    (kafka.errors.UnknownTopicOrPartitionError(), UsageError),
    (kafka.errors.KafkaConfigurationError("x"), UsageError),
    (kafka.errors.RebalanceInProgressError(), RetryError),
    (kafka.errors.KafkaTimeoutError(), RetryError),
    (kafka.errors.KafkaConnectionError("x"), RetryError),
    (kafka.errors.OutOfOrderSequenceNumberError(), RetryError),
])
def test_an_error_is_named_by_what_to_do_next(error: Exception, kind: type[FleetscopeError]) -> None:
    ours = translate(error, "sending to raw.spans")
    assert type(ours) is kind
    assert "sending to raw.spans" in str(ours)
    assert "\n" not in str(ours)


def test_the_cause_inside_a_failed_producers_error_counts() -> None:
    cause = kafka.errors.ProducerFencedError()
    assert isinstance(translate(kafka.errors.KafkaError(f"we are in an error state: {cause}"), "x"), FencedError)
    assert isinstance(translate(kafka.errors.KafkaError("a previous request failed", cause), "x"), FencedError)


def test_our_own_errors_pass_unchanged() -> None:
    error = UsageError("as it is")
    assert translate(error, "x") is error


def _fail_to_connect(cause: Exception, *, authenticates: bool) -> None:
    with connecting("b:9", authenticates=authenticates):
        logging.getLogger("kafka.net.manager").warning("failed: %s", cause)
        raise kafka.errors.KafkaTimeoutError("Unable to bootstrap")


def test_a_time_out_while_connecting_names_the_broker_and_the_last_cause() -> None:
    with pytest.raises(UsageError, match="no Kafka broker at b:9 answers: KafkaConnectionError: refused"):
        _fail_to_connect(kafka.errors.KafkaConnectionError("refused"), authenticates=True)
    assert not logging.getLogger("kafka.net.manager").handlers


def test_a_connection_ended_during_authentication_reads_as_refused_credentials() -> None:
    cause = kafka.errors.KafkaConnectionError("socket disconnected")
    with pytest.raises(UsageError, match="refused the credentials"):
        _fail_to_connect(cause, authenticates=True)
    with pytest.raises(UsageError, match="no Kafka broker"):
        _fail_to_connect(cause, authenticates=False)
