"""`[train] skip_nonfinite`: what is infinite or NaN is left out, counted, and touches nothing else."""

import math

import gymnasium
import numpy as np
import pytest
import ranks
import torch
from breaking import AGENTS, HORIZON, BreakingEnv, make_trainer, train
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib import PuffeRL
from pufferlib.errors import DivergedError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.ppo.losses import ppo_loss
from pufferlib.runs.folder import read_facts

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def lstm(env):
    return LSTMWrapper(env, Default(env, 16), 16, 16)


def trained(policy=None, epochs=5, value=math.nan, what="reward", step=13, **settings):
    """A trainer after some epochs with one number that is not finite; what each call of `train` returned."""
    policy = Default if policy is None else policy
    trainer = make_trainer({"what": what, "step": step, "value": value}, policy, skip_nonfinite=True, **settings)
    losses = []
    for _ in range(epochs):
        trainer.evaluate()
        losses.append(trainer.train())
    return trainer, losses


def weights(trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])


# --- what the environment gives


@pytest.mark.quick("recurrent")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"fused": False},
        *(
            pytest.param(settings, marks=pytest.mark.slow)
            for settings in ({"shuffle": "steps"}, {"normalize_observations": True})
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", [None, lstm], ids=["feed-forward", "recurrent"])
@pytest.mark.parametrize("what", ["reward", "observation"])
def test_a_segment_is_left_out_whatever_it_holds(what, policy, settings):
    if policy is lstm and "shuffle" in settings:
        pytest.skip("single steps are for policies without recurrence")
    found = {}
    for value in (math.nan, math.inf, -math.inf):
        trainer, losses = trained(policy, value=value, what=what, **settings)
        assert [each["skipped_steps"] for each in losses] == [0, HORIZON, HORIZON, HORIZON, HORIZON]
        assert [each["skipped_minibatches"] for each in losses] == [0] * 5
        found[value] = weights(trainer)
        assert found[value].isfinite().all() and trainer.global_step == 5 * AGENTS * HORIZON - HORIZON
    assert torch.equal(found[math.nan], found[math.inf]) and torch.equal(found[math.nan], found[-math.inf])
    assert not torch.equal(found[math.nan], weights(trained(policy, value=0.0, what=what, **settings)[0]))


def test_who_sees_such_a_number_last_begins_the_next_segment_with_a_step_that_does_not_count():
    trainer, losses = trained(what="observation", step=2 * HORIZON, epochs=3)
    assert [each["skipped_steps"] for each in losses] == [0, HORIZON, HORIZON]
    assert trainer.global_step == 3 * AGENTS * HORIZON - HORIZON - 1
    assert not trainer.rollout.masks[2, 0] and trainer.rollout.masks.sum() == AGENTS * (HORIZON + 1) - 1


def test_returns_of_episodes_count_such_a_reward_as_0():
    class Ending(BreakingEnv):
        def step(self, actions):
            super().step(actions)
            self.terminals[:] = self.time % 4 == 0
            return self.observations, self.rewards, self.terminals, self.truncations, []

    trainer = make_trainer({"step": 13}, env=Ending, skip_nonfinite=True)
    train(trainer, 3)
    assert all(math.isfinite(value) for value in trainer.mean_and_log().values())


def test_the_environments_own_arrays_stay_as_they_are():
    trainer = make_trainer({"what": "observation", "step": HORIZON}, skip_nonfinite=True)
    trainer.evaluate()
    assert math.isnan(trainer.vecenv.driver_env.observations[2, 1])


def test_numbers_whose_sum_is_too_large_are_finite_all_the_same():
    class Large(BreakingEnv):
        def step(self, actions):
            super().step(actions)
            self.rewards[:] = 3e38
            return self.observations, self.rewards, self.terminals, self.truncations, []

    trainer = make_trainer({"step": -1}, env=Large, skip_nonfinite=True, reward_clip=1.0, normalize_rewards=False)
    with np.errstate(over="ignore"):
        train(trainer, 1)
    assert trainer.losses["skipped_steps"] == 0 and trainer.rewards[:, 1:].eq(1).all()


def test_a_final_observation_that_is_not_finite_leaves_its_segment_out():
    class Cut(BreakingEnv):
        def step(self, actions):
            super().step(actions)
            self.truncations[:] = [False, False, False, self.time == 3]
            final = {"final_observation": np.full(3, np.inf, np.float32), "agent_id": 3}
            return self.observations, self.rewards, self.terminals, self.truncations, [final] * (self.time == 3)

    trainer = make_trainer({"step": -1}, env=Cut, skip_nonfinite=True)
    train(trainer, 1)
    assert trainer.losses["skipped_steps"] == HORIZON
    assert trainer.rollout.masks[:, :-1].all(1).tolist() == [True, True, True, False]


def test_an_environment_that_gives_nothing_else_ends_the_training():
    class Broken(BreakingEnv):
        def step(self, actions):
            super().step(actions)
            self.rewards[:] = np.nan
            return self.observations, self.rewards, self.terminals, self.truncations, []

    with pytest.raises(DivergedError, match="^every segment of the rollout .*step.. returns; there is no earlier"):
        train(make_trainer(env=Broken, skip_nonfinite=True))


# --- what learning makes of it


class Faulty:
    """PPO's loss, which at some calls is not finite."""

    def __init__(self, *calls, value=math.nan):
        self.calls, self.value, self.count = calls, value, 0

    def __call__(self, *arguments, **coefficients):
        loss = ppo_loss(*arguments, **coefficients)
        self.count += 1
        is_bad = self.count in self.calls
        return loss._replace(total=loss.total * self.value) if is_bad else loss


def test_a_minibatch_whose_gradients_are_not_finite_is_not_stepped_by():
    steps = []
    trainer = make_trainer({"step": -1}, loss=Faulty(2, 3), skip_nonfinite=True)
    step = trainer._learner.optimizer.step
    trainer._learner.optimizer.step = lambda: steps.append(weights(trainer)) or step()
    train(trainer, 2)
    assert len(steps) == 2 * AGENTS - 2 and weights(trainer).isfinite().all()


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_minibatch_whose_loss_is_not_finite_leaves_nothing_behind(is_fused):
    trainer = make_trainer({"step": -1}, fused=is_fused, skip_nonfinite=True)
    trainer.evaluate()
    trainer.rollout.logprobs[1, 3] = -math.inf  # so that its ratio is infinite
    losses = trainer.train()
    assert losses["skipped_minibatches"] == 1 and all(math.isfinite(value) for value in losses.values())
    assert weights(trainer).isfinite().all()
    assert trainer.rollout.values.isfinite().all() and trainer.rollout.ratios[1, :-1].eq(1).all()
    train(trainer, 2)


def test_where_every_minibatch_is_skipped_the_training_ends():
    trainer = make_trainer({"step": -1}, loss=Faulty(*range(5, 100)), skip_nonfinite=True)
    train(trainer, 1)
    with pytest.raises(DivergedError, match=r"^all 4 minibatches had a loss or gradient .* lower learning_rate"):
        train(trainer, 1)


@pytest.mark.parametrize("target_kl", [None, 0.02])
def test_where_every_minibatch_of_the_first_update_is_skipped_the_training_ends(target_kl):
    trainer = make_trainer({"step": -1}, skip_nonfinite=True, target_kl=target_kl)
    trainer.evaluate()
    trainer.rollout.logprobs[:, 3] = -math.inf  # so that their ratios are infinite
    with pytest.raises(DivergedError, match=r"^all 4 minibatches had a loss or gradient .* lower learning_rate"):
        trainer.train()


# --- several processes


def train_with_a_bad_share(bad):
    """Weights, skipped minibatches and loss of this rank; for a share of rank 1 no loss is finite."""
    sizes = {"batch_size": 2 * AGENTS * HORIZON, "minibatch_size": 4 * HORIZON}
    trainer = make_trainer({"step": -1}, skip_nonfinite=True, **sizes)
    trainer.evaluate()
    differentiate, logprobs, count = trainer._learner.gradients.differentiate, trainer.rollout.logprobs, 0

    def spoil(minibatch):
        nonlocal count
        count += 1
        if trainer.ranks.rank == 0 or count != bad:
            return differentiate(minibatch)
        before = logprobs.clone()
        logprobs[minibatch.rows[0], 3] = -math.inf
        metrics = differentiate(minibatch)
        logprobs.copy_(before)
        return metrics

    trainer._learner.gradients.differentiate = spoil
    losses = trainer.train()
    assert count == 2
    return weights(trainer).tolist(), losses["skipped_minibatches"], losses["policy_loss"]


@pytest.mark.quick("2")
@pytest.mark.parametrize("bad", [1, 2])
def test_what_one_process_cannot_step_by_no_process_steps_by(bad):
    first, second = ranks.call(train_with_a_bad_share, bad)
    assert first[0] == second[0] and all(map(math.isfinite, first[0]))
    assert (first[1], second[1]) == (0, 1) and first[2] == second[2] and math.isfinite(first[2])


# --- what the policy is scored by


class Sometimes(gymnasium.Env):
    """Pays 1 a step for five steps, in one of twenty a NaN in place of it."""

    observation_space, action_space = Box(-1, 1, (2,)), Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = math.nan if self.np_random.random() < 0.05 else 1.0
        return np.zeros(2, np.float32), reward, self.steps == 5, False, {}


def test_scores_and_evaluations_are_of_the_episodes_that_are_finite():
    settings = {"evaluations": 2, "evaluation_envs": 100, "batch_size": 512, "total_timesteps": 1024, "device": "cpu"}
    trainer = PuffeRL(Sometimes, num_workers=1, skip_nonfinite=True, **settings)
    trainer.learn(dashboard=False)
    score = trainer.score(200)["episode/return_mean"]
    assert score.mean == 5.0 and 50 < score.episodes < 200
    found = read_facts(trainer.run_folder / "best.json")
    assert (found["eval/return_mean"], found["eval/length_mean"]) == (5.0, 5.0)
    trainer.close()
    assert math.isnan(pufferlib.evaluate(trainer.policy, Sometimes, episodes=200)["episode_return"].mean)
