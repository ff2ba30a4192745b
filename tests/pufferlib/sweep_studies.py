"""Studies with trials that never ran, for tests of what is made of them."""

from datetime import datetime, timedelta
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from pufferlib.sweep.results import COST, CURVE, ERROR, STOPPED, UNCOUNTED, SweepState

DISTRIBUTIONS = {
    "train.learning_rate": FloatDistribution(1e-4, 0.31, log=True),
    "train.gamma": FloatDistribution(0.9, 0.999),
    "train.optimizer": CategoricalDistribution(("adam", "muon")),
}


def scored(score, cost, rate=0.01, gamma=0.98, optimizer="muon", **attributes):
    """A trial that ran to its end."""
    curve = [[step / 10, (cost or 0) * step / 10, score * step / 10] for step in range(1, 11)]
    known = {} if cost is None else {COST: float(cost)}
    return _trial(
        TrialState.COMPLETE, {**known, CURVE: curve, **attributes}, (rate, gamma, optimizer), score, cost or 0
    )


def stopped(reason, cost, curve=((0.3, 3.0, 0.1),)):
    """A trial that was stopped early."""
    return _trial(TrialState.PRUNED, {STOPPED: reason, COST: float(cost), CURVE: [list(row) for row in curve]})


def failed(reason, is_counted=True):
    """A trial that failed."""
    uncounted = {} if is_counted else {UNCOUNTED: True}
    return _trial(TrialState.FAIL, {ERROR: reason, COST: 0.0, **uncounted} if reason else {})


def running(*attribute):
    """A trial that is running, with an attribute's name and value."""
    return _trial(TrialState.RUNNING, dict([attribute]) if attribute else {})


def make_study(*trials, goal="maximize", name="test"):
    """A study with these trials, in memory."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction=goal, study_name=name)
    study.add_trials(trials)
    return study


def make_state(study, folder=Path("unused"), running=(), confirmations=(), to_confirm=0, solve=None, **settings):
    """What a driver knows of a study; the settings are those of the sweep."""
    sweep = {
        **{"goal": study.direction.name.lower(), "num_trials": 20, "workers": 2, "method": "Protein"},
        **{"metric": "perf", "confirm_best": 3, "confirm_seeds": 3},
    }
    args = {"train": {"seed": 42}, "sweep": {**sweep, **settings}, "solve": solve}
    state = SweepState("puffer_squared", args, "environment/perf", study, folder)
    state.trials, state.running = study.trials, list(running)
    state.confirmations, state.to_confirm = confirmations, to_confirm
    return state


def _trial(state, attributes, values=(0.01, 0.98, "muon"), score=None, seconds=3.0):
    trial = optuna.trial.create_trial(
        state=state,
        value=score,
        params=dict(zip(DISTRIBUTIONS, values, strict=True)),
        distributions=DISTRIBUTIONS,
        user_attrs=attributes,
        intermediate_values={round(10 * row[0]): row[2] for row in attributes.get(CURVE, ())},
    )
    trial.datetime_start = datetime.now() - timedelta(seconds=seconds)
    trial.datetime_complete = datetime.now() if state.is_finished() else None
    return trial
