"""The backend for Gymnasium's vector environments."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium_vectors import SAME_STEP, Counter, cartpoles, counters
from rollouts import digest, rollout

from pufferlib import PuffeRL, vector
from pufferlib.errors import APIUsageError
from pufferlib.vector import GymnasiumVector

# --- one seed, one rollout


def test_halves_of_a_step_and_whole_steps_give_the_same_rollout():
    def run(kind, **options):
        return digest(rollout(vector.make(counters, (3, kind), num_envs=2, seed=3, **options), steps=16))

    reference = run(SyncVectorEnv, backend="Serial", batch_size=1)
    assert run(SyncVectorEnv) == reference
    assert run(AsyncVectorEnv) == reference
    assert run(SyncVectorEnv, backend="Multiprocessing", num_workers=1, batch_size=2) == reference
    assert digest(rollout(vector.make(counters, (3,), num_envs=2, seed=4), steps=16)) != reference


def test_a_vector_environment_that_exists_gives_the_rollout_of_one_that_is_made():
    made = digest(rollout(vector.make(cartpoles, seed=3), steps=64))
    assert digest(rollout(vector.adopt(cartpoles(), seed=3), steps=64)) == made


def test_a_reset_drops_the_step_that_runs():
    with vector.adopt(counters(2, AsyncVectorEnv), seed=3) as vecenv:
        expected = vecenv.reset()[0].copy()
        vecenv.send(np.zeros(2, int))
        np.testing.assert_array_equal(vecenv.reset(seed=3)[0], expected)
        assert vecenv.step(np.zeros(2, int))[1].tolist() == [1, 1]
        vecenv.send(np.zeros(2, int))


class Breaking(Counter):
    def step(self, action):
        if self.steps == 1:
            raise ValueError("broken")
        return super().step(action)


class Slow(Counter):
    def step(self, action):
        time.sleep(0.3)
        return super().step(action)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Gymnasium, about the error
@pytest.mark.parametrize("kind", [Breaking, Slow])
def test_processes_that_failed_or_were_interrupted_are_ended_and_told(kind):
    vecenv = vector.adopt(AsyncVectorEnv([kind, Counter], **SAME_STEP))
    vecenv.reset()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs behind ignore it
    try:
        if kind is Slow:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt if kind is Slow else ValueError):
            for _ in range(3):
                vecenv.step(np.zeros(2, int))
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(APIUsageError, match="AsyncVectorEnv is closed, as after an error of an environment or Ctrl-C"):
        vecenv.reset()
    vecenv.close()
    assert not multiprocessing.active_children()


def test_actions_that_cannot_be_sent_leave_the_batch_where_it_was():
    space = Tuple((Discrete(3), Box(-1, 1, (1,))))
    with vector.make(counters, (2, AsyncVectorEnv, space)) as vecenv:
        vecenv.reset()
        with pytest.raises(ValueError, match="must be a number"):
            vecenv.step(np.full((2, 2), np.nan))
        assert vecenv.state is vector.State.READY
        assert vecenv.step(np.zeros((2, 2)))[1].tolist() == [1, 1]


def test_the_function_of_gymnasium_is_a_creator():
    kwargs = {"num_envs": 2, "vectorization_mode": "sync", "vector_kwargs": SAME_STEP}
    with vector.make(gymnasium.make_vec, ("CartPole-v1",), kwargs, num_envs=2) as vecenv:
        assert isinstance(vecenv, GymnasiumVector)
        assert (vecenv.num_agents, vecenv.batch_size) == (4, 1)


# --- with a trainer


def test_a_trainer_takes_a_vector_environment_and_closes_it():
    env = cartpoles(4)
    trainer = PuffeRL(env, device="cpu", batch_size=64, num_steps=16)
    trainer.evaluate()
    assert trainer.train()["entropy"] > 0
    trainer.close()
    assert env.closed
    with pytest.raises(APIUsageError, match="SyncVectorEnv is closed; make a new one"):
        PuffeRL(env, device="cpu")


def test_a_second_trainer_takes_the_vector_environment_over():
    env = cartpoles(2)
    first = PuffeRL(env, device="cpu", batch_size=32, num_steps=16)
    second = PuffeRL(env, device="cpu", batch_size=32, num_steps=16)
    assert first.vecenv.state is vector.State.HANDED_OVER
    second.evaluate()
    second.close()
    first.close()


# --- refusals


def test_what_it_cannot_do_is_refused_in_one_sentence():
    with pytest.raises(APIUsageError, match="GymnasiumVector leaves .* num_workers 2; use 'auto'"):
        vector.make(counters, num_workers=2)
    with pytest.raises(APIUsageError, match="GymnasiumVector steps gymnasium.vector.VectorEnv, got GymnasiumPufferEnv"):
        vector.make(Counter, backend="GymnasiumVector")
    with pytest.raises(APIUsageError, match=r"Counter\(.*\) does not accept the arguments .*'colour'"):
        vector.make(Counter, env_kwargs={"colour": 3})
