"""Small policies as one kernel and in torch: `python -m pytest -n0 bench/network.py --benchmark-enable`.

A round of `act` is one step of a rollout for breakout's 1,024 agents, actions drawn; of `learn` the gradients of PPO's
loss over a minibatch of 256 segments of 64 steps. A round of `minibatches` is one pass over 2,048 single steps, 64 at a
time, as policies of continuous control learn: drawn, differentiated, clipped and stepped by Adam. Its observations are
those of a half cheetah, 17 numbers in float64 that are normalised, its actions 6 numbers. Of `frames_in_minibatches` it
is one pass over 1,024 single steps, 256 at a time, by the network that Atari's ini has. `plain` is what the trainer
does with `[train] fused = False`: on two threads its `learn` is shared out by segments. `steps` are agent steps. `lstm`
is the same with an LSTM of 128 in place of two MinGRU layers of 64. Breakout's ini has the kernel round products to
bfloat16 where the processor multiplies it; of convolutions that is a kind of its own.

`categories` are the same for boards of random cells, seen by `one_hot`: 11 x 11 of 5 kinds, as a window on a grid, and
4 x 4 of 16, as the tiles of 2048, through 128 units. `dense` is the kernel on the same written out as zeros and ones.

`convolutions` are the policy Convolutional over connect4's board of 6 x 7 numbers, over a window of 11 x 11 cells of 5
kinds, seen by `one_hot`, and over four frames of 84 x 84 bytes. `channels_last` is `plain` in torch's other format.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from pufferlib import PufferEnv, pufferl, vector
from pufferlib.models import Continuous, Convolutional, Default
from pufferlib.ppo.advantages import Minibatch

MINIBATCH_SEGMENTS = 256
LSTM = {"rnn_name": "LSTM", "policy": {"hidden_size": 128}, "rnn": {"num_layers": 1}}


def make_trainer(folder, kind, **policy):
    args = {**pufferl.load_config("puffer_breakout"), **policy}
    args["train"].update(device="cpu", data_dir=str(folder), fused=kind == "fused")
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_breakout"}, vecenv, policy)
    trainer.evaluate()
    return trainer


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_act(benchmark, threads, kind, tmp_path):
    measure_act(benchmark, make_trainer(tmp_path, kind), kind)


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_lstm_act(benchmark, threads, kind, tmp_path):
    measure_act(benchmark, make_trainer(tmp_path, kind, **LSTM), kind)


def measure_act(benchmark, trainer, kind):
    actor, rows = trainer._collector.actor, slice(0, trainer.vecenv.num_agents)
    actor.start_rollout(0)
    limit = contextlib.nullcontext if kind in ("plain", "channels_last") else trainer._learner.gradients.limit_caller
    with limit():
        benchmark.extra_info["steps"] = trainer.vecenv.num_agents
        benchmark.pedantic(lambda: actor.act(rows, 5), rounds=300, warmup_rounds=20)
    trainer.release()


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_learn(benchmark, threads, kind, tmp_path):
    measure_learn(benchmark, make_trainer(tmp_path, kind))


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_lstm_learn(benchmark, threads, kind, tmp_path):
    measure_learn(benchmark, make_trainer(tmp_path, kind, **LSTM))


def measure_learn(benchmark, trainer):
    horizon = trainer.config.bptt_horizon
    torch.manual_seed(0)
    rows = torch.randperm(trainer.rollout.segments)[:MINIBATCH_SEGMENTS]
    advantages = torch.randn(len(rows), horizon)
    resets = torch.rand(trainer.rollout.segments, horizon) < 0.01
    old_values = trainer.rollout.values[rows, :-1]
    minibatch = Minibatch(rows, resets[rows], old_values, advantages + old_values, advantages, None, None)
    with trainer._learner.gradients.limit_caller():
        benchmark.extra_info["steps"] = advantages.numel()
        benchmark.pedantic(lambda: trainer._learner.gradients.differentiate(minibatch), rounds=20, warmup_rounds=3)
    trainer.release()


class Board(PufferEnv):
    """Random cells, as categories or written out."""

    def __init__(self, cells, kinds, is_dense, buf=None, seed=0):
        shape = (cells * kinds,) if is_dense else (cells,)
        self.single_observation_space = Box(0, 1, shape) if is_dense else Box(0, kinds - 1, shape, np.uint8)
        self.single_action_space = Discrete(4)
        self.num_agents = 1024
        super().__init__(buf)
        values = np.random.default_rng(seed).integers(0, kinds, (4, self.num_agents, cells), np.uint8)
        self._boards = [np.eye(kinds)[board].reshape(-1, cells * kinds) if is_dense else board for board in values]

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        self.observations[:] = self._boards[actions[0] % 4]
        return self.observations, self.rewards, self.terminals, self.truncations, []


def make_board_trainer(folder, cells, kinds, kind):
    env_kwargs = {"cells": cells, "kinds": kinds, "is_dense": kind == "dense"}
    vecenv = vector.make(Board, env_kwargs=env_kwargs, backend="Serial")
    config = {
        **{"device": "cpu", "fused": kind != "plain", "data_dir": str(folder), "total_timesteps": 10**6},
        **{"batch_size": 32_768, "bptt_horizon": 32, "minibatch_size": 8192},
    }
    policy = Default(vecenv.driver_env, 128, activation="relu", one_hot=kind != "dense")
    trainer = pufferl.PuffeRL(config, vecenv, policy)
    trainer.evaluate()
    return trainer


each_board = pytest.mark.parametrize(("cells", "kinds"), [(121, 5), (16, 16)], ids=["window", "tiles"])


@each_board
@pytest.mark.parametrize("kind", ["fused", "dense", "plain"])
def test_categories_act(benchmark, threads, cells, kinds, kind, tmp_path):
    measure_act(benchmark, make_board_trainer(tmp_path, cells, kinds, kind), kind)


@each_board
@pytest.mark.parametrize("kind", ["fused", "dense", "plain"])
def test_categories_learn(benchmark, threads, cells, kinds, kind, tmp_path):
    measure_learn(benchmark, make_board_trainer(tmp_path, cells, kinds, kind))


class Pictures(PufferEnv):
    """Random whole numbers in the shape of a board, of a window or of frames."""

    def __init__(self, space, num_agents, buf=None, seed=0):
        self.single_observation_space = space
        self.single_action_space = Discrete(4)
        self.num_agents = num_agents
        super().__init__(buf)
        low, high = int(space.low.min()), int(space.high.max())
        values = np.random.default_rng(seed).integers(low, high + 1, (4, num_agents, *space.shape))
        self._pictures = values.astype(space.dtype)

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        self.observations[:] = self._pictures[actions[0] % 4]
        return self.observations, self.rewards, self.terminals, self.truncations, []


PICTURES = {  # space, agents, steps of a segment, settings of the policy
    "board": (Box(-1, 1, (6, 7)), 1024, 32, {"filters": [64, 64], "sizes": [3, 3], "strides": [1, 1]}),
    "window": (
        *(Box(0, 4, (11, 11), np.uint8), 1024, 32),
        {"filters": [32, 64], "sizes": [3, 3], "strides": [1, 2], "one_hot": True},
    ),
    "frames": (Box(0, 255, (4, 84, 84), np.uint8), 64, 8, {"hidden_size": 512}),
}


def make_picture_trainer(folder, case, kind):
    space, num_agents, horizon, settings = PICTURES[case]
    vecenv = vector.make(Pictures, env_kwargs={"space": space, "num_agents": num_agents}, backend="Serial")
    config = {
        **{"device": "cpu", "data_dir": str(folder), "total_timesteps": 10**6},
        **{"fused": kind in ("fused", "bfloat16"), "precision": "bfloat16" if kind == "bfloat16" else "float32"},
        **{"batch_size": num_agents * horizon, "minibatch_size": min(256, num_agents) * horizon},
        "bptt_horizon": horizon,
    }
    policy = Convolutional(vecenv.driver_env, **{"hidden_size": 128, **settings})
    if kind == "channels_last":
        policy.to(memory_format=torch.channels_last)
        policy.encoder.register_forward_pre_hook(
            lambda module, inputs: inputs[0].contiguous(memory_format=torch.channels_last)
        )
    trainer = pufferl.PuffeRL(config, vecenv, policy)
    trainer.evaluate()
    return trainer


@pytest.mark.parametrize("case", PICTURES)
@pytest.mark.parametrize("kind", ["fused", "bfloat16", "plain", "channels_last"])
def test_convolutions_act(benchmark, threads, case, kind, tmp_path):
    measure_act(benchmark, make_picture_trainer(tmp_path, case, kind), kind)


@pytest.mark.parametrize("case", PICTURES)
@pytest.mark.parametrize("kind", ["fused", "bfloat16", "plain", "channels_last"])
def test_convolutions_learn(benchmark, threads, case, kind, tmp_path):
    measure_learn(benchmark, make_picture_trainer(tmp_path, case, kind))


class Cheetah(PufferEnv):
    """Observations and actions of the shapes of a half cheetah's, without the cheetah."""

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (17,), np.float64)
        self.single_action_space = Box(-1.0, 1.0, (6,), np.float32)
        self.num_agents = 8
        super().__init__(buf)
        self.random = np.random.default_rng(seed)

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        self.observations[:] = self.random.normal(size=self.observations.shape)
        self.rewards[:] = self.observations[:, 0]
        return self.observations, self.rewards, self.terminals, self.truncations, []


SINGLE_STEPS = {
    "shuffle": "steps",
    "prio_alpha": 0.0,
    "optimizer": "adam",
    "update_epochs": 1,
    "total_timesteps": 10**6,
}


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_minibatches(benchmark, threads, kind, tmp_path):
    vecenv = vector.make(Cheetah, backend="Serial")
    config = {
        **{**SINGLE_STEPS, "device": "cpu", "fused": kind == "fused", "data_dir": str(tmp_path)},
        **{"batch_size": 2048, "bptt_horizon": 256, "minibatch_size": 64},
        **{"learning_rate": 3e-4, "normalize_observations": True},
    }
    measure_pass(benchmark, pufferl.PuffeRL(config, vecenv, Continuous(vecenv.driver_env)))


@pytest.mark.parametrize("kind", ["fused", "bfloat16", "plain"])
def test_frames_in_minibatches(benchmark, threads, kind, tmp_path):
    space, _, _, settings = PICTURES["frames"]
    vecenv = vector.make(Pictures, env_kwargs={"space": space, "num_agents": 8}, backend="Serial")
    config = {
        **{**SINGLE_STEPS, "device": "cpu", "fused": kind != "plain", "data_dir": str(tmp_path)},
        **{"batch_size": 1024, "bptt_horizon": 128, "minibatch_size": 256, "learning_rate": 2.5e-4},
        "precision": "bfloat16" if kind == "bfloat16" else "float32",
    }
    measure_pass(benchmark, pufferl.PuffeRL(config, vecenv, Convolutional(vecenv.driver_env, **settings)))


def measure_pass(benchmark, trainer):
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()
    benchmark.extra_info["steps"] = trainer.config.batch_size
    benchmark.pedantic(lambda: trainer._learner.learn(3e-4, 0.0, True), rounds=15, warmup_rounds=2)
    trainer.release()
