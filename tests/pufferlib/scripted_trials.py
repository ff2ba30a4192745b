"""Trials that do as a test says, in no time, in place of processes; and a sampler that proposes what a test says."""

from __future__ import annotations

from optuna.samplers import BaseSampler
from sqlalchemy import text

from pufferlib.config import load_config
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.results import TrialRun
from pufferlib.sweep.space import Dimension, SearchSpace

ENV = "puffer_squared"
SPACE = SearchSpace((Dimension("train.learning_rate", "log_normal", 1e-4, 0.1),))


def let_heartbeats_end(study):
    """As if the drivers of what runs had been gone for a day."""
    with study._storage._backend.engine.begin() as connection:
        connection.execute(text("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-1 day')"))


class ScriptedProcess:
    """Advances by a tenth whenever it is looked at, and scores what `script` says.

    Attributes:
        script: called with the task and the tenth, from 1 to 10: the score, what a TrialRun has where it ends there,
            or None where nothing more comes until it is stopped.
        tasks: all that were started, in their order.
    """

    script = None
    tasks: list = []

    def __init__(self, task, config):
        self.task = task
        self.run, self.waitables = TrialRun(), []
        self.tenth, self.stopped = 0, None
        ScriptedProcess.tasks.append(task)

    def look(self):
        if self.run.has_ended:
            return
        if self.stopped is not None:
            self.end(stopped=self.stopped)
            return
        found = self.script(self.task, self.tenth + 1)
        if isinstance(found, dict):
            self.end(**found)
        elif found is not None:
            self.tenth += 1
            run = self.run
            run.progress, run.cost, run.metric = self.tenth / 10, float(self.tenth), "environment/perf"
            run.curve.append([run.progress, run.cost, found])
            if self.tenth == 10:
                self.end()

    def end(self, **ending):
        for name, value in {"run_folder": "f", **ending, "has_ended": True}.items():
            setattr(self.run, name, value)

    def stop(self, reason):
        self.stopped = self.stopped or reason

    def close(self):
        if not self.run.has_ended:
            self.end(error="closed")


def use_scripted_trials(monkeypatch):
    """Has trials be scripted; gives the class, whose `script` a test replaces."""
    monkeypatch.setattr("pufferlib.sweep.driver.TrialProcess", ScriptedProcess)
    monkeypatch.setattr("pufferlib.sweep.driver.TICK_SECONDS", 0.0)
    monkeypatch.setattr("pufferlib.sweep.driver.READ_SECONDS", 0.01)
    monkeypatch.setattr(ScriptedProcess, "script", staticmethod(lambda task, tenth: tenth / 10))
    monkeypatch.setattr(ScriptedProcess, "tasks", [])
    return ScriptedProcess


class Proposed(BaseSampler):
    """Proposes the values of a list, by the number of the trial."""

    def __init__(self, name, values):
        self.name, self.values = name, values

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, param_name, param_distribution):
        assert param_name == self.name
        return self.values[trial.number % len(self.values)]


def sweep_args(folder, **settings):
    """The settings of a sweep."""
    args = load_config(ENV, ["--train.data-dir", str(folder), "--train.device", "cpu"])
    plain = {name: value for name, value in args["sweep"].items() if not isinstance(value, dict)}
    return {**args, "sweep": {**plain, "method": "Random", "confirm_best": 0, "metric": "perf", **settings}}


def run_sweep(env_name, args, space=None, sampler=None, on_change=lambda state: None):
    """The final state of a whole sweep."""
    sweep = Sweep(env_name, args, space)
    if sampler is not None:
        sweep.state.study.sampler = sampler
    sweep.run(on_change)
    return sweep.state
