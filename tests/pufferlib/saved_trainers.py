"""Trainers to save and load, and what to compare them by."""

import torch
from scripted import ScriptedEnv
from torch import nn

import pufferlib
from pufferlib import PuffeRL, vector
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.runs import checkpoint

SETTINGS = {"batch_size": 64, "device": "cpu", "learning_rate": 1e-2}


def run(trainer, epochs=1):
    for _ in range(epochs):
        trainer.evaluate()
        trainer.train()


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.policy.state_dict().items()}


def edit(folder, change):
    """Changes what `trainer_state.pt` of a run holds."""
    state = checkpoint.load(folder / checkpoint.TRAINER_STATE)
    change(state)
    checkpoint.save(folder / checkpoint.TRAINER_STATE, state)


def is_same(one, other):
    """Whether two states hold the same numbers, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other


class TwoHeads(nn.Module):
    """A policy whose parameters are declared in one of two orders; names and shapes are the same."""

    def __init__(self, order):
        super().__init__()
        made = {"bias": (64,), "weight": (121, 64), "values": (64, 1), "actions": (64, 5)}
        generator = torch.Generator().manual_seed(0)
        for name, shape in made.items():
            made[name] = nn.Parameter(torch.randn(shape, generator=generator) / 8)
        for name in order:
            self.register_parameter(name, made[name])

    def forward(self, observations, state):
        hidden = torch.tanh(observations.float() @ self.weight + self.bias)
        return hidden @ self.actions, hidden @ self.values


ORDER = ["bias", "weight", "values", "actions"]
SWAPPED = ["actions", "values", "bias", "weight"]


def two_heads(keep, order, optimizer="adam", **settings):
    env = pufferlib.make("puffer_squared", num_envs=4)
    return keep(PuffeRL(env, TwoHeads(order), optimizer=optimizer, **SETTINGS, **settings))


def recurrent_trainer(keep, env_class=ScriptedEnv, **settings):
    kwargs = [{"index": index, "agents": 4} if issubclass(env_class, ScriptedEnv) else {} for index in range(3)]
    vecenv = vector.make(env_class, env_kwargs=kwargs, num_envs=3, backend="Serial", seed=1)
    torch.manual_seed(0)
    policy = MinGRUWrapper(vecenv.driver_env, Default(vecenv.driver_env, 8), 8, 8)
    config = {"device": "cpu", "bptt_horizon": 8, "total_timesteps": 8 * 12 * 10, "normalize_rewards": True, **settings}
    return keep(PuffeRL(config, vecenv, policy))
