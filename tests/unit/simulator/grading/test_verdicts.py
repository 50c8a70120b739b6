"""True verdicts, what else counts as right, and scores with known answers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simulator.grading.verdicts import LABELS, MARGIN, answers, score, true_verdicts
from tests.unit.simulator.grading.cases import window


def verdict(cut: float = 0.0, **shares: float) -> tuple[str, set[str]]:
    """The true label and everything that is accepted."""
    true = true_verdicts(np.array([window(**shares)]), np.array([cut]))
    return LABELS[true.label[0]], {LABELS[at] for at in np.flatnonzero(true.accepted[0])}


@pytest.mark.parametrize(("shares", "label"), [
    ({"memory_bandwidth": 0.7, "compute": 0.3}, "memory_bandwidth"),
    ({"host": 0.25, "compute": 0.15}, "host"),
    ({"host": 0.17, "compute": 0.15, "latency": 0.16, "spill": 0.1}, "mixed"),
    ({"compute": 0.1}, "no_demand"),
    ({"unknown": 0.5, "unresolved": 0.2, "compute": 0.3}, "compute"),
])
def test_the_true_verdict_is_the_pipeline_s_definition_on_exact_shares(shares: dict[str, float], label: str) -> None:
    found, accepted = verdict(**shares)
    assert found == label
    assert accepted == {label}


def test_two_causes_as_good_as_tied_are_both_right_and_so_is_mixed() -> None:
    label, accepted = verdict(compute=0.40, memory_bandwidth=0.40 - MARGIN / 2, host=0.2)
    assert label == "compute"
    assert accepted == {"compute", "memory_bandwidth", "mixed"}


def test_a_runner_up_beyond_the_margin_is_wrong() -> None:
    _, accepted = verdict(compute=0.40, memory_bandwidth=0.40 - 1.5 * MARGIN, host=0.2)
    assert accepted == {"compute"}


def test_around_the_least_share_the_cause_and_mixed_are_right() -> None:
    assert verdict(compute=0.195, host=0.15, latency=0.15)[1] == {"compute", "mixed"}
    assert verdict(compute=0.205, host=0.15, latency=0.15)[1] == {"compute", "mixed"}


def test_around_the_limit_of_demand_no_demand_and_the_rest_are_right() -> None:
    assert verdict(compute=0.19) == ("no_demand", {"no_demand", "compute", "mixed"})
    assert verdict(compute=0.21, host=0.0) == ("compute", {"compute", "mixed", "no_demand"})


def test_what_cut_slots_leave_open_widens_the_margin() -> None:
    shares = {"compute": 0.40, "memory_bandwidth": 0.36, "host": 0.24}
    assert verdict(**shares)[1] == {"compute"}
    assert verdict(cut=0.03, **shares)[1] == {"compute", "memory_bandwidth", "mixed"}


def test_all_right_is_one() -> None:
    found = score(Counter({("host", "host"): 3, ("compute", "compute"): 1}))
    assert (found.macro_f1, found.accuracy) == (1.0, 1.0)
    assert found.confusion == {"compute": {"compute": 1}, "host": {"host": 3}}


def test_planted_confusion_gives_the_figures_worked_out_by_hand() -> None:
    # host: 3 of 4 found, and one compute called host: F1 = 2·3 / (4 + 4) = 0.75. compute: 1 of 2, never wrongly:
    # F1 = 2·1 / (2 + 1) = 2/3. latency is given once and never true: no F1 of its own.
    pairs = Counter({("host", "host"): 3, ("host", "latency"): 1, ("compute", "compute"): 1, ("compute", "host"): 1})
    found = score(pairs)
    assert found.per_cause["host"] == {"windows": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert found.per_cause["compute"]["f1"] == pytest.approx(2 / 3)
    assert found.macro_f1 == pytest.approx((0.75 + 2 / 3) / 2)
    assert found.accuracy == pytest.approx(4 / 6)
    assert "latency" not in found.per_cause


def test_no_window_has_no_score() -> None:
    found = score(Counter())
    assert (found.macro_f1, found.accuracy, found.confusion) == (None, None, {})


def test_a_right_answer_counts_under_its_own_name_and_a_wrong_one_under_the_true() -> None:
    true = true_verdicts(np.array([window(compute=0.4, memory_bandwidth=0.39, host=0.21)] * 3), np.zeros(3))
    assert answers(true, ["memory_bandwidth", "host", "insufficient_data"]) == Counter({
        ("memory_bandwidth", "memory_bandwidth"): 1, ("compute", "host"): 1, ("compute", "insufficient_data"): 1})
