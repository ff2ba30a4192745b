import gc
import weakref

import gymnasium
import numpy as np
import pytest
from environments import CountingEnv
from gymnasium.spaces import Box, Discrete, Tuple
from rollouts import rollout

from pufferlib import vector
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.ocean import env_class
from pufferlib.vector.ready import is_quick
from pufferlib.wrappers import ClipReward

SQUARED = env_class("puffer_squared")
BREAKOUT = env_class("puffer_breakout")


class DoubledInPlace(SQUARED):
    def step(self, actions):
        results = super().step(actions)
        self.rewards *= 2
        return results


class DoubledAnew(SQUARED):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, rewards * 2, *rest


class Rebound(SQUARED):
    def step(self, actions):
        observations, _, *rest = super().step(actions)
        self.rewards = self.rewards * 2
        return observations, self.rewards, *rest


class Wrapper:
    """Has what a PufferEnv has by asking the one inside."""

    def __init__(self, env):
        self.env = env
        self.closed = 0

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, actions):
        observations, rewards, *rest = self.env.step(actions)
        return observations, rewards * 2, *rest

    def close(self):
        self.closed += 1
        self.env.close()


class Halved(PufferEnv):
    """Shows half of what the environment inside shows, as other numbers."""

    def __init__(self, env):
        self.env = env
        self.single_observation_space = gymnasium.spaces.Box(0, 1, env.single_observation_space.shape, np.float32)
        self.single_action_space = env.single_action_space
        self.num_agents = env.num_agents
        super().__init__()

    def reset(self, seed=None):
        observations, infos = self.env.reset(seed)
        return observations / 2, infos

    def step(self, actions):
        observations, *rest = self.env.step(actions)
        return observations / 2, *rest

    def close(self):
        self.env.close()


def random_rewards(vecenv, steps=400):
    return np.array([arrays[1] for arrays in rollout(vecenv, steps)])


def made(creator, **kwargs):
    return vector.make(creator, env_kwargs=kwargs, backend="Serial", seed=3)


# --- the same as vector.make


@pytest.mark.parametrize("num_workers", ["auto", 1])
@pytest.mark.parametrize(
    ("creator", "kwargs", "backend"),
    [(SQUARED, {"num_envs": 7}, "Native"), (BREAKOUT, {"num_envs": 3}, "Native"), (CountingEnv, {}, "Serial")],
)
def test_a_ready_environment_gives_the_rollout_of_a_vector_made_with_it(creator, kwargs, backend, num_workers):
    adopted = vector.adopt(creator(**kwargs), num_workers, seed=3)
    assert type(adopted).__name__ == backend
    for expected, found in zip(rollout(made(creator, **kwargs), 50), rollout(adopted, 50), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(expected, found, strict=True))


def test_what_may_be_lent_is_stepped_by_device():
    adopted = vector.adopt(SQUARED(num_envs=7), seed=3, may_be_lent=True)
    assert type(adopted) is vector.Device
    for expected, found in zip(rollout(made(SQUARED, num_envs=7), 50), rollout(adopted, 50), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(expected, found, strict=True))
    assert type(vector.adopt(CountingEnv(), may_be_lent=True)) is vector.Serial


def test_a_snapshot_fits_the_vector_that_was_made():
    ready, other = vector.adopt(SQUARED(num_envs=4), seed=3), made(SQUARED, num_envs=4)
    for vecenv in (ready, other):
        vecenv.reset()
    ready.step(np.ones(4, int))
    other.restore(ready.snapshot())
    for expected, found in zip(ready.step(np.ones(4, int))[:4], other.step(np.ones(4, int))[:4], strict=True):
        assert np.array_equal(expected, found)
    ready.close()
    other.close()


# --- wrappers and subclasses


@pytest.mark.parametrize("changed", [DoubledInPlace, DoubledAnew, lambda **kwargs: Wrapper(SQUARED(**kwargs))])
def test_changed_rewards_are_seen(changed):
    expected = random_rewards(made(SQUARED, num_envs=8))
    vecenv = vector.adopt(changed(num_envs=8), seed=3)
    assert type(vecenv) is vector.Serial
    found = random_rewards(vecenv)
    assert (expected != 0).any()
    assert np.array_equal(found, expected * 2)


def test_a_step_put_on_the_object_is_not_stepped_past():
    env = SQUARED(num_envs=8)
    step = env.step
    env.step = lambda actions: (lambda o, r, *rest: (o, r * 2, *rest))(*step(actions))
    vecenv = vector.adopt(env, seed=3)
    assert type(vecenv) is vector.Serial
    assert np.array_equal(random_rewards(vecenv), random_rewards(made(SQUARED, num_envs=8)) * 2)


def test_what_a_wrapper_returns_does_not_reach_the_environment_inside():
    inner = SQUARED(num_envs=8)
    halved = rollout(vector.adopt(Halved(inner), seed=3), 50)
    for expected, found in zip(rollout(made(SQUARED, num_envs=8), 50), halved, strict=True):
        assert np.array_equal(expected[0] / 2, found[0])


def test_absent_agents_are_seen_through_a_wrapper():
    expected = [arrays[4] for arrays in rollout(made(CountingEnv), 10)]
    found = [arrays[4] for arrays in rollout(vector.adopt(Wrapper(CountingEnv()), seed=3), 10)]
    assert np.array_equal(expected, found) and not np.all(expected)


def test_an_array_of_an_ocean_environment_may_not_be_replaced():
    vecenv = vector.adopt(Rebound(num_envs=2))
    vecenv.reset()
    vecenv.step(np.zeros(2, int))
    with pytest.raises(APIUsageError, match="the arrays of Rebound must stay .* in place, as in self.rewards"):
        vecenv.step(np.zeros(2, int))
    vecenv.close()


# --- whose it is


def test_closing_the_vector_closes_the_environment():
    env = Wrapper(CountingEnv())
    vecenv = vector.adopt(env)
    vecenv.close()
    vecenv.close()
    assert env.closed == 1


@pytest.mark.quick("CountingEnv")
@pytest.mark.parametrize("make", [lambda: SQUARED(num_envs=2), CountingEnv, lambda: Wrapper(CountingEnv())])
def test_a_closed_environment_is_refused(make):
    env = make()
    vector.adopt(env).close()
    gc.collect()
    with pytest.raises(APIUsageError, match=f"the environment {type(env).__name__} was closed together with its"):
        vector.adopt(env)


@pytest.mark.parametrize("make", [lambda: SQUARED(num_envs=2), CountingEnv])
def test_a_second_vector_takes_the_environment_over(make):
    env = make()
    first = vector.adopt(env)
    first.reset()
    second = vector.adopt(env)
    second.reset()
    with pytest.raises(APIUsageError, match="was handed to another vector or trainer"):
        first.reset()
    assert first.snapshot() is None
    first.close()
    second.step(np.zeros((env.num_agents, *env.single_action_space.shape), int))
    second.close()


@pytest.mark.parametrize("make", [lambda: SQUARED(num_envs=2), CountingEnv])
def test_a_second_vector_takes_it_over_from_inside_a_wrapper(make):
    env = make()
    first = vector.adopt(env)
    first.reset()
    second = vector.adopt(ClipReward(env))
    second.reset()
    with pytest.raises(APIUsageError, match="was handed to another vector or trainer"):
        first.reset()
    first.close()
    second.step(np.zeros((env.num_agents, *env.single_action_space.shape), int))
    second.close()
    with pytest.raises(APIUsageError, match="was closed together with its"):
        vector.adopt(env)


def test_one_that_cannot_be_taken_over_stays_where_it_is():
    env = SQUARED(num_envs=2)
    first = vector.adopt(env)
    first.reset()
    with pytest.raises(APIUsageError, match="num_workers must be"):
        vector.adopt(env, num_workers=0)
    first.step(np.zeros(2, int))
    first.close()


def test_a_closed_environment_of_gymnasium_is_refused_when_its_wrapper_is_gone():
    env = gymnasium.make("CartPole-v1")
    vector.adopt(env).close()
    gc.collect()
    with pytest.raises(APIUsageError, match="was closed together with its"):
        vector.adopt(env)


def test_a_step_that_runs_is_finished_before_the_environment_goes_over():
    env = BREAKOUT(num_envs=64)
    first = vector.adopt(env, num_workers=1)
    first.reset()
    first.send(np.zeros(64, int))
    second = vector.adopt(env, num_workers=1)
    second.reset()
    second.step(np.zeros(64, int))
    second.close()


def test_an_environment_nobody_uses_is_forgotten():
    env = CountingEnv()
    vector.adopt(env).close()
    alive = weakref.ref(env)
    del env
    gc.collect()
    assert alive() is None


# --- what is no environment


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (gymnasium.Env(), "Env.observation_space must be a gymnasium.Space; set it in __init__"),
        (SQUARED, "env must be a PufferEnv, got the class Squared; make an instance of it"),
        (3, "env must be a PufferEnv, got int without single_observation_space; wrap it"),
    ],
)
def test_what_is_no_puffer_env_is_refused(env, message):
    with pytest.raises(APIUsageError, match=message):
        vector.adopt(env)


# --- whether a step is quick


class Strict(PufferEnv):
    """Two agents with two choices and numbers between them; it refuses what its masks do not allow."""

    has_action_masks = True
    steps = 0

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = Box(0, 1, (1,))
        self.single_action_space = Tuple((Discrete(3), Box(-1, 1, (2,)), Discrete(2)))
        self.num_agents = 2
        super().__init__(buf)

    def reset(self, seed=None):
        Strict.steps = 0
        self.action_masks[:] = [[0, 1, 1, 0, 1], [0, 0, 1, 1, 0]]
        return self.observations, []

    def step(self, actions):
        if actions.tolist() != [[1, 0, 0, 1], [2, 0, 0, 0]]:
            raise ValueError(f"not allowed: {actions.tolist()}")
        Strict.steps += 1
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self):
        pass


class Refusing(CountingEnv):
    def step(self, actions):
        raise ValueError("never")


def test_the_steps_that_are_timed_are_of_actions_that_are_allowed():
    assert is_quick(Strict, {}, 0) and Strict.steps == 32


def test_an_environment_that_raises_while_it_is_timed_is_stepped_here():
    assert is_quick(Refusing, {}, 0)
