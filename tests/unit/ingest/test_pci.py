"""PCI functions, their place in the tree, and what a narrow link means."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.collectors.pci import RESCAN_READINGS, Pci
from ingest.hostroot import HostRoot
from ingest.reading import Fact
from tests.unit.ingest.files import put

PORT = "sys/devices/pci0000:00/0000:00:01.0"
CARD = f"{PORT}/0000:01:00.0"


def link(width: str, max_width: str, speed: str = "16.0 GT/s PCIe",
         max_speed: str = "16.0 GT/s PCIe") -> dict[str, str]:
    """The files of one end."""
    return {"class": "0x060400\n", "vendor": "0x1022\n", "device": "0x1234\n", "numa_node": "-1\n",
            "current_link_width": f"{width}\n", "max_link_width": f"{max_width}\n",
            "current_link_speed": f"{speed}\n", "max_link_speed": f"{max_speed}\n"}


def tree(root: Path, port: dict[str, str], card: dict[str, str]) -> None:
    """A port with one card behind it, both on the bus's list."""
    put(root, {f"{PORT}/{name}": text for name, text in port.items()})
    put(root, {f"{CARD}/{name}": text for name, text in card.items()})
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True)
    (listed / "0000:00:01.0").symlink_to(f"/{PORT}")
    (listed / "0000:01:00.0").symlink_to(f"../../../devices/{CARD.removeprefix('sys/devices/')}")


def facts_of(root: Path, address: str) -> dict[str, Fact]:
    with HostRoot(root) as files:
        return {f.attribute: f for f in Pci().inventory(files) if f.component == address}


@pytest.mark.parametrize(("port", "card", "below", "degraded"), [
    (link("16", "16"), link("16", "16"), (0, 0), (0, 0)),
    (link("4", "8"), link("4", "4"), (1, 0), (0, 0)),
    (link("8", "16"), link("8", "16"), (1, 1), (1, 1)),
    (link("16", "16", "8.0 GT/s PCIe"), link("16", "16", "8.0 GT/s PCIe"), (1, 1), (1, 1)),
    (link("16", "16", "8.0 GT/s PCIe"), link("16", "16", "8.0 GT/s PCIe", "8.0 GT/s PCIe"), (1, 0), (0, 0)),
])
def test_a_link_is_degraded_below_what_both_ends_can_do(
        tmp_path: Path, port: dict[str, str], card: dict[str, str], below: tuple[int, int],
        degraded: tuple[int, int]) -> None:
    tree(tmp_path, port, card)
    ends = [facts_of(tmp_path, "0000:00:01.0"), facts_of(tmp_path, "0000:01:00.0")]
    assert tuple(end["below_maximum"].number for end in ends) == below
    assert tuple(end["degraded"].number for end in ends) == degraded


def test_the_other_end_that_sets_the_limit_is_named(tmp_path: Path) -> None:
    tree(tmp_path, link("4", "8"), link("4", "4"))
    port = facts_of(tmp_path, "0000:00:01.0")
    assert (port["width"].text, port["capable_width_lanes"].number) == ("x4 of x8", 4)
    assert port["limited_by"].text == "0000:01:00.0"
    assert port["class"].parent == "pci0000:00"
    assert facts_of(tmp_path, "0000:01:00.0")["class"].parent == "0000:00:01.0"


def test_unknown_speed_and_absurd_width_are_no_numbers(tmp_path: Path) -> None:
    tree(tmp_path, link("63", "16", "Unknown"), link("0", "16", "rubbish"))
    with HostRoot(tmp_path) as root:
        found = {(r.device, r.counter): r for r in Pci().collect(root)}
        assert dict(root.unreadable) == {("pci", "malformed"): 1}
    assert found["0000:00:01.0", "pci_link_width"].status == "sentinel"
    assert found["0000:00:01.0", "pci_link_speed"].status == "missing"
    assert found["0000:01:00.0", "pci_link_width"].status == "missing"
    assert all(reading.value is None for reading in found.values())
    assert "degraded" not in facts_of(tmp_path, "0000:00:01.0")


def test_error_counters_have_one_reading_a_kind_and_no_total(tmp_path: Path) -> None:
    aer = {"aer_dev_correctable": "RxErr 3\nBad TLP 4\nbroken\nTimeout x\nTOTAL_ERR_COR 7\n"}
    tree(tmp_path, link("8", "8"), link("8", "8") | aer)
    with HostRoot(tmp_path) as root:
        found = {(r.counter, r.instance): r.raw for r in Pci().collect(root) if r.instance}
        assert dict(root.unreadable) == {("pci", "malformed"): 2}
    assert found == {("pci_aer_correctable", "RxErr"): 3, ("pci_aer_correctable", "Bad TLP"): 4}


def test_a_function_missing_on_the_list_is_found_in_the_tree_and_says_so(tmp_path: Path) -> None:
    tree(tmp_path, link("8", "8"), link("8", "8"))
    (tmp_path / "sys/bus/pci/devices/0000:01:00.0").unlink()
    assert facts_of(tmp_path, "0000:01:00.0")["listed"].text == "under sys/devices only"
    assert "listed" not in facts_of(tmp_path, "0000:00:01.0")


def test_a_listed_function_whose_folder_is_gone_is_counted(tmp_path: Path) -> None:
    tree(tmp_path, link("8", "8"), link("8", "8"))
    (tmp_path / "sys/bus/pci/devices/0000:09:00.0").symlink_to("/sys/devices/pci0000:00/0000:09:00.0")
    with HostRoot(tmp_path) as root:
        assert {f.component for f in Pci().inventory(root)} == {"0000:00:01.0", "0000:01:00.0"}
        assert root.unreadable["pci", "missing"] == 1


def test_a_card_plugged_later_appears_after_the_next_search(tmp_path: Path) -> None:
    tree(tmp_path, link("8", "8"), link("8", "8"))
    collector = Pci()
    with HostRoot(tmp_path) as root:
        collector.collect(root)
        put(tmp_path, {f"{PORT}/0000:02:00.0/{name}": text for name, text in link("4", "4").items()})
        devices = [{r.device for r in collector.collect(root)} for _ in range(RESCAN_READINGS)]
    assert devices[0] == {"0000:00:01.0", "0000:01:00.0"}
    assert devices[-1] == {"0000:00:01.0", "0000:01:00.0", "0000:02:00.0"}
