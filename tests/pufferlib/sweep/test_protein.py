"""Sweeps as a user's script has them."""

import math
import sys

import numpy as np
import pytest

from pufferlib import Protein, ocean, pufferl
from pufferlib.errors import APIUsageError, ConfigError

RANGE = {"distribution": "uniform", "min": 0.0, "max": 1.0}


@pytest.mark.slow
def test_a_loop_of_ones_own_finds_the_best():
    protein = Protein(search_space={"x": RANGE, "kind": ["bad", "good", "worse"]}, goal="minimize", seed=1)
    losses = []
    for _ in range(30):
        values = protein.suggest()
        loss = (values["x"] - 0.3) ** 2 + {"bad": 1.0, "good": 0.0, "worse": 2.0}[values["kind"]]
        protein.observe(values, loss, cost=1.0)
        losses.append(loss)
    assert min(losses) < 1e-3
    assert protein.study.best_params["kind"] == "good"
    assert len(protein.study.trials) == 30


def test_several_suggestions_may_run_at_once_and_are_told_in_any_order():
    protein = Protein(search_space={"x": RANGE, "y": RANGE}, seed=0)
    for _ in range(6):
        batch = [protein.suggest() for _ in range(3)]
        assert len({(values["x"], values["y"]) for values in batch}) == 3
        for values in reversed(batch):
            protein.observe(values, values["x"] - values["y"], cost=2.0, curve=[[0.5, 1.0, 0.1]])
    trials = protein.study.trials
    assert all(trial.value == trial.params["x"] - trial.params["y"] for trial in trials)
    assert protein.study.best_value > 0.9


def test_failures_and_what_was_known_before_are_observed_too():
    protein = Protein(search_space={"x": RANGE})
    protein.observe({"x": 0.9}, 5.0, cost=3.0)
    protein.observe(protein.suggest(), None, cost=1.0)
    protein.observe(protein.suggest(), math.nan, cost=1.0)
    assert [trial.state.name for trial in protein.study.trials] == ["COMPLETE", "FAIL", "FAIL"]
    with pytest.raises(APIUsageError, match="needs a value of x, got {'y': 1}"):
        protein.observe({"y": 1}, 1.0, cost=1.0)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cost": math.nan}, "a cost in \\[0, inf\\), got nan"),
        ({"cost": -1.0}, "a cost in \\[0, inf\\), got -1.0"),
        ({"cost": "high"}, "needs numbers, got a score of 1.0 and a cost of 'high'"),
        ({"cost": 1.0, "curve": [[50, 0.5, 0.1]]}, "progress in \\(0, 1\\].*got \\[50, 0.5, 0.1\\]"),
        ({"cost": 1.0, "curve": [[0.5, 0.1]]}, "score\\], got \\[0.5, 0.1\\]"),
        ({"cost": 1.0, "curve": [3]}, "score\\], got 3"),
        ({"cost": 1.0, "curve": [[0.5, 0.1, "high"]]}, "score\\], got \\[0.5, 0.1, 'high'\\]"),
    ],
)
def test_numbers_that_cannot_be_are_refused(told, said):
    protein = Protein(search_space={"x": RANGE})
    with pytest.raises(APIUsageError, match=said):
        protein.observe(protein.suggest(), 1.0, **told)


def test_parts_of_a_curve_without_a_score_do_not_count():
    protein = Protein(search_space={"x": RANGE})
    protein.observe(protein.suggest(), 1.0, 2.0, curve=[[0.25, 0.5, None], [0.5, 1.0, math.nan], [0.75, 1.5, 0.5]])
    assert protein.study.trials[0].user_attrs["curve"] == [[0.75, 1.5, 0.5]]


@pytest.mark.parametrize(
    ("space", "value"),
    [(RANGE, "high"), (RANGE, math.nan), (RANGE, math.inf), (RANGE, -7.5), (["bad", "good"], "better")],
)
def test_a_value_that_cannot_be_is_refused(space, value):
    protein = Protein(search_space={"x": space})
    with pytest.raises(APIUsageError, match=f"values of the search space, got .*{value}"):
        protein.observe({"x": value}, 1.0, cost=1.0)
    with pytest.raises(APIUsageError, match="needs a value of x, got 5"):
        protein.observe(5, 1.0, cost=1.0)


@pytest.mark.parametrize(("distribution", "value"), [("int_uniform", 3.7), ("uniform_pow2", 20), ("uniform_pow2", 6.5)])
def test_a_number_that_would_be_rounded_is_refused(distribution, value):
    protein = Protein(search_space={"x": {"distribution": distribution, "min": 1, "max": 64}})
    with pytest.raises(APIUsageError, match="x must be one of its whole numbers"):
        protein.observe({"x": value}, 1.0, cost=1.0)
    protein.observe({"x": 16.0}, 1.0, cost=1.0, curve=None)
    assert protein.study.trials[0].params == {"x": 16}


def test_numbers_of_numpy_are_choices_as_those_of_python_are(recwarn):
    protein = Protein(search_space={"width": list(np.array([32, 64]))})
    protein.observe({"width": np.int64(64)}, 1.0, cost=1.0)
    assert type(protein.suggest()["width"]) is int and not recwarn.list


def test_a_setting_that_is_taken_out_is_not_suggested():
    protein = Protein("puffer_cartpole", {"gamma": [0.9, 0.99], "learning_rate": {"distribution": None}})
    assert protein.suggest().keys() == {"gamma"}


@pytest.mark.slow
def test_the_script_of_the_documentation(in_tmp_path):
    protein = Protein(
        env_name="puffer_cartpole",
        search_space={"learning_rate": [1e-3, 1e-2], "n_epochs": [1, 2]},
        num_trials=2,
        metric="mean_reward",
        args=short(),
        confirm_best=0,
    )
    best = protein.optimize(quiet=True)
    assert best.keys() == {"learning_rate", "n_epochs"} and best["n_epochs"] in (1, 2)
    assert protein.best_args["train"]["update_epochs"] == best["n_epochs"]
    assert protein.best_args["train"]["total_timesteps"] == 70_000
    assert len(protein.study.trials) == 2
    assert protein.study.best_value > 5  # steps that the pole stood


def short():
    args = pufferl.load_config("puffer_cartpole")
    args["train"]["total_timesteps"] = 70_000
    return args


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "something to vary"),
        ({"search_space": {}}, "something to vary"),
        ({"search_space": {"x": 3}}, "'x' must be a list of values or a dict"),
        ({"search_space": ["x"]}, r"a dict by the names of settings, got \['x'\]"),
        ({"search_space": {5: [1]}}, r"a dict by the names of settings, got \{5: \[1\]\}"),
        ({"env_name": "puffer_cartpole", "args": 5}, "must be a dict, got int"),
        ({"search_space": {"x": [1]}, "num_trial": 3}, "did you mean 'num_trials'"),
        ({"env_name": "puffer_cartpole", "search_space": {"learning_rat": [1]}}, "did you mean 'learning_rate'"),
    ],
)
def test_a_mistake_is_told_at_once(given, said):
    with pytest.raises((APIUsageError, ConfigError), match=said):
        Protein(**given)


@pytest.mark.parametrize("begin", [Protein, pufferl.train])
def test_an_environment_without_a_name_is_refused_before_anything_is_trained(begin):
    args = pufferl.load_config("puffer_cartpole")
    with pytest.raises(APIUsageError, match="env_name must be text.*the class "):
        begin(ocean.env_class("puffer_cartpole"), args=args)


def test_a_configuration_without_a_section_is_refused():
    with pytest.raises(ConfigError, match="a section 'policy'"):
        pufferl.train("puffer_cartpole", {"train": {}, "env": {}})


def test_without_an_environment_there_is_nothing_to_train_in():
    with pytest.raises(APIUsageError, match="give Protein an env_name"):
        Protein(search_space={"x": RANGE}).optimize()


def test_a_sentinel_for_failures_may_be_the_least_number():
    protein = Protein(search_space={"x": RANGE})
    for index in range(20):
        values = protein.suggest()
        protein.observe(values, -sys.float_info.max if index % 4 else values["x"], 1.0)
    assert 0.0 <= protein.suggest()["x"] <= 1.0
