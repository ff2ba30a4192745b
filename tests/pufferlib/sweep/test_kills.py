"""Kills of a driver and of a trial, mid-way: nothing is lost and nothing counts twice."""

from __future__ import annotations

import psutil
import pytest
from optuna.trial import TrialState
from scripted_trials import let_heartbeats_end, run_sweep
from trouble import NAME, start_driver, the_study, trial_processes, trouble_args, wait_until

from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.results import ERROR, RUN_FOLDER, uncounted_numbers


def has_scored(folder, count):
    """Whether the study knows a part of the curves of so many trials."""
    if len(list(folder.glob("experiments/sweeps/*/trial_*.log"))) < count:
        return False
    return sum(bool(trial.intermediate_values) for trial in the_study(folder).trials) == count


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_process_and_its_trials_are_run_again(tmp_path):
    flags = ("--sweep.num-trials", 2, "--sweep.workers", 2)
    with start_driver(tmp_path, *flags, pause=0.01) as driver:
        wait_until(lambda: has_scored(tmp_path, 2))
        trials = trial_processes(driver.pid)
        assert len(trials) == 2
        driver.kill()
    _, alive = psutil.wait_procs(trials, timeout=60)
    assert alive == []
    let_heartbeats_end(Sweep(NAME, trouble_args(tmp_path, *flags)).state.study)
    state = run_sweep(NAME, trouble_args(tmp_path, *flags))
    found = state.trials
    assert [trial.state for trial in found] == [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 2
    assert uncounted_numbers(found) == {0, 1}
    assert [trial.params for trial in found[2:]] == [trial.params for trial in found[:2]]
    for trial in found[2:]:
        assert trial.value == pytest.approx(10 * trial.params["env.level"])


@pytest.mark.slow
def test_a_trial_that_is_killed_is_one_failed_trial(tmp_path):
    killed = []

    def kill_first(state):
        if not killed and state.running and state.running[0].progress > 0.2:
            (process,) = trial_processes()
            process.kill()
            killed.append(process)

    state = run_sweep(NAME, trouble_args(tmp_path, "--sweep.num-trials", 2), on_change=kill_first)
    first, second = state.trials
    assert first.state is TrialState.FAIL
    assert uncounted_numbers(state.trials) == set()
    assert first.user_attrs[ERROR].startswith("its process was killed by SIGKILL")
    assert first.user_attrs[RUN_FOLDER]
    assert second.state is TrialState.COMPLETE


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--env.trouble", "freeze"),
        ("--env.trouble", "hang"),
        ("--vec.backend", "Multiprocessing", "--vec.num-workers", 2, "--vec.batch-size", 2),
    ],
)
def test_whatever_a_trial_does_it_dies_with_its_driver_and_takes_its_workers_along(tmp_path, flags):
    with start_driver(tmp_path, "--sweep.num-trials", 1, *flags, pause=0.01) as driver:
        log = wait_until(lambda: next(tmp_path.rglob("trial_0000.log"), None))
        wait_until(lambda: "epoch 4" in log.read_text())
        family = psutil.Process(driver.pid).children(recursive=True)
        assert len(family) == (3 if "Multiprocessing" in flags else 1)
        driver.kill()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


@pytest.mark.slow
def test_a_trial_that_is_stopped_takes_its_workers_along(tmp_path):
    others = set(psutil.Process().children(recursive=True))  # what other tests of this process left running
    family = set()

    def remember(state):
        if state.running and state.running[0].progress >= 0.1:  # the tenth that was scored
            family.update(set(psutil.Process().children(recursive=True)) - others)

    workers = ("--vec.backend", "Multiprocessing", "--vec.num-workers", 2, "--vec.batch-size", 2)
    args = trouble_args(
        tmp_path, "--sweep.num-trials", 1, "--sweep.max-minutes", 0.3, *workers, "--env.trouble", "hang"
    )
    state = run_sweep(NAME, args, on_change=remember)
    assert "stopped" in state.trials[0].user_attrs
    assert len(family) >= 3  # the trial and its workers
    assert psutil.wait_procs(family, timeout=60)[1] == []
