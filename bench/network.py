"""Breakout's policy as one kernel and in torch: `python -m pytest -n0 bench/network.py --benchmark-enable`.

A round of `act` is one step of a rollout for 1,024 agents, actions drawn; of `learn` the gradients of PPO's loss over a
minibatch of 256 segments of 64 steps. `plain` is what the trainer does with `[train] fused = False`: on two threads its
`learn` is shared out by segments. `steps` are agent steps.
"""

from __future__ import annotations

import contextlib

import pytest
import torch

from pufferlib import pufferl
from pufferlib.drawing import Drawn

MINIBATCH_SEGMENTS = 256


def make_trainer(folder, kind):
    args = pufferl.load_config("puffer_breakout")
    args["train"].update(device="cpu", data_dir=str(folder), fused=kind == "fused")
    vecenv = pufferl.load_env("puffer_breakout", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
    trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_breakout"}, vecenv, policy)
    trainer.evaluate()
    return trainer


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_act(benchmark, threads, kind, tmp_path):
    trainer = make_trainer(tmp_path, kind)
    actor, rows = trainer._collector.actor, slice(0, trainer.vecenv.num_agents)
    actor.begin(0)
    limit = trainer._gradients.limit_caller if kind == "fused" else contextlib.nullcontext
    with limit():
        benchmark.extra_info["steps"] = trainer.vecenv.num_agents
        benchmark.pedantic(lambda: actor.act(rows, 5), rounds=300, warmup_rounds=20)
    trainer.release()


@pytest.mark.parametrize("kind", ["fused", "plain"])
def test_learn(benchmark, threads, kind, tmp_path):
    trainer = make_trainer(tmp_path, kind)
    horizon = trainer.config.bptt_horizon
    torch.manual_seed(0)
    rows = torch.randperm(trainer.rollout.segments)[:MINIBATCH_SEGMENTS]
    advantages = torch.randn(MINIBATCH_SEGMENTS, horizon)
    resets = torch.rand(trainer.rollout.segments, horizon) < 0.01
    old_values = trainer.rollout.values[rows, :-1]
    drawn = Drawn(rows, old_values, advantages + old_values, advantages, None, resets)
    with trainer._gradients.limit_caller():
        benchmark.extra_info["steps"] = MINIBATCH_SEGMENTS * horizon
        benchmark.pedantic(lambda: trainer._gradients.differentiate(drawn), rounds=20, warmup_rounds=3)
    trainer.release()
