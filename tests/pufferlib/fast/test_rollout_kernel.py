"""Rollouts that one kernel plays, policy and environments, are those of torch's policy and threads."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from collecting import collected, going_on, make_collector
from emulated_device import device_emulator, needs_emulator  # noqa: F401 - a fixture
from recorded_capture import FakeCapture
from torch import nn
from traced_policies import layers_of

from pufferlib import ocean, vector
from pufferlib.errors import DivergedError, PufferWarning
from pufferlib.fast import device_collector
from pufferlib.fast.device_collector import Blocks, DeviceCollector
from pufferlib.fast.device_envs import PLAY, play_program
from pufferlib.fast.device_network import DeviceNetwork, can_be_in_a_rollout
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.models import Continuous, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations
from pufferlib.ppo.collector import Collector

pytestmark = needs_emulator
BACKENDS = ("Native", "Device")
COMPUTED = ("logprobs", "values")
"""What sums of floats in another order make a little different."""


def make_policy(vecenv, width=18, layers=1, recurrent=0, activation="gelu"):
    torch.manual_seed(0)
    policy = Default(vecenv.driver_env, hidden_size=width, num_layers=layers, activation=activation)
    if recurrent:
        policy = MinGRUWrapper(vecenv.driver_env, policy, width, width, recurrent)
    for name, parameter in policy.named_parameters():  # so that biases count, and actions differ
        if parameter.dim() == 1:
            nn.init.normal_(parameter, 0.0, 0.3)
        elif "head" in name:
            nn.init.normal_(parameter)
    return policy


def make(name, backend, kernel=False, rounds=False, capture=None, settings=None, inside=6, env=None, **keywords):
    options = {"num_envs": 2, "backend": backend, "batch_size": 2, "seed": 5, "num_workers": 1}
    vecenv = vector.make(ocean.env_class(name), env_kwargs={"num_envs": inside, **(env or {})}, **options)
    policy = make_policy(vecenv, **(settings or {}))
    network = DeviceNetwork(layers_of(policy, vecenv), rounds) if kernel else None
    actor = functools.partial(GraphActor, capture=capture or FakeCapture(), network=network)
    kind = DeviceCollector if backend == "Device" else Collector
    return make_collector(vecenv, policy, actor_class=actor, kind=kind, **keywords)


def assert_alike(found, expected):
    """All is the same but for rounding, which numbers as actions carry on into what environments give."""
    assert found.keys() == expected.keys()
    draws_numbers = expected["actions"].dtype.kind == "f"
    for name, array in expected.items():
        if draws_numbers or name in COMPUTED or name.startswith("mingru"):
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], array, err_msg=name)


POLICIES = {
    "plain": {},
    "deep": {"width": 9, "layers": 3, "activation": "tanh"},
    "recurrent": {"width": 16, "recurrent": 1, "activation": "linear"},
    "twice recurrent": {"width": 10, "layers": 2, "recurrent": 2, "activation": "relu"},
}
ENVS = ("puffer_breakout", "puffer_multiagent", "puffer_pacman", "puffer_drone")  # one agent, three, bytes, numbers
QUICK = [(ENVS[0], "twice recurrent"), (ENVS[3], "plain")]
CASES = [(name, policy) for name in ENVS for policy in POLICIES]


@pytest.mark.quick("puffer_breakout-twice recurrent")
@pytest.mark.parametrize(
    ("name", "policy"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_one_kernel_collects_what_threads_do(name, policy, device_emulator):  # noqa: F811
    settings = {"settings": POLICIES[policy], "groups": 2, "horizon": 12, "reward_clip": 1.0, "inside": 21}
    capture = FakeCapture()
    here, there = make(name, "Native", **settings), make(name, "Device", True, capture=capture, **settings)
    assert_alike(collected(there, 4), collected(here, 4))
    assert there.vecenv.is_lent and capture.replays == 2 * (2 * 4 - 3)  # with bootstraps; three warm-ups
    assert device_emulator["puffer_env_play"] == 4 * 2 * 2 and "puffer_env_step" not in device_emulator


class RoundingFactors(nn.Module):
    """A plain policy whose products are of numbers rounded to bfloat16, summed in float32."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, observations):
        hidden = observations.flatten(1)
        for layer in (*self.policy.encoder, self.policy.head.linear):
            if isinstance(layer, nn.Linear):
                factors = (array.bfloat16().double() for array in (hidden, layer.weight))
                hidden = nn.functional.linear(*factors, layer.bias.double()).float()
            else:
                hidden = layer(hidden)
        return hidden[:, :-1], hidden[:, -1]


@pytest.mark.slow
def test_factors_are_rounded_to_bfloat16(device_emulator):  # noqa: F811
    settings = {"settings": {"layers": 2}, "horizon": 12}
    here, there = (make("puffer_breakout", backend, backend == "Device", True, **settings) for backend in BACKENDS)
    exact = make("puffer_breakout", "Native", **settings)
    here.actor = GraphActor(RoundingFactors(here.actor.policy), here.rollout, 12, here.generator, capture=FakeCapture())
    here.reset(5)
    there.reset(5)
    exact.reset(5)
    expected, found, others = collected(here, 1), collected(there, 1), collected(exact, 1)
    for arrays in (expected, found):
        arrays["values"] = arrays["values"][..., :-1]  # the bootstrap is torch's
    assert_alike(found, expected)
    assert np.abs(others["values"][:, 0, 0] - found["values"][:, 0, 0]).max() > 1e-4


def test_rounded_weights_take_half_of_the_memory():
    env = ocean.env_class("puffer_breakout")()
    layers = layers_of(MinGRUWrapper(env, Default(env, 64), 64, 64), env)
    exact, rounded = (DeviceNetwork(layers, rounds) for rounds in (False, True))
    assert len(rounded.weights) < 0.51 * len(exact.weights)
    exact.pack(), rounded.pack()
    biases = slice(0, 64)
    assert torch.equal(rounded.weights[biases], exact.weights[biases])
    inputs = layers.layers[0].weight.shape[1]
    weights = rounded.weights[64 : 64 + 32 * inputs].view(torch.bfloat16).view(inputs, 64)
    assert torch.equal(weights, layers.layers[0].weight.bfloat16().T)
    env.close()


@pytest.mark.slow
def test_weights_are_those_of_now(device_emulator):  # noqa: F811
    here, there = (make("puffer_squared", backend, backend == "Device", horizon=9) for backend in BACKENDS)
    for _ in range(5):  # past the capture
        assert_alike(collected(there, 1), collected(here, 1))
        for collector in (here, there):
            torch.manual_seed(3)
            for parameter in collector.actor.policy.parameters():
                parameter.data += 0.1 * torch.randn_like(parameter)


@pytest.mark.slow
def test_a_checkpoint_between_rollouts_goes_on_on_threads(device_emulator):  # noqa: F811
    settings = {"settings": POLICIES["recurrent"], "horizon": 40}
    there, other = (make("puffer_squared", backend, backend == "Device", **settings) for backend in BACKENDS[::-1])
    collected(there, 3)
    going_on(other, there)
    assert there.vecenv.snapshot() == other.vecenv.snapshot()
    assert_alike(collected(there, 3), collected(other, 3))


def test_a_divergence_is_found(device_emulator):  # noqa: F811
    collector = make("puffer_squared", "Device", True)
    collector.collect()
    nn.init.constant_(collector.actor.policy.encoder[0].weight, float("nan"))
    with pytest.raises(DivergedError, match="not finite"):
        collector.collect()


@pytest.mark.slow
def test_a_missing_barrier_is_noticed(device_emulator, monkeypatch):  # noqa: F811
    without = "#undef __syncthreads\n#define __syncthreads() ((void)0)\n" + PLAY
    monkeypatch.setattr("pufferlib.fast.device_envs.PLAY", without)
    monkeypatch.setattr(device_collector, "play_program", play_program.__wrapped__)  # and is not kept
    here, there = (make("puffer_breakout", backend, backend == "Device", inside=21) for backend in BACKENDS)
    with pytest.raises((AssertionError, DivergedError), match="observations|actions|values"):
        assert_alike(collected(there, 1), collected(here, 1))


def test_torchs_default_type_is_not_that_of_what_the_kernels_read(device_emulator):  # noqa: F811
    here, there = (make("puffer_squared", backend, backend == "Device") for backend in BACKENDS)
    expected = collected(here, 1)
    torch.set_default_dtype(torch.float64)
    try:
        weights = DeviceNetwork(layers_of(there.actor.policy, there.vecenv), rounds=False).weights
        found = collected(there, 1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert weights.dtype == torch.float32
    assert_alike(found, expected)


def test_what_does_not_fit_is_played_step_by_step(device_emulator, monkeypatch):  # noqa: F811
    monkeypatch.setattr("pufferlib.fast.device_collector.shared_memory", lambda device: 1000)
    here, there = (make("puffer_breakout", backend, backend == "Device") for backend in BACKENDS)
    with pytest.warns(
        PufferWarning, match="one kernel, so it is many: .* fit into 1000 bytes .* takes? .*; set .train"
    ):
        found = collected(there, 1)
    assert device_emulator["puffer_env_step"] == 2 * 7
    assert_alike(found, collected(here, 1))


def test_trainers_alike_share_their_program():
    env = ocean.env_class("puffer_breakout")()
    assert play_program(env.binding, A="1") is play_program(env.binding, A="1")
    assert play_program(env.binding, A="1") is not play_program(env.binding, A="2")
    env.close()


# --- how environments are dealt to blocks


@pytest.mark.parametrize(("kilobytes", "envs", "are_two"), [(227, 32, True), (70, 23, True), (5, 2, False)])
def test_two_blocks_share_a_multiprocessor_where_they_fit(kilobytes, envs, are_two):
    limit = 1024 * kilobytes
    env = ocean.env_class("puffer_breakout")()
    observations = torch.from_numpy(env.observations)
    blocks = Blocks.deal(1, observations, DeviceNetwork(layers_of(Default(env, 64), env), rounds=False), limit)
    assert blocks.envs == envs
    assert (2 * (blocks.shared_bytes + 1024) <= limit + 1024) == are_two
    env.close()


# --- which policies


@pytest.mark.parametrize(
    ("name", "make_one"),
    [
        ("puffer_breakout", lambda env: LSTMWrapper(env, Default(env, 16), 16, 16)),
        ("puffer_g2048", lambda env: Default(env, 16, one_hot=True)),
        ("puffer_drone", lambda env: Continuous(env)),
        ("puffer_drone", lambda env: NormalizedObservations(env, Default(env, 16))),
        ("puffer_breakout", lambda env: Default(env, 16).double()),
        ("puffer_breakout", lambda env: OwnPolicy(env)),
        ("puffer_breakout", lambda env: Default(env, 256)),  # torch has tensor cores for products of that size
    ],
)
def test_other_policies_are_left_to_torch(name, make_one):
    env = ocean.env_class(name)()
    observations = torch.from_numpy(env.observations).dtype
    assert can_be_in_a_rollout(layers_of(Default(env, 16), env), observations)
    assert not can_be_in_a_rollout(layers_of(make_one(env), env), observations)
    env.close()


class OwnPolicy(Default):
    def decode_actions(self, hidden):
        return super().decode_actions(2 * hidden)
