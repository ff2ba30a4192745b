"""Gymnasium's own environments, emulated: the same rollout in this process and in workers."""

import warnings

import gymnasium
import numpy as np
import pytest
from rollouts import digest, make_quietly, random_actions, rollout

from pufferlib.emulation import GymnasiumPufferEnv, unpack

FAMILIES = ("classic_control", "toy_text", "box2d")
STEPS = 120  # of each of two environments
OF_EACH_KIND = (
    "Blackjack-v1",
    "CarRacing-v3",
    "CartPole-v1",
    "FrozenLake-v1",
    "LunarLander-v3",
    "Pendulum-v1",
)  # of spaces
FEW_STEPS = {"CarRacing-v3": 10}  # a picture drawn in software at every step


def is_of_a_family(spec: gymnasium.envs.registration.EnvSpec) -> bool:
    entry_point = str(spec.entry_point)
    return any(entry_point.startswith(f"gymnasium.envs.{family}") for family in FAMILIES)


IDS = sorted(name for name, spec in gymnasium.registry.items() if is_of_a_family(spec))


def make_env(name: str) -> gymnasium.Env:
    if "box2d" in str(gymnasium.spec(name).entry_point):
        pytest.importorskip("Box2D")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*out of date", DeprecationWarning)  # an old version, on purpose
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="pygame|pkg_resources")
        return gymnasium.make(name)


def test_all_families_are_there():
    assert len(IDS) >= 15 and {"CartPole-v1", "Pendulum-v1", "Blackjack-v1", "LunarLander-v3"} <= set(IDS)


@pytest.mark.quick("CartPole-v1", "Blackjack-v1", "Pendulum-v1")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the start method that is quick to test
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OF_EACH_KIND else pytest.mark.slow) for name in IDS]
)
def test_workers_give_the_rollout_of_this_process(name):
    make_env(name).close()
    histories = []
    for options in ({"backend": "Serial"}, {"backend": "Multiprocessing", "num_workers": 2, "context": "fork"}):
        keywords = {"env_creator": make_env, "env_args": (name,)}
        vecenv = make_quietly(GymnasiumPufferEnv, env_kwargs=keywords, num_envs=2, seed=5, **options)
        histories.append(rollout(vecenv, FEW_STEPS.get(name, STEPS), action_seed=3))
    assert digest(histories[0]) == digest(histories[1])
    first, second = (np.array([arrays[0][env] for arrays in histories[0]]) for env in range(2))
    assert not np.array_equal(first, second)  # two seeds


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1", "FrozenLake-v1"])
def test_emulated_observations_are_those_of_gymnasium(name):
    env, own = GymnasiumPufferEnv(make_env(name)), make_env(name)
    observations, _ = env.reset(seed=3)
    expected, _ = own.reset(seed=3)
    random = np.random.default_rng(4)
    for _ in range(300):
        assert observations in env.observation_space
        found = unpack(observations, env.emulated)
        found = tuple(int(part[0]) for part in found) if isinstance(found, tuple) else found[0]
        np.testing.assert_array_equal(found, expected)
        action = random_actions(random, env.single_action_space, 1)
        observations, rewards, *_ = env.step(action)
        expected, reward, terminated, truncated, _ = own.step(action[0])
        assert rewards[0] == reward
        assert (env.terminals[0], env.truncations[0]) == (terminated, truncated)
        if terminated or truncated:
            expected, _ = own.reset()
