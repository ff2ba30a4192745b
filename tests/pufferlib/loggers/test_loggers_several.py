import subprocess
import sys
import warnings

import pytest
from command import metrics

from pufferlib import JsonLogger, Loggers, NoLogger, PuffeRL, pufferl


class Recorder(NoLogger):
    """Keeps what it is told."""

    def __init__(self, run_id=None):
        super().__init__(run_id)
        self.told = []

    def describe(self, settings):
        self.told.append(("describe", settings))

    def log(self, metrics, step):
        self.told.append(("log", metrics, step))

    def close(self, model_path=None):
        self.told.append(("close", model_path))


class Broken(NoLogger):
    """Fails at everything."""

    def __init__(self, error):
        super().__init__()
        self.error = error
        self.calls = 0

    def log(self, metrics, step):
        self.calls += 1
        raise self.error

    describe = log

    def close(self, model_path=None):
        raise self.error


class Minimal:
    """A user's own, which knows of no settings."""

    run_id = "minimal"

    def __init__(self):
        self.steps = []

    def log(self, metrics, step):
        self.steps.append(step)

    def close(self, model_path):
        pass


def test_every_logger_is_told_everything():
    first, second = Recorder("first"), Recorder("second")
    both = Loggers([first, Loggers([second]), NoLogger()])
    both.describe({"seed": 1})
    both.log({"sps": 1.0}, 64)
    both.close("model.pt")
    assert first.told == [("describe", {"seed": 1}), ("log", {"sps": 1.0}, 64), ("close", "model.pt")]
    assert second.told == first.told
    assert both.run_id == "first" and len(both.loggers) == 3


def test_one_that_fails_is_warned_about_once_and_the_others_go_on():
    before, broken, after = Recorder(), Broken(OSError("no space\n\x1b[31mleft\x1b[0m")), Recorder()
    loggers = Loggers([before, broken, after])
    with pytest.warns(RuntimeWarning) as caught:
        for step in (64, 128):
            loggers.log({"sps": 1.0}, step)
        loggers.close(None)
    (warning,) = caught
    assert str(warning.message) == "Broken failed and may miss metrics, training goes on (OSError: no space left)"
    assert before.told == after.told and len(after.told) == 3
    assert broken.calls == 2  # it is given another chance: a disk may have space again


def test_where_warnings_are_errors_the_others_are_told_first():
    broken, after = Broken(OSError()), Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            Loggers([broken, after]).log({}, 1)
    assert after.told == [("log", {}, 1)]


def test_an_interrupt_is_no_failure():
    with pytest.raises(KeyboardInterrupt):
        Loggers(Broken(KeyboardInterrupt())).log({}, 1)


def test_settings_come_before_the_first_log_and_once():
    recorder, minimal = Recorder(), Minimal()
    loggers = Loggers([recorder, minimal], {"seed": 1})
    loggers.log({}, 64)
    loggers.log({}, 128)
    assert [told[0] for told in recorder.told] == ["describe", "log", "log"]
    assert minimal.steps == [64, 128]


def test_without_a_logger_there_is_a_run_id():
    assert Loggers().run_id and Loggers(None).loggers == Loggers([]).loggers == ()


def test_making_loggers_imports_none_of_their_packages(tmp_path):
    pytest.importorskip("wandb", reason="needs the loggers' packages; pip install -e '.[test]'")
    code = (
        "import sys; from pufferlib import JsonLogger, NeptuneLogger, TensorBoardLogger, WandbLogger;"
        "made = [JsonLogger('a/b.jsonl'), NeptuneLogger('a/b'), TensorBoardLogger('c'), WandbLogger(folder='d')];"
        "[logger.close(None) for logger in made];"
        "assert not {'torch', 'numpy', 'wandb', 'neptune_scale', 'tensorboard'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_a_trainer_takes_several_loggers_and_tells_them_its_settings(tmp_path):
    args = pufferl.load_config("puffer_squared")
    args["env"]["num_envs"] = 16
    args["train"].update(device="cpu", total_timesteps=16 * 16 * 2, bptt_horizon=16, minibatch_size="auto")
    args["train"].update(log_interval=1, data_dir=str(tmp_path))
    vecenv = pufferl.load_env("puffer_squared", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_squared")
    recorder, broken, lines = Recorder(), Broken(ConnectionError("no route")), JsonLogger(tmp_path / "metrics.jsonl")
    trainer = PuffeRL({**args["train"], "env": "puffer_squared"}, vecenv, policy, [recorder, broken, lines])
    with pytest.warns(RuntimeWarning, match="Broken failed .* training goes on"):
        while trainer.epoch < trainer.total_epochs:
            trainer.evaluate()
            trainer.train()
    path = trainer.close()
    assert trainer.run_folder.name == f"puffer_squared_{recorder.run_id}"
    (_, described), *logs, closed = recorder.told
    assert described["env_name"] == "puffer_squared" and described["train"]["batch_size"] == 256
    assert [step for _, _, step in logs] == [256, 512] == [line["step"] for line in metrics(tmp_path)]
    assert closed == ("close", path)


class Clearing(Recorder):
    """Does what it likes with what it is given."""

    def describe(self, settings):
        settings["train"].clear()
        settings.clear()

    def log(self, metrics, step):
        super().log(dict(metrics), step)
        metrics.clear()


def test_a_logger_may_change_what_it_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = pufferl.load_config("puffer_squared")
    args["env"]["num_envs"] = 8
    args["train"].update(device="cpu", total_timesteps=2048, bptt_horizon=16, minibatch_size="auto", log_interval=1)
    clearing, other = Clearing(), Recorder()
    logs = pufferl.train("puffer_squared", args, logger=[clearing, other])
    told = [call[1] for call in other.told if call[0] == "log"]
    assert (
        len(logs) > 8
        and logs == told[-len(logs) :] == [call[1] for call in clearing.told if call[0] == "log"][-len(logs) :]
    )
    assert other.told[0][0] == "describe" and other.told[0][1]["train"]["seed"] == 42
    assert "2.05K" in capsys.readouterr().out
