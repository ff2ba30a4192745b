"""`puffer sweep` from its beginning to its end, and what Ctrl-C leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import optuna
import pytest
from command import start
from optuna.trial import TrialState
from trouble import start_driver, the_study, trial_processes, wait_until

from pufferlib.sweep.results import HOST, uncounted_numbers

SMALL = [
    *(
        "--train.device",
        "cpu",
        "--sweep.train.total-timesteps.min",
        30_000,
        "--sweep.train.total-timesteps.max",
        60_000,
    ),
    *("--sweep.method", "Random", "--sweep.metric", "episode_return", "--sweep.confirm-best", 0),
]


@pytest.mark.slow
def test_a_sweep_says_where_it_is_and_what_it_found(tmp_path):
    process = start(tmp_path, "sweep", "puffer_squared", "--sweep.num-trials", 2, "--workers", 2, *SMALL)
    process.join(600)
    assert process.exitcode == 0, Path(tmp_path, "stderr").read_text()
    told = Path(tmp_path, "stdout").read_text()
    assert "sweeping 8 settings of puffer_squared to maximize episode_return: 2 trials, 2 side by side" in told
    assert (
        "the study 'puffer_squared' is in experiments/sweeps/puffer_squared.db; `puffer sweep puffer_squared`" in told
    )
    assert told.rstrip().endswith("puffer train puffer_squared --config experiments/sweeps/puffer_squared/best.ini")
    assert Path(tmp_path, "experiments", "sweeps", "puffer_squared", "best.ini").exists()


@pytest.mark.slow
def test_ctrl_c_ends_it_and_its_trial_is_kept_for_later(tmp_path):
    args = ["--sweep.num-trials", 3, *SMALL, "--sweep.train.total-timesteps.max", 10**12]
    args += ["--sweep.train.total-timesteps.min", 10**11, "--storage", "mine.db"]
    process = start(tmp_path, "sweep", "puffer_squared", *args)
    log = Path(tmp_path, "experiments", "sweeps", "puffer_squared", "trial_0000.log")
    wait_until(lambda: log.exists() and "epoch" in log.read_text())
    (trial,) = trial_processes(process.pid)
    os.kill(process.pid, signal.SIGINT)
    process.join(600)
    assert process.exitcode == 130
    assert not trial.is_running()
    told = Path(tmp_path, "stdout").read_text()
    assert "interrupted; `puffer sweep puffer_squared --storage mine.db` with the same settings continues it" in told
    assert Path(tmp_path, "stderr").read_text() == ""
    study = optuna.load_study(study_name="puffer_squared", storage=f"sqlite:///{tmp_path}/mine.db")
    assert [each.state for each in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    assert "saved" in log.read_text()  # it was asked to end, and did


@pytest.mark.slow
def test_two_drivers_run_disjoint_trials(tmp_path):
    drivers = [start_driver(tmp_path, "--sweep.num-trials", 3) for _ in range(2)]
    assert [driver.wait(600) for driver in drivers] == [0, 0]
    trials = the_study(tmp_path).trials
    counted = [trial for trial in trials if trial.number not in uncounted_numbers(trials)]
    assert [trial.state for trial in counted] == [TrialState.COMPLETE] * 3
    assert all(trial.user_attrs[HOST] for trial in counted)
    assert sum(name.startswith("drivers/") for name in the_study(tmp_path).user_attrs) == 2
    assert len({trial.params["env.level"] for trial in counted}) == 3
    logs = sorted(path.name for path in tmp_path.glob("experiments/sweeps/*/trial_*.log"))
    assert logs == [f"trial_{trial.number:04}.log" for trial in counted]
