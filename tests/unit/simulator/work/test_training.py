"""Programs of training steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.causes import CODE
from simulator.engine.program import NONE, SYNC, WORK
from simulator.work.models import BLOCKS_1B, CHAT_8B
from simulator.work.operators import causal_pairs
from simulator.work.plan import Seat
from simulator.work.training import TrainingConfig, TrainingPlanner
from tests.unit.simulator.work.seats import LARGE, QUIET, equal, seats, where, words

TWO = TrainingConfig(model=replace(BLOCKS_1B, layers=3), ranks=2, sequences=2, tokens=64)


def test_matrices_take_six_flops_a_weight_and_token() -> None:
    """Forward 2, backward 4 (Kaplan et al., 2020), and attention's 12·hidden a visible pair."""
    program = TrainingPlanner(TWO, (1,), seats(2, host=QUIET)).plan(0).programs[0]
    m, tokens = TWO.model, 128
    names = [f"{name}{part}" for name in ("qkv_proj", "out_proj", "mlp_up", "mlp_down", "lm_head")
             for part in ("", "_backward")]
    found = sum(int(program.flops[where(program, name)].sum()) for name in names)
    assert found == 6 * tokens * (m.layers * m.layer_weights + m.vocab * m.hidden)
    attention = sum(int(program.flops[where(program, name)].sum()) for name in ("attention", "attention_backward"))
    pairs = 2 * causal_pairs(64, 64)
    assert attention == 3 * m.layers * (4 * pairs * m.hidden + 5 * pairs * m.hidden // m.head_width)


def test_gradients_of_a_layer_are_reduced_while_the_next_is_in_backward() -> None:
    program = TrainingPlanner(TWO, (1,), seats(2)).plan(0).programs[0]
    reduces = where(program, "all_reduce")
    assert len(reduces) == TWO.model.layers + 3  # output head, layers, embedding; at last the loss
    after = words(program.name[program.wait[reduces]])
    assert after == ["final_norm_backward", *["norm_attention_backward"] * 3, "embedding_backward", "adam_update"]
    assert program.wait[where(program, "adam_update")] == reduces[-2]
    layer_bytes = 2 * TWO.model.layer_weights
    assert (program.link_bytes[reduces[1:4]] == layer_bytes).all()  # 2·(k − 1)/k of the payload, k = 2
    waited = program.wait[where(program, "mlp_down_backward")]
    assert (waited == NONE).all()


def test_without_overlap_all_gradients_wait_for_the_end_of_backward() -> None:
    program = TrainingPlanner(replace(TWO, overlap=False), (1,), seats(2)).plan(0).programs[0]
    reduces = where(program, "all_reduce")
    assert len(reduces) == TWO.model.layers + 3
    assert reduces.min() > where(program, "embedding_backward")[0]
    assert program.wait[reduces[0]] == where(program, "embedding_backward")[0]


def test_members_count_the_same_collectives_over_steps() -> None:
    planner = TrainingPlanner(TWO, (1,), seats(2), first_group=4)
    numbers: list[list[int]] = [[], []]
    for step in range(3):
        plan = planner.plan(step)
        assert plan.step == step
        for rank, program in enumerate(plan.programs):
            numbers[rank] += program.sequence[program.communicator == 4].tolist()
    assert numbers[0] == list(range(3 * (TWO.model.layers + 3))) == numbers[1]


@pytest.mark.parametrize("prefetch", [True, False])
def test_the_host_loads_before_the_step_or_beside_it(prefetch: bool) -> None:
    program = TrainingPlanner(replace(TWO, prefetch=prefetch), (1,), seats(2)).plan(0).programs[0]
    loads = np.flatnonzero(program.kind == WORK)
    assert len(loads) == 1
    assert program.cause[loads[0]] == CODE["host_input"]
    assert loads[0] == (len(program) - 2 if prefetch else 0)
    assert program.kind[-1] == SYNC


def test_one_rank_reduces_nothing_and_a_straggler_is_slower() -> None:
    alone = TrainingPlanner(replace(TWO, ranks=1), (1,), seats(1)).plan(0).programs[0]
    assert len(where(alone, "all_reduce")) == 0
    places = [Seat(LARGE, QUIET), Seat(LARGE, QUIET, device_factor=1.2)]
    usual, slow = TrainingPlanner(TWO, (1,), places).plan(0).programs
    assert np.allclose(slow.matrix_ns, 1.2 * usual.matrix_ns)
    assert not equal(usual, slow)


def test_what_cannot_train_is_refused() -> None:
    with pytest.raises(UsageError, match="optimizer"):
        TrainingPlanner(TrainingConfig(model=CHAT_8B), (1,), seats(1))
    with pytest.raises(UsageError, match="ranks"):
        TrainingConfig(ranks=0)
    with pytest.raises(UsageError, match="seats"):
        TrainingPlanner(TWO, (1,), seats(1))
