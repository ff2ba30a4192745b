import math

import optuna
import pytest
from sweep_studies import make_state, make_study, scored

from pufferlib.sweep.results import (
    Confirmation,
    candidates,
    confirmed_trials,
    fresh_seeds,
    known_confirmations,
    outstanding,
    remember,
    results_of,
    winner,
)


def found(*trials, goal="maximize"):
    return results_of(make_study(*trials, goal=goal).trials, goal)


def runs(trial, *scores):
    return [Confirmation(trial, seed, score) for seed, score in enumerate(scores)]


def test_the_best_trials_that_differ_are_chosen():
    results = found(scored(0.5, 1), scored(0.9, 9, 0.02), scored(0.8, 9, 0.02), scored(0.7, 9, 0.03), scored(0.6, 9))
    assert [trial.number for trial in candidates(results, 3)] == [1, 3, 4]
    assert [trial.number for trial in candidates(results, 9)] == [1, 3, 4]
    assert candidates(results, 0) == []
    assert candidates(found(), 3) == []


def test_the_cheapest_that_solves_is_chosen_too():
    results = found(scored(0.9, 40), scored(0.99, 90, 0.02), scored(0.96, 7, 0.03), scored(0.7, 2, 0.04))
    assert [trial.number for trial in candidates(results, 1, 0.95)] == [1, 2]
    assert [trial.number for trial in candidates(results, 2, 0.95)] == [1, 2]
    assert candidates(results, 0, 0.95) == []
    assert [trial.number for trial in candidates(results, 1, 1.5)] == [1]


def test_the_seeds_are_those_of_no_trial():
    args = make_state(make_study()).args
    seeds = fresh_seeds(args)
    assert len(set(seeds)) == 3
    assert not set(seeds) & set(range(42, 42 + 100_000))
    assert fresh_seeds(args) == seeds


def test_what_has_run_is_not_run_again():
    study = make_study(scored(0.5, 1, 0.01), scored(0.9, 9, 0.02))
    args = make_state(study).args
    first, second, third = fresh_seeds(args)
    results = results_of(study.trials, "maximize")
    for number, seed, score in ((1, first, 0.8), (1, second, None), (0, third, 0.4)):
        remember(study, Confirmation(number, seed, score, 3.0, "run", "" if score else "it crashed"))
    left = outstanding(results, known_confirmations(study), args, "environment/perf")
    assert [(trial.number, seed) for trial, seed in left] == [(1, third), (0, first), (0, second)]


def test_what_it_led_to_survives_the_storage(tmp_path):
    url = f"sqlite:///{tmp_path}/sweep.db"
    study = optuna.create_study(storage=url, study_name="one")
    told = [Confirmation(3, 7, 0.5, 1.5, "experiments/one"), Confirmation(3, 8, None, error="it crashed")]
    for run in told:
        remember(study, run)
    study.set_user_attr("env_name", "puffer_squared")
    assert known_confirmations(optuna.load_study(study_name="one", storage=url)) == told


@pytest.mark.parametrize(("goal", "first", "mean"), [("maximize", 2, 0.75), ("minimize", 1, 0.5)])
def test_the_winner_is_who_confirms_best(goal, first, mean):
    results = found(scored(0.7, 1, 0.01), scored(0.9, 9, 0.02), scored(0.8, 9, 0.03), goal=goal)
    known = [*runs(0, 0.5, 0.6), *runs(1, 0.9, 0.1), *runs(2, 0.8, 0.7)]
    confirmed = confirmed_trials(results, known)
    assert winner(results, known).trial.number == confirmed[0].trial.number == first
    assert confirmed[0].mean == pytest.approx(mean)


def test_who_fails_is_behind_who_does_not():
    results = found(scored(0.7, 1, 0.01), scored(0.9, 9, 0.02))
    known = [*runs(0, 0.5, 0.6), *runs(1, 0.9, None)]
    first, second = confirmed_trials(results, known)
    assert (first.trial.number, second.num_failed, second.scores) == (0, 1, [0.9])
    assert first.spread == pytest.approx(0.05)


def test_without_confirmations_the_best_score_wins():
    results = found(scored(0.7, 1, 0.01), scored(0.9, 9, 0.02))
    assert winner(results, []).trial.number == 1
    assert winner(results, runs(0, None, None)).trial.number == 1
    assert math.isnan(confirmed_trials(results, runs(0, None))[0].mean)
    assert winner(found(), []) is None
