"""Scripts of users who call `learn`, as they write them; only the sizes are small."""

import json
import math
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import ranks
from trained import weights

from pufferlib import APIUsageError, NoLogger, PuffeRL, Score
from pufferlib.callbacks import (
    Callback,
    EvaluateEvery,
    KeepBest,
    StopAfterSeconds,
    StopAtScore,
    StopWithoutImprovement,
)
from pufferlib.errors import CallbackError, PufferWarning, StorageError
from pufferlib.ocean import env_class
from pufferlib.runs import checkpoint

Squared = env_class("puffer_squared")

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def make_trainer(**settings):
    """Of 64 agent steps in each iteration, and a rate that is easy to follow."""
    sizes = {"num_envs": 4, "batch_size": 64, "device": "cpu", "learning_rate": 3e-4, "n_epochs": 4}
    return PuffeRL(env="puffer_squared", **{**sizes, **settings})


class Noted(NoLogger):
    def __init__(self):
        super().__init__()
        self.logs = []

    def log(self, metrics, step):
        self.logs.append(metrics)


class Told:
    """Notes what it is told."""

    def __init__(self):
        self.logs = []

    def on_iteration(self, trainer, logs):
        self.logs.append(dict(logs))


class Tells:
    """Tells those after it what a metric is, and how many episodes it is of, in one iteration after the other."""

    def __init__(self, name, values, counts=None):
        self.name, self.values = name, iter(values)
        self.counts = iter(counts or [])

    def on_iteration(self, trainer, logs):
        for known in [known for known in logs if known.startswith(("environment/", "episode/", "eval/"))]:
            del logs[known]
        value = next(self.values)
        if value is not None:
            logs[self.name] = value
            logs["environment/n"] = next(self.counts, 1)


# --- how long


def test_learning_and_going_on():
    trainer = make_trainer().learn(256)
    assert isinstance(trainer, PuffeRL)
    assert (trainer.epoch, trainer.global_step) == (4, 256)
    trainer.learn(total_timesteps=100)  # in addition, and rounded up to whole iterations
    assert (trainer.epoch, trainer.global_step, trainer.total_epochs) == (6, 384, 6)
    path = trainer.close()
    assert path.endswith("model_puffer_squared_000006.pt") and os.path.exists(path)


def test_without_a_number_it_goes_on_to_the_end_of_the_settings():
    trainer = make_trainer(total_timesteps=192)
    trainer.evaluate()
    trainer.train()
    assert trainer.learn().epoch == 3
    assert trainer.learn().epoch == 3  # nothing is left
    trainer.release()


FALLING = [0.75, 0.5, 0.25, 0.0]


def shares_of_rate(trainer, steps, until=None):
    """The learning rate after each iteration, relative to the one that was set."""
    shares = []

    def note(trainer, logs):
        shares.append(trainer.learning_rate / 3e-4)
        return trainer.epoch == until

    trainer.learn(steps, callbacks=note)
    return pytest.approx(shares)


@pytest.mark.quick("settings0", "settings3")
@pytest.mark.parametrize("settings", [{}, {"total_timesteps": 64}, {"num_iterations": 2}, {"anneal_lr": True}])
def test_each_call_anneals_the_learning_rate_over_its_steps(settings):
    trainer = make_trainer(lr_schedule="linear", **settings)
    assert [shares_of_rate(trainer, 256), shares_of_rate(trainer, 128)] == [FALLING, [0.5, 0.0]]
    trainer.release()


def test_the_learning_rate_stays_where_that_was_asked_for_and_without_an_end():
    constant, looped = make_trainer(anneal_lr=False), make_trainer()
    assert shares_of_rate(constant, 128) == [1.0, 1.0]
    looped.evaluate()
    looped.train()
    assert looped.learning_rate == 3e-4 and not looped.config.anneal_lr
    constant.release()
    looped.release()


def test_a_learning_rate_that_was_assigned_stays_unless_annealing_was_asked_for():
    trainer, annealed = make_trainer(), make_trainer(anneal_lr=True, lr_schedule="linear")
    for each in (trainer, annealed):
        each.learning_rate = 3e-3
    assert shares_of_rate(trainer, 128) == [10.0, 10.0]
    assert shares_of_rate(annealed, 128) == [5.0, 0.0]
    trainer.release()
    annealed.release()


@pytest.mark.quick("loaded-128", "the same trainer-None")
@pytest.mark.parametrize("rest", [128, None])
@pytest.mark.parametrize("is_same", [False, True], ids=["loaded", "the same trainer"])
def test_the_rest_of_what_was_stopped_goes_on_with_its_schedule(is_same, rest):
    trainer = make_trainer(lr_schedule="linear").learn(64)
    assert shares_of_rate(trainer, 256, until=3) == FALLING[:2]
    if not is_same:
        folder = trainer.run_folder
        trainer.close()
        trainer = make_trainer(lr_schedule="linear")
        trainer.load_checkpoint(folder)
    assert shares_of_rate(trainer, rest) == FALLING[2:]
    trainer.release()


@pytest.mark.parametrize(("steps", "stop", "expected"), [(256, 2, 1.5e-4), (128, None, 3e-4), (None, None, 3e-4)])
def test_a_loop_goes_on_with_the_rate_of_the_run_that_was_loaded(steps, stop, expected):
    """A schedule that came to its end does not keep the rate at 0."""
    trainer = make_trainer(lr_schedule="linear")
    if steps is not None:
        trainer.learn(steps, callbacks=lambda trainer, logs: trainer.epoch == stop)
    trainer.close()
    loaded = make_trainer(lr_schedule="linear")
    loaded.load_checkpoint(trainer.run_folder)
    assert loaded.learning_rate == pytest.approx(expected)
    loaded.release()


def test_learning_to_the_end_that_is_set_anyway_begins_to_anneal_there():
    trainer = make_trainer(lr_schedule="linear")
    trainer.total_epochs = 3
    trainer.evaluate()
    trainer.train()
    assert shares_of_rate(trainer, 128) == [0.5, 0.0]
    trainer.release()


def test_learning_is_the_loop_that_users_write():
    learned, looped = make_trainer(seed=3), make_trainer(seed=3, total_timesteps=192)
    learned.learn(192)
    for _ in range(3):
        looped.evaluate()
        looped.train()
    assert (weights(learned.policy) == weights(looped.policy)).all()
    learned.release()
    looped.release()


def test_the_folder_tells_the_new_length_and_a_run_that_was_stopped_is_gone_on_with():
    trainer = make_trainer(seed=1)
    trainer.learn(64)
    trainer.learn(256, callbacks=[lambda trainer, logs: trainer.epoch == 2])
    folder = trainer.run_folder
    trainer.close()
    settings = json.loads((folder / "config.json").read_text())["settings"]["train"]
    assert (settings["total_timesteps"], settings["num_iterations"], settings["anneal_lr"]) == (320, None, True)

    resumed = make_trainer(seed=1)
    resumed.load_checkpoint(folder)
    resumed.learn(192)
    assert (resumed.epoch, resumed.global_step, resumed.run_folder) == (5, 320, folder)
    whole = make_trainer(seed=1)
    whole.learn(64)
    whole.learn(256)
    assert (weights(resumed.policy) == weights(whole.policy)).all()
    resumed.release()
    whole.release()


@pytest.mark.parametrize("wrong", [0, -5, 2.5, math.inf, math.nan, True, "100", [1]])
def test_a_wrong_number_of_steps_is_refused(wrong):
    trainer = make_trainer()
    with pytest.raises(APIUsageError, match="total_timesteps must be a whole number, 1 or more"):
        trainer.learn(wrong)
    trainer.release()


def test_a_closed_trainer_learns_nothing():
    trainer = make_trainer()
    trainer.close()
    with pytest.raises(APIUsageError, match="the trainer is closed"):
        trainer.learn(64)


# --- what is shown


def test_the_dashboard_can_be_left_out(capsys):
    make_trainer().learn(128).release()
    lines = capsys.readouterr().out.splitlines()
    first_words = [line.split()[0] for line in lines if not line.startswith("chosen for ")]
    assert first_words == ["note:", "puffer_squared", "puffer_squared"]
    make_trainer().learn(128, dashboard=False).release()
    assert capsys.readouterr().out == ""


# --- callbacks of one's own


def test_a_function_and_an_object_are_called_after_every_iteration():
    told, seen = Told(), []

    def my_callback(trainer, logs):
        seen.append((trainer.epoch, logs["losses/entropy"]))

    trainer = make_trainer().learn(192, callbacks=[my_callback, told])
    assert [epoch for epoch, _ in seen] == [1, 2, 3]
    assert [log["losses/entropy"] for log in told.logs] == [entropy for _, entropy in seen]
    assert [log["agent_steps"] for log in told.logs] == [64, 128, 192]
    assert {"epoch", "sps", "uptime", "learning_rate", "iteration_seconds"} <= told.logs[0].keys()
    trainer.release()


def test_episodes_are_those_of_the_iteration_not_of_the_log():
    told, expected = Told(), []
    trainer = make_trainer(log_interval=3)
    evaluate = trainer.evaluate
    trainer.evaluate = lambda: expected.append(evaluate()) or expected[-1]
    trainer.learn(64 * 9, callbacks=told)
    assert 0 < sum("n" in each for each in expected) < 9
    assert [log.get("environment/n") for log in told.logs] == [each.get("n") for each in expected]
    assert [log.get("episode/return_mean") for log in told.logs] == [
        each.get("episode/return_mean") for each in expected
    ]
    assert ["hardware/memory" in log for log in told.logs] == [False, False, True] * 3
    trainer.release()


@pytest.mark.parametrize("yes", [True, np.True_])
def test_true_stops_after_all_were_asked(yes):
    told = Told()
    trainer = make_trainer().learn(6400, callbacks=[lambda trainer, logs: yes if trainer.epoch == 2 else False, told])
    assert trainer.epoch == len(told.logs) == 2
    assert trainer.run.model_path.name.endswith("_000002.pt")
    assert trainer.learn(64).epoch == 3
    trainer.release()


def test_a_callback_changes_the_trainer():
    class Halve(Callback):
        def on_start(self, trainer):
            trainer.learning_rate = 1.0

        def on_iteration(self, trainer, logs):
            trainer.learning_rate /= 2

    trainer = make_trainer().learn(192, callbacks=[Halve()])
    assert trainer.learning_rate == 1 / 8
    trainer.release()


def test_rolling_back_in_a_callback_does_not_end_the_training_early():
    def roll_back(trainer, logs):
        rates.append(trainer.learning_rate)
        if trainer.epoch == 4 and len(rates) == 2:
            trainer.load_checkpoint("early.pt")

    rates = []
    trainer = make_trainer().learn(128)
    trainer.save_checkpoint("early.pt")
    trainer.learn(256, callbacks=roll_back)
    assert (trainer.epoch, len(rates)) == (6, 6)
    trainer.release()


def test_an_error_of_a_callback_says_so_where_nothing_could_be_saved(monkeypatch):
    def break_down(trainer, logs):
        raise ValueError("no")

    def refuse(*arguments):
        raise StorageError("the disk is full")

    trainer = make_trainer()
    monkeypatch.setattr(checkpoint, "save_checkpoint_folder", refuse)
    with pytest.warns(PufferWarning, match="no checkpoint was saved: the disk is full"), pytest.raises(CallbackError):
        trainer.learn(64, callbacks=break_down)
    assert not trainer.vecenv.is_open


def test_an_error_names_the_callback_and_leaves_a_run_to_go_on_with():
    def look_up(trainer, logs):
        if trainer.epoch == 2:
            logs["environment/scor"]

    trainer = make_trainer()
    with pytest.raises(CallbackError, match="the callback look_up failed after 2 epochs with KeyError") as caught:
        trainer.learn(640, callbacks=[look_up])
    assert isinstance(caught.value.__cause__, KeyError)
    assert f"load_checkpoint({str(trainer.run_folder)!r})" in str(caught.value)
    with pytest.raises(APIUsageError, match="is closed"):
        trainer.evaluate()
    other = make_trainer()
    other.load_checkpoint(trainer.run_folder)
    assert other.epoch == 2
    other.release()


@pytest.mark.parametrize("answer", [0, 1.0, "experiments/model.pt"])
def test_an_answer_that_is_neither_yes_nor_no_is_an_error(answer):
    with pytest.raises(CallbackError, match=r"<lambda> failed .* it must return True to stop, False or None"):
        make_trainer().learn(64, callbacks=[lambda trainer, logs: answer])


@pytest.mark.parametrize("wrong", [3, [3], [Told], Told, "KeepBest", ["KeepBest"]])
def test_what_is_no_callback_is_refused(wrong):
    trainer = make_trainer()
    with pytest.raises(APIUsageError, match=r"callbacks must be objects with on_iteration\(trainer, logs\)"):
        trainer.learn(64, callbacks=wrong)
    assert trainer.learn(64, callbacks=None).epoch == 1
    trainer.release()


# --- Ctrl-C


def test_ctrl_c_lets_the_iteration_end_and_saves():
    def interrupt(trainer, logs):
        if trainer.epoch == 2:
            os.kill(os.getpid(), signal.SIGINT)

    trainer, handler = make_trainer(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trainer.learn(640, callbacks=[interrupt])
    assert trainer.epoch == 2 and trainer.run.model_path.exists()
    assert signal.getsignal(signal.SIGINT) is handler
    assert trainer.learn(64).epoch == 3
    trainer.close()


# --- those that are there


def stopped_epoch(callbacks, **settings):
    trainer = make_trainer(logger=NoLogger(), **settings)
    trainer.learn(12 * trainer.config.batch_size, callbacks=callbacks)
    trainer.release()
    return trainer.epoch


@pytest.fixture
def plays(monkeypatch):
    """Has trainers score what a test says, by their epoch, in place of playing; notes their epochs."""
    found = SimpleNamespace(means={}, epochs=[])

    def score(trainer, episodes):
        found.epochs.append(trainer.epoch)
        return {"environment/score": Score(found.means.get(trainer.epoch, 0.0), 0.1, episodes)}

    monkeypatch.setattr(PuffeRL, "score", score)
    return found


def test_stopping_at_a_score(plays):
    values = [9.0, 1.0, None, 2.0, 4.0, 4.0, 4.0]
    # Nine episodes at least, of 1, 4, 4, 4, ... episodes: (9 + 4 + 8) / 9, then (4 + 8 + 16) / 12, then 48 / 12
    tells = Tells("environment/score", values, [1, 4, 4, 4, 4, 4])
    plays.means = {6: 3.2}
    assert stopped_epoch([tells, StopAtScore(3.2, "score", episodes=9)]) == 6
    assert plays.epochs == [6]
    assert stopped_epoch([Tells("eval/score", [1.0, 5.0]), StopAtScore(5, "eval/score")]) == 2
    assert plays.epochs == [6]  # what is of no episodes that ended is taken as it is


def test_those_that_ended_do_not_stop_it_alone_and_it_does_not_play_all_the_time(plays):
    plays.means = {10: 4.0}
    epoch = stopped_epoch([Tells("environment/score", [4.0] * 12), StopAtScore(4.0, "score", episodes=1)])
    assert (epoch, plays.epochs) == (10, list(range(1, 11)))
    plays.epochs.clear()
    trainer = make_trainer(logger=NoLogger())
    trainer.learn(40 * 64, [Tells("environment/score", [4.0] * 40), StopAtScore(4.5, "score", episodes=1)])
    assert trainer.epoch == 40 and plays.epochs == []
    trainer.learn(40 * 64, [Tells("environment/score", [4.0] * 40), StopAtScore(4.0, "score", episodes=1)])
    assert plays.epochs[:4] == [41, 46, 51, 57]  # after a tenth more steps
    trainer.release()


def test_where_nothing_can_be_played_ten_episodes_of_each_agent_decide():
    trainer = PuffeRL(Squared(num_envs=4), batch_size=64, logger=NoLogger(), device="cpu")
    tells = Tells("environment/score", [9.0] * 12, [4] * 12)
    trainer.learn(12 * 64, [tells, StopAtScore(9.0, "score", episodes=1)])
    assert trainer.epoch == 10
    trainer.release()


def test_a_policy_is_played_until_it_is_good_enough():
    told = Told()
    epoch = stopped_epoch([told, StopAtScore(-1e9)], num_envs=16, batch_size=512)
    counts = [log.get("episode/count", 0) for log in told.logs]
    assert epoch > 1 and sum(counts[:-1]) < 100 <= sum(counts)


def test_a_metric_that_never_comes_is_warned_of():
    with pytest.warns(RuntimeWarning, match="no metric 'environment/scor' has come so far; did you mean .*score"):
        assert stopped_epoch([StopAtScore(0.0, "environment/scor")], batch_size=512) == 12


@pytest.mark.parametrize(
    ("callbacks", "epoch", "hint"),
    [
        ([EvaluateEvery(128, episodes=2), KeepBest("eval/retrun_mean")], 2, "; did you mean 'eval/return_mean'"),
        ([KeepBest()], 4, "; put an EvaluateEvery before"),  # that nobody evaluates shows only at the end
        ([StopAtScore(1.0, "eval/return_mean")], 4, "; put an EvaluateEvery before"),
    ],
)
def test_a_metric_of_evaluations_that_nobody_makes_is_warned_of(callbacks, epoch, hint):
    trainer, warned = make_trainer(logger=NoLogger()), []
    with pytest.warns(PufferWarning, match=f"no metric 'eval/.*' has come so far{hint}") as caught:
        trainer.learn(4 * 64, [*callbacks, lambda trainer, logs: warned.append(len(caught))])
    trainer.release()
    assert warned == [0] * (epoch - 1) + [1] * (5 - epoch)


def test_a_metric_of_evaluations_far_apart_is_not_warned_of(recwarn):
    assert stopped_epoch([EvaluateEvery(12 * 64, episodes=2), KeepBest()]) == 12
    assert not recwarn.list


def test_a_threshold_may_be_numpys():
    assert stopped_epoch([Tells("perf", [1.0, 2.0, 3.0]), StopAtScore(np.float32(2), "perf")]) == 2


def test_stopping_without_improvement():
    values = [1.0, 2.0, 2.05, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert stopped_epoch([Tells("perf", values), StopWithoutImprovement(192, "perf")]) == 6
    assert stopped_epoch([Tells("perf", values), StopWithoutImprovement(192, "perf", least_gain=0.1)]) == 5


def test_a_metric_that_has_not_come_yet_is_no_lack_of_improvement():
    told = Tells("eval/return_mean", [None] * 5 + [1.0, 1.0, 1.0, 1.0])
    trainer = make_trainer().learn(64 * 9, callbacks=[told, StopWithoutImprovement(128, "eval/return_mean")])
    assert trainer.epoch == 8
    trainer.release()


def test_nan_is_no_improvement_and_nothing_to_improve_on():
    values = [math.nan, 1.0, 2.0, math.nan, 3.0, 4.0, 5.0, 6.0, math.nan, math.nan, math.nan, 7.0]
    assert stopped_epoch([Tells("perf", values), StopWithoutImprovement(192, "perf")]) == 11


def test_improvement_is_that_of_whole_episodes(plays):
    plays.means = {1: 0.1, 2: 0.2, 3: 0.3}
    values = [1.0, *[0.9] * 11]  # of those that ended the first are the best
    assert stopped_epoch([Tells("environment/score", values), StopWithoutImprovement(192, "score", episodes=1)]) == 6
    assert plays.epochs == [1, 2, 3, 4, 5, 6]


def test_stopping_after_a_time(monkeypatch):
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr("pufferlib.callbacks.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    callback = StopAfterSeconds(30)
    assert [stopped_epoch([callback]), stopped_epoch(callback)] == [3, 3]


def test_evaluating_every_now_and_then():
    told, logger = Told(), Noted()
    trainer = make_trainer(logger=logger)
    trainer.learn(320, callbacks=[EvaluateEvery(128, episodes=3, max_steps=300), told, KeepBest()])
    assert [log["epoch"] for log in told.logs if "eval/return_mean" in log] == [2, 4, 5]
    rows = [log for log in logger.logs if "eval/return_mean" in log]
    assert [(log["agent_steps"], log["epoch"]) for log in rows] == [(128, 2), (256, 4), (320, 5)]
    assert {"uptime", "eval/length_mean", "eval/score", "eval/perf"} <= rows[0].keys()
    best = max(log["eval/return_mean"] for log in rows)
    assert json.loads((trainer.run_folder / "best.json").read_text())["eval/return_mean"] == best
    trainer.release()


@pytest.mark.parametrize("env", ["puffer_squared", Squared])
def test_the_training_does_not_notice_an_evaluation(env):
    alone, evaluated = make_trainer(seed=2), make_trainer(seed=2)
    alone.learn(128)
    evaluated.learn(128, callbacks=[EvaluateEvery(64, env, episodes=2, max_steps=20)])
    assert (weights(alone.policy) == weights(evaluated.policy)).all()
    alone.release()
    evaluated.release()


def test_environments_of_which_no_others_can_be_made_are_not_evaluated_in():
    trainer = PuffeRL(Squared(num_envs=4), batch_size=64)
    with pytest.raises(CallbackError, match=r"EvaluateEvery needs environments of its own.*ready Squared.*pass env="):
        trainer.learn(64, callbacks=[EvaluateEvery(64)])


def test_keeping_the_best():
    saved = []
    trainer = make_trainer()
    tells = Tells("environment/score", [1.0, 3.0, 2.0, None, 3.0])
    remember = lambda trainer, logs: saved.append(weights(trainer.policy))  # noqa: E731
    trainer.learn(320, callbacks=[tells, remember, KeepBest("score")])
    trainer.close()
    note = json.loads((trainer.run_folder / "best.json").read_text())
    assert note == {"env": "puffer_squared", "agent_steps": 128, "epoch": 2, "environment/score": 3.0}
    assert checkpoint.resolve_model("experiments", "puffer_squared", "best") == trainer.run_folder / "best.pt"
    checkpoint.load_policy_weights(trainer.policy, trainer.run_folder / "best.pt")
    assert (weights(trainer.policy) == saved[1]).all() and (saved[1] != saved[-1]).any()


def test_keeping_the_best_of_the_evaluations_that_the_settings_ask_for():
    trainer = make_trainer(evaluations=2, evaluation_envs=2, evaluation_max_steps=20, total_timesteps=256)
    trainer.learn(callbacks=KeepBest())
    assert "eval/return_mean" in json.loads((trainer.run_folder / "best.json").read_text())
    trainer.release()


@pytest.mark.parametrize("metric", ["score", "return_mean"])  # the second is that of the training's episodes
def test_the_best_of_those_evaluations_is_by_no_other_metric(metric):
    trainer = make_trainer(evaluations=2)
    with pytest.raises(CallbackError, match="KeepBest failed .* keep the best by eval/return_mean, got another"):
        trainer.learn(64, callbacks=KeepBest(metric))


def test_the_best_is_by_one_metric_whose_values_may_be_numpys():
    trainer = make_trainer()
    own, evaluated = [{"environment/score": np.float32(score)} for score in (1, 2, 1.5)], {"eval/score": 9.0}
    logged = iter([own[0], own[1], evaluated, own[2] | evaluated])
    tells = [Tells("any", [None] * 4), lambda trainer, logs: logs.update(next(logged))]
    trainer.learn(256, callbacks=[*tells, KeepBest("score")])
    trainer.close()
    note = json.loads((trainer.run_folder / "best.json").read_text())
    assert note == {"env": "puffer_squared", "agent_steps": 128, "epoch": 2, "environment/score": 2.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StopAtScore("475"), "threshold must be a finite number, got '475'"),
        (lambda: StopAtScore(1.0, episodes=0), "episodes must be a whole number, 1 or more, got 0"),
        (lambda: StopAtScore(1.0, metric=5), "metric must be a name in the logs"),
        (lambda: StopWithoutImprovement(0), "steps must be a whole number"),
        (lambda: EvaluateEvery(1e6 + 0.5), "steps must be a whole number, 1 or more, got 1000000.5"),
        (lambda: StopAfterSeconds(math.inf), "seconds must be a finite number"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make, message):
    with pytest.raises(APIUsageError, match=message):
        make()


def test_a_keyword_that_an_evaluation_does_not_take_is_refused_before_the_training():
    with pytest.raises(TypeError, match="smaple"):
        EvaluateEvery(64, smaple=True)


# --- several processes


def evaluate_in_two_processes():
    told = Told()
    trainer = make_trainer(batch_size=128)
    trainer.learn(256, callbacks=[EvaluateEvery(128, episodes=2, max_steps=20), told, KeepBest()], dashboard=False)
    trainer.release()
    return [log["eval/length_mean"] for log in told.logs]


@pytest.mark.slow
def test_the_first_process_evaluates_for_all():
    first, second = ranks.call(evaluate_in_two_processes)
    assert first == second and len(first) == 2


def stop_in_one_process(rank_that_wants):
    def stop(trainer, logs):
        return trainer.ranks.rank == rank_that_wants and trainer.epoch == 2

    trainer = make_trainer(batch_size=128).learn(128 * 4, callbacks=[stop], dashboard=False)
    trainer.release()
    return trainer.epoch


@pytest.mark.slow
def test_the_word_of_the_first_process_counts():
    assert ranks.call(stop_in_one_process, 0) == [2, 2]
    assert ranks.call(stop_in_one_process, 1) == [4, 4]
