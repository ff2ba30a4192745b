"""Trials whose driver is gone: who notices, and what becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys

import optuna
import pytest
from optuna.trial import TrialState

from pufferlib.sweep.attributes import DRIVER, ERROR, HEARTBEAT, RETRY_OF, UNCOUNTED
from pufferlib.sweep.study import custody
from pufferlib.sweep.study.custody import GONE, Custodian, forget, give_back, is_counted, is_wanted, this_driver
from pufferlib.sweep.study.journal import open_journal

NAMES = ["x", "y"]


on_databases_too = pytest.mark.parametrize("open_again", ["journal", "sqlite"], indirect=True)


@pytest.fixture
def open_again(request, tmp_path):
    """Opens the same study, as another driver does."""

    def open_study():
        if getattr(request, "param", "journal") == "journal":
            storage = open_journal(tmp_path / "s.journal")
        else:
            storage = f"sqlite:///{tmp_path}/s.db"
        return optuna.create_study(study_name="s", storage=storage, load_if_exists=True)

    return open_study


def begin(study, driver=None, names=NAMES):
    trial = study.ask()
    if driver is not None:
        trial.set_user_attr(DRIVER, driver)
    for name in names:
        trial.suggest_float(name, 0.0, 1.0)
    return trial


def dead_driver():
    """A driver of this machine whose process has ended."""
    code = "import json; from pufferlib.sweep.study.custody import this_driver; print(json.dumps(this_driver()))"
    return eval(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def test_a_driver_of_this_machine_is_gone_when_its_process_is():
    own, gone = this_driver(), dead_driver()
    custodian = Custodian(None, this_driver(), NAMES)
    assert gone["host"] == own["host"]
    assert not custodian.is_gone(0, own, beat=0.0)  # however old its heartbeat is
    assert custodian.is_gone(1, gone, beat=None)
    assert custodian.is_gone(2, {**own, "started": own["started"] - 1}, None)  # another process has its number


def test_a_driver_elsewhere_is_gone_when_its_heart_does_not_beat_for_long(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(custody.time, "monotonic", lambda: clock[0])
    custodian = Custodian(None, this_driver(), NAMES)
    other = {**this_driver(), "host": "another machine"}
    for seconds, beat, is_gone in (
        (0.0, 5.0, False),  # its clock is another one
        (170.0, 5.0, False),
        (20.0, 9.0, False),
        (170.0, 9.0, False),
        (20.0, 9.0, True),
    ):
        clock[0] += seconds
        assert custodian.is_gone(7, other, beat) is is_gone
    assert not custodian.is_gone(8, {}, None)  # it had no time to say who it is
    clock[0] += 200.0
    assert custodian.is_gone(8, {}, None)


@on_databases_too
def test_of_two_drivers_that_see_it_one_has_it_run_again(open_again):
    trial = begin(open_again(), dead_driver())
    drivers = [open_again() for _ in range(2)]
    seen = [study.get_trials(deepcopy=False) for study in drivers]  # both look before one of them acts
    for study, trials in zip(drivers, seen, strict=True):
        Custodian(study, this_driver(), NAMES).take_over(trials)
    trials = open_again().trials
    assert [each.state for each in trials] == [TrialState.FAIL, TrialState.WAITING]
    assert trials[0].user_attrs[ERROR] == GONE
    assert not is_counted(trials[0])
    assert trials[1].user_attrs == {RETRY_OF: 0}
    again = begin(drivers[1])
    assert again.number == 1
    assert again.params == trial.params


def test_trials_of_drivers_that_live_are_left_alone(open_again):
    study = open_again()
    own = this_driver()
    begin(study, own)
    begin(study, this_driver())
    begin(study, {**this_driver(), "host": "another machine"}).set_user_attr(HEARTBEAT, 1.0)
    Custodian(study, own, NAMES).take_over(study.trials)
    assert [each.state for each in study.trials] == [TrialState.RUNNING] * 3


def test_a_trial_that_its_drivers_keep_dying_with_is_not_run_for_ever(open_again):
    study, driver = open_again(), dead_driver()
    begin(study, driver)
    for _ in range(5):
        Custodian(study, this_driver(), NAMES).take_over(study.trials)
        if any(trial.state is TrialState.WAITING for trial in study.trials):
            begin(study, driver)
    assert [each.state for each in study.trials] == [TrialState.FAIL] * 3
    assert [is_counted(each) for each in study.trials] == [False, False, True]
    assert study.trials[2].user_attrs[ERROR] == "its drivers died with it 3 times"


def test_interruptions_are_no_deaths(open_again):
    study = open_again()
    trial = begin(study)
    for _ in range(5):
        give_back(study, trial, "the sweep was interrupted", NAMES)
        trial = begin(study)
    assert trial.number == 5
    Custodian(study, this_driver(), NAMES)
    give_back(study, trial, GONE, NAMES)
    assert study.trials[-1].state is TrialState.WAITING


def test_a_trial_that_had_not_begun_is_forgotten(open_again):
    study = open_again()
    begin(study, dead_driver(), names=NAMES[:1])
    Custodian(study, this_driver(), NAMES).take_over(study.trials)
    assert [(each.state, each.user_attrs[UNCOUNTED]) for each in study.trials] == [(TrialState.FAIL, True)]


@on_databases_too
def test_what_has_ended_is_not_touched(open_again):
    study = open_again()
    trial = begin(study)
    seen = study.trials
    study.tell(trial, 1.0)
    assert forget(study, seen[0], "late") is False
    give_back(study, seen[0], GONE, NAMES)
    assert [each.state for each in study.trials] == [TrialState.COMPLETE]
    assert is_counted(study.trials[0])


def test_who_begins_the_last_trial_or_a_retry_first_is_the_one(open_again):
    study = open_again()
    trials = [begin(study) for _ in range(4)]
    give_back(study, trials[0], "the sweep was interrupted", NAMES)
    study.enqueue_trial(trials[0].params, user_attrs={RETRY_OF: 0})  # as a second driver may, in the same moment
    retries = [begin(study) for _ in range(2)]
    assert [is_wanted(each, study.trials, 4) for each in [*trials[1:], *retries]] == [True, True, True, True, False]
    assert [is_wanted(each, study.trials, 3) for each in [*trials[1:], *retries]] == [True, True, True, False, False]


def test_the_process_of_this_driver_is_this_one():
    assert this_driver()["process"] == os.getpid()
    assert this_driver()["key"] != this_driver()["key"]
