"""Dimensions and Optuna's distributions."""

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from pufferlib.sweep.space import (
    Categorical,
    Dimension,
    SearchSpace,
    on_step,
    optuna_distributions,
    settled,
    space_of_distributions,
)

SPACE = SearchSpace(
    (
        Dimension("train.learning_rate", "log_normal", 1e-4, 0.3),
        Dimension("train.total_timesteps", "log_normal", 1e5, 1e8, is_integer=True),
        Dimension("train.minibatch_size", "uniform_pow2", 256, 65536),
        Dimension("train.gamma", "logit_normal", 0.5, 0.9999),
        Dimension("env.size", "int_uniform", 3, 12),
        Categorical("train.optimizer", ("adam", "muon")),
    )
)


@pytest.mark.parametrize("seed", range(5))
def test_what_optuna_draws_are_values_of_the_space_and_the_other_way_round(seed):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    trial = study.ask(optuna_distributions(SPACE))
    values = settled(SPACE, trial.params)
    assert values["train.minibatch_size"] in [2**power for power in range(8, 17)]
    for name in ("env.size", "train.optimizer", "train.total_timesteps"):
        assert values[name] == trial.params[name]
    assert values["train.gamma"] == pytest.approx(trial.params["train.gamma"])
    for name, distribution in optuna_distributions(SPACE).items():
        assert distribution._contains(distribution.to_internal_repr(values[name]))


def test_distributions_of_somebody_else_make_a_space():
    space = space_of_distributions(optuna_distributions(SPACE))
    assert space.names == SPACE.names
    assert [type(dimension) for dimension in space.dimensions] == [type(dimension) for dimension in SPACE.dimensions]
    values = {**SPACE.values(SPACE.centre), "train.minibatch_size": 4096}
    assert space.values(space.point(values)) == pytest.approx(values)


@pytest.mark.parametrize(
    ("distribution", "value", "nearest"),
    [
        (FloatDistribution(0.0, 0.3, step=0.1), 0.29, 0.3),
        (FloatDistribution(-1.0, 1.0, step=0.25), 0.1, 0.0),
        (FloatDistribution(0.0, 1.0), 0.123, 0.123),
        (IntDistribution(2, 98, step=8), 97, 98),
        (IntDistribution(2, 98, step=8), 5, 2),
        (IntDistribution(1, 100, log=True), 7, 7),
        (CategoricalDistribution(("a", None)), None, None),
    ],
)
def test_values_are_put_on_a_step(distribution, value, nearest):
    found = on_step(distribution, value)
    assert found == pytest.approx(nearest) and type(found) is type(nearest)
    assert distribution._contains(distribution.to_internal_repr(found))
