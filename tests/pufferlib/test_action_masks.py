"""Training, playing and resuming with action masks and turns."""

from __future__ import annotations

import shutil
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete
from nim_game import CHOICES, PythonNim, nim_class

import pufferlib
from pufferlib import models, vector
from pufferlib.errors import APIUsageError
from pufferlib.ocean.connect4.connect4 import Connect4
from pufferlib.play.agent import Agent

SETTINGS = {
    "batch_size": 64 * 16,
    "num_steps": 16,
    "minibatch_size": 512,
    "total_timesteps": 10**9,
    "device": "cpu",
    "seed": 1,
}


@pytest.fixture(scope="module")
def nim(tmp_path_factory):
    return nim_class(tmp_path_factory.mktemp("nim"))


def trainer_of(env, tmp_path, **settings):
    policy = models.Default(env, hidden_size=64)
    return pufferlib.PuffeRL(
        env=env, policy=policy, data_dir=str(tmp_path), logger=pufferlib.NoLogger(), **{**SETTINGS, **settings}
    )


@pytest.mark.quick("segments-kernel", "steps-torch")
@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "torch"])
@pytest.mark.parametrize("shuffle", ["segments", "steps"])
def test_every_action_of_a_rollout_is_allowed(nim, tmp_path, fused, shuffle):
    trainer = trainer_of(nim(num_envs=32), tmp_path, fused=fused, shuffle=shuffle)
    assert trainer.computed_by.startswith("C kernel" if fused else "torch")
    for _ in range(3):
        trainer.evaluate()
        rollout = trainer.rollout
        left = (rollout.observations[..., 0] * 7).round()
        present = rollout.masks[:, :-1]
        assert present.float().mean() == 0.5
        expected = torch.arange(CHOICES) < left.unsqueeze(-1)
        assert torch.equal(rollout.action_masks, expected)
        chosen = rollout.action_masks.gather(-1, rollout.actions.long().unsqueeze(-1)).squeeze(-1)
        assert chosen.all() and rollout.logprobs.isfinite().all()
        logs = trainer.train()
        assert all(np.isfinite(value) for value in logs.values())
    trainer.close()


def test_the_kernel_and_torch_train_alike(nim, tmp_path):
    found = []
    for fused in (True, False):
        torch.manual_seed(0)
        trainer = trainer_of(nim(num_envs=32), tmp_path / str(fused), fused=fused)
        trainer.evaluate()
        rollout = trainer.rollout
        present = rollout.masks[:, :-1]  # who waits is not asked by the kernel
        found.append((rollout.actions[present], rollout.logprobs[present], trainer.train()))
        trainer.close()
    (actions, logprobs, logs), (others, other_logprobs, other_logs) = found
    assert torch.equal(actions, others)
    torch.testing.assert_close(logprobs, other_logprobs, rtol=1e-4, atol=1e-5)
    for name, value in logs.items():
        assert value == pytest.approx(other_logs[name], rel=1e-3, abs=1e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "torch"])
def test_a_game_of_turns_is_learned_by_playing_against_itself(nim, tmp_path, fused):
    """Nim: who leaves a multiple of four stones wins."""
    trainer = trainer_of(nim(num_envs=32), tmp_path, fused=fused, learning_rate=0.003, ent_coef=0.01)
    for _ in range(60):
        trainer.evaluate()
        trainer.train()
    agent = Agent(trainer.policy, nim(num_envs=1))
    left = np.array([1, 2, 3, 7])
    observations = np.stack([left / 7, np.ones(4)], 1).astype(np.float32)
    assert agent.act(observations, action_masks=np.arange(CHOICES) < left[:, None]).tolist() == [0, 1, 2, 2]
    won, lost = agent.value(np.array([[1.0, 1.0], [4 / 7, 1.0]], np.float32))
    assert won > 0.7 and lost < -0.7
    trainer.close()


def test_a_waiting_agents_last_reward_reaches_its_last_own_move(nim, tmp_path):
    """With gamma and lambda 1 and values of 0 a move's advantage is the outcome of its game."""
    trainer = trainer_of(nim(num_envs=32), tmp_path, gamma=1.0, gae_lambda=1.0, norm_adv=False)
    trainer.evaluate()
    rollout, advantages = trainer.rollout, trainer._learner._advantages
    rollout.values.zero_()
    advantages.begin(is_full=False)
    found, learned = advantages.compute(), advantages.learned
    ends = (rollout.terminals & (rollout.rewards != 0)).float()
    checked = 0
    for segment in range(rollout.segments):
        for step in range(rollout.horizon):
            later = ends[segment, step + 1 :].nonzero()
            if rollout.masks[segment, step] and len(later):
                outcome = rollout.rewards[segment, step + 1 + int(later[0])]
                assert learned[segment, step] and found[segment, step] == outcome
                checked += 1
            assert rollout.masks[segment, step] or not learned[segment, step]
    assert checked > 300
    is_last = rollout.masks[:, :-1] & ~learned
    assert is_last.any() and not rollout.masks[is_last.any(1), -1].any()  # those whose next observation is not here
    trainer.close()


class Stuck(PythonNim):
    def _write(self):
        super()._write()
        if self.left < 4:
            self.action_masks[self.mover] = False


def test_an_agent_that_acts_must_have_a_choice(tmp_path):
    vecenv = vector.make(Stuck, num_envs=4, backend="Serial")
    trainer = trainer_of(vecenv, tmp_path, batch_size=8 * 16, minibatch_size=128)
    with pytest.raises(
        APIUsageError, match=r"agent \d has none after agent step [\d,]+; let its action_masks allow one"
    ):
        for _ in range(5):
            trainer.evaluate()
    trainer.close()


class WaitsWithoutChoices(PythonNim):
    def _write(self):
        super()._write()
        self.action_masks[~self.masks] = False


@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "torch"])
def test_an_agent_that_waits_needs_no_choice(tmp_path, fused):
    vecenv = vector.make(WaitsWithoutChoices, num_envs=4, backend="Serial")
    trainer = trainer_of(vecenv, tmp_path, batch_size=8 * 16, minibatch_size=128, fused=fused)
    for _ in range(2):
        trainer.evaluate()
        assert all(np.isfinite(value) for value in trainer.train().values())
    trainer.close()


@pytest.mark.quick("kernel")
@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "torch"])
def test_a_resumed_run_continues_exactly(nim, tmp_path, fused):
    def make(folder):
        torch.manual_seed(0)
        return trainer_of(nim(num_envs=32), tmp_path / folder, fused=fused)

    one, other = make("one"), make("other")
    for _ in range(2):
        one.evaluate()
        one.train()
    other.load_checkpoint(shutil.copytree(Path(one.save_checkpoint()).parent, tmp_path / "copy"))
    for _ in range(2):
        for trainer in (one, other):
            trainer.evaluate()
        assert torch.equal(one.rollout.actions, other.rollout.actions)
        assert torch.equal(one.rollout.action_masks, other.rollout.action_masks)
        assert one.train() == other.train()
    one.close()
    other.close()


def test_rollouts_without_masks_have_no_array_for_them(tmp_path):
    trainer = trainer_of(pufferlib.make("puffer_squared", num_envs=64), tmp_path)
    assert trainer.rollout.action_masks is None
    trainer.close()


# --- agents


def test_an_agent_takes_masks_for_one_and_for_many():
    env = Connect4(num_envs=3)
    agent = Agent(models.Default(env, hidden_size=16), env)
    env.reset(0)
    for column in range(7):
        masks = np.arange(7) == column
        assert agent.act(env.observations[0], action_masks=masks) == column
        assert agent.act(env.observations, action_masks=np.tile(masks, (3, 1)), sample=True).tolist() == [column] * 3
        assert agent.probabilities(env.observations[0], action_masks=masks).tolist() == masks.tolist()


def test_an_agent_takes_a_mask_for_each_part_of_one_action():
    env = types.SimpleNamespace(
        single_observation_space=Box(0, 1, (1,)),
        single_action_space=MultiDiscrete([3, 2]),
        **dict.fromkeys(("num_agents", "reset", "step", "close")),
    )
    agent = Agent(models.Default(env, hidden_size=16), env)
    masks = (np.array([0, 0, 1], np.int8), np.array([1, 0], np.int8))
    assert agent.act(np.zeros(1, np.float32), action_masks=masks).tolist() == [2, 0]
    with pytest.raises(APIUsageError, match="a number for each of 5 choices, got 3 from action_masks"):
        agent.act(np.zeros(1, np.float32), action_masks=masks[:1])


def test_an_agent_refuses_masks_that_do_not_fit_or_allow_nothing():
    env = Connect4(num_envs=3)
    agent = Agent(models.Default(env, hidden_size=16), env)
    env.reset(0)
    with pytest.raises(APIUsageError, match=r"action_masks must have shape \(3, 7\), got \(7,\)"):
        agent.act(env.observations, action_masks=np.ones(7, bool))
    with pytest.raises(APIUsageError, match="must allow a choice of each part in each row"):
        agent.act(env.observations[0], action_masks=np.zeros(7, bool))


def test_an_evaluation_plays_what_is_allowed():
    env = Connect4(num_envs=8, bot_depth=0)
    agent = Agent(models.Default(env, hidden_size=16), env)
    agent.env = lambda **kwargs: Connect4(num_envs=8, bot_depth=0, **kwargs)
    played = []
    original = Connect4.step

    class Watched(Connect4):
        def step(self, actions):
            played.append(self.action_masks[np.arange(self.num_agents), actions].all())
            return original(self, actions)

    from pufferlib.play.player import Player

    vecenv = vector.make(Watched, env_kwargs={"num_envs": 8, "bot_depth": 0}, backend="Serial", num_envs=1)
    for generator in (None, torch.Generator().manual_seed(0)):
        player = Player(vecenv, agent.policy, generator)
        list(player.play(np.full(8, 2), max_steps=200, seed=0))
    assert len(played) > 20 and all(played)
    vecenv.close()
