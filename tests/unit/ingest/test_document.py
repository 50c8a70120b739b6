"""`agent --once`: one document, true to a captured root with known answers and to this machine."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetscope.cli.main import app
from fleetscope.errors import UsageError
from ingest.clocks import LinuxClocks
from ingest.document import read_once
from ingest.hostroot import HostRoot
from ingest.links.prober import Prober
from ingest.people import amount, duration
from tests.unit.ingest.hosts import small_root

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of the captured root."""
    data = Path(os.environ.get("FLEETSCOPE_SHARED_DATA", PROJECT / "../shared/data"))
    archive = data / "hostfs/procfs_root.tar.gz"
    if not archive.is_file():
        if os.environ.get("FLEETSCOPE_REQUIRE_DATA") == "1":
            pytest.fail(f"FLEETSCOPE_REQUIRE_DATA=1, but there is no {archive}")
        pytest.skip(f"there is no {archive}; FLEETSCOPE_SHARED_DATA names the folder")
    folder = tmp_path_factory.mktemp("captured")
    with tarfile.open(archive) as tar:
        # Members are links to absolute paths: that is what is tested, so they must not be rewritten or refused.
        tar.extractall(folder, filter="fully_trusted")
    (root,) = [path.parent for path in folder.glob("**/proc") if (path / "stat").is_file()]
    with HostRoot(root) as files:
        return read_once("h1", files, LinuxClocks())


def reading(document: dict[str, Any], counter: str, **where: str) -> dict[str, Any]:
    (found,) = [r for r in document["readings"]
                if r["counter"] == counter and all(r[k] == v for k, v in where.items())]
    return dict(found)


def link(document: dict[str, Any], component: str) -> dict[str, Any]:
    (found,) = [c for c in document["inventory"] if c["component"] == component and c["kind"] == "link"]
    return dict(found)


@pytest.mark.data
def test_links_of_the_captured_root_have_their_widths_and_place(captured: dict[str, Any]) -> None:
    narrow = link(captured, "0000:00:02.1")["attributes"]
    assert (narrow["width_lanes"], narrow["max_width_lanes"], narrow["width"]) == (4, 8, "x4 of x8")
    assert (narrow["below_maximum"], narrow["degraded"], narrow["limited_by"]) == (1, 0, "0000:01:00.0")
    hidden = link(captured, "0000:00:03.0")["attributes"]
    assert (hidden["width"], hidden["listed"]) == ("x8 of x16", "under sys/devices only")
    assert link(captured, "0000:01:00.0")["parent"] == "0000:00:02.1"
    assert link(captured, "0000:a2:00.0")["attributes"]["numa_node"] == 1


@pytest.mark.data
def test_the_gpu_of_the_captured_root_is_read_in_its_units(captured: dict[str, Any]) -> None:
    assert reading(captured, "gpu_busy")["value"] == 4
    assert reading(captured, "gpu_busy")["unit"] == "%"
    assert reading(captured, "gpu_memory_used")["value"] == 1_490_378_752
    assert reading(captured, "gpu_memory_total")["value"] == 8_573_157_376


@pytest.mark.data
def test_counters_of_the_captured_root_are_exact(captured: dict[str, Any]) -> None:
    assert reading(captured, "cpu_user", instance="total")["value"] == 301_854
    assert reading(captured, "memory_total")["value"] == 15_666_184 * 1024
    assert reading(captured, "pressure_full_us", instance="io")["value"] == 25
    assert reading(captured, "network_rx_bytes", instance="lo")["value"] == 1_664_039_048
    assert reading(captured, "disk_read_bytes", instance="sda")["value"] == 1_003_346_126 * 512
    assert reading(captured, "ib_tx_bytes", device="mlx5_0")["value"] == 2_880_761_508_848 * 4
    assert reading(captured, "context_switches")["value"] == 38_014_093


@pytest.mark.data
def test_what_the_captured_root_lacks_is_listed_with_an_example(captured: dict[str, Any]) -> None:
    faults = {(f["collector"], f["reason"]): f for f in captured["unreadable"]}
    assert faults["pci", "missing"]["example"].endswith("/class")
    assert reading(captured, "agent_unreadable", instance="pci/missing")["value"] == faults["pci", "missing"]["count"]


def test_the_command_prints_one_document_of_this_machine() -> None:
    result = CliRunner().invoke(app, ["agent", "--once", "--json", "--host", "here"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["host"] == "here"
    assert {"cpu", "memory", "interrupts"} <= {r["collector"] for r in document["readings"]}
    assert {"realtime", "boottime", "monotonic"} <= {c["clock"] for c in document["clocks"]}
    assert all(c["bound_ns"] > 0 and 1 <= c["samples"] <= 4 for c in document["clocks"])
    assert document["links"] == []
    keys = {"collector", "counter", "instance", "device", "value", "unit", "status"}
    assert all(r.keys() == keys for r in document["readings"])


def test_the_table_shows_units_that_people_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["agent", "--once", "--root", str(small_root(tmp_path))])
    assert result.exit_code == 0
    assert "4.00 KiB" in result.stdout
    assert "memory_available" in result.stdout
    assert "(missing)" in result.stdout
    assert "not readable: network: missing" in result.stdout


def test_a_root_without_proc_is_one_clear_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["agent", "--once", "--root", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    assert str(tmp_path) in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize(("value", "unit", "text"), [
    (None, "B", "–"), (0, "B", "0 B"), (1023, "B", "1023 B"), (1_490_378_752, "B", "1.39 GiB"),
    (19_200, "jiffies", "3 min 12 s"), (1_500, "us", "1.5 ms"), (2_000, "ms", "2.00 s"),
    (12_345, "packets", "12,345"), (8.0, "GT/s", "8 GT/s"),
    (2.5, "GT/s", "2.5 GT/s"), (0.16, "%", "0.16 %")])
def test_amounts_are_in_units_that_people_read(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 µs"), (59.994, "59.99 s"), (60, "1 min 0 s"), (3_600, "1 h 0 min"), (183_600, "2 d 3 h")])
def test_durations_have_their_two_largest_parts(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_command_shows_the_links_to_its_peers(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    peer = Prober("there", (), b"0123456789abcdef", LinuxClocks(), address="127.0.0.1")
    peer.start()
    try:
        arguments = ["agent", "--once", "--host", "here", "--peers", f"there=127.0.0.1:{peer.port}",
                     "--probe-key-file", str(key)]
        result = CliRunner().invoke(app, [*arguments, "--json"])
    finally:
        peer.stop()
    assert result.exit_code == 0, result.output
    (link,) = json.loads(result.stdout)["links"]
    assert (link["host"], link["lost"]) == ("there", 0)
    assert 0 < link["rtt_min_ns"] <= link["rtt_median_ns"]
    assert abs(link["offset_ns"]) <= link["bound_ns"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--peers", "b"], "'b' is not host=address:port"), (["--peers", "here=127.0.0.1:7100"], "is this host itself"),
    (["--peers", "b=127.0.0.1:7100"], "share a key"), (["--probe-port", "0"], "share a key")])
def test_peers_that_cannot_be_are_one_clear_line(arguments: list[str], words: str,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETSCOPE_PROBE_KEY", raising=False)
    result = CliRunner().invoke(app, ["agent", "--once", "--host", "here", *arguments])
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)
