"""How many operations an update on a GPU takes: counted on tensors without numbers, and never more than before."""

from __future__ import annotations

from pathlib import Path

import pytest

from pufferlib import ocean

BENCH = Path(__file__).parents[2] / "bench"

# Of a minibatch. A change may lower these; what raises one says why. Decisions of choices and numbers, as those of
# puffer_spaces, are left to torch.
LIMITS = {
    "puffer_backgammon": 54,
    "puffer_bandit": 47,
    "puffer_breakout": 63,
    "puffer_cartpole": 36,
    "puffer_checkers": 90,
    "puffer_chess": 106,
    "puffer_connect4": 58,
    "puffer_drone": 62,
    "puffer_enduro": 54,
    "puffer_freeway": 53,
    "puffer_g2048": 58,
    "puffer_go": 54,
    "puffer_hex": 58,
    "puffer_maze": 57,
    "puffer_memory": 57,
    "puffer_multiagent": 48,
    "puffer_othello": 58,
    "puffer_overcooked": 54,
    "puffer_pacman": 53,
    "puffer_password": 48,
    "puffer_pendulum": 45,
    "puffer_poker": 54,
    "puffer_pong": 53,
    "puffer_rware": 53,
    "puffer_slimevolley": 53,
    "puffer_snake": 79,
    "puffer_spaces": 345,
    "puffer_squared": 54,
    "puffer_stochastic": 48,
    "puffer_target": 53,
    "puffer_template": 48,
    "puffer_tetris": 54,
    "puffer_tower_climb": 64,
    "puffer_trash_pickup": 81,
    "puffer_tron": 54,
}
QUICK = ("puffer_breakout", "puffer_drone", "puffer_go", "puffer_snake")


@pytest.fixture
def operations(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import operations

    return operations


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in LIMITS])
def test_an_update_takes_no_more_operations_than_before(name, operations):
    update = operations.count_update(name)
    assert update.minibatch.total <= LIMITS[name], update.minibatch.counts
    assert update.besides.total <= 13, update.besides.counts


def test_what_is_captured_of_several_processes_waits_for_no_number(operations):
    """On tensors without numbers, asking for one is an error; three launches and a message make a minibatch."""
    counted = operations.Operations()
    with operations.as_on_a_gpu(counted):
        learner = operations.make_learner("puffer_breakout", world_size=2)
        learner._hold("all moments", operations.torch.zeros(2, 3, device="meta"))
        learner._minibatches.begin(0.5, True)
        learner._draw()
        for is_last in (False, True):
            learner._differentiate_share(is_last)
            learner._step_together(is_last)


def test_every_environment_has_a_limit():
    assert set(LIMITS) == set(ocean.names())


def test_breakout_is_expected_to_train_fast_on_paper(operations):
    assert operations.expected_rate(operations.GPUS["H200"]) > 55e6


def test_operations_are_counted_as_a_gpu_gets_them(operations):
    torch = operations.torch
    with operations.Operations() as counted:
        wide, tall = torch.empty(4, 6, device="meta"), torch.empty(6, 4, device="meta")
        torch._foreach_mul([wide, wide], 2.0)
        torch._foreach_add([wide, wide], [wide, tall.T])  # which lie differently: one by one
        wide.view(2, 12)[:, 1:].index_select(0, torch.empty(3, dtype=torch.int64, device="meta"))
    assert counted.counts == {"aten::_foreach_mul": 1, "aten::_foreach_add": 2, "aten::index_select": 1}
