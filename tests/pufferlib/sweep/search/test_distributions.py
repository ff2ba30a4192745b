"""Dimensions and Optuna's distributions."""

import optuna
import pytest

from pufferlib.sweep.space import Categorical, Dimension, SearchSpace

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
    trial = study.ask(SPACE.distributions)
    values = SPACE.settled(trial.params)
    assert values["train.minibatch_size"] in [2**power for power in range(8, 17)]
    for name in ("env.size", "train.optimizer", "train.total_timesteps"):
        assert values[name] == trial.params[name]
    assert values["train.gamma"] == pytest.approx(trial.params["train.gamma"])
    for name, distribution in SPACE.distributions.items():
        assert distribution._contains(distribution.to_internal_repr(values[name]))
