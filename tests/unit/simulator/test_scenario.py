from __future__ import annotations

from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from simulator.scenario import load_scenario, scenario_names


def test_every_scenario_that_ships_loads_and_carries_its_own_name() -> None:
    assert scenario_names() == ["host-bound", "idle", "lossy", "pcie-bound", "serving"]
    for name in scenario_names():
        assert load_scenario(name).name == name
        assert load_scenario(name).description


def test_a_scenario_is_read_from_a_path_and_keeps_the_defaults_it_does_not_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[link]\nwidth_lanes = 4\n")
    scenario = load_scenario(path)
    assert (scenario.name, scenario.link.width_lanes) == ("mine", 4)
    assert scenario.model == load_scenario("serving").model


@pytest.mark.parametrize(("text", "words"), [
    ("[link]\nwidth_lanes = 0\n", r"mine.toml: link.width_lanes: .*greater than or equal to 1"),
    ("[links]\n", r"mine.toml: links: Extra inputs"),
    ("[requests]\nper_s = 'many'\n", r"mine.toml: requests.per_s: .*number"),
    ("[collection]\nlost_share = 1.5\n", r"mine.toml: collection.lost_share: .*less than or equal to 1"),
    ("link = {\n", r"mine.toml: .*line 1"),
    ("\xff", r"mine.toml: "),
])
def test_a_wrong_scenario_is_refused_by_file_key_and_reason(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=words):
        load_scenario(path)


def test_an_unknown_name_lists_the_known_ones_and_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no scenario 'fast'; known are host-bound, idle"):
        load_scenario("fast")
    with pytest.raises(UsageError, match=r"gone.toml: No such file"):
        load_scenario(tmp_path / "gone.toml")
