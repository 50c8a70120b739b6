"""Settings become options of kafka-python's clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.record import util
from pydantic import SecretStr

from fleetscope.contracts.topics import TOPICS
from fleetscope.errors import UsageError
from fleetscope.settings import KafkaSettings
from fleetscope.stream import kafka_config as config
from fleetscope.stream.kafka import KafkaStream

SECURE = KafkaSettings(bootstrap_servers="a:1, b:2", security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512",
                       sasl_username="me", sasl_password=SecretStr("hidden"))


def test_every_option_is_one_the_client_knows() -> None:
    assert config.connection(SECURE).keys() <= KafkaAdminClient.DEFAULT_CONFIG.keys()
    assert config.transactional(SECURE, "id").keys() <= KafkaProducer.DEFAULT_CONFIG.keys()
    assert config.consumer(SECURE, "group").keys() <= KafkaConsumer.DEFAULT_CONFIG.keys()


def test_servers_and_credentials_are_passed_through() -> None:
    options = config.connection(SECURE)
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert options["security_protocol"] == "SASL_SSL"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("me", "hidden")


def test_a_password_file_goes_before_the_password_and_loses_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the file\n")
    settings = SECURE.model_copy(update={"sasl_password_file": tmp_path / "secret"})
    assert config.connection(settings)["sasl_plain_password"] == "of the file"


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(UsageError, match="absent cannot be read"):
        config.connection(SECURE.model_copy(update={"sasl_password_file": absent}))
    with pytest.raises(UsageError, match=r"ssl_cafile: there is no file .*absent"):
        config.connection(SECURE.model_copy(update={"ssl_cafile": absent}))


def test_extra_options_reach_the_clients_that_know_them_and_win() -> None:
    extra: dict[str, str | int | bool] = {"linger_ms": 50, "fetch_max_wait_ms": 7}
    producer = config.with_extra(config.producer(SECURE, "c"), extra, KafkaProducer.DEFAULT_CONFIG)
    consumer = config.with_extra(config.consumer(SECURE, "g"), extra, KafkaConsumer.DEFAULT_CONFIG)
    assert producer["linger_ms"] == 50
    assert "fetch_max_wait_ms" not in producer
    assert consumer["fetch_max_wait_ms"] == 7


def test_an_extra_option_that_no_client_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="no option lingr_ms"):
        KafkaStream(KafkaSettings(extra={"lingr_ms": 5}))


def test_requests_and_fetches_have_room_for_the_largest_message() -> None:
    largest = max(topic.max_message_bytes for topic in TOPICS)
    assert largest < config.MAX_REQUEST_BYTES
    assert largest <= config.PARTITION_FETCH_BYTES
    assert min(topic.max_message_bytes for topic in TOPICS) > config.BATCH_BYTES


def test_checksums_are_those_of_the_crc32c_package() -> None:
    assert util.crc32c_c is not None
    assert util.crc32c_c.__module__.startswith("crc32c")
