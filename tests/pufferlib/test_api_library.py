"""Scripts of users who call the library by keyword, as they write them; only the sizes are small."""

import numpy as np
import pytest
import torch
from torch import nn
from trained import weights

import pufferlib
from pufferlib import NoLogger, PuffeRL, models, ocean

pytestmark = pytest.mark.usefixtures("in_tmp_path")


class MyPolicy(nn.Module):
    def __init__(self, env, hidden_size=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(env.single_observation_space.shape[0], hidden_size), nn.Tanh())
        self.action = nn.Linear(hidden_size, env.single_action_space.n)
        self.value = nn.Linear(hidden_size, 1)

    def forward(self, observations):
        hidden = self.body(observations.float())
        return self.action(hidden), self.value(hidden)


def test_training_by_keyword():
    env = pufferlib.make("puffer_breakout", num_envs=16)
    my_policy = MyPolicy(env)
    before = weights(my_policy)
    trainer = PuffeRL(
        env=env,
        policy=my_policy,
        device="cpu",
        learning_rate=3e-4,
        batch_size=2_048,
        n_epochs=4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_coef=0.2,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=0.5,
    )
    for _ in range(2):
        rollout_data = trainer.evaluate()
        train_metrics = trainer.train()
        logged = trainer.mean_and_log()
    assert isinstance(rollout_data, dict)
    assert {"policy_loss", "value_loss", "entropy", "explained_variance", "clipfrac"} <= train_metrics.keys()
    assert logged["agent_steps"] == trainer.global_step == 4_096
    assert (weights(my_policy) != before).any()
    assert trainer.close().startswith("experiments/puffer_breakout_")


def test_environment_and_policy_by_position():
    env = pufferlib.make("puffer_squared", num_envs=4, size=5)
    policy = MyPolicy(env)
    trainer = PuffeRL(env, policy, logger=NoLogger(), batch_size=64)
    trainer.evaluate()
    trainer.train()
    assert trainer.policy is policy and env.single_observation_space.shape == (25,)
    trainer.release()


def test_without_a_policy_the_default_one_is_made():
    first, second = (PuffeRL(env="puffer_squared", num_envs=4, batch_size=64, seed=3) for _ in range(2))
    assert type(first.policy) is models.Default
    assert torch.equal(weights(first.policy), weights(second.policy))
    first.evaluate()
    first.train()
    first.release()
    second.release()


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_learning_rate_takes_effect_at_the_next_update(optimizer):
    env = pufferlib.make("puffer_squared", num_envs=4)
    trainer = PuffeRL(env, MyPolicy(env), batch_size=64, optimizer=optimizer)
    moved = []
    for rate in (1e-2, 0.0, 1e-4):
        trainer.learning_rate = rate
        before = weights(trainer.policy)
        trainer.evaluate()
        trainer.train()
        moved.append(float((weights(trainer.policy) - before).norm()))
    trainer.release()
    assert moved[0] > 10 * moved[2] > moved[1] == 0.0


def test_checkpoints_with_metadata():
    env = pufferlib.make("puffer_squared", num_envs=4)
    trainer = PuffeRL(env, MyPolicy(env), batch_size=64)
    trainer.evaluate()
    trainer.train()
    path = trainer.save_checkpoint("checkpoint.pt", metadata={"iteration": 3, "best_reward": np.float32(1.5)})
    assert path == "checkpoint.pt"

    other_env = pufferlib.make("puffer_squared", num_envs=4)
    other = PuffeRL(other_env, MyPolicy(other_env), batch_size=64)
    assert other.load_checkpoint("checkpoint.pt") == {"iteration": 3, "best_reward": 1.5}
    assert torch.equal(weights(other.policy), weights(trainer.policy))
    assert (other.global_step, other.epoch) == (64, 1)
    for each in (trainer, other):
        each.evaluate()
        each.train()
        each.release()


def test_a_curriculum_on_one_policy():
    policy, seen = None, []
    for size in (3, 5):  # both shown as 5 x 5 cells
        env = Padded(pufferlib.make("puffer_squared", num_envs=4, size=size), cells=25)
        trainer = PuffeRL(env, policy, batch_size=64)
        seen.append(weights(trainer.policy))
        trainer.evaluate()
        trainer.train()
        policy = trainer.policy
        seen.append(weights(policy))
        trainer.close()
    assert torch.equal(seen[1], seen[2])
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[2], seen[3])


def test_a_curriculum_that_closes_nothing_until_the_end():
    env = pufferlib.make("puffer_squared", num_envs=4)
    policy, trainers = MyPolicy(env), []
    for learning_rate in (1e-3, 1e-4):
        trainer = PuffeRL(env, policy, learning_rate=learning_rate, batch_size=64)
        trainer.evaluate()
        trainer.train()
        trainers.append(trainer)
    with pytest.raises(pufferlib.APIUsageError, match="was handed to another vector or trainer, use that one"):
        trainers[0].evaluate()
    assert len({trainer.close() for trainer in trainers}) == 2
    with pytest.raises(pufferlib.APIUsageError, match="Squared was closed together with its trainer"):
        PuffeRL(env, policy)


def test_a_vector_is_stepped_by_the_last_trainer_alone():
    with pufferlib.vector.make(ocean.env_class("puffer_squared"), (4,), backend="Serial") as vecenv:
        first = PuffeRL(vecenv, MyPolicy(vecenv), batch_size=64)
        first.evaluate()
        second = PuffeRL(vecenv, first.policy, batch_size=64)
        second.evaluate()
        with pytest.raises(pufferlib.APIUsageError, match="handed to another vector or trainer, use that one"):
            first.evaluate()
        assert first._collector.batches.snapshot() is None
        second.evaluate()
        assert len({trainer.close() for trainer in (first, second)}) == 2


class Padded(pufferlib.PufferEnv):
    """Shows the cells of the environment inside, and zeros after them."""

    def __init__(self, env, cells):
        self.env = env
        self.single_observation_space = type(env.single_observation_space)(0, 2, (cells,), np.uint8)
        self.single_action_space = env.single_action_space
        self.num_agents = env.num_agents
        super().__init__()

    def reset(self, seed=None):
        return self.padded(self.env.reset(seed)[0]), []

    def step(self, actions):
        observations, *rest = self.env.step(actions)
        return self.padded(observations), *rest

    def padded(self, observations):
        self.observations[:, : observations.shape[1]] = observations
        return self.observations

    def close(self):
        self.env.close()


class Shaped(ocean.env_class("puffer_squared")):
    """Pays one for every step."""

    def step(self, actions):
        results = super().step(actions)
        self.rewards[:] = 1.0
        return results


class ShapingWrapper:
    """Pays one for every step."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, actions):
        observations, rewards, terminals, truncations, infos = self.env.step(actions)
        return observations, np.ones_like(rewards), terminals, truncations, infos


@pytest.mark.parametrize("make", [Shaped, lambda **kw: ShapingWrapper(pufferlib.make("puffer_squared", **kw))])
def test_shaped_rewards_are_trained_on(make):
    env = make(num_envs=4)
    trainer = PuffeRL(env, batch_size=64, normalize_rewards=False)
    trainer.evaluate()
    assert (trainer.rollout.rewards[:, 1:] == 1.0).all()
    trainer.train()
    trainer.release()


def test_an_environment_of_ones_own_by_its_class():
    trainer = PuffeRL(Shaped, num_envs=4, batch_size=64)
    trainer.evaluate()
    assert trainer.vecenv.num_agents == 4 and trainer.env_name == f"{__name__}:Shaped"
    trainer.release()


def test_make_takes_a_name_or_a_callable():
    for env in (pufferlib.make("puffer_squared"), pufferlib.make(Shaped, num_envs=256)):
        assert isinstance(env, pufferlib.PufferEnv) and env.num_agents == 256
        env.close()
    with pytest.raises(pufferlib.PufferError, match="did you mean 'puffer_squared'"):
        pufferlib.make("puffer_square")
