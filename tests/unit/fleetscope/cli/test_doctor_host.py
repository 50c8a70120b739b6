"""What `fleetscope doctor` says about the machine it runs on."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest

from fleetscope.cli import doctor_host
from fleetscope.cli.doctor_host import fits, look_at_host, look_at_python, packages


@pytest.mark.parametrize(("version", "wanted", "does"), [
    ("3.0.12", ">=3.0.12,<4", True), ("3.0.9", ">=3.0.12,<4", False), ("4.0", ">=3.0.12,<4", False),
    ("2.9.post0", ">=2.7", True), ("18", ">=18.0.0", True), ("0.0.21", "==0.0.21", True), ("0.0.22", "==0.0.21", False),
    ("3.14.1", ">=3.11,<3.15", True), ("3.15.0", ">=3.11,<3.15", False), ("1.0", "", True),
])
def test_versions_are_compared_number_by_number(version: str, wanted: str, does: bool) -> None:
    assert fits(version, wanted) is does


def test_requirements_are_told_apart_by_extra_and_development_tools_are_left_out() -> None:
    found = packages(["pytest>=1; extra == 'dev'", "no-such-package-here<2,>=1.5; extra == \"embedded\"", "numpy>=1",
                      "fleetscope[embedded,timeline]; extra == 'dev'", "rich>=99999"])
    assert [(r["name"], r["extra"], r["required"], r["fits"]) for r in found] == [
        ("numpy", None, ">=1", True), ("rich", None, ">=99999", False),
        ("no-such-package-here", "embedded", "<2,>=1.5", False)]
    assert found[2]["version"] is None


def test_a_missing_package_is_critical_and_a_missing_extra_in_use_only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [{"name": "a", "version": None, "required": ">=1", "extra": None, "fits": False},
            {"name": "b", "version": None, "required": ">=1", "extra": "embedded", "fits": False},
            {"name": "d", "version": None, "required": ">=1", "extra": "unused", "fits": False},
            {"name": "e", "version": "1", "required": ">=2", "extra": "unused", "fits": False},
            {"name": "c", "version": "1", "required": ">=2", "extra": None, "fits": False}]
    monkeypatch.setattr(doctor_host, "packages", lambda _: made)
    found = {f.subject: (f.severity, f.advice) for f in look_at_python().findings}
    assert found == {
        "package a": ("critical", "Install it: pip install 'fleetscope'."),
        "package c": ("warning", "Install one that was tested: pip install 'fleetscope'."),
        "extra 'embedded'": ("info", "Where you want it, run: pip install 'fleetscope[embedded]'.")}


def test_this_environment_has_what_the_metadata_ask_for() -> None:
    part = look_at_python()
    assert [f for f in part.findings if f.severity != "info"] == []
    assert part.facts["packages_in_order"] >= 13


def test_this_host_is_read_and_its_clocks_have_bounds(tmp_path: Path) -> None:
    part = look_at_host(tmp_path / "not" / "there", discipline=lambda: (True, 900))
    assert part.facts["readings"] > 20
    assert part.facts["utc_max_error_us"] == 900
    clocks = {row["clock"]: row for row in part.document()["clocks"]}
    assert {"realtime", "boottime", "monotonic"} <= clocks.keys()
    assert all(0 < row["bound_ns"] < 10_000_000 for row in clocks.values())


def test_a_root_without_proc_is_a_warning_and_an_undisciplined_clock_is_told(tmp_path: Path) -> None:
    part = look_at_host(tmp_path, root=tmp_path, discipline=lambda: (False, 16_000_000))
    assert part.facts["readings"] is None
    assert part.facts["utc_max_error_us"] is None  # 16 s is the kernel's ceiling, no bound
    assert [(f.severity, f.subject) for f in part.findings] == [("warning", "this host"), ("info", "UTC of this host")]
    assert "holds no proc/stat" in part.findings[0].text


def test_a_slow_clock_source_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/system/clocksource/clocksource0"
    folder.mkdir(parents=True)
    (folder / "current_clocksource").write_text("hpet\n")
    part = look_at_host(tmp_path, root=tmp_path, discipline=lambda: None)
    assert part.facts["clock_source"] == "hpet"
    assert "clock source" in {f.subject for f in part.findings if f.severity == "warning"}
    assert part.facts["utc_disciplined"] is None


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor_host.shutil, "disk_usage", lambda _: usage(1000, 960, 40))
    part = look_at_host(tmp_path, discipline=lambda: None)
    assert [f.text for f in part.findings if f.subject == "disk"] == [f"4.0% free where {tmp_path} is"]


def test_the_kernel_says_whether_the_clock_is_disciplined() -> None:
    answer = doctor_host.ask_kernel()
    assert answer is None or (isinstance(answer[0], bool) and answer[1] >= 0)
