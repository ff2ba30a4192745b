"""What a sampler makes of the trials of a study."""

import math
from datetime import datetime, timedelta

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState

from pufferlib.sweep.proposal import History
from pufferlib.sweep.results import COST, CURVE, UNCOUNTED
from pufferlib.sweep.space import Categorical, Dimension, SearchSpace

SPACE = SearchSpace((Dimension("x", "uniform", 0.0, 2.0), Categorical("kind", ("a", "b"))))
DISTRIBUTIONS = {"x": FloatDistribution(0.0, 2.0), "kind": CategoricalDistribution(("a", "b"))}


def trial(state=TrialState.COMPLETE, score=None, x=1.0, kind="b", seconds=None, params=None, **attributes):
    params = {"x": x, "kind": kind} if params is None else params
    made = optuna.trial.create_trial(
        state=state,
        value=score,
        params=params,
        distributions={name: DISTRIBUTIONS.get(name, FloatDistribution(0.0, 9.0)) for name in params},
        user_attrs=attributes,
    )
    made.datetime_start = datetime(2026, 1, 1)
    made.datetime_complete = None if seconds is None else made.datetime_start + timedelta(seconds=seconds)
    return made


def read(*trials, direction=StudyDirection.MAXIMIZE):
    return History(trials, direction, SPACE)


def curve_of(*rows):
    return [list(row) for row in rows]


def test_a_study_that_has_not_begun():
    found = read()
    assert found.points.shape == found.open_ends.shape == (0, 2)
    assert found.progress.shape == found.costs.shape == found.scores.shape == found.is_final.shape == (0,)
    assert found.begun == 0


def test_a_complete_trial_is_its_curve_and_its_score_at_the_end():
    curve = curve_of((0.3, 10.0, 0.1), (0.6, 20.0, 0.4), (1.0, 33.0, 0.45))
    found = read(trial(score=0.5, x=0.5, **{COST: 34.0, CURVE: curve}))
    np.testing.assert_array_equal(found.points, [[0.25, 1.0]] * 3)
    np.testing.assert_array_equal(found.progress, [0.3, 0.6, 1.0])
    np.testing.assert_array_equal(found.costs, [10.0, 20.0, 34.0])
    np.testing.assert_array_equal(found.scores, [0.1, 0.4, 0.5])
    assert found.is_final.tolist() == [False, False, True]


def test_of_a_stopped_trial_only_its_curve_is_known():
    curve = curve_of((0.3, 10.0, 0.1), (0.4, 13.0, math.nan))
    found = read(trial(TrialState.PRUNED, **{COST: 13.0, CURVE: curve}), trial(TrialState.PRUNED, seconds=3))
    np.testing.assert_array_equal(found.scores, [0.1])
    np.testing.assert_array_equal(found.open_ends, [[0.5, 1.0]] * 2)
    assert not found.is_final.any()
    assert found.begun == 2


def test_a_trial_that_was_stopped_at_its_very_end_has_come_to_it():
    found = read(trial(TrialState.PRUNED, **{COST: 13.0, CURVE: curve_of((0.5, 6.0, 0.1), (1.0, 13.0, 0.2))}))
    assert found.is_final.tolist() == [False, True]
    assert len(found.open_ends) == 0


def test_a_failed_trial_has_no_score_whatever_it_had_reached():
    curve = curve_of((0.3, 10.0, 0.1))
    found = read(trial(TrialState.FAIL, **{COST: 12.0, CURVE: curve}), trial(TrialState.FAIL, **{COST: 0.0}))
    assert np.isnan(found.scores).tolist() == [True, True]
    assert found.progress.tolist() == [1.0, 1.0]
    assert found.costs[0] == 12.0 and found.costs[1] > 0, "costs have logarithms"
    assert not found.is_final.any()


@pytest.mark.parametrize("score", [math.inf, -math.inf])
def test_a_score_that_is_infinite_is_a_failure(score):
    assert np.isnan(read(trial(score=score)).scores).all()


def test_a_trial_that_was_given_up_for_another_to_run_is_not_held_against_its_values():
    found = read(trial(TrialState.FAIL, **{UNCOUNTED: True, COST: 5.0}))
    assert len(found.scores) == found.begun == 0


def test_trials_that_run_are_pending():
    running = trial(TrialState.RUNNING, x=0.4, **{CURVE: curve_of((0.1, 1.0, 0.5))})
    found = read(trial(score=1.0), running)
    np.testing.assert_array_equal(found.open_ends, [[0.2, 1.0]])
    assert (len(found.scores), found.begun) == (1, 2)


def test_without_attributes_the_cost_is_the_time_that_it_took():
    assert read(trial(score=1.0, seconds=90)).costs.tolist() == [90.0]
    assert read(trial(score=1.0, seconds=90, **{COST: 7.0})).costs.tolist() == [7.0]
    assert read(trial(score=1.0, seconds=0)).costs[0] > 0


def test_where_less_is_better_scores_are_turned_round():
    trials = [
        trial(score=3.0, **{COST: 1.0, CURVE: curve_of((0.5, 0.5, 4.0))}),
        trial(TrialState.PRUNED, **{COST: 1.0, CURVE: curve_of((0.5, 0.5, 2.0))}),
    ]
    assert read(*trials, direction=StudyDirection.MINIMIZE).scores.tolist() == [-4.0, -3.0, -2.0]


def test_trials_with_other_parameters_are_left_out():
    others = [trial(score=1.0, params={"x": 1.0}), trial(score=1.0, params={}), trial(TrialState.WAITING, params={})]
    more = trial(score=2.0, params={"x": 2.0, "kind": "a", "z": 3.0})
    found = read(*others, more)
    np.testing.assert_array_equal(found.points, [[1.0, 0.0]])
    assert found.begun == 1


def test_of_too_many_points_the_ends_stay_and_then_some_of_the_best(monkeypatch):
    monkeypatch.setattr("pufferlib.sweep.proposal._MOST_POINTS", 30)
    steps = np.linspace(0.1, 0.9, 9)
    # The earlier a trial, the better it was; the ends of curves are the worst points.
    trials = [
        trial(score=-5.0, x=index / 10, **{COST: 10.0, CURVE: [[p, 10 * p, 20.0 - index + p] for p in steps]})
        for index in range(20)
    ]
    found = read(*trials)
    assert len(found.scores) == 30
    assert found.is_final.sum() == 20, "every end"
    middles = found.scores[~found.is_final]
    assert middles.min() >= 19.4 - 1e-9, "of the best half of 30"
    assert len(found.points) == len(found.costs) == len(found.progress) == 30
    assert (np.diff(found.points[:, 0]) >= 0).all(), "in the order of the trials"


def test_of_too_many_ends_the_best_half_and_the_newest_stay(monkeypatch):
    monkeypatch.setattr("pufferlib.sweep.proposal._MOST_POINTS", 10)
    scores = [*range(100, 80, -1), *range(20)]  # the old ones are the better ones
    failed = [trial(TrialState.FAIL, **{COST: 1.0})] * 3
    found = read(*failed, *(trial(score=float(score), **{COST: 1.0}) for score in scores))
    assert found.scores.tolist() == [100, 99, 98, 97, 96, 15, 16, 17, 18, 19]
    assert found.begun == 43
