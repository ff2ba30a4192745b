"""Continuous control through the trainer: the recipe of the published PPO results."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch.distributions import Normal
from tracking_env import LIMIT, RECIPE, TrackingEnv
from trained import iterate

from pufferlib import vector
from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.errors import APIUsageError, ConfigError
from pufferlib.models import Continuous, Default, MinGRUWrapper
from pufferlib.policy import NormalizedObservations
from pufferlib.pufferl import PuffeRL

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def make_trainer(policy=None, seed=0, num_envs=4, env=None, **settings):
    vecenv = vector.make(TrackingEnv, env_kwargs=env or {}, num_envs=num_envs, backend="Serial", seed=seed)
    torch.manual_seed(seed)
    policy = Continuous(vecenv, [16], [16]) if policy is None else policy
    return PuffeRL({**RECIPE, "seed": seed, **settings}, vecenv, policy)


def test_a_number_begins_inside_of_its_bounds_with_a_deviation_in_half_ranges():
    inf = np.inf
    box = Box(np.array([-2, 0, -inf, 3, 5, 100], np.float32), np.array([2, 0.5, 1, 3, inf, 200], np.float32))
    env = SimpleNamespace(single_observation_space=Box(-1, 1, (3,), np.float32), single_action_space=box)
    policy = Continuous(env, log_std=-1.0)
    assert policy.mean.bias.tolist() == [0, 0, 0, 3, 5, 150]
    half_ranges = np.array([2, 0.25, 1, 1, 1, 50])
    assert policy.log_std.exp().tolist() == pytest.approx((half_ranges / math.e).tolist())


def weights(trainer):
    return torch.cat([value.detach().flatten().double() for value in trainer.policy.state_dict().values()])


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_it_learns_whatever_the_scale_of_observations_and_rewards(scale):
    trainer = make_trainer(env={"scale": scale})
    first = trainer.evaluate()["episode/return_mean"]
    trainer.train()
    while trainer.epoch < trainer.total_epochs:
        last = trainer.evaluate()["episode/return_mean"]
        trainer.train()
    trainer.release()
    assert last / scale > -1.0 > -3.0 > first / scale


def test_the_policy_acts_as_it_is_trained_while_its_statistics_stand_still(monkeypatch):
    trainer = make_trainer(learning_rate=0.0)
    for _ in range(2):
        trainer.evaluate()
        rollout = trainer.rollout
        distribution, values = trainer.policy(rollout.by_column.flatten(0, 1))
        logprobs = distribution.log_prob(rollout.actions.transpose(0, 1).flatten(0, 1)).sum(-1)
        torch.testing.assert_close(logprobs.view(32, 16).T, rollout.logprobs, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(values.view(32, 16).T, rollout.values[:, :-1], atol=1e-4, rtol=1e-4)
        before = trainer.policy.count.clone()
        losses = trainer.train()
        assert trainer.policy.count == before + 512
        assert abs(losses["approx_kl"]) < 1e-6
    trainer.release()


def test_final_observations_are_valued_before_the_reset():
    trainer = make_trainer(normalize_observations=False, normalize_rewards=False)
    seen = []
    value_final = trainer._collector.actor.value_final

    def watch(agents, observations):
        values = value_final(agents, observations)
        seen.extend(zip(agents.tolist(), observations, values, strict=True))
        return values

    trainer._collector.actor.value_final = watch
    trainer.evaluate()
    rollout, finals = trainer.rollout, trainer.rollout.finals
    assert rollout.truncations[:, 1:].sum() == len(finals.values) == len(seen)
    assert rollout.truncations[finals.segments, finals.columns].all()
    for agent, column, value, (owner, observation, _) in zip(
        finals.segments.tolist(), finals.columns.tolist(), finals.values, seen, strict=True
    ):
        assert agent == owner
        # The point was pushed once more from where the column before shows it.
        target, position = rollout.observations[agent, column - 1].tolist()
        push = 0.5 * float(rollout.actions[agent, column - 1].clamp(-1, 1))
        np.testing.assert_allclose(observation, [target, position + push], atol=1e-5)
        expected = trainer.policy(torch.from_numpy(observation)[None])[1]
        torch.testing.assert_close(value.unsqueeze(0), expected)
    trainer.release()


def test_final_observations_are_no_statistics():
    trainer = make_trainer()
    statistics = trainer.evaluate()
    trainer.release()
    assert set(statistics) == {
        f"episode/{name}" for name in ("return_mean", "return_min", "return_max", "length_mean", "count")
    }
    assert statistics["episode/length_mean"] <= LIMIT


def test_a_recurrent_policy_values_them_with_the_state_of_the_episode():
    vecenv = vector.make(TrackingEnv, num_envs=1, backend="Serial")
    policy = MinGRUWrapper(vecenv, Default(vecenv, hidden_size=16), 16, 16)
    vecenv.close()
    trainer = make_trainer(policy, num_envs=1, shuffle="segments", normalize_observations=False)
    states = []
    actor = trainer._collector.actor
    value_final = actor.value_final

    def watch(agents, observations):
        states.append(actor.states["mingru_0"][torch.from_numpy(agents)].abs().sum())
        return value_final(agents, observations)

    actor.value_final = watch
    trainer.evaluate()
    trainer.release()
    assert states and all(state > 0 for state in states)


# --- target_kl


def count_steps(trainer):
    trainer.evaluate()
    losses = trainer.train()
    trainer.release()
    return int(next(iter(trainer.optimizer.state.values()))["step"]), losses


@pytest.mark.parametrize("target_kl, passes", [(None, 4), (1e-9, 1), (1e9, 4)])
def test_a_policy_that_went_too_far_is_trained_no_further(target_kl, passes):
    count, losses = count_steps(make_trainer(target_kl=target_kl))
    assert count == passes * 512 // 64
    assert math.isfinite(losses["policy_loss"]) and losses["importance"] == pytest.approx(1.0, abs=0.2)


# --- settings


def test_the_learning_rate_may_fall_along_a_line():
    trainer = make_trainer(total_timesteps=512 * 4)
    rates = []
    for _ in range(4):
        rates.append(trainer.learning_rate)
        iterate(trainer, 1)
    trainer.release()
    np.testing.assert_allclose(rates, [3e-3, 2.25e-3, 1.5e-3, 0.75e-3])


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"minibatch_size": 100},
            "minibatch_size must be a divisor of the batch of 512 agent steps, got 100; the nearest: 128",
        ),
        ({"prio_alpha": 0.5}, "prio_alpha must be 0 where shuffle is 'steps', got 0.5"),
        ({"target_kl": 0.0}, "target_kl must be"),
        ({"lr_schedule": "line"}, "lr_schedule must be"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        resolve_sizes(TrainConfig(**{**RECIPE, **settings}), 16, "cpu")


def test_minibatches_of_steps_may_cut_segments():
    assert resolve_sizes(TrainConfig(**{**RECIPE, "minibatch_size": 16}), 16, "cpu").minibatches_per_epoch == 128


def test_a_recurrent_policy_needs_segments():
    vecenv = vector.make(TrackingEnv, num_envs=1, backend="Serial")
    policy = MinGRUWrapper(vecenv, Default(vecenv, hidden_size=16), 16, 16)
    vecenv.close()
    with pytest.raises(ConfigError, match="shuffle must be 'segments' for a recurrent policy"):
        make_trainer(policy)


def test_accumulated_gradients_of_steps_equal_those_of_the_whole_minibatch():
    trained = []
    for size in (64, 16):
        trainer = make_trainer(max_minibatch_size=size, optimizer="sgd")
        iterate(trainer, 2)
        trained.append(weights(trainer))
        trainer.release()
    torch.testing.assert_close(*trained, atol=1e-6, rtol=1e-5)


def test_absent_agents_are_not_trained_on():
    trained = []
    for _ in range(2):
        trainer = make_trainer(env={"has_absent_agents": True}, optimizer="sgd", normalize_rewards=False)
        trainer.evaluate()
        masks = trainer.rollout.masks[:, :-1]
        assert 0.2 < masks.float().mean() < 0.9
        if trained:  # what absent agents saw and did must not count
            trainer.rollout.actions[~masks] += 5.0
            trainer.rollout.logprobs[~masks] -= 1.0
            trainer.rollout.observations[~masks] *= -3.0
        trainer.train()
        trained.append(weights(trainer))
        trainer.release()
    assert torch.equal(*trained)


# --- checkpoints


def test_a_resumed_run_ends_as_one_that_was_not_stopped():
    whole = make_trainer()
    iterate(whole, 6)
    first = make_trainer()
    iterate(first, 3)
    first.save_checkpoint()
    second = make_trainer()
    second.load_checkpoint(first.run_folder)
    iterate(second, 3)
    assert torch.equal(weights(whole), weights(second))
    for trainer in (whole, first, second):
        trainer.release()


def test_one_file_holds_both_normalisers():
    trainer, other = make_trainer(), make_trainer(seed=1)
    iterate(trainer, 2)
    trainer.save_checkpoint("stage.pt")
    other.load_checkpoint("stage.pt")
    assert torch.equal(weights(trainer), weights(other))
    assert trainer._collector.reward_normalizer.moments == other._collector.reward_normalizer.moments
    plain = make_trainer(normalize_rewards=False)
    with pytest.raises(Exception, match="with the same optimizer and normalize_rewards"):
        plain.load_checkpoint("stage.pt")
    for each in (trainer, other, plain):
        each.release()


# --- the policy


def test_actor_and_critic_share_nothing():
    policy = Continuous(TrackingEnv(), [16, 8], [32])
    distribution, values = policy(torch.randn(5, 2))
    assert isinstance(distribution, Normal) and distribution.mean.shape == (5, 1) and values.shape == (5,)
    values.sum().backward()
    assert all(parameter.grad is None for parameter in policy.actor.parameters())
    assert policy.log_std.grad is None and policy.mean.weight.grad is None


def test_it_begins_as_the_recipe_says():
    policy = Continuous(TrackingEnv(), [64, 64], [64, 64])
    for weight, gain in (
        (policy.actor[2].weight, math.sqrt(2)),
        (policy.mean.weight, 0.01),
        (policy.value.weight, 1.0),
    ):
        torch.testing.assert_close(torch.linalg.svdvals(weight), torch.full((min(weight.shape),), gain))
    assert policy.log_std.tolist() == [0.0]


@pytest.mark.parametrize("keywords", [{"actor_sizes": []}, {"critic_sizes": [0]}, {"activation": "none"}])
def test_impossible_sizes_are_named(keywords):
    with pytest.raises(APIUsageError, match=next(iter(keywords))):
        Continuous(TrackingEnv(), **keywords)


def test_the_trainer_wraps_a_policy_and_takes_over_a_wrapped_one():
    trainer = make_trainer()
    assert isinstance(trainer.policy, NormalizedObservations)
    iterate(trainer, 1)
    second = make_trainer(trainer.policy)
    assert second.policy is trainer.policy and second.policy.count == 512
    trainer.release(), second.release()


def test_the_collector_takes_final_observations_from_any_backend():
    found = []
    for backend, workers in (("Serial", "auto"), ("Multiprocessing", 2)):
        vecenv = vector.make(TrackingEnv, num_envs=4, num_workers=workers, backend=backend, seed=3)
        torch.manual_seed(0)
        trainer = PuffeRL({**RECIPE, "seed": 3}, vecenv, Continuous(vecenv, [16], [16]))
        iterate(trainer, 2)
        found.append(weights(trainer))
        trainer.release()
    assert torch.equal(*found)


class Forgetful(TrackingEnv):
    """As a Python environment mostly is: it cannot tell its state."""

    def snapshot(self):
        return None


def test_a_resumed_run_of_environments_without_snapshots_begins_other_episodes():
    def make():
        vecenv = vector.make(Forgetful, num_envs=2, backend="Serial", seed=5)
        torch.manual_seed(0)
        return PuffeRL(RECIPE, vecenv, Continuous(vecenv, [16], [16]))

    first, second = make(), make()
    begun = first._collector.actor.last_observations.clone()
    iterate(first, 2)
    first.save_checkpoint()
    second.load_checkpoint(first.run_folder)
    assert not torch.equal(second._collector.actor.last_observations, begun)
    assert torch.equal(weights(first), weights(second)) and second.epoch == 2
    assert second._collector.reward_normalizer.moments == first._collector.reward_normalizer.moments
    iterate(second, 1)
    assert second.global_step == 3 * 256
    first.release(), second.release()
