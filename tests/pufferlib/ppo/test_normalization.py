import numpy as np

from pufferlib.distributed import Ranks
from pufferlib.ppo.rollout import RewardNormalizer


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
