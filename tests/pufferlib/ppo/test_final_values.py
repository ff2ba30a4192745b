"""Where a limit cuts an episode of an environment in C, the reward gains gamma * V of its final observation."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from collecting import going_on, make_collector
from emulated_device import device_emulator, needs_emulator  # noqa: F401 - a fixture
from recorded_capture import FakeCapture
from traced_policies import layers_of

from pufferlib import ocean, vector
from pufferlib.extensions.network import Network
from pufferlib.fast.cpu import NetworkActor
from pufferlib.fast.device_collector import DeviceCollector
from pufferlib.fast.device_network import DeviceNetwork
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.fast.traced_layers import trace
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.policy import acting_forward
from pufferlib.ppo.advantages import Advantages
from pufferlib.pufferl import PuffeRL
from pufferlib.wrappers import FrameStack, ObservationWrapper, PufferWrapper

HORIZON = 12
GAMMA = 0.9
ENVS = {"puffer_template": {"rounds": 2}, "puffer_multiagent": {"steps": 3}}  # ends of both kinds; several agents
SHAPES = {"plain": False, "recurrent": True}
each_env = pytest.mark.parametrize("name", ENVS)
each_shape = pytest.mark.parametrize("is_recurrent", SHAPES.values(), ids=SHAPES)


def make_vector(name, backend="Native", tells=True, creator=None, batch_size=2, **options):
    creator = ocean.env_class(name) if creator is None else creator
    options |= {"env_kwargs": {"num_envs": 6, **ENVS.get(name, {})}, "num_envs": 2, "batch_size": batch_size}
    vecenv = vector.make(creator, backend=backend, seed=5, **options)
    vecenv.tells_final_observations = tells
    return vecenv


def make_policy(vecenv, is_recurrent=False):
    torch.manual_seed(0)
    policy = Default(vecenv.driver_env, hidden_size=16)
    return MinGRUWrapper(vecenv.driver_env, policy, 16, 16) if is_recurrent else policy


def by_kernel(policy, *arguments):
    return NetworkActor(Network(trace(policy, arguments[0])), policy, *arguments[:-1])


def make(vecenv, is_recurrent=False, **keywords):
    policy = make_policy(vecenv, is_recurrent)
    return make_collector(vecenv, policy, horizon=HORIZON, **keywords)


def true_values(name, policy, rollout):
    """Values of a first rollout's final observations, `(segment, column)` -> value, by playing it again with torch."""
    vecenv = make_vector(name, "Serial", tells=False)
    finals = [env.keep_final_observations() for env in vecenv.envs]
    observations, _ = vecenv.reset()
    forward, found = acting_forward(policy), {}
    state = {key: torch.zeros_like(value) for key, value in rollout.states.items()}
    for column in range(rollout.horizon):
        np.testing.assert_array_equal(observations, rollout.by_column[column])
        forward(torch.from_numpy(observations), state)
        observations, _, terminals, truncations, _ = vecenv.step(rollout.actions[:, column].numpy())
        _, values = forward(torch.from_numpy(np.concatenate(finals)), {key: s.clone() for key, s in state.items()})
        cut = np.flatnonzero(truncations & ~terminals)
        found.update({(agent, column + 1): values.view(-1)[agent].item() for agent in cut.tolist()})
        for kept in state.values():
            kept[torch.from_numpy(terminals | truncations)] = 0
    vecenv.close()
    return found


def as_dict(finals):
    places = zip(finals.segments.tolist(), finals.columns.tolist(), strict=True)
    return dict(zip(places, finals.values.tolist(), strict=True))


def assert_true(name, collector):
    """The collector's first rollout has the values of all its final observations, and of no other."""
    with torch.no_grad():
        expected = true_values(name, collector.actor.policy, collector.rollout)
    assert len(expected) > 10 and as_dict(collector.rollout.finals) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.quick("recurrent")
@each_env
@each_shape
@pytest.mark.parametrize("backend", ["Native", "Serial", "Device"])
@pytest.mark.parametrize("computed_by", ["torch", "kernel"])
def test_final_observations_are_valued_with_the_state_of_the_episode(name, is_recurrent, backend, computed_by):
    keywords = {"actor_class": by_kernel} if computed_by == "kernel" else {}
    collector = make(make_vector(name, backend), is_recurrent, **keywords)
    collector.collect()
    assert_true(name, collector)
    collector.vecenv.close()


@pytest.mark.quick("steps-recurrent-puffer_multiagent")
@needs_emulator
@each_env
@each_shape
@pytest.mark.parametrize("in_one_kernel", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["steps", "rollout"])
def test_a_gpu_values_them_as_torch_does(name, is_recurrent, in_one_kernel, device_emulator):  # noqa: F811
    vecenv = make_vector(name, "Device")
    policy = make_policy(vecenv, is_recurrent)
    network = DeviceNetwork(layers_of(policy, vecenv), rounds=False) if in_one_kernel else None
    actor = functools.partial(GraphActor, capture=FakeCapture(), network=network)
    collector = make_collector(vecenv, policy, horizon=HORIZON, actor_class=actor, kind=DeviceCollector)
    here = make(make_vector(name), is_recurrent)
    collector.collect(), here.collect()
    assert_true(name, collector)
    assert ("puffer_env_play" in device_emulator) == in_one_kernel
    for _ in range(5):  # past the capture, and with states that rollouts before left
        here.collect(), collector.collect()
        expected = as_dict(here.rollout.finals)
        assert as_dict(collector.rollout.finals) == pytest.approx(expected, rel=1e-3, abs=1e-4)
        torch.testing.assert_close(collector.rollout.values, here.rollout.values, rtol=1e-3, atol=1e-4)
        for name_of_state, state in here.actor.states.items():
            torch.testing.assert_close(collector.actor.states[name_of_state], state, rtol=1e-3, atol=1e-4)


@each_env
@pytest.mark.parametrize("fused", [False, True], ids=["torch", "kernel"])
def test_a_truncated_step_aims_at_gamma_times_the_value_of_the_final_observation(name, fused, in_tmp_path):
    vecenv = make_vector(name, "Native", tells=False)
    settings = {"device": "cpu", "fused": fused, "gamma": GAMMA, "num_steps": HORIZON, "gae_lambda": 0.0}
    trainer = PuffeRL(vecenv, make_policy(vecenv), batch_size=HORIZON * vecenv.num_agents, **settings)
    trainer.evaluate()
    rollout, advantages = trainer.rollout, Advantages(trainer.rollout, trainer.config)
    assert isinstance(trainer._collector.actor, NetworkActor) == fused
    advantages.load()
    targets = advantages.compute() + rollout.values[:, :-1]
    with torch.no_grad():
        expected = true_values(name, trainer.policy, rollout)
    for (segment, column), value in expected.items():
        reward = rollout.rewards[segment, column].item()
        assert targets[segment, column - 1].item() == pytest.approx(reward + GAMMA * value, rel=1e-4, abs=1e-4)
    trainer.release()


def collected_finals(vecenv, rollouts=3, is_recurrent=True):
    collector, found = make(vecenv, is_recurrent), []
    for _ in range(rollouts):
        collector.collect()
        found.append(as_dict(collector.rollout.finals))
    vecenv.close()
    return found


@pytest.mark.quick("Native-2-puffer_multiagent", "Multiprocessing-2-puffer_multiagent")
@each_env
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("backend", ["Native", "Multiprocessing"])
def test_every_backend_tells_the_same(name, backend, batch_size):
    expected = collected_finals(make_vector(name, "Serial", batch_size=batch_size))
    found = collected_finals(make_vector(name, backend, batch_size=batch_size, num_workers=2))
    assert found == expected and min(map(len, found)) > 10


@each_env
def test_a_resumed_collector_values_the_same(name):
    def started():
        return make(make_vector(name), is_recurrent=True)

    collector = started()
    collector.collect()
    restored = going_on(started(), collector)
    for _ in range(2):
        collector.collect(), restored.collect()
        assert as_dict(restored.rollout.finals) == as_dict(collector.rollout.finals) != {}


@pytest.mark.quick("kernel")
@pytest.mark.parametrize("fused", [False, True], ids=["torch", "kernel"])
def test_a_checkpoint_between_collecting_and_learning_keeps_them(fused, in_tmp_path):
    def started():
        vecenv = make_vector("puffer_template", tells=False)
        settings = {"device": "cpu", "fused": fused, "num_steps": HORIZON}
        policy = make_policy(vecenv, is_recurrent=True)
        return PuffeRL(vecenv, policy, batch_size=HORIZON * vecenv.num_agents, **settings)

    def learned(trainer):
        trainer.train(), trainer.evaluate(), trainer.train()
        return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])

    trainer, other = started(), started()
    trainer.evaluate()
    trainer.save_checkpoint()
    finals = as_dict(trainer.rollout.finals)
    expected = learned(trainer)
    trainer.release()
    other.load_checkpoint(trainer.run_folder)
    other.evaluate()
    assert as_dict(other.rollout.finals) == finals != {}
    assert torch.equal(learned(other), expected)
    other.release()


# --- who is told


@pytest.mark.parametrize("backend", ["Native", "Multiprocessing"])
def test_infos_tell_them_from_the_next_reset_on_with_agents_of_the_vector(backend):
    vecenv = make_vector("puffer_multiagent", backend, tells=False)

    def told(steps):
        actions = np.zeros((vecenv.num_agents,), np.int32)
        return [info for _ in range(steps) for info in vecenv.step(actions)[-1] if "final_observation" in info]

    vecenv.reset()
    assert told(12) == []
    vecenv.tells_final_observations = True
    assert told(12) == []
    vecenv.reset(1)
    infos = told(3)  # the first agent's limit
    agents = ocean.env_class("puffer_multiagent").agents_per_env
    assert [info["agent_id"] for info in infos] == list(range(0, vecenv.num_agents, agents))
    assert all(info["final_observation"].shape == vecenv.single_observation_space.shape for info in infos)
    vecenv.close()


@pytest.mark.parametrize("truncation_bootstrap", [True, False])
def test_they_are_kept_only_where_they_count(truncation_bootstrap, in_tmp_path):
    for name, has_truncations in (("puffer_breakout", False), ("puffer_template", True)):
        vecenv = make_vector(name, tells=False)
        settings = {"device": "cpu", "num_steps": HORIZON, "batch_size": HORIZON * vecenv.num_agents}
        trainer = PuffeRL(vecenv, make_policy(vecenv), truncation_bootstrap=truncation_bootstrap, **settings)
        trainer.evaluate()
        kept = [env._final_observations is not None for env in vecenv.envs]
        assert kept == [truncation_bootstrap and has_truncations] * 2
        trainer.release()


def test_what_tells_no_final_observations_is_valued_by_what_was_acted_on():
    collector = make(make_vector("puffer_template", tells=False))
    collector.collect()
    assert collector.rollout.truncations.any() and collector.rollout.finals is None


class Halves(ObservationWrapper):
    def __init__(self, env):
        super().__init__(env, env.single_observation_space)

    def transform(self, observations):
        return observations // 2


class Unaware(PufferWrapper):
    """Shows another space, and knows of no final observations."""

    def __init__(self, env):
        super().__init__(env, env.single_observation_space)

    def step(self, actions):
        observations, *rest = super().step(actions)
        self.observations[:] = observations // 2
        return self.observations, *rest


def wrapped(wrapper):
    def creator(num_envs, buf=None, seed=0, **arguments):
        return wrapper(ocean.env_class("puffer_template")(num_envs, seed=seed, **arguments))

    return make_vector("puffer_template", "Serial", creator=creator)


@pytest.mark.parametrize("wrapper", [PufferWrapper, Halves, lambda env: FrameStack(env, 2)])
def test_wrappers_pass_them_on(wrapper):
    collector = make(wrapped(wrapper))
    collector.collect()
    assert len(as_dict(collector.rollout.finals)) > 10


def test_a_wrapper_that_shows_something_else_and_does_not_know_them_tells_none():
    collector = make(wrapped(Unaware))
    collector.collect()
    assert collector.rollout.truncations.any() and collector.rollout.finals is None
