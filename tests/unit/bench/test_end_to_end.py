"""The measured runs themselves, on a fleet of one device and half a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import embedded
from bench.sections import Capture, Options, fleet, write

SMALL = Options(seconds=0.5, hosts=1, devices=1, repeat=1)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return write(tmp_path_factory.mktemp("capture") / "capture.arrow", fleet(SMALL))


def test_an_embedded_run_stores_every_span_and_measures_all_figures(capture: Capture, tmp_path: Path) -> None:
    figures = embedded.run_once(capture.path, tmp_path / "store", capture.spans).figures()
    assert figures.pop("p99_latency_s") is None
    assert figures.pop("rejected") == 0
    assert figures.pop("events") == capture.spans > 1_000
    assert all(value is not None and value > 0 for value in figures.values()), figures


def test_a_run_that_stored_another_number_of_spans_gives_no_figures(capture: Capture, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=f"spans: {capture.spans + 1} rows were expected, {capture.spans} are"):
        embedded.run_once(capture.path, tmp_path / "store", capture.spans + 1)
