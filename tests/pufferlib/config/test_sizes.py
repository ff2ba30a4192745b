import dataclasses
import math

import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.config import (
    TrainConfig,
    VecConfig,
    load_config,
    resolve_env_count,
    resolve_sizes,
)
from pufferlib.errors import ConfigError


def test_sizes_follow_the_agents_and_the_device():
    config = TrainConfig(bptt_horizon=64, update_epochs=1.25, total_timesteps=10_000_000)
    resolved = resolve_sizes(config, 1024, "cpu")
    assert (resolved.batch_size, resolved.minibatch_size, resolved.max_minibatch_size) == (65_536, 2048, 2048)
    assert (resolved.segments, resolved.minibatch_segments, resolved.accumulation_steps) == (1024, 32, 1)
    assert resolved.minibatches_per_epoch == 40.0
    assert (resolved.total_epochs - 1) * resolved.batch_size < 10_000_000 <= resolved.total_epochs * resolved.batch_size
    assert resolve_sizes(config, 4096, "cuda").minibatch_size == 8192


@pytest.mark.parametrize(("device", "most"), [("cpu", 16_384), ("mps", 16_384), ("cuda", 65_536)])
def test_an_automatic_minibatch_is_a_share_of_the_batch_within_limits(device, most):
    config = TrainConfig(total_timesteps=10**9)
    sizes = [resolve_sizes(config, agents, device).minibatch_size for agents in (1, 16, 1024, 2**16)]
    assert sizes == [64, 256, 2048, most]  # the whole batch, the least, a 32nd, the most
    few = dataclasses.replace(config, num_minibatches=4)
    assert resolve_sizes(few, 256, device).minibatch_size == 4096
    assert resolve_sizes(dataclasses.replace(few, minibatch_size=128), 256, device).minibatch_size == 128


def test_iterations_stand_in_for_steps():
    resolved = resolve_sizes(TrainConfig(num_iterations=3, total_timesteps=1), 10, "cpu")
    assert (resolved.total_epochs, resolved.total_timesteps) == (3, 3 * 640)


def test_large_minibatches_accumulate():
    resolved = resolve_sizes(TrainConfig(minibatch_size=4096, max_minibatch_size=1024), 64, "cpu")
    assert resolved.accumulation_steps == 4


def test_processes_share_the_batch_and_the_minibatch():
    sizes = {"batch_size": 131_072, "num_minibatches": 8, "max_minibatch_size": 1024}
    config = TrainConfig(bptt_horizon=64, total_timesteps=10**6, **sizes)
    resolved = resolve_sizes(config, 512, "cpu", world_size=2)
    assert (resolved.batch_size, resolved.minibatch_size) == (131_072, 16_384)  # of both
    assert (resolved.segments, resolved.minibatch_segments) == (1024, 128)  # of each
    assert (resolved.accumulation_steps, resolved.minibatches_per_epoch, resolved.total_epochs) == (8, 8.0, 8)
    many = TrainConfig(total_timesteps=10**9, num_minibatches=2)
    assert resolve_sizes(many, 8192, "cuda", world_size=4).minibatch_size == 4 * 65_536


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 1536}, r"multiple of 1024 \(2 processes \* 8 agents \* bptt_horizon 64\), got 1536"),
        ({"minibatch_size": 192}, r"multiple of 128 \(2 processes \* bptt_horizon\), got 192"),
        ({"minibatch_size": 1024, "max_minibatch_size": 192}, r"multiple of 384 \(2 processes \* max_minibatch_size\)"),
    ],
)
def test_sizes_that_processes_cannot_share_name_possible_ones(values, message):
    with pytest.raises(ConfigError, match=message):
        resolve_sizes(TrainConfig(**values), 8, "cpu", world_size=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 100}, r"multiple of 512 \(8 agents \* bptt_horizon 64\), got 100; the nearest: 512"),
        ({"batch_size": 1000}, "the nearest: 512 or 1024"),
        ({"minibatch_size": 100}, "minibatch_size must be a multiple of 64.* 64 or 128"),
        ({"minibatch_size": 1024}, "at most the batch of 512"),
        ({"minibatch_size": 512, "max_minibatch_size": 192}, "multiple of 192"),
        ({"minibatch_size": 512, "max_minibatch_size": 32}, "max_minibatch_size must be a multiple of 64"),
        ({"total_timesteps": 511}, "at least one batch of 512 agent steps, got 511"),
    ],
)
def test_impossible_sizes_name_possible_ones(values, message):
    with pytest.raises(ConfigError, match=message):
        resolve_sizes(TrainConfig(**values), 8, "cpu")


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 10_000), st.integers(1, 2000), st.sampled_from(["cpu", "cuda"]))
def test_automatic_sizes_always_fit(num_agents, horizon, device):
    resolved = resolve_sizes(TrainConfig(bptt_horizon=horizon, total_timesteps=10**9), num_agents, device)
    limit = 65_536 if device == "cuda" else 16_384
    assert resolved.batch_size == num_agents * horizon
    assert resolved.minibatch_size % horizon == 0
    assert resolved.minibatch_size <= max(horizon, min(limit, resolved.batch_size))
    minibatches = math.ceil(resolved.segments / resolved.minibatch_segments)
    assert minibatches * resolved.minibatch_segments - resolved.segments < minibatches  # shared out evenly


@pytest.mark.parametrize(
    ("device", "buffers", "agents_per_env", "expected"),
    [("cpu", 1, 1, 1024), ("cpu", 4, 1, 256), ("mps", 1, 2, 512), ("cuda", 2, 1, 4096), ("cpu", 1, 5000, 1)],
)
def test_automatic_environments_add_up_to_the_agents_that_suit_the_device(device, buffers, agents_per_env, expected):
    assert resolve_env_count("auto", device, buffers, agents_per_env) == expected
    assert resolve_env_count(7, device, buffers, agents_per_env) == 7


@pytest.mark.parametrize(("device", "expected"), [("cpu", 256), ("cuda", 8192)])
def test_automatic_environments_are_shared_by_processes_on_cpus_alone(device, expected):
    assert resolve_env_count("auto", device, 1, 1, world_size=4) == expected
    assert resolve_env_count(7, device, 1, 1, world_size=4) == 7


@pytest.mark.parametrize(
    ("device", "settings", "expected"),
    [
        ("cuda", {"total_timesteps": 64 * 64 * 8192}, 8192),
        ("cuda", {"total_timesteps": 64 * 64 * 8192 - 1}, 4096),
        ("cuda", {"total_timesteps": 64 * 64 * 8192, "bptt_horizon": 128}, 4096),
        ("cuda", {"total_timesteps": 1_000_000}, 1024),
        ("cuda", {"total_timesteps": 1_000_000, "num_iterations": 10}, 8192),
        ("cpu", {"total_timesteps": 1_000_000}, 1024),
    ],
)
def test_a_short_training_on_a_gpu_has_fewer_agents_and_so_more_batches(device, settings, expected):
    train = TrainConfig(**settings)
    assert resolve_env_count("auto", device, 1, 1, train=train) == expected
    assert resolve_env_count(7, device, 1, 1, train=train) == 7


def test_processes_count_their_agents_together_in_a_batch():
    train = TrainConfig(total_timesteps=64 * 64 * 8192)
    assert resolve_env_count("auto", "cuda", 1, 1, world_size=2, train=train) == 4096


@pytest.mark.parametrize(("device", "agents", "minibatch"), [("cpu", 1024, 8_192), ("cuda", 8192, 65_536)])
def test_breakouts_sizes_follow_the_device(device, agents, minibatch):
    args = load_config("puffer_breakout")
    vec = VecConfig.from_dict(args["vec"]).keywords(device, seed=0)
    count = resolve_env_count(args["env"]["num_envs"], device, vec["num_envs"], 1) * vec["num_envs"]
    resolved = resolve_sizes(TrainConfig.from_dict(args["train"]), count, device)
    assert (count, resolved.minibatch_size) == (agents, minibatch)
    assert resolved.batch_size == agents * 64 == resolved.minibatch_size * (agents * 64 // minibatch)


@pytest.mark.parametrize(
    ("agents", "horizon", "world_size", "minibatch"),
    [(257, 1, 1, 257), (3, 100, 1, 300), (7, 64, 1, 224), (5, 77, 2, 154)],
)
def test_an_automatic_minibatch_of_single_steps_divides_the_batch(agents, horizon, world_size, minibatch):
    config = TrainConfig(shuffle="steps", bptt_horizon=horizon, total_timesteps=10**9)
    resolved = resolve_sizes(config, agents, "cpu", world_size)
    assert resolved.minibatch_size == minibatch and resolved.batch_size % minibatch == 0
