"""What a driver asks of a study and tells it, of trials that are scripted."""

from __future__ import annotations

import math
import os
import signal
import threading

import optuna
import pytest
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState
from scripted_trials import ENV, SPACE, Proposed, let_heartbeats_end, run_sweep, sweep_args, use_scripted_trials
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from pufferlib import evaluate, load_agent
from pufferlib.config import load_config
from pufferlib.errors import ConfigError, StorageError
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.proposal import History
from pufferlib.sweep.results import (
    CONFIG,
    COST,
    CURVE,
    EPISODES,
    ERROR,
    HOST,
    METRIC,
    RETRY_OF,
    RUN_FOLDER,
    STOPPED,
    Results,
    uncounted_numbers,
)
from pufferlib.sweep.space import Categorical, Dimension, SearchSpace
from pufferlib.sweep.study import quiet_optuna

RATES = (0.001, 0.01, 0.1)

quiet = pytest.mark.filterwarnings("ignore")  # threads put each other's filters back, processes do not


@pytest.fixture
def scripted(monkeypatch):
    return use_scripted_trials(monkeypatch)


def states(study):
    return [trial.state for trial in study.trials]


def by_rate(task, tenth):
    """Scores the learning rate, times the progress."""
    return task.args["train"]["learning_rate"] * tenth / 10


def test_a_study_learns_all_of_a_trial(tmp_path, scripted):
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=2), SPACE, Proposed("train.learning_rate", RATES))
    trial = state.study.trials[1]
    assert states(state.study) == [TrialState.COMPLETE] * 2
    assert trial.value == 1.0
    assert trial.user_attrs[COST] == 10.0
    assert trial.user_attrs[CURVE][4] == [0.5, 5.0, 0.5]
    assert trial.user_attrs[CONFIG] == {"train": {"learning_rate": pytest.approx(0.01)}}
    assert trial.user_attrs[RUN_FOLDER] == "f"
    assert trial.intermediate_values == {tenth: pytest.approx(tenth / 10) for tenth in range(1, 11)}
    assert state.metric == "environment/perf"
    assert state.study.user_attrs[METRIC] == "perf"
    assert state.folder == tmp_path / "sweeps" / ENV
    task = scripted.tasks[1]
    assert task.args["train"]["learning_rate"] == pytest.approx(0.01)
    assert task.args["train"]["data_dir"] == str(state.folder)
    assert "sweep" not in task.args
    assert [each.is_metric_known for each in scripted.tasks] == [False, True]


def test_lower_is_better_where_the_goal_says_so(tmp_path, scripted):
    scripted.script = staticmethod(by_rate)
    args = sweep_args(tmp_path, num_trials=3, goal="minimize")
    state = run_sweep(ENV, args, SPACE, Proposed("train.learning_rate", RATES))
    assert state.study.best_trial.number == 0
    assert state.study.direction is optuna.study.StudyDirection.MINIMIZE


def test_a_sweep_goes_on_where_it_stopped_and_ends_at_once_when_all_is_done(tmp_path, scripted):
    for number, begun in ((2, 2), (5, 5), (5, 5)):
        state = run_sweep(ENV, sweep_args(tmp_path, num_trials=number), SPACE)
        assert len(state.study.trials) == len(scripted.tasks) == begun


def test_drivers_that_follow_each_other_do_not_propose_the_same(tmp_path, scripted):
    for number in (2, 4):
        run_sweep(ENV, sweep_args(tmp_path, num_trials=number), SPACE)
    rates = [task.args["train"]["learning_rate"] for task in scripted.tasks]
    assert len(set(rates)) == 4


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("storage", ["{}/mine.db", pytest.param("sqlite:///{}/mine.db", marks=pytest.mark.slow)])
def test_drivers_side_by_side_run_exactly_as_many_trials_as_asked_for(tmp_path, scripted, storage):
    args = sweep_args(tmp_path, num_trials=11, workers=2, storage=storage.format(tmp_path))
    threads = [threading.Thread(target=run_sweep, args=(ENV, args, SPACE)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    trials = Sweep(ENV, args, SPACE).state.trials
    uncounted = uncounted_numbers(trials)
    counted = [trial for trial in trials if trial.number not in uncounted]
    assert [trial.state for trial in counted] == [TrialState.COMPLETE] * 11
    assert sorted(task.number for task in scripted.tasks) == [trial.number for trial in counted]
    assert len({task.args["train"]["learning_rate"] for task in scripted.tasks}) == 11


# --------------------------------------------------------------------------------------- trials that come to no end


def test_failures_are_told_with_their_reasons_and_the_sweep_goes_on(tmp_path, scripted):
    scripted.script = staticmethod(lambda task, tenth: {"error": "the ball is lost"} if task.number % 2 == 0 else 1.0)
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=4), SPACE)
    assert states(state.study) == [TrialState.FAIL, TrialState.COMPLETE] * 2
    assert state.trials[0].user_attrs[ERROR] == "the ball is lost"
    assert uncounted_numbers(state.trials) == set()


def test_settings_that_cannot_run_are_a_failed_trial_that_costs_nothing(tmp_path, scripted):
    space = SearchSpace((Categorical("train.gamma", (2.0, 0.5)),))
    sampler = Proposed("train.gamma", [2.0, 0.5])
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=2), space, sampler)
    assert states(state.study) == [TrialState.FAIL, TrialState.COMPLETE]
    refused = state.trials[0].user_attrs
    assert refused[COST] == 0.0
    assert "gamma must be" in refused[ERROR]


def lasting(task, tenth):
    """Scores that end with the first tenth, in an environment of whose agents each plays an episode in 5,000 steps."""
    return {"curve": [[1.0, 1.0, 0.5]], "episodes": 100, "episode_steps": 5_000.5}


def test_no_trial_is_too_short_for_an_episode_once_its_length_is_known(tmp_path, scripted):
    scripted.script = staticmethod(lasting)
    steps, proposed = "train.total_timesteps", [50_000, 3_000, 70_000, 3_001]
    space = SearchSpace((Dimension(steps, "log_normal", 2_000, 100_000, mean=50_000, is_integer=True),))
    flags = {"env": {"num_envs": 16}, "train": {"batch_size": 1024, "bptt_horizon": 64, "minibatch_size": 1024}}
    args = sweep_args(tmp_path, num_trials=4, confirm_best=4, confirm_seeds=1)
    for section, settings in flags.items():
        args[section].update(settings)
    state = run_sweep(ENV, args, space, Proposed(steps, proposed))
    assert [trial.user_attrs[EPISODES] for trial in state.trials] == [100] * 4
    ran = [task.args["train"]["total_timesteps"] for task in scripted.tasks]
    assert ran[:4] == [50_000, 5_001, 70_000, 5_001]
    assert sorted(set(ran[4:])) == [5_001, 50_000, 70_000]  # the confirmations run what the trials ran
    assert state.trials[1].user_attrs[CONFIG]["train"]["total_timesteps"] == 5_001


def test_what_the_search_starts_with_is_long_enough(tmp_path, scripted):
    scripted.script = staticmethod(lambda task, tenth: {**lasting(task, tenth), "episode_steps": 1e9})
    steps = "train.total_timesteps"
    space = SearchSpace((Dimension(steps, "log_normal", 200_000, 9e6, mean=1e6, is_integer=True),))
    run_sweep(ENV, sweep_args(tmp_path, num_trials=2), space, Proposed(steps, [1_000_000, 300_000]))
    assert [task.args["train"]["total_timesteps"] for task in scripted.tasks] == [1_000_000] * 2


def test_a_trial_that_is_too_short_to_be_scored_is_not_a_bad_one(tmp_path, scripted):
    unscored = {"error": "it ended before anything was scored", "end": "unscored"}
    scripted.script = staticmethod(lambda task, tenth: unscored if task.number == 0 else {"error": "it burns"})
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=2), SPACE)
    assert states(state.study) == [TrialState.FAIL] * 2
    history = History(state.trials, state.study.direction, SPACE)
    assert len(history.scores) == 1 and len(history.open_ends) == 1  # the first is not tried again, but no worse for it
    assert history.points[0] == SPACE.point(state.trials[1].params)
    assert history.open_ends[0] == SPACE.point(state.trials[0].params)


def test_five_failures_alike_at_the_start_are_enough(tmp_path, scripted):
    scripted.script = staticmethod(lambda task, tenth: {"error": f"used {task.number}.5 GB of its 4.0"})
    with pytest.raises(ConfigError, match=r"the first 5 trials failed for the same reason: used 4\.5 GB"):
        run_sweep(ENV, sweep_args(tmp_path, num_trials=100), SPACE)
    assert len(scripted.tasks) == 5


@pytest.mark.slow
def test_different_failures_or_one_success_do_not_end_a_sweep(tmp_path, scripted):
    words = ["ball", "paddle", "wall"]
    scripted.script = staticmethod(lambda task, tenth: {"error": f"no {words[task.number % 3]}"})
    run_sweep(ENV, sweep_args(tmp_path / "a", num_trials=8), SPACE)
    scripted.script = staticmethod(lambda task, tenth: 1.0 if task.number == 0 else {"error": "no ball"})
    run_sweep(ENV, sweep_args(tmp_path / "b", num_trials=8), SPACE)


def test_a_metric_that_does_not_exist_ends_the_sweep_and_counts_nothing(tmp_path, scripted):
    missing = {"error": "[sweep] metric must be another", "end": "metric"}
    scripted.script = staticmethod(lambda task, tenth: missing)
    with pytest.raises(ConfigError, match="metric must be another"):
        run_sweep(ENV, sweep_args(tmp_path, num_trials=4, metric="prf", workers=2), SPACE)
    scripted.script = staticmethod(lambda task, tenth: 1.0)
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=4, metric="perf"), SPACE)  # put right, it may go on
    assert states(state.study).count(TrialState.COMPLETE) == 4


@pytest.mark.slow
def test_a_run_that_promises_nothing_is_stopped_and_keeps_what_it_had(tmp_path, scripted):
    hopeless = (1, 2, 3, 8, 10)
    scripted.script = staticmethod(lambda task, tenth: 0.1 if task.number in hopeless else 1.0 + 0.1 * tenth)
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=10), SPACE)
    stopped = state.trials[8]
    assert states(state.study) == [*[TrialState.COMPLETE] * 8, TrialState.PRUNED, TrialState.COMPLETE]
    assert "of 3 trials that were there, none came to more than 0.1" in stopped.user_attrs[STOPPED]
    assert stopped.value == 0.1
    assert 3 <= len(stopped.user_attrs[CURVE]) < 10
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=11, early_stopping=False), SPACE)
    assert states(state.study)[10] is TrialState.COMPLETE


@pytest.mark.slow
def test_the_end_of_the_time_stops_what_runs(tmp_path, scripted):
    scripted.script = staticmethod(lambda task, tenth: 1.0 if task.number == 0 and tenth < 4 else None)
    args = sweep_args(tmp_path, num_trials=4, max_minutes=0.05, workers=2)
    state = run_sweep(ENV, args, SPACE)
    assert states(state.study) == [TrialState.PRUNED, TrialState.FAIL]
    assert state.trials[0].value == 1.0
    assert state.trials[0].user_attrs[STOPPED] == "the 0.05 minutes of the sweep were over"
    assert uncounted_numbers(state.trials) == {1}  # it had not scored anything


def test_sizes_that_a_trial_had_to_fit_are_what_it_ran_with(tmp_path, scripted):
    scripted.script = staticmethod(lambda task, tenth: {"fitted": {"minibatch_size": 64}} if tenth == 2 else 1.0)
    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=1), SPACE, Proposed("train.learning_rate", RATES))
    assert state.trials[0].user_attrs[CONFIG] == {
        "train": {"learning_rate": pytest.approx(0.001), "minibatch_size": 64}
    }


# --------------------------------------------------------------------------------------- interruptions


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_interrupted_is_run_again_by_the_sweep_that_goes_on(tmp_path, scripted, number):
    def script(task, tenth):
        if task.number == 1 and tenth == 3:
            os.kill(os.getpid(), number)
        return None if task.number == 1 and tenth == 4 else 1.0

    scripted.script = staticmethod(script)
    args = sweep_args(tmp_path, num_trials=3)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(ENV, args, SPACE, Proposed("train.learning_rate", RATES))
    scripted.script = staticmethod(lambda task, tenth: 1.0)
    state = run_sweep(ENV, args, SPACE, Proposed("train.learning_rate", RATES[::-1]))
    assert states(state.study) == [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    again = state.trials[2]
    assert again.user_attrs[RETRY_OF] == 1
    assert again.params == state.trials[1].params
    rates = [task.args["train"]["learning_rate"] for task in scripted.tasks]
    assert rates == pytest.approx([RATES[0], RATES[1], RATES[1], RATES[2]])


def test_an_error_of_the_driver_gives_back_what_runs(tmp_path, scripted):
    def fail(state):
        if state.running and state.running[0].progress > 0.3:
            raise OSError("the disk is full")

    args = sweep_args(tmp_path, num_trials=1)
    with pytest.raises(OSError, match="the disk is full"):
        run_sweep(ENV, args, SPACE, on_change=fail)
    state = run_sweep(ENV, args, SPACE)
    assert states(state.study) == [TrialState.FAIL, TrialState.COMPLETE]
    assert uncounted_numbers(state.trials) == {0}


def test_a_database_that_fails_in_the_middle_is_named_in_one_sentence(tmp_path, scripted):
    def drop(state):
        if state.running and state.running[0].progress > 0.3:
            with state.study._storage._backend.engine.begin() as connection:
                connection.execute(text("DROP TABLE trials"))

    args = sweep_args(tmp_path, num_trials=1, storage=f"sqlite:///{tmp_path}/mine.db")
    message = (
        "the database of the sweep, .*/mine.db, failed: no such table: trials; restore .* the same sweep continues"
    )
    with pytest.raises(StorageError, match=message) as raised:
        run_sweep(ENV, args, SPACE, on_change=drop)
    assert "\n" not in str(raised.value)


def test_what_a_failing_database_left_runs_again(tmp_path, scripted, monkeypatch):
    def fail(*_):
        raise OperationalError("UPDATE ...", {}, Exception("the server closed the connection\nunexpectedly"))

    def break_off(state):
        if state.running and state.running[0].progress > 0.3:
            monkeypatch.setattr(type(state.study._storage._backend), "set_trial_intermediate_value", fail)

    args = sweep_args(tmp_path, num_trials=1)
    with monkeypatch.context() as patches, pytest.raises(StorageError, match="the connection unexpectedly; restore"):
        monkeypatch = patches
        run_sweep(ENV, args, SPACE, on_change=break_off)
    let_heartbeats_end(Sweep(ENV, args, SPACE).state.study)
    state = run_sweep(ENV, args, SPACE)
    assert states(state.study) == [TrialState.FAIL, TrialState.COMPLETE]
    assert state.trials[0].params == state.trials[1].params


@pytest.mark.slow
def test_a_trial_that_another_driver_took_is_stopped_and_not_told(tmp_path, scripted):
    def take(state):
        if len(state.trials) == 1 and state.running and state.running[0].progress > 0.3:
            state.study.tell(0, state=TrialState.FAIL)
            with quiet_optuna():
                RetryHeartbeatStaleTrialCallback()(state.study, state.study.trials[0])

    state = run_sweep(ENV, sweep_args(tmp_path, num_trials=1), SPACE, on_change=take)
    assert states(state.study) == [TrialState.FAIL, TrialState.COMPLETE]
    assert uncounted_numbers(state.trials) == {0}


@pytest.mark.slow
def test_a_driver_that_waits_for_another_takes_over_what_that_leaves(tmp_path, scripted, monkeypatch):
    monkeypatch.setattr("pufferlib.sweep.study.HEARTBEAT_SECONDS", 0.05)
    args, left = sweep_args(tmp_path, num_trials=2), []
    study = Sweep(ENV, args, SPACE).state.study
    with quiet_optuna():
        other = study.ask()
    other.suggest_float("train.learning_rate", 1e-4, 0.1, log=True)
    other.set_user_attr(HOST, "another machine")
    study._storage.record_heartbeat(other._trial_id)

    def leave(state):
        if not left and len(scripted.tasks) == 1 and not state.running:
            left.append(let_heartbeats_end(state.study))

    state = run_sweep(ENV, args, SPACE, on_change=leave)
    assert left
    assert states(state.study) == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    assert state.trials[2].params == state.trials[0].params


# --------------------------------------------------------------------------------------- the study of another sweep


def test_a_study_is_of_one_sweep(tmp_path, scripted):
    run_sweep(ENV, sweep_args(tmp_path, num_trials=1), SPACE)
    wider = SearchSpace((Dimension("train.learning_rate", "log_normal", 1e-4, 0.2),))
    more = SearchSpace((*SPACE.dimensions, Dimension("train.ent_coef", "uniform", 0.0, 0.1)))
    for args, space, message in (
        ({"goal": "minimize"}, SPACE, "has goal maximize, this sweep minimize; --study NAME begins another study"),
        ({"metric": "score"}, SPACE, "has metric perf, this sweep score"),
        ({}, wider, r"\[sweep.train.learning_rate\] \['log_normal', 0.0001, 0.1, False\], this sweep"),
        ({}, more, r"has \[sweep.train.ent_coef\] not varied, this sweep \['uniform', 0.0, 0.1, False\]"),
    ):
        with pytest.raises(ConfigError, match=message):
            Sweep(ENV, sweep_args(tmp_path, num_trials=2, **args), space)
    with pytest.raises(ConfigError, match=r"has environment puffer_squared, this sweep puffer_cartpole"):
        Sweep("puffer_cartpole", {**sweep_args(tmp_path, study=ENV), "env_name": "puffer_cartpole"}, SPACE)
    elsewhere = Sweep(ENV, sweep_args(tmp_path, study="another", goal="minimize"), more)
    assert elsewhere.place.flags == "--study another"
    narrower_start = SearchSpace((Dimension("train.learning_rate", "log_normal", 1e-4, 0.1, mean=0.01, scale=0.1),))
    assert len(Sweep(ENV, sweep_args(tmp_path), narrower_start).state.trials) == 1


def test_what_a_study_does_not_vary_stays_what_it_was_but_for_where_it_runs(tmp_path, scripted):
    args = sweep_args(tmp_path, num_trials=1)
    args["policy"]["hidden_size"], args["train"]["learning_rate"] = 32, 0.05  # the latter is varied
    run_sweep(ENV, args, SPACE)
    args["train"] |= {"device": "cuda", "log_interval": 3, "learning_rate": 0.02}
    args["vec"]["num_workers"], args["log"]["name"] = 1, "another"
    args["sweep"] |= {"num_trials": 2, "workers": 2}
    assert len(Sweep(ENV, args, SPACE).state.trials) == 1
    for section, name, value, message in (
        ("policy", "hidden_size", 16, "has policy.hidden_size 32, this sweep 16; --study NAME begins another study"),
        ("selfplay", "pool_size", 4, "has selfplay.pool_size the environment's own, this sweep 4"),
        ("env", "backend", "hard", "has env.backend the environment's own, this sweep hard"),
        ("policy", "device", 2, "has policy.device the environment's own, this sweep 2"),
    ):
        with pytest.raises(ConfigError, match=message):
            Sweep(ENV, {**args, section: {**args[section], name: value}}, SPACE)


def test_a_study_of_before_that_does_not_know_its_fixed_settings_goes_on(tmp_path, scripted, monkeypatch):
    args = sweep_args(tmp_path, num_trials=1)
    with monkeypatch.context() as patched:
        patched.setattr("pufferlib.sweep.study.FIXED", "unknown")
        run_sweep(ENV, args, SPACE)
    args["policy"]["hidden_size"] = 32
    assert len(Sweep(ENV, args, SPACE).state.trials) == 1


def test_trials_begin_from_the_weights_that_a_word_meant_when_the_sweep_began(tmp_path):
    model = tmp_path / f"{ENV}_1" / f"model_{ENV}_000001.pt"
    model.parent.mkdir()
    model.touch()
    sweep = Sweep(ENV, {**sweep_args(tmp_path), "load_model_path": "latest"}, SPACE)
    assert sweep.state.args["load_model_path"] == str(model)


def test_a_confirmation_runs_the_best_again_with_its_seeds_and_once(tmp_path, scripted):
    scripted.script = staticmethod(by_rate)
    args = sweep_args(tmp_path, num_trials=3, confirm_best=2, confirm_seeds=2, workers=2)
    for _ in range(2):
        state = run_sweep(ENV, args, SPACE, Proposed("train.learning_rate", RATES))
    found = sorted((run.trial, run.seed, run.score) for run in state.confirmations)
    seeds = [args["train"]["seed"] + 1_000_000 + index for index in range(2)]
    assert found == [(number, seed, pytest.approx(RATES[number])) for number in (1, 2) for seed in seeds]
    assert len(scripted.tasks) == 3 + 4
    assert [task.args["train"]["seed"] for task in scripted.tasks[3:]] == [task.seed for task in scripted.tasks[3:]]


@pytest.mark.slow
@quiet
def test_drivers_share_the_confirmations(tmp_path, scripted):
    args = sweep_args(tmp_path, num_trials=4, confirm_best=2, confirm_seeds=4, workers=2)
    threads = [threading.Thread(target=run_sweep, args=(ENV, args, SPACE)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    confirmed = [(task.number, task.seed) for task in scripted.tasks if task.seed is not None]
    assert len(set(confirmed)) == 8
    assert len(confirmed) < 16  # what two drivers begin in the same moment runs twice


def test_a_confirmation_that_fails_is_known_and_not_repeated(tmp_path, scripted):
    scripted.script = staticmethod(lambda task, tenth: 1.0 if task.seed is None else {"error": "the ball is lost"})
    args = sweep_args(tmp_path, num_trials=1, confirm_best=1, confirm_seeds=1)
    for _ in range(2):
        state = run_sweep(ENV, args, SPACE)
    assert [(run.score, run.error) for run in state.confirmations] == [(None, "the ball is lost")]
    assert len(scripted.tasks) == 2


# ------------------------------------------------------------------------------------------------- trials that do train


@pytest.mark.slow
def test_short_trials_do_not_win_by_the_episodes_that_end_early(tmp_path):
    steps, lengths = "train.total_timesteps", [150_000, 1_000_000, 2_500_000]
    args = load_config("puffer_maze", ["--train.data-dir", str(tmp_path), "--train.device", "cpu"])
    args["sweep"].update(num_trials=3, metric="score", confirm_best=0, early_stopping=False)
    state = run_sweep("puffer_maze", args, SearchSpace((Categorical(steps, tuple(lengths)),)), Proposed(steps, lengths))
    trials = sorted(Results(state.trials, "maximize").complete, key=lambda trial: trial.number)
    scores = [trial.score for trial in trials]
    assert scores == sorted(scores) and scores[0] < 0.2 and scores[-1] > 0.8
    for trial in trials:
        assert trial.episodes == 1000
        evaluated = evaluate(load_agent(trial.run_folder), episodes=1000, sample=True, seed=99)["score"]
        assert trial.score == pytest.approx(evaluated.mean, abs=4 * math.sqrt(2) * evaluated.standard_error)
