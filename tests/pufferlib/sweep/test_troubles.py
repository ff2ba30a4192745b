"""Trials in processes that go wrong in every way: each is named, and the sweep goes on."""

from __future__ import annotations

import pytest
from optuna.trial import TrialState
from scripted_trials import Proposed, run_sweep
from trouble import NAME, trial_processes, trouble_args

from pufferlib.errors import ConfigError
from pufferlib.sweep.results import ERROR, RUN_FOLDER
from pufferlib.sweep.space import Categorical, SearchSpace

TROUBLES = ("raise", "hang", "eat", "die", "nan", "none")
SPACE = SearchSpace((Categorical("env.trouble", TROUBLES),))


@pytest.mark.slow
def test_every_trouble_is_named_and_the_sweep_goes_on(tmp_path):
    limits = ("--sweep.silent-minutes", 0.25, "--sweep.trial-memory-gb", 1.2, "--sweep.workers", 2)
    args = trouble_args(tmp_path, "--sweep.num-trials", len(TROUBLES), *limits, level=False)
    state = run_sweep(NAME, args, SPACE, Proposed("env.trouble", TROUBLES))
    errors = {trial.params["env.trouble"]: trial.user_attrs.get(ERROR, "") for trial in state.trials}
    assert errors["raise"] == "RuntimeError: the ball went through the wall"
    assert errors["hang"] == "it sent nothing for 0.25 minutes ([sweep] silent_minutes): it hangs"
    assert errors["eat"].startswith("it used 1.")
    assert errors["eat"].endswith("GB of its 1.2 GB ([sweep] trial_memory_gb)")
    assert errors["die"].startswith("its process was killed by SIGKILL, as where memory runs out; see ")
    assert "is nan" in errors["nan"]
    assert errors["none"] == ""
    assert [trial.state for trial in state.trials] == [*[TrialState.FAIL] * 5, TrialState.COMPLETE]
    assert state.study.best_value == 5.0
    logs = {name: (state.folder / f"trial_{number:04}.log").read_text() for number, name in enumerate(TROUBLES)}
    assert 'raise RuntimeError("the ball went through the wall")' in logs["raise"]
    assert "in make_trouble" in logs["hang"]  # where it hung
    assert state.trials[5].user_attrs[RUN_FOLDER].startswith(str(state.folder))
    assert trial_processes() == []


@pytest.mark.slow
def test_a_metric_that_is_not_there_ends_the_sweep_in_its_first_trial(tmp_path):
    args = trouble_args(tmp_path, "--sweep.metric", "gols")
    try:
        run_sweep(NAME, args)
    except ConfigError as error:
        assert "must be one that trouble_envs:Trouble-v0 logs, got 'gols'; did you mean 'goals'?" in str(error)
    else:
        raise AssertionError("it went on")
