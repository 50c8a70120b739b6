from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from simulator.history.plan import make_plan
from simulator.history.settings import History, load_history
from tests.unit.simulator.history.histories import START_NS, small

GOOD = """
[history]
hours = 24
window_s = 60
hosts = 4
devices = 2

[[history.jobs]]
name = "chat"

[[history.deployments]]
at_h = 6
version = "2"
effects = [{operator = "attention", slower = 0.05}]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "weeks.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_section_of_a_scenario_and_a_file_of_its_own_say_the_same(tmp_path: Path) -> None:
    scenario = load_history(written(tmp_path, 'name = "any"\n' + GOOD))
    own = load_history(written(tmp_path, GOOD.replace("[history]", "").replace("history.", "")))
    assert scenario == own
    assert scenario.deployments[0].effects[0].share == 0.05


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ("at_h = 6", "at_h = 24", r"line 12: history.deployments.0.at_h: 24 h is outside the run of 24 h"),
    ("at_h = 6", "at_h = -1", r"line 12: history.deployments.0.at_h: .* greater than or equal to 0"),
    ("at_h = 6", "at_h = nan", r"line 12: history.deployments.0.at_h: .* finite"),
    ("slower = 0.05", "slower = -0.05", r"history.deployments.0.effects.0.slower: .* greater than 0"),
    ("slower = 0.05", "slower = 0.05, faster = 0.1", r"effects.0: give either slower or faster"),
    (", slower = 0.05", "", r"effects.0: give either slower or faster"),
    ("slower = 0.05", "faster = 1.0", r"effects.0.faster: .* less than 1"),
    ('version = "2"', "", r"history.deployments.0.version: Field required"),
    ("hosts = 4", "hosts = 0", r"line 5: history.hosts: .* greater than or equal to 1"),
    ("devices = 2", "devices = 0", r"line 6: history.devices: .* greater than or equal to 1"),
    ("hours = 24", "hours = 0", r"line 3: history.hours: .* greater than or equal to 1"),
    ("window_s = 60", "window_s = 7", r"line 4: history.window_s: an hour is no multiple of 7 s"),
    ("window_s = 60", "window_s = 3601", r"line 4: history.window_s: .* less than or equal to 3600"),
    ("window_s = 60", "windows_s = 60", r"line 4: history.windows_s: Extra inputs are not permitted"),
    ("hosts = 4", "hosts = 9999\ndraw = {gaps = -1}", r"line 6: history.draw.gaps: .* greater than or equal to 0"),
    ("hosts = 4", "hosts = 4\ndraw = {effect_low = 0.5}", r"history.draw: effect_low 0.5 is above effect_high 0.1"),
    ('name = "chat"', 'name = "chat"\ntensor_parallel = 4', r"line 10: .*tensor_parallel: 2 devices of a host do not"),
    ('name = "chat"', 'name = "chat"\nmax_batch = 12', r"line 10: history.jobs.0.max_batch: 12 is no power of two"),
    ('name = "chat"', 'name = "chat"\n[[history.jobs]]\nname = "chat"', r"jobs.1.name: job chat is there twice"),
    ("at_h = 6", 'at_h = 6\njob = "train"', r"line 13: .*job: there is no job train; known are chat"),
    ("at_h = 6", "at_h = 6\nstages = [{after_h = 18, share = 0.5}]", r"stages.0.after_h: 24 h after the start"),
    ("at_h = 6", "at_h = 6\nstages = [{share = 0.5}, {after_h = 1, share = 0.4}]", r"each stage must be later and"),
    ("at_h = 6", "at_h = 6\nstages = []", r"stages: .* at least 1 item"),
    ("at_h = 6", 'at_h = {dist = "uniform", low = 3}', r"line 12: .*at_h: a uniform distribution needs high"),
    ("[[history.deployments]]", "[[history.gaps]]\nat_h = 23\nhours = 2\n[[history.deployments]]",
     r"line 13: history.gaps.0.hours: it ends 25 h after the start, outside the run"),
])
def test_what_cannot_be_is_refused_with_file_line_key_and_reason(
        tmp_path: Path, before: str, after: str, complaint: str) -> None:
    assert GOOD.count(before) == 1
    path = written(tmp_path, GOOD.replace(before, after))
    with pytest.raises(UsageError, match=complaint) as raised:
        load_history(path)
    assert str(raised.value).startswith(f"history {path}")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_missing_or_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        load_history(tmp_path / "none.toml")
    with pytest.raises(UsageError, match=r"weeks\.toml: "):
        load_history(written(tmp_path, "hours = = 3"))


def test_more_devices_than_a_history_can_hold_are_refused() -> None:
    with pytest.raises(UsageError, match="10000 hosts with 64 devices are more than 100000 devices"):
        small(hosts=10_000, devices=64)


@pytest.mark.parametrize(("values", "complaint"), [
    ({"jobs": [{"model": "chat-9b"}]}, r"jobs\.0\.model: there is no transformer chat-9b; known are chat-1b"),
    ({"jobs": [{"machine": "infer-25"}]}, r"there is no machine 'infer-25'"),
    ({"jobs": [{"model": "chat-70b"}]}, r"jobs\.0\.model: chat-70b with 16 sequences takes .* GB on each device"),
    ({"deployments": [{"at_h": 1, "version": "2", "effects": [{"operator": "conv2d", "slower": 1}]}]},
     r"deployments\.0\.effects\.0\.operator: job llm-serve has no operator conv2d; known are embedding"),
    ({"transients": [{"at_h": 1, "hours": 1, "effects": [{"model": "chat-1b", "slower": 1}]}]},
     r"transients\.0\.effects\.0\.model: no job concerned runs chat-1b; known are chat-8b"),
    ({"cost_shifts": [{"at_h": 1, "source": "mlp_up", "target": "mlp_up", "share": 0.1}]},
     r"cost_shifts\.0\.target: time of mlp_up cannot move to itself"),
    ({"cost_shifts": [{"at_h": 1, "source": "mlp_up", "target": "launchKernel", "share": 0.1}]},
     r"cost_shifts\.0\.target: job llm-serve has no operator launchKernel"),
    ({"hours": 1, "draw": {"gaps": 1}}, r"draw: a run of 1 h is too short to draw events in"),
])
def test_what_the_machines_and_models_do_not_have_is_refused(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        make_plan(small(**values), 1, START_NS)


def test_a_number_may_be_a_distribution_drawn_by_seed(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("at_h = 6", 'at_h = {dist = "uniform", low = 2.0, high = 20.0}'))

    def drawn(seed: int) -> History:
        return load_history(path, seed)

    assert drawn(1) == drawn(1)
    assert len({drawn(seed).deployments[0].at_h for seed in range(5)}) == 5


def test_the_example_of_the_document_can_be_planned(tmp_path: Path) -> None:
    document = (Path(__file__).parents[4] / "docs" / "history.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", document, re.DOTALL)
    plan = make_plan(load_history(written(tmp_path, example), 1), 1, START_NS)
    assert {event.kind for event in plan.events} == {"deployment", "transient", "creep", "cost_shift", "gap"}
