"""The pipeline's own figures."""

from __future__ import annotations

import socket
import urllib.request
from threading import Thread

from prometheus_client import generate_latest

from fleetscope.contracts.codec import decode, encode
from processors.metrics import Metrics


def test_counters_add_up_by_step_and_partition() -> None:
    metrics = Metrics()
    metrics.count("rows", "align", 0, 10)
    metrics.count("rows", "align", 0, 5)
    metrics.count("rows", "align", 1, 2)
    metrics.count("rows", "windows", 0, 100)
    assert metrics.total("rows", "align") == 17
    assert metrics.values()["rows_total", "align", 0] == 15


def test_a_gauge_keeps_its_last_value() -> None:
    metrics = Metrics()
    metrics.gauge("lag", "align", 3, 7)
    metrics.gauge("lag", "align", 3, 2)
    assert metrics.values() == {("lag", "align", 3): 2}


def test_values_are_a_copy() -> None:
    metrics = Metrics()
    before = metrics.values()
    metrics.count("rows", "align", 0, 1)
    assert before == {}


def test_rows_of_telemetry_say_what_was_counted_and_are_numbered() -> None:
    metrics = Metrics("worker-1")
    metrics.count("rows", "align", 2, 4)
    metrics.gauge("lag", "windows", 0, 9)
    first, second = metrics.batch(1_790_000_000_000_000_000, 5), metrics.batch(1_790_000_001_000_000_000, 5)
    assert [(r["step"], r["partition"], r["metric"], r["value"]) for r in first.rows.to_pylist()] == [
        ("windows", 0, "lag", 9.0), ("align", 2, "rows_total", 4.0)]
    assert (first.header.sequence, second.header.sequence, first.header.epoch) == (0, 1, 5)
    assert first.header.host == "worker-1"
    message = encode(first)
    assert decode(message.key, message.value, message.headers).rows.to_pylist() == first.rows.to_pylist()


def test_prometheus_sees_the_same_figures() -> None:
    metrics = Metrics()
    metrics.count("rows", "align", 0, 3)
    metrics.gauge("lag", "align", 1, 8)
    text = generate_latest(metrics.registry).decode()
    assert 'fleetscope_rows_total{partition="0",step="align"} 3.0' in text
    assert 'fleetscope_lag{partition="1",step="align"} 8.0' in text


def test_two_registries_do_not_share_figures() -> None:
    one, other = Metrics(), Metrics()
    one.count("rows", "align", 0, 3)
    assert b"fleetscope_rows" not in generate_latest(other.registry)


def test_nothing_is_lost_between_threads() -> None:
    metrics = Metrics()

    def add() -> None:
        for _ in range(500):
            metrics.count("rows", "align", 0, 1)

    threads = [Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.total("rows", "align") == 2_000
    assert b'fleetscope_rows_total{partition="0",step="align"} 2000.0' in generate_latest(metrics.registry)


def test_the_endpoint_answers_on_the_address_it_was_given() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    metrics = Metrics()
    metrics.count("rows", "align", 0, 3)
    metrics.serve("127.0.0.1", port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert b"fleetscope_rows_total" in answer.read()
