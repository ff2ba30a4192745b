import numpy as np
import pytest
from checked_headers import QUICK, params
from contract import COMPILED

import pufferlib
from pufferlib import ocean
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError, ConfigError, UnknownEnvironmentError
from pufferlib.runs.making import environment_name


@pytest.mark.parametrize("name", params(COMPILED, QUICK, [pytest.mark.slow]))
def test_every_ocean_environment_is_made_by_its_name(name):
    env = pufferlib.make(name)
    assert isinstance(env, ocean.env_class(name)) and env.num_envs == 256
    observations, _ = env.reset(seed=0)
    assert env.single_observation_space.contains(observations[0])
    env.close()


def test_keywords_go_to_the_environment_over_the_defaults_of_its_ini():
    env = pufferlib.make("puffer_squared", num_envs=3, size=5, report_interval=2)
    assert (env.num_agents, env.report_interval, env.single_observation_space.shape) == (3, 2, (25,))
    env.close()


def test_the_ini_has_the_defaults(monkeypatch):
    monkeypatch.setattr("pufferlib.runs.making.load_config", lambda name: {"env": {"num_envs": "auto", "size": 7}})
    env = pufferlib.make("puffer_squared")
    assert env.single_observation_space.shape == (49,) and env.num_envs == 256
    env.close()


def test_seed_and_buf_pass_through():
    def first_observations(seed):
        env = pufferlib.make("puffer_squared", num_envs=8, seed=seed)
        observations = env.reset()[0].copy()
        env.close()
        return observations

    assert np.array_equal(first_observations(1), first_observations(1))
    assert not np.array_equal(first_observations(1), first_observations(2))
    like = pufferlib.make("puffer_squared", num_envs=2)
    buffers = Buffers.empty(like.single_observation_space, like.single_action_space, 2)
    assert pufferlib.make("puffer_squared", num_envs=2, buf=buffers).observations is buffers.observations


def test_a_callable_gets_the_keywords():
    assert pufferlib.make(ocean.env_class("puffer_squared"), num_envs=3).num_agents == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: pufferlib.make("puffer_squared", sise=3),
            APIUsageError,
            "puffer_squared has no keyword 'sise'; did y",
        ),
        (lambda: pufferlib.make("puffer_squared", zzz=3), APIUsageError, "no keyword 'zzz'; it has .*size"),
        (
            lambda: pufferlib.make("puffer_squared", size="big"),
            ConfigError,
            r"\[env\] size must be an integer, got 'big'",
        ),
        (
            lambda: pufferlib.make("breakout"),
            UnknownEnvironmentError,
            "no environment 'breakout'; did you mean 'puffer_br",
        ),
        (lambda: pufferlib.make("xyzzy"), UnknownEnvironmentError, "no environment 'xyzzy'; `puffer envs` lists"),
        (lambda: pufferlib.make(lambda: 3), APIUsageError, "env must be a PufferEnv, got int"),
        (lambda: pufferlib.make(3), APIUsageError, "takes the name of an environment, a class or a function, got int"),
    ],
)
def test_misuse_is_answered_in_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_gymnasium_name_makes_one_environment_or_a_vector_of_many():
    env = pufferlib.make("CartPole-v1", sutton_barto_reward=True, seed=4)
    assert env.num_agents == 1 and env.env.unwrapped._sutton_barto_reward
    assert environment_name(env) == "CartPole-v1"
    env.close()
    many = pufferlib.make("CartPole-v1", num_envs=3, max_episode_steps=5)
    observations, _ = many.reset(1)
    assert observations.shape == (3, 4) and many.num_agents == 3
    flags = [many.step(np.arange(3) % 2)[3].copy() for _ in range(5)]
    assert [flag.tolist() for flag in flags] == [[False] * 3] * 4 + [[True] * 3]
    many.close()


def test_misuse_of_a_gymnasium_name_is_answered_in_one_sentence():
    with pytest.raises(APIUsageError, match="CartPole-v1 has no keyword 'gravty'; it has .*sutton_barto_reward"):
        pufferlib.make("CartPole-v1", gravty=3)
    with pytest.raises(ConfigError, match=r"\[env\] max_episode_steps must be an integer or None, got 'x'"):
        pufferlib.make("CartPole-v1", max_episode_steps="x")
    with pytest.raises(APIUsageError, match="buf is for one environment"):
        pufferlib.make("CartPole-v1", num_envs=2, buf=object())
