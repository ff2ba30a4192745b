"""A collector by itself, and what it collects."""

from __future__ import annotations

import contextlib
from dataclasses import fields

import numpy as np
import torch
from scripted import ScriptedEnv

from pufferlib import vector
from pufferlib.metrics.measures import Phases
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.collector import Collector
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.trainer_state import collector_state, load_collector_state

HORIZON = 7


class Unordered(vector.Serial):
    """Batches finish in any order, some of them several times before others."""

    order = 0  # a seed of its own

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.random = np.random.default_rng(self.order)

    def _finish(self):
        self._running.rotate(self.random.integers(len(self._running)))
        return super()._finish()


class OtherwiseUnordered(Unordered):
    order = 1


def scripted_vector(num_envs=3, agents=2, backend="Serial", has_absent_agents=False, **keywords):
    kwargs = [{"index": i, "agents": agents, "has_absent_agents": has_absent_agents} for i in range(num_envs)]
    return vector.make(ScriptedEnv, env_kwargs=kwargs, num_envs=num_envs, backend=backend, **keywords)


def make_collector(
    vecenv, policy, groups=1, horizon=HORIZON, reward_clip=0.0, seed=0, actor_class=Actor, kind=Collector
):
    segments = groups * vecenv.num_agents
    cpu = torch.device("cpu")
    state = policy.initial_state(segments, cpu) if hasattr(policy, "initial_state") else {}
    spaces = vecenv.single_observation_space, vecenv.single_action_space
    rollout = Rollout.allocate(*spaces, segments, horizon, state, cpu, cpu)
    generator = torch.Generator().manual_seed(seed)
    actor = actor_class(policy, rollout, vecenv.num_agents, generator, contextlib.nullcontext)
    collector = kind(vecenv, actor, Phases(), reward_clip)
    collector.generator = generator
    collector.reset(None)
    return collector


def going_on(other, collector):
    """Another collector of the same environments, gone on from where one is."""
    state, generator = collector_state(collector), collector.generator.get_state()
    load_collector_state(other, state)
    other.generator.set_state(generator)
    return other


def collected(collector, rollouts):
    """Arrays of several rollouts side by side: `(agents, rollouts * groups, columns, ...)`."""
    agents = collector.vecenv.num_agents
    names = [field.name for field in fields(Rollout) if field.name not in ("states", "finals", "action_masks")]
    parts = {name: [] for name in [*names, *collector.actor.states]}
    for _ in range(rollouts):
        collector.collect()
        tensors = {name: getattr(collector.rollout, name) for name in names} | collector.rollout.states
        for name, tensor in tensors.items():
            parts[name].append(tensor.clone().unflatten(0, (-1, agents)).transpose(0, 1))
    return {name: torch.cat(tensors, 1).numpy() for name, tensors in parts.items()}
