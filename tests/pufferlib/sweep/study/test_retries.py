"""Trials whose driver was killed: Optuna notices by their heartbeats, and they run again."""

from __future__ import annotations

import optuna
import pytest
from optuna.storages import fail_stale_trials
from optuna.trial import TrialState
from scripted_trials import ENV, SPACE, run_sweep, sweep_args, use_scripted_trials
from sqlalchemy import text

from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.proposal import History
from pufferlib.sweep.results import COST, ERROR, HOST, UNCOUNTED, Results, uncounted_numbers
from pufferlib.sweep.study import StudyPlace, open_study, quiet_optuna

pytestmark = [
    pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed"),  # a driver's own calls are silent
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]

NAME = "train.learning_rate"


def begin(args, rate=0.02):
    """A trial of a driver that is killed; the study with it."""
    study = open_study(StudyPlace(ENV, args), "maximize")
    trial = study.ask()
    trial.suggest_float(NAME, 1e-4, 0.1, log=True) if rate else None
    study._storage.record_heartbeat(trial._trial_id)
    trial.set_user_attr(HOST, "another machine")
    return study, trial


def grow_old(study, seconds=100):
    """Sets the heartbeats back."""
    with study._storage._backend.engine.begin() as connection:
        connection.execute(text(f"UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, '-{seconds} seconds')"))


def retry_stale(study):
    with quiet_optuna():
        fail_stale_trials(study)


def test_a_trial_without_heartbeats_runs_again_with_its_values(tmp_path, monkeypatch):
    use_scripted_trials(monkeypatch)
    args = sweep_args(tmp_path, num_trials=2)
    study, trial = begin(args)
    trial.set_user_attr(COST, 5.0)
    grow_old(study)
    state = run_sweep(ENV, args, SPACE)
    assert [each.state for each in state.trials] == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    assert state.trials[1].params == trial.params
    results = Results(state.trials, "maximize")
    uncounted = [(each.number, each.reason) for each in results.ended if each.state == "uncounted"]
    assert uncounted == [(0, "its driver was killed")]
    assert results.num_ended == 2 and not results.in_state("failed")


def test_it_is_no_bad_setting(tmp_path):
    study, _ = begin(sweep_args(tmp_path))
    grow_old(study)
    retry_stale(study)
    history = History(study.trials, study.direction, SPACE)
    assert [each.state for each in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    assert len(history.scores) == 0 and len(history.open_ends) == 1


def test_trials_of_drivers_that_live_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("pufferlib.sweep.study.GRACE_SECONDS", 3600)  # a busy machine may stand still for a minute
    study, _ = begin(sweep_args(tmp_path))
    grow_old(study, 1800)
    retry_stale(study)
    assert [each.state for each in study.trials] == [TrialState.RUNNING]


def test_of_two_drivers_that_see_it_one_retries_it(tmp_path):
    args = sweep_args(tmp_path)
    study, _ = begin(args)
    grow_old(study)
    for _ in range(2):
        retry_stale(open_study(StudyPlace(ENV, args), "maximize"))
    assert [each.state for each in study.trials] == [TrialState.FAIL, TrialState.WAITING]


def test_a_trial_whose_drivers_keep_dying_is_not_retried_for_ever(tmp_path):
    args = sweep_args(tmp_path)
    for _ in range(3):
        study, _ = begin(args)
        grow_old(study)
        retry_stale(study)
    assert [each.state for each in study.trials] == [TrialState.FAIL] * 3
    assert uncounted_numbers(study.trials) == {0, 1}
    assert [each.number for each in Results(study.trials, "maximize").in_state("failed")] == [2]


def test_a_trial_whose_driver_was_killed_before_its_first_heartbeat_is_discarded(tmp_path, monkeypatch):
    use_scripted_trials(monkeypatch)
    args = sweep_args(tmp_path, num_trials=1)
    study = open_study(StudyPlace(ENV, args), "maximize")
    study.ask()
    with study._storage._backend.engine.begin() as connection:
        connection.execute(text("UPDATE trials SET datetime_start = datetime(datetime_start, '-100 seconds')"))
    state = run_sweep(ENV, args, SPACE)
    assert [each.state for each in state.trials] == [TrialState.FAIL, TrialState.COMPLETE]
    assert state.trials[0].user_attrs[UNCOUNTED] and "before it began" in state.trials[0].user_attrs[ERROR]


def test_interruptions_are_no_deaths(tmp_path):
    sweep = Sweep(ENV, sweep_args(tmp_path), SPACE)
    study = sweep.state.study
    for number in range(5):
        trial = study.ask(sweep.space.distributions)
        assert trial.number == number
        sweep._trials[number] = trial
        sweep._requeue(number, "the sweep was interrupted")
    trial = study.ask(sweep.space.distributions)
    study._storage.record_heartbeat(trial._trial_id)
    grow_old(study)
    retry_stale(study)
    assert study.trials[-1].state is TrialState.WAITING
    assert study.trials[-1].params == study.trials[0].params


def test_what_has_ended_is_not_touched(tmp_path):
    sweep = Sweep(ENV, sweep_args(tmp_path), SPACE)
    study = sweep.state.study
    trial = study.ask(sweep.space.distributions)
    seen = study.trials
    study.tell(trial, 1.0)
    assert sweep._discard(seen[0], "late") is False
    assert [each.state for each in study.trials] == [TrialState.COMPLETE]
    assert uncounted_numbers(study.trials) == set()


@pytest.mark.quick("1")
@pytest.mark.parametrize("begun", [0, 1])
def test_optuna_may_continue_the_study(tmp_path, begun):
    args = sweep_args(tmp_path)
    for _ in range(begun):
        begin(args)
    place = StudyPlace(ENV, args)
    open_study(place, "maximize")
    assert len(optuna.load_study(study_name=ENV, storage=f"sqlite:///{place.storage}").trials) == begun
