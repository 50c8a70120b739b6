from __future__ import annotations

import numpy as np
import pytest

from simulator.scenario.draw import DrawError, drawn


def many(table: dict[str, object]) -> np.ndarray:
    return np.array([drawn({"x": table}, seed)["x"] for seed in range(2_000)])


def test_a_uniform_with_whole_bounds_takes_both_and_everything_between() -> None:
    assert sorted(set(many({"dist": "uniform", "low": 2, "high": 5}).tolist())) == [2, 3, 4, 5]


def test_moments_are_those_of_the_distribution() -> None:
    assert many({"dist": "normal", "mean": 3.0, "sd": 0.5}).mean() == pytest.approx(3.0, abs=0.05)
    assert many({"dist": "normal", "mean": 3.0, "sd": 0.5}).std() == pytest.approx(0.5, abs=0.03)
    assert np.median(many({"dist": "lognormal", "median": 8.0, "sigma": 0.4})) == pytest.approx(8.0, rel=0.04)
    assert many({"dist": "uniform", "low": 1.0, "high": 2.0}).mean() == pytest.approx(1.5, abs=0.02)


def test_bounds_hold_and_a_whole_mean_gives_whole_numbers() -> None:
    values = many({"dist": "normal", "mean": 10, "sd": 5, "low": 8, "high": 12})
    assert set(values.tolist()) == {8, 9, 10, 11, 12}


def test_a_choice_follows_its_weights() -> None:
    values = many({"dist": "choice", "values": [1, 2], "weights": [3, 1]})
    assert (values == 1).mean() == pytest.approx(0.75, abs=0.03)


def test_the_same_seed_gives_the_same_numbers_and_one_key_never_moves_another() -> None:
    table = {"dist": "normal", "mean": 0.0, "sd": 1.0}
    both = drawn({"a": table, "b": [table, table]}, 7)
    assert both == drawn({"a": table, "b": [table, table]}, 7)
    assert drawn({"b": [7, table]}, 7)["b"][1] == both["b"][1]
    assert len({both["a"], *both["b"]}) == 3


def test_numbers_words_and_nested_tables_stay_as_they_are() -> None:
    values = {"a": 1, "b": "word", "c": {"d": [1.5, {"e": True}]}}
    assert drawn(values, 3) == values


@pytest.mark.parametrize(("table", "path", "words"), [
    ({"dist": "zipf"}, ("x", "dist"), "no distribution 'zipf'"),
    ({"dist": "uniform", "low": 1}, ("x",), "needs high"),
    ({"dist": "uniform", "low": 2, "high": 1}, ("x", "high"), "below low"),
    ({"dist": "uniform", "low": 1, "high": 2, "mean": 1}, ("x", "mean"), "has no mean"),
    ({"dist": "normal", "mean": 1.0, "sd": -1.0}, ("x", "sd"), "negative"),
    ({"dist": "normal", "mean": "big", "sd": 1.0}, ("x", "mean"), "a number"),
    ({"dist": "lognormal", "median": 0.0, "sigma": 1.0}, ("x", "median"), "above 0"),
    ({"dist": "choice", "values": []}, ("x", "values"), "list of numbers"),
    ({"dist": "choice", "values": [1, 2], "weights": [1]}, ("x", "weights"), "1 weights for 2 values"),
])
def test_a_distribution_that_is_none_is_refused_where_it_stands(table: dict[str, object], path: tuple[str, ...],
                                                                words: str) -> None:
    with pytest.raises(DrawError, match=words) as caught:
        drawn({"x": table}, 1)
    assert caught.value.path == path
