import io
import math
import os
import re
import time

import pytest
import sweep_studies
from rich.console import Console
from sweep_studies import failed, make_state, make_study, running, scored, stopped
from terminal import SHOW_CURSOR, run_on_terminal

from pufferlib.dashboard.panel import cost_text, short_names, value_text
from pufferlib.sweep.panel import LiveTable, remaining_seconds, render, sparkline
from pufferlib.sweep.results import RETRY_OF, Confirmation, TrialRun

VALUES = {"train.learning_rate": 0.02, "train.gamma": 0.97, "train.optimizer": "adam"}
CURVE_ROWS = [[0.1, 1.0, 0.0], [0.2, 2.0, 0.4], [0.3, 3.0, 0.8]]


def panel_text(state, width=80, height=24):
    console = Console(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(render(state, width, height))
    return console.export_text()


def busy(number=9, progress=0.3, elapsed=3.0, **changed):
    return TrialRun(number, VALUES, progress=progress, cost=elapsed, curve=CURVE_ROWS, **changed)


def full_state(**changed):
    study = make_study(
        scored(0.5, 10, rate=0.0123),
        scored(0.9, 40, gamma=0.9876),
        stopped("its score is low", 4),
        failed("used 5.1 GB of its 4.0"),
        running(),
    )
    return make_state(study, running=[busy()], **changed)


# --- the panel


def test_the_panel_shows_all_there_is_to_know():
    text = panel_text(full_state(solve={"metric": "perf", "threshold": 0.4}), width=120, height=40)
    for words in (
        *("PufferLib sweep puffer_squared", "Trials 4 / 20", "Complete 2   Stopped 1   Failed 1   Running 1"),
        *("Workers 2", "Training 54s", "Goal maximize environment/perf   Method Protein"),
        *("Best trial 1 0.9 in 40s", "Solved at 0.4 by trial 0 in 10s", "gamma 0.9876   optimizer muon"),
        *("Front", "learning_rate", "Failed trial 3 used 5.1 GB of its 4.0"),
    ):
        assert words in text
    assert re.search(r"#0 +0\.5 +10s +0\.0123 +0\.98 +muon", text)
    assert re.search(r"#9 +▁▄*[▁▂▃▄▅▆▇█]+─+ +30% +0\.8 +3\.0s +learning_rate 0\.02", text)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (60, 16), (40, 10), (20, 5)])
def test_the_panel_fits_the_terminal_however_much_there_is(width, height):
    trials = [scored(0.01 * cost, cost) for cost in range(1, 90)] + [failed("why " * 99)]
    state = make_state(make_study(*trials), running=[busy(number) for number in range(20)])
    lines = panel_text(state, width, height).splitlines()
    assert len(lines) <= height and all(len(line) <= width for line in lines)
    if height >= 24:
        assert "and 13 more" in "".join(lines) and "#88" in "".join(lines) and "#0 " in "".join(lines)


def test_the_panel_is_drawn_before_there_is_anything_to_show():
    text = panel_text(make_state(make_study()))
    assert "Trials 0 / 20" in text and "Remaining -" in text and "Best -" in text


def test_the_panel_follows_the_confirmations():
    known = [Confirmation(1, 7, 0.7), Confirmation(1, 8, 0.8), Confirmation(0, 7, None, error="it crashed")]
    state = full_state(confirmations=known, to_confirm=3)
    state.running = [busy(1, seed=9)]
    text = panel_text(state, width=120)
    assert "Confirmations 3 / 6" in text and "#1 seed 9" in text
    assert text.index("Confirmed trial 1 0.75 ± 0.05 on 2 fresh seeds") < text.index("Confirmed trial 0 - on 1 fresh")


def test_the_panel_of_what_is_minimized_shows_the_least_as_best():
    state = make_state(make_study(scored(-3.5, 10), scored(2.0, 5), goal="minimize"), goal="minimize")
    assert "Best trial 0 -3.5" in panel_text(state)


# --- the time that is left


def test_the_time_left_is_that_of_trials_like_the_last_ones_side_by_side():
    study = make_study(scored(0.5, 10), scored(0.6, 30))
    state = make_state(study, num_trials=10)
    assert remaining_seconds(state) == pytest.approx(8 * 20 / 2, rel=0.01)
    state.running = [busy(progress=0.5, elapsed=10), busy(progress=0.5, elapsed=10)]
    assert remaining_seconds(state) == pytest.approx((8 - 2 * 0.5) * 20 / 2, rel=0.01)
    state.deadline = time.monotonic() + 5
    assert remaining_seconds(state) == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("num_trials", [0, 1, 20])
@pytest.mark.parametrize("deadline", [None, -5.0])
def test_the_time_left_is_never_negative(progress, num_trials, deadline):
    study = make_study(scored(0.5, 10), scored(0.6, 30), running())
    state = make_state(study, num_trials=num_trials, running=[busy(progress=progress, elapsed=100)])
    state.deadline = deadline
    assert 0 <= remaining_seconds(state) < math.inf


def test_the_time_left_is_not_known_before_a_trial_has_ended():
    assert remaining_seconds(make_state(make_study())) == math.inf
    assert remaining_seconds(make_state(make_study(running(), running()))) == math.inf


# --- plain lines


def test_without_a_terminal_there_is_a_line_for_every_trial_that_ends():
    stream = io.StringIO()
    table = LiveTable(stream)
    study = make_study()
    state = make_state(study)
    table.show(state)
    for trial in (scored(0.5, 10), running(), stopped("its score is low", 4), failed("it crashed"), scored(0.4, 20)):
        study.add_trial(trial)
        state.trials = study.trials
        table.show(state)
        table.show(state)
    table.close()
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith(
        "puffer_squared  trial 0  1/20 done  score 0.5  cost 10s  on the front  best 0.5 of trial 0  remaining "
    )
    assert "trial 2  2/20 done  stopped: its score is low  best" in lines[1]
    assert "trial 3  3/20 done  failed: it crashed  best" in lines[2]
    assert "trial 4  4/20 done  score 0.4  cost 20s  best 0.5 of trial 0" in lines[3]
    assert len(lines) == 4 and "\x1b" not in stream.getvalue()


def test_a_sweep_that_goes_on_does_not_tell_of_its_trials_again():
    stream = io.StringIO()
    state = full_state(confirmations=[Confirmation(1, 7, 0.7)])
    table = LiveTable(stream)
    table.show(state)
    assert stream.getvalue() == "puffer_squared  continues after 4 trials\n"
    new = [Confirmation(1, 8, 0.8, 12.0), Confirmation(0, 8, None, error="no")]
    state.confirmations = [*new, *state.confirmations]  # a storage gives them in any order
    table.show(state)
    assert stream.getvalue().splitlines()[1:] == [
        "puffer_squared  trial 1 again with seed 8  score 0.8  cost 12s",
        "puffer_squared  trial 0 again with seed 8  failed: no  cost 0.0s",
    ]


def test_a_trial_whose_driver_died_is_not_told_as_a_failure():
    stream = io.StringIO()
    table = LiveTable(stream)
    study = make_study()
    table.show(make_state(study))
    study.add_trials([failed("its driver is gone", is_counted=False), running(RETRY_OF, 0)])
    table.show(make_state(study))
    assert "trial 0  0/20 done  not counted: its driver is gone" in stream.getvalue()


# --- the terminal

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from sweep_studies import make_state, make_study, scored
from pufferlib.sweep.panel import LiveTable
table = LiveTable()
for _ in range(2):
    table.show(make_state(make_study(scored(0.5, 10))))
"""


@pytest.mark.parametrize(("end", "code"), [("table.close(); table.close()", 0), ("raise KeyError('a bug')", 1)])
def test_the_terminal_is_given_back(end, code):
    folder = os.path.dirname(sweep_studies.__file__)
    found, written = run_on_terminal(SCRIPT.format(folder=folder) + end + "\nprint('after')")
    assert found == code
    assert written.count("\x1b[?25l") == 1 and SHOW_CURSOR in written.split("\x1b[?25l")[1]
    assert "sweep puffer_squared" in written


# --- texts


def test_a_curve_is_drawn_as_far_as_the_run_is():
    rows = [[0.25, 1, 0.0], [0.5, 2, 5.0], [0.75, 3, math.nan], [1.0, 4, 10.0]]
    assert sparkline(rows, 1.0, 0, 10, 8) == " ▁▁▅▅▅▅█"
    assert sparkline(rows[:2], 0.6, 0, 10, 8) == " ▁▁▅▅"
    assert sparkline([], 0.5, 0, 10, 8) == "    "
    assert sparkline(rows, 0.0, 0, 10, 8) == ""
    assert sparkline([[0.5, 1, 3.0]], 1.0, 3, 3, 2) == "▅▅"


def test_values_are_short():
    assert [value_text(value) for value in (0.98765432, 4_200_000, 4096, True, "muon", 1e-7)] == [
        *("0.9877", "4.2M", "4096", "True", "muon", "1e-07")
    ]
    assert [cost_text(seconds) for seconds in (0, 7.43, 80, math.nan)] == ["0.0s", "7.4s", "1m 20s", "-"]


def test_names_are_short_where_they_can_be():
    names = ["train.gamma", "env.size", "policy.size"]
    assert short_names(names) == {"train.gamma": "gamma", "env.size": "env.size", "policy.size": "policy.size"}
