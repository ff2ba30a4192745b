import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from tracking_env import TrackingEnv

from pufferlib.distributed import Ranks
from pufferlib.emulation import nativize
from pufferlib.errors import APIUsageError
from pufferlib.metrics import measures
from pufferlib.models import Continuous, Default, MinGRUWrapper
from pufferlib.policy import NormalizedObservations, normalized
from pufferlib.ppo.rollout import Rollout
from pufferlib.spaces import Layout

CPU = torch.device("cpu")


def make_rollout(segments=6, horizon=5, seed=0, shift=3.0, scale=2.0):
    env = TrackingEnv()
    rollout = Rollout.allocate(env.single_observation_space, env.single_action_space, segments, horizon, {}, CPU, CPU)
    torch.manual_seed(seed)
    rollout.by_column.normal_().mul_(scale).add_(shift)
    return rollout


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
        policy.update(rollout.seen, Ranks())
    seen = torch.cat([policy.normalize(rollout.observations).reshape(-1, 2) for rollout in rollouts]).double()
    torch.testing.assert_close(seen.mean(0), torch.zeros(2).double(), atol=1e-6, rtol=0.0)
    torch.testing.assert_close(seen.var(0, correction=0), torch.ones(2).double(), atol=1e-5, rtol=0.0)
    assert policy.count == 3 * 6 * 5


@pytest.mark.parametrize("numbers", [1, 7, 58])
def test_a_large_rollout_is_summed_up_in_parts(monkeypatch, numbers):
    whole, in_parts = (normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0) for _ in range(2))
    rollout = make_rollout()
    whole.update(rollout.seen, Ranks())
    monkeypatch.setattr(measures, "CHUNK", numbers)
    in_parts.update(rollout.seen, Ranks())
    assert in_parts.count == whole.count
    torch.testing.assert_close(in_parts.mean, whole.mean)
    torch.testing.assert_close(in_parts.variance, whole.variance)


def test_absent_agents_are_not_counted():
    policy = normalized(TrackingEnv(), Continuous(TrackingEnv()), clip=10.0)
    rollout = make_rollout()
    rollout.masks[:] = False
    policy.update(rollout.seen, Ranks())
    assert policy.count == 0 and (policy.variance == 1).all()
    rollout.masks[2, 3] = True
    policy.update(rollout.seen, Ranks())
    torch.testing.assert_close(policy.mean, rollout.observations[2, 3])


def test_the_policy_behind_it_sees_normalised_observations_and_keeps_its_state():
    env = TrackingEnv()
    inner = MinGRUWrapper(env, Default(env, hidden_size=16), 16, 16)
    policy = normalized(env, inner, clip=10.0)
    policy.update(make_rollout().seen, Ranks())
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
    policy.update(make_rollout().seen, Ranks())
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


class Structured:
    def __init__(self, space):
        self.emulated = Layout.of(space)
        self.single_observation_space, self.single_action_space = self.emulated.row_space, Box(-1, 1, (2,))


PLACE = Box(-1e3, 1e3, (3,))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_boxes_of_one_floating_dtype_are_normalised_as_one_row(dtype):
    env = Structured(Dict(place=Box(-1e3, 1e3, (3,), dtype), speed=Tuple([Box(-np.inf, np.inf, (2, 2), dtype)])))
    policy = normalized(env, Default(env, 16), clip=10.0)
    shown = torch.from_numpy(np.random.default_rng(0).normal(5.0, 3.0, (4, 6, 7)).astype(dtype))
    policy.update(shown.reshape(-1, 7), Ranks())
    rows = policy.normalize(shown[0])
    parts = nativize(rows, env.emulated)
    torch.testing.assert_close(parts["place"], ((shown[0] - policy.mean) / policy.variance.sqrt()).float()[:, :3])
    assert parts["speed"][0].shape == (6, 2, 2) and parts["speed"][0].dtype == torch.float32
    torch.testing.assert_close(policy(shown[0])[1], policy.policy(rows)[1])


@pytest.mark.parametrize(
    "space",
    [Dict(a=PLACE, b=Discrete(3)), Dict(a=PLACE, b=Box(0, 1, (2,), np.float64)), Dict(a=Box(0, 255, (4,), np.uint8))],
)
def test_structures_of_anything_else_are_refused_by_the_names_of_their_parts(space):
    env = Structured(space)
    with pytest.raises(
        APIUsageError, match=r"Boxes of one floating dtype, got observation\['a'\] of .*; switch it off"
    ):
        NormalizedObservations(env, Default(env, 16))


@pytest.mark.parametrize("wrapper", [None, MinGRUWrapper])
def test_categories_are_not_normalised(wrapper):
    env = TrackingEnv()
    env.single_observation_space = Box(0, 3, (4,), np.uint8)
    policy = Default(env, 16, one_hot=True)
    policy = policy if wrapper is None else wrapper(env, policy, 16, 16)
    with pytest.raises(APIUsageError, match="sees categories; switch one of the two off"):
        NormalizedObservations(env, policy)


@pytest.mark.parametrize("wrapper", [None, MinGRUWrapper])
def test_the_weights_are_saved_once_beside_the_statistics(wrapper):
    env = TrackingEnv()
    inner = Default(env, 16) if wrapper is None else wrapper(env, Default(env, 16), 16, 16)
    own = [f"policy.{name}" for name in inner.state_dict()]
    assert list(normalized(env, inner, 10.0).state_dict()) == ["count", "mean", "variance", *own]


def test_a_policy_without_a_state_acts_by_its_forward_eval():
    class Acting(Continuous):
        def forward_eval(self, observations):
            return "acted", observations

    policy = normalized(TrackingEnv(), Acting(TrackingEnv()), clip=10.0)
    assert policy.forward_eval(torch.full((1, 2), 1e6))[1].tolist() == [[10.0, 10.0]]
    assert isinstance(policy(torch.zeros(1, 2))[1], torch.Tensor)


class Plain(Continuous):
    """A policy that takes no state."""

    def forward(self, observations):
        return super().forward(observations)


def test_the_policy_behind_it_may_be_replaced_by_one_of_another_form():
    env = TrackingEnv()
    policy = normalized(env, Continuous(env), clip=10.0)
    policy.policy = Plain(env)
    policy.find_forms()
    assert policy(torch.zeros(3, 2), {})[1].shape == (3,)


def test_a_copy_computes_by_its_own_policy():
    env = TrackingEnv()
    policy = normalized(env, Plain(env), clip=10.0)
    copied, observations = copy.deepcopy(policy), torch.ones(3, 2)
    with torch.no_grad():
        copied.policy.value.bias += 7.0
        torch.testing.assert_close(copied(observations)[1], policy(observations)[1] + 7.0)
        torch.testing.assert_close(copied.forward_eval(observations)[1], policy.forward_eval(observations)[1] + 7.0)
