import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from tracking_env import TrackingEnv

from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError
from pufferlib.metrics import moments
from pufferlib.models import Continuous, Default, MinGRUWrapper
from pufferlib.ppo.normalization import NormalizedObservations, RewardNormalizer, normalized
from pufferlib.ppo.rollout import Rollout

CPU = torch.device("cpu")


def make_rollout(segments=6, horizon=5, seed=0, shift=3.0, scale=2.0):
    env = TrackingEnv()
    rollout = Rollout.allocate(env.single_observation_space, env.single_action_space, segments, horizon, {}, CPU, CPU)
    torch.manual_seed(seed)
    rollout.by_column.normal_().mul_(scale).add_(shift)
    return rollout


# --- observations


def test_a_new_one_shows_observations_as_they_are():
    policy = normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0)
    observations = torch.randn(7, 2, dtype=torch.float64)
    torch.testing.assert_close(policy.normalize(observations), observations.float())
    assert policy.normalize(observations).dtype == torch.float32
    assert policy.normalize(observations * 1e6).abs().max() == 10.0


def test_after_updates_what_was_seen_has_mean_0_and_variance_1():
    policy = normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0)
    rollouts = [make_rollout(seed=seed, shift=100.0 * seed) for seed in range(3)]
    for rollout in rollouts:
        policy.update(rollout, Ranks())
    seen = torch.cat([policy.normalize(rollout.observations).reshape(-1, 2) for rollout in rollouts]).double()
    torch.testing.assert_close(seen.mean(0), torch.zeros(2).double(), atol=1e-6, rtol=0.0)
    torch.testing.assert_close(seen.var(0, correction=0), torch.ones(2).double(), atol=1e-5, rtol=0.0)
    assert policy.count == 3 * 6 * 5


@pytest.mark.parametrize("numbers", [1, 7, 58])
def test_a_large_rollout_is_summed_up_in_parts(monkeypatch, numbers):
    whole, in_parts = (normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0) for _ in range(2))
    rollout = make_rollout()
    whole.update(rollout, Ranks())
    monkeypatch.setattr(moments, "CHUNK", numbers)
    in_parts.update(rollout, Ranks())
    assert in_parts.count == whole.count
    torch.testing.assert_close(in_parts.mean, whole.mean)
    torch.testing.assert_close(in_parts.variance, whole.variance)


def test_absent_agents_are_not_counted():
    policy = normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0)
    rollout = make_rollout()
    rollout.masks[:] = False
    policy.update(rollout, Ranks())
    assert policy.count == 0 and (policy.variance == 1).all()
    rollout.masks[2, 3] = True
    policy.update(rollout, Ranks())
    torch.testing.assert_close(policy.mean, rollout.observations[2, 3])


def test_the_policy_behind_it_sees_normalised_observations_and_keeps_its_state():
    env = TrackingEnv()
    inner = MinGRUWrapper(env, Default(env, hidden_size=16), 16, 16)
    policy = normalized(env, inner, clip=10.0)
    policy.update(make_rollout(), Ranks())
    observations = make_rollout(seed=1).by_column[0]
    state, plain = policy.initial_state(6), inner.initial_state(6)
    for _ in range(2):
        _, values = policy.forward_eval(observations, state)
        _, expected = inner.forward_eval(policy.normalize(observations), plain)
        torch.testing.assert_close(values, expected)
    torch.testing.assert_close(state["mingru_0"], plain["mingru_0"])
    assert not hasattr(normalized(env, Default(env), 10.0), "initial_state")


def test_a_normalised_policy_is_not_normalised_twice():
    policy = normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0)
    assert normalized(TrackingEnv(), policy, 5.0) is policy


def test_the_statistics_travel_with_the_weights():
    policy, other = (normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0) for _ in range(2))
    policy.update(make_rollout(), Ranks())
    other.load_state_dict(policy.state_dict())
    observations = make_rollout(seed=1).by_column[0]
    assert torch.equal(policy(observations)[1], other(observations)[1])


@pytest.mark.parametrize("space", [Discrete(4), Dict(a=Box(0, 1))])
def test_what_are_no_numbers_is_refused(space):
    env = TrackingEnv()
    policy = Continuous(env)
    env.single_observation_space = space
    with pytest.raises(APIUsageError, match="one Box of numbers"):
        NormalizedObservations(env, policy)


# --- rewards


def reference_scales(rewards, ended, gamma):
    """The variance of the discounted sums after each step, agent by agent."""
    sums = []
    for agent in range(rewards.shape[1]):
        total = 0.0
        for reward, end in zip(rewards[:, agent], ended[:, agent], strict=True):
            total = gamma * total + reward
            sums.append(total)
            total *= not end
    return np.sqrt(np.var(sums))


def test_rewards_are_divided_by_the_deviation_of_their_discounted_sums():
    random = np.random.default_rng(0)
    rewards, ended = random.normal(5, 3, (40, 3)).astype(np.float32), random.random((40, 3)) < 0.1
    normalizer = RewardNormalizer(3, 0.9, 10.0, Ranks())
    halves = [rewards[:20].copy(), rewards[20:].copy()]
    for half, flags in zip(halves, (ended[:20], ended[20:]), strict=True):
        normalizer.normalize(half, flags, np.ones_like(flags))
    scale = reference_scales(rewards, ended, 0.9)  # of both halves by the time of the second
    np.testing.assert_allclose(halves[1], rewards[20:] / scale, rtol=1e-5)


def test_groups_of_segments_follow_each_other_in_time():
    random = np.random.default_rng(1)
    rewards, ended = random.normal(0, 3, (40, 3)).astype(np.float32), random.random((40, 3)) < 0.1
    side_by_side = np.concatenate([rewards[:20], rewards[20:]], 1)
    RewardNormalizer(3, 0.9, 10.0, Ranks()).normalize(
        side_by_side, np.concatenate([ended[:20], ended[20:]], 1), np.ones((20, 6), bool)
    )
    expected = rewards / reference_scales(rewards, ended, 0.9)
    np.testing.assert_allclose(side_by_side, np.concatenate([expected[:20], expected[20:]], 1), rtol=1e-5)


def test_normalised_rewards_are_clipped():
    normalizer = RewardNormalizer(1, 0.5, 2.0, Ranks())
    rewards = np.ones((100, 1), np.float32)
    rewards[50] = 1e4
    normalizer.normalize(rewards, np.ones((100, 1), bool), np.ones((100, 1), bool))
    assert rewards[50] == 2.0 and 0 < rewards[0] < 0.01


def test_one_with_the_moments_and_sums_of_another_goes_on_as_that_does():
    random = np.random.default_rng(2)
    one, other = (RewardNormalizer(2, 0.9, 10.0, Ranks()) for _ in range(2))
    flags = np.zeros((10, 2), bool), np.ones((10, 2), bool)
    one.normalize(random.normal(size=(10, 2)).astype(np.float32), *flags)
    other.moments = one.moments
    other.sums[:] = one.sums
    rewards = random.normal(size=(10, 2)).astype(np.float32)
    copies = rewards.copy(), rewards.copy()
    one.normalize(copies[0], *flags), other.normalize(copies[1], *flags)
    np.testing.assert_array_equal(*copies)
