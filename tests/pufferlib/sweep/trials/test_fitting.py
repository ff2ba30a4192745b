import dataclasses

import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.errors import ConfigError
from pufferlib.sweep.trial_training import fit_sizes


def train(**values):
    return dataclasses.asdict(TrainConfig(**values))


@pytest.mark.parametrize(
    ("values", "fitted"),
    [
        ({}, {}),
        ({"batch_size": 1000}, {"batch_size": 1024}),
        ({"batch_size": 1}, {"bptt_horizon": 1, "batch_size": 8}),
        ({"batch_size": 256}, {"bptt_horizon": 32}),
        ({"batch_size": 100}, {"bptt_horizon": 12, "batch_size": 96}),
        ({"minibatch_size": 100}, {"minibatch_size": 128}),
        ({"minibatch_size": 1}, {"minibatch_size": 64}),
        ({"minibatch_size": 10**6}, {"minibatch_size": 512}),
        ({"minibatch_size": 512, "bptt_horizon": 48}, {"minibatch_size": 384}),
        ({"minibatch_size": 100, "shuffle": "steps"}, {"minibatch_size": 128}),
        ({"minibatch_size": 10**6, "shuffle": "steps"}, {"minibatch_size": 512}),
        ({"total_timesteps": 10}, {"total_timesteps": 512}),
        ({"total_timesteps": 10, "num_iterations": 2}, {}),
    ],
)
def test_sizes_become_the_nearest_that_are_possible(values, fitted):
    given = train(**values)
    found = fit_sizes(given, 8, "cpu")
    assert found == {**given, **fitted}
    resolve_sizes(TrainConfig.from_dict(found), 8, "cpu")


def test_a_horizon_that_the_sweep_chose_is_kept():
    assert fit_sizes(train(batch_size=256), 8, "cpu", keeps_horizon=True)["batch_size"] == 512


def test_what_cannot_be_repaired_is_refused():
    with pytest.raises(ConfigError, match="prio_alpha must be 0"):
        fit_sizes(train(shuffle="steps", prio_alpha=0.5), 8, "cpu")


SIZES = st.one_of(st.just("auto"), st.integers(1, 10**6))


@settings(deadline=None, max_examples=100)
@given(SIZES, SIZES, st.integers(1, 300), st.integers(1, 2000), st.sampled_from(["segments", "steps"]))
def test_any_sizes_can_be_made_to_fit(batch_size, minibatch_size, horizon, agents, shuffle):
    sizes = {"batch_size": batch_size, "minibatch_size": minibatch_size, "bptt_horizon": horizon, "shuffle": shuffle}
    fitted = fit_sizes(train(**sizes, total_timesteps=1), agents, "cpu")
    assert fit_sizes(fitted, agents, "cpu") == fitted
