"""Stable-Baselines3 on our environments: what its algorithms read, and that one of them learns."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import pufferlib
from pufferlib.errors import APIUsageError

pytest.importorskip("stable_baselines3", reason="pip install 'pufferlib[sb3]'")

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from pufferlib.interop.stable_baselines3 import SameStepVecEnv, as_vec_env


def make(name="puffer_cartpole", num_envs=4, **kwargs):
    return as_vec_env(pufferlib.make_gymnasium_vec(name, num_envs, **kwargs))


@pytest.mark.parametrize("name", ["puffer_cartpole", "puffer_template", "puffer_squared"])
def test_it_agrees_with_its_own_vector_of_single_ones(name):
    envs, peer = make(name, 4), VecMonitor(DummyVecEnv([lambda: pufferlib.make_gymnasium(name)] * 4))
    for each in (envs, peer):
        each.seed(3)
    np.testing.assert_array_equal(envs.reset(), peer.reset())
    envs.action_space.seed(0)
    ends = 0
    for _ in range(300):
        actions = np.array([envs.action_space.sample() for _ in range(4)])
        found, expected = envs.step(actions), peer.step(actions)
        for array, other in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_array_equal(array, other)
            assert array.dtype == other.dtype
        for info, other in zip(found[3], expected[3], strict=True):
            assert info.get("TimeLimit.truncated", False) == other["TimeLimit.truncated"]
            assert ("episode" in info) == ("episode" in other) == ("terminal_observation" in info)
            if "episode" in info:
                ends += 1
                np.testing.assert_array_equal(info["terminal_observation"], other["terminal_observation"])
                assert (info["episode"]["r"], info["episode"]["l"]) == (other["episode"]["r"], other["episode"]["l"])
    assert ends > 10


def test_what_was_returned_stays_as_it_was():
    envs = make()
    first = envs.reset()
    kept = first.copy()
    observations, rewards, dones, _ = envs.step(np.zeros(4, np.int64))
    envs.step(np.ones(4, np.int64))
    np.testing.assert_array_equal(first, kept)
    assert len({id(first), id(observations)}) == 2 and rewards.tolist() == [1.0] * 4 and not dones.any()


class Limited(gymnasium.Env):
    """Ends after as many steps as its options say, and tells how it went."""

    observation_space = Dict({"x": Box(0, 99, (1,), np.float32)})
    action_space = Discrete(2)

    def reset(self, seed=None, options=None):
        self.steps, self.limit = 0, (options or {}).get("limit", 3)
        return self.observe(), {}

    def observe(self):
        return {"x": np.full(1, self.steps, np.float32)}

    def step(self, action):
        self.steps += 1
        return self.observe(), 1.0, self.steps == self.limit, False, {"is_success": action == 1, "name": "limited"}


@pytest.mark.parametrize("copies", [False, True])
def test_options_infos_and_structures_are_as_in_its_own_vector(copies):
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    ours = as_vec_env(gymnasium.vector.SyncVectorEnv([Limited] * 2, copy=copies, autoreset_mode=mode))
    peer = VecMonitor(DummyVecEnv([Limited] * 2))
    kept = []
    for envs in (ours, peer):
        envs.set_options({"limit": 5})
        kept.append([envs.reset()])
        for step in range(7):
            observations, _, dones, infos = envs.step(np.array([step % 2, 1]))
            kept[-1] += [observations, dones.tolist(), [info.get("is_success") for info in infos if "episode" in info]]
    for found, expected in zip(*kept, strict=True):
        np.testing.assert_equal(found, expected)
    ours.set_options([{"limit": 2}, {"limit": 3}])
    with pytest.raises(APIUsageError, match="the same options, as one call resets them, got several; pass one"):
        ours.reset()


@pytest.mark.slow
def test_ppo_learns_cartpole():
    envs = make(num_envs=32)
    settings = dict(n_steps=32, batch_size=256, gae_lambda=0.9, learning_rate=2e-3, gamma=0.98)
    model = PPO("MlpPolicy", envs, seed=0, device="cpu", **settings)
    lengths = []
    for rollouts in (2, 20):
        model.learn(rollouts * 32 * 32, reset_num_timesteps=False)
        lengths.append(np.mean([episode["l"] for episode in model.ep_info_buffer]))
    assert lengths[0] < 60 and lengths[1] > 3 * lengths[0]
    assert evaluate_policy(model, envs, n_eval_episodes=32)[0] > 200
    envs.close()


def test_its_wrappers_and_questions_are_answered():
    envs = VecNormalize(make("puffer_breakout", 3, render_mode="rgb_array"))
    assert envs.reset().shape == (3, 118)
    assert envs.get_attr("num_envs") == [3, 3, 3] and envs.get_attr("render_mode", indices=1) == ["rgb_array"]
    frames = envs.unwrapped.get_images()
    assert len(frames) == 3 and frames[0].dtype == np.uint8
    assert envs.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * 3
    assert envs.env_method("render", indices=[0])[0][0].shape == frames[0].shape
    envs.close()


def test_mistakes_are_named():
    with pytest.raises(APIUsageError, match="make one with pufferlib.make_gymnasium_vec"):
        as_vec_env(gymnasium.make("CartPole-v1"))
    with pytest.raises(APIUsageError, match="must reset in the same step"):
        as_vec_env(gymnasium.make_vec("CartPole-v1", 2))
    assert isinstance(SameStepVecEnv(pufferlib.make_gymnasium_vec("puffer_pong", 2)).reset(), np.ndarray)
