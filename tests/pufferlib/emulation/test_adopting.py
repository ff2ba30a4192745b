"""Environments of other libraries, given as they are."""

import gymnasium
import numpy as np
import pytest
from gymnasium_environments import Scripted

from pufferlib import PuffeRL, vector
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.errors import APIUsageError


def test_a_gymnasium_environment_becomes_the_same_vector_as_one_that_was_wrapped():
    raw, wrapped = (
        vector.adopt(gymnasium.make("CartPole-v1"), seed=3),
        vector.adopt(GymnasiumPufferEnv(gymnasium.make("CartPole-v1")), seed=3),
    )
    np.testing.assert_array_equal(raw.reset()[0], wrapped.reset()[0])
    for _ in range(50):
        for given, expected in zip(raw.step(np.ones(1, int))[:4], wrapped.step(np.ones(1, int))[:4], strict=True):
            np.testing.assert_array_equal(given, expected)
    raw.close(), wrapped.close()


def test_an_environment_is_wrapped_once_and_serves_one_vector_at_a_time():
    env = Scripted()
    first = vector.adopt(env)
    second = vector.adopt(env)
    assert second.driver_env.env is env and second.driver_env is vector.as_puffer_env(env)
    with pytest.raises(APIUsageError, match="handed to another vector"):
        first.reset()
    second.close()
    assert env.closed == 1


def test_a_parallel_pettingzoo_environment_is_adopted_with_all_its_agents():
    pytest.importorskip("pettingzoo")
    from pettingzoo_environments import Leaving

    vecenv = vector.adopt(Leaving())
    assert isinstance(vecenv.driver_env, PettingZooPufferEnv) and vecenv.num_agents == 3
    vecenv.close()


def test_a_trainer_takes_a_gymnasium_environment():
    trainer = PuffeRL(env=gymnasium.make("CartPole-v1"), batch_size=64, num_steps=32, device="cpu")
    assert trainer.evaluate()["episode/count"] >= 1
    assert np.isfinite(trainer.train()["policy_loss"])
    trainer.vecenv.close()
