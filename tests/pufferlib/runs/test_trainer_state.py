import pytest
import torch
from gymnasium.spaces import Discrete
from saved_trainers import ORDER, SWAPPED, edit, is_same, recurrent_trainer, run, two_heads, weights
from scripted import ScriptedEnv

from pufferlib.environment import PufferEnv
from pufferlib.errors import CheckpointError, PufferError
from pufferlib.runs.trainer_state import learner_state

pytestmark = pytest.mark.usefixtures("in_tmp_path")


# --- by name


@pytest.mark.quick("muon-run folder", "adam-file")
@pytest.mark.parametrize("kind", ["run folder", "file"])
@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_a_policy_with_its_parameters_in_another_order_goes_on(keep, optimizer, kind):
    first, second = two_heads(keep, ORDER, optimizer), two_heads(keep, SWAPPED, optimizer)
    run(first, 2)
    path = first.run_folder if kind == "run folder" else "checkpoint.pt"
    first.save_checkpoint(None if kind == "run folder" else path)
    second.load_checkpoint(path)
    assert is_same(learner_state(second._learner), learner_state(first._learner))
    assert is_same(weights(second), weights(first))
    run(second)
    assert second.epoch == 3


def test_state_of_another_shape_is_refused_by_the_name_of_its_parameter(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    trainer.save_checkpoint()

    def spoil(state):
        state["learning"]["learner"]["optimizer_state"]["weight"]["exp_avg"] = torch.zeros(5, 3)

    edit(trainer.run_folder, spoil)
    found = r"'weight'.*'exp_avg'.* must be float32 of shape \(121, 64\), got float32 of shape \(5, 3\)"
    with pytest.raises(CheckpointError, match=found):
        trainer.load_checkpoint(trainer.run_folder)


# --- between evaluate() and train()


@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("is_used", [False, True])
def test_a_rollout_that_was_not_learned_from_comes_back(keep, evaluates, is_used):
    whole, resumed = recurrent_trainer(keep), recurrent_trainer(keep)
    run(whole, 2)
    statistics = whole.evaluate()
    whole.save_checkpoint()
    if is_used:
        run(resumed, 3)
        resumed.evaluate()
    resumed.load_checkpoint(whole.run_folder)
    assert (resumed.epoch, resumed.global_step) == (2, 3 * 96)
    if evaluates:
        assert resumed.evaluate() == statistics != {}
        assert resumed.global_step == 3 * 96
    assert whole.train() == resumed.train()
    run(whole, 2), run(resumed, 2)
    assert whole.global_step == resumed.global_step == 5 * 96
    assert is_same(weights(whole), weights(resumed))
    assert is_same(learner_state(whole._learner), learner_state(resumed._learner))


def test_it_comes_back_once_more_from_a_trainer_that_did_not_go_on(keep):
    first, second, third = (recurrent_trainer(keep) for _ in range(3))
    statistics = first.evaluate()
    first.save_checkpoint()
    second.load_checkpoint(first.run_folder)
    second.save_checkpoint()
    third.load_checkpoint(first.run_folder)
    assert third.evaluate() == statistics
    assert third.train() == first.train()


def test_an_old_rollout_cannot_be_learned_from(keep):
    trainer = recurrent_trainer(keep)
    run(trainer)
    trainer.save_checkpoint()
    trainer.evaluate()
    trainer.load_checkpoint(trainer.run_folder)
    with pytest.raises(PufferError, match="needs a new rollout"):
        trainer.train()


def test_steps_nobody_learned_from_do_not_count_in_a_file(keep):
    first, second = recurrent_trainer(keep), recurrent_trainer(keep)
    run(first)
    first.evaluate()
    first.save_checkpoint("stage.pt")
    second.load_checkpoint("stage.pt")
    assert (first.global_step, second.global_step) == (2 * 96, 96)


@pytest.mark.parametrize("path", [None, "stage.pt"])
def test_metrics_from_before_a_load_are_not_told_after_it(keep, path):
    trainer = recurrent_trainer(keep, log_interval=1)
    run(trainer)
    trainer.save_checkpoint(path)
    run(trainer)
    assert trainer.mean_and_log()["epoch"] == 2
    trainer.load_checkpoint(path or trainer.run_folder)
    assert trainer.epoch == 1 and trainer.mean_and_log() == {}
    run(trainer)
    assert trainer.mean_and_log()["epoch"] == 2


# --- beginning anew


class CountedEnv(PufferEnv):
    """Without snapshots; every episode is the same, so that agents that begin alike go on alike."""

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = ScriptedEnv().single_observation_space
        self.single_action_space = Discrete(3)
        self.num_agents = 4
        super().__init__(buf)

    def reset(self, seed=None):
        self.time = 0
        self.observations[:] = 0.0
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.observations[:] = self.time / 10
        self.rewards[:] = self.time
        return self.observations, self.rewards, self.terminals, self.truncations, []


def make_of_two_processes(state):
    state["ranks"] *= 2


@pytest.mark.parametrize("env_class", [ScriptedEnv, CountedEnv])
@pytest.mark.parametrize("is_pending", [False, True])
def test_a_used_trainer_begins_anew_as_a_new_one_does(keep, env_class, is_pending):
    """Where environments have no snapshots, or there were more processes."""
    saved, fresh, used = (recurrent_trainer(keep, env_class) for _ in range(3))
    run(saved, 2)
    if is_pending:
        saved.evaluate()
    saved.save_checkpoint()
    if env_class is ScriptedEnv:
        edit(saved.run_folder, make_of_two_processes)
    run(used, 3)
    used.evaluate()
    for trainer in (fresh, used):
        trainer.load_checkpoint(saved.run_folder)
        assert trainer.global_step == 2 * 96
        assert not any(state.any() for state in trainer._collector.actor.states.values())
        assert not trainer._collector.reward_normalizer.sums.any()
    assert fresh.evaluate() == used.evaluate()
    assert fresh.train() == used.train()
    assert is_same(weights(fresh), weights(used))
