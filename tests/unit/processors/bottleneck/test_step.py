"""The bottleneck step: revisions, watermarks, runs of loss."""

from __future__ import annotations

import json
from typing import Any

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import decode, encode
from fleetscope.contracts.derived import WINDOWS
from fleetscope.step import Output, replay
from processors.bottleneck.step import BottleneckStep
from tests.unit.processors.bottleneck.test_rules import TOTAL, window


def batch(sequence: int, *rows: dict[str, Any]) -> Batch:
    header = Header("windows", 1, "h1", "windows", 0, sequence, len(rows), watermark_ns=(sequence + 1) * TOTAL)
    return Batch(header, from_rows(WINDOWS, list(rows)))


def at(index: int, device: str = "dev0", lost: int = 0, revision: int = 1) -> dict[str, Any]:
    row = window(compute=900_000)
    return row | {"window_start_ns": index * TOTAL, "device": device, "lost_rows": lost, "revision": revision}


def rows(outputs: list[Output], topic: str) -> list[dict[str, Any]]:
    return [row for output in outputs if output.topic == topic for row in output.batch.rows.to_pylist()]


def test_every_device_of_a_window_gets_a_verdict_with_the_revision_and_watermark_of_its_window() -> None:
    outputs = replay(BottleneckStep(), [batch(0, at(0, "dev0", revision=7), at(0, "dev1", revision=7))])
    assert [(r["device"], r["cause"], r["revision"]) for r in rows(outputs, "verdicts")] == [
        ("dev0", "compute", 7), ("dev1", "compute", 7)]
    assert outputs[0].batch.header.watermark_ns == TOTAL


def test_published_batches_pass_the_codec() -> None:
    outputs = replay(BottleneckStep(), [batch(0, at(0, lost=50)), batch(1, at(1))])
    assert {o.topic for o in outputs} == {"verdicts", "incidents"}
    for output in outputs:
        message = encode(output.batch)
        assert decode(message.key, message.value, message.headers).rows.equals(output.batch.rows)


def test_a_run_of_windows_with_loss_is_one_incident_that_opens_and_closes() -> None:
    lost = [0, 50, 200, 0, 0]
    batches = [batch(i, at(i, "dev0", n, i), at(i, "dev1", n, i)) for i, n in enumerate(lost)]
    found = rows(replay(BottleneckStep(), batches), "incidents")
    assert [(r["kind"], r["start_ns"], r["end_ns"], r["severity"]) for r in found] == [
        ("data_loss", TOTAL, None, "warning"), ("data_loss", TOTAL, 3 * TOTAL, "critical")]
    assert json.loads(found[1]["evidence"])["lost_rows"] == 250
    assert found[1]["revision"] > found[0]["revision"]


def test_a_run_that_the_input_ends_in_ends_with_its_last_window() -> None:
    found = rows(replay(BottleneckStep(), [batch(0, at(0, lost=50))]), "incidents")
    assert [r["end_ns"] for r in found] == [None, TOTAL]


def test_loss_below_the_limit_is_no_incident() -> None:
    assert rows(replay(BottleneckStep(), [batch(0, at(0, lost=5))]), "incidents") == []


def test_a_repeated_batch_gives_no_second_verdict() -> None:
    assert len(rows(replay(BottleneckStep(), [batch(0, at(0)), batch(0, at(0))]), "verdicts")) == 1
