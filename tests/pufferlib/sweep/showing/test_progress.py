import math
import time

import pytest
from sweep_studies import failed, make_state, make_study, running, scored, stopped

from pufferlib.dashboard.panel import cost_text, short_names, value_text
from pufferlib.sweep.command import ProgressLines, remaining_seconds
from pufferlib.sweep.results import RETRY_OF, Confirmation, Results, TrialRun

CURVE_ROWS = [[0.1, 1.0, 0.0], [0.2, 2.0, 0.4], [0.3, 3.0, 0.8]]


def busy(progress=0.3, elapsed=3.0):
    return TrialRun(progress=progress, cost=elapsed, curve=CURVE_ROWS)


def full_state(**changed):
    study = make_study(
        scored(0.5, 10, rate=0.0123),
        scored(0.9, 40, gamma=0.9876),
        stopped("its score is low", 4),
        failed("used 5.1 GB of its 4.0"),
        running(),
    )
    return make_state(study, running=[busy()], **changed)


# --- the time that is left


def test_the_time_left_is_that_of_trials_like_the_last_ones_side_by_side():
    study = make_study(scored(0.5, 10), scored(0.6, 30))
    state = make_state(study, num_trials=10)
    assert remaining_seconds(state, state.results()) == pytest.approx(8 * 20 / 2, rel=0.01)
    state.running = [busy(progress=0.5, elapsed=10), busy(progress=0.5, elapsed=10)]
    assert remaining_seconds(state, state.results()) == pytest.approx((8 - 2 * 0.5) * 20 / 2, rel=0.01)
    state.deadline = time.monotonic() + 5
    assert remaining_seconds(state, state.results()) == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("num_trials", [0, 1, 20])
@pytest.mark.parametrize("deadline", [math.inf, -5.0])
def test_the_time_left_is_never_negative(progress, num_trials, deadline):
    study = make_study(scored(0.5, 10), scored(0.6, 30), running())
    state = make_state(study, num_trials=num_trials, running=[busy(progress=progress, elapsed=100)])
    state.deadline = deadline
    assert 0 <= remaining_seconds(state, state.results()) < math.inf


def test_the_time_left_is_not_known_before_a_trial_has_ended():
    for study in (make_study(), make_study(running(), running())):
        assert remaining_seconds(make_state(study), Results(study.trials, "maximize")) == math.inf


# --- lines


@pytest.fixture(autouse=True)
def no_files(monkeypatch):
    monkeypatch.setattr("pufferlib.sweep.command.write_results", lambda state: None)


def test_there_is_a_line_for_every_trial_that_ends(capsys):
    table = ProgressLines()
    study = make_study()
    state = make_state(study)
    table.show(state)
    for trial in (scored(0.5, 10), running(), stopped("its score is low", 4), failed("it crashed"), scored(0.4, 20)):
        study.add_trial(trial)
        state.trials = study.trials
        table.show(state)
        table.show(state)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith(
        "puffer_squared  trial 0  1/20 done  score 0.5  cost 10s  on the front  best 0.5 of trial 0  remaining "
    )
    assert "trial 2  2/20 done  stopped: its score is low  best" in lines[1]
    assert "trial 3  3/20 done  failed: it crashed  best" in lines[2]
    assert "trial 4  4/20 done  score 0.4  cost 20s  best 0.5 of trial 0" in lines[3]
    assert len(lines) == 4 and "\x1b" not in out


def test_a_sweep_that_goes_on_does_not_tell_of_its_trials_again(capsys):
    state = full_state(confirmations=[Confirmation(1, 7, 0.7)])
    table = ProgressLines()
    table.show(state)
    assert capsys.readouterr().out == "puffer_squared  continues after 4 trials\n"
    new = [Confirmation(1, 8, 0.8, 12.0), Confirmation(0, 8, None, error="no")]
    state.confirmations = [*new, *state.confirmations]  # a storage gives them in any order
    table.show(state)
    assert capsys.readouterr().out.splitlines() == [
        "puffer_squared  trial 1 again with seed 8  score 0.8  cost 12s",
        "puffer_squared  trial 0 again with seed 8  failed: no  cost 0.0s",
    ]


def test_a_trial_whose_driver_died_is_not_told_as_a_failure(capsys):
    table = ProgressLines()
    study = make_study()
    table.show(make_state(study))
    study.add_trials([failed("its driver is gone", is_counted=False), running(RETRY_OF, 0)])
    table.show(make_state(study))
    assert "trial 0  0/20 done  not counted: its driver is gone" in capsys.readouterr().out


# --- texts


def test_values_are_short():
    assert [value_text(value) for value in (0.98765432, 4_200_000, 4096, True, "muon", 1e-7)] == [
        *("0.9877", "4.2M", "4096", "True", "muon", "1e-07")
    ]
    assert [cost_text(seconds) for seconds in (0, 7.43, 80, math.nan)] == ["0.0s", "7.4s", "1m 20s", "-"]


def test_names_are_short_where_they_can_be():
    names = ["train.gamma", "env.size", "policy.size"]
    assert short_names(names) == {"train.gamma": "gamma", "env.size": "env.size", "policy.size": "policy.size"}
