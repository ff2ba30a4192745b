"""The `[log]` section in a run from beginning to end, and in one that is resumed."""

import itertools
import json
import sys
import time

import pytest
import wandb_files
from command import only_run

from pufferlib import JsonLogger, NoLogger, TensorBoardLogger, pufferl
from pufferlib.config import LogConfig
from pufferlib.config.flags import FlagTable, apply_flags, settings_text
from pufferlib.config.schema import words
from pufferlib.errors import ConfigError, MissingExtraError
from pufferlib.runs.loaders import make_loggers

EXTRAS = "needs the loggers' packages; pip install -e '.[test]'"
STEPS = [256, 512, 768]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    pytest.importorskip("wandb", reason=EXTRAS)
    pytest.importorskip("neptune_scale", reason=EXTRAS)
    with wandb_files.offline(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture
def args(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = pufferl.load_config("puffer_squared")
    args["env"]["num_envs"] = 16
    args["policy"]["hidden_size"] = 16
    args["train"].update(device="cpu", num_iterations=3, bptt_horizon=16, minibatch_size="auto", log_interval=1)
    return args


def tensorboard_steps(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def neptune_files(folder):
    return sorted(path.name for path in (folder / "neptune").iterdir())


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_all_loggers_hold_the_run_and_go_on_with_it(args, tmp_path, capsys):
    args["log"].update(tensorboard=True, wandb=True, neptune=True, offline=True, tags="one, two", project="ours")
    pufferl.train("puffer_squared", args)
    folder = only_run(tmp_path)
    (found,) = wandb_files.runs(folder)
    assert (found.run.project, found.run.run_id, list(found.run.tags)) == ("ours", folder.name, ["one", "two"])
    assert found.config["train"]["batch_size"] == 256 and found.config["log"]["offline"] is True
    assert found.config["versions"].keys() >= {"torch", "python"}
    assert [row["_step"] for row in found.rows] == STEPS == [line["step"] for line in lines(folder)]
    assert found.rows[0].keys() >= lines(folder)[0].keys() - {"step"}
    assert found.artifacts[0].manifest.contents[0].path == "model_puffer_squared_000003.pt"
    assert tensorboard_steps(folder)["losses/entropy"] == STEPS
    assert len(neptune_files(folder)) == 1

    time.sleep(1.1)  # W&B names its folder by the second
    args["resume"], args["train"]["num_iterations"] = "latest", 5
    pufferl.train("puffer_squared", args)
    assert only_run(tmp_path) == folder
    first, second = wandb_files.runs(folder)
    assert second.run.run_id == first.run.run_id
    assert [row["_step"] for row in second.rows] == [1024, 1280]
    assert tensorboard_steps(folder)["losses/entropy"] == [*STEPS, 1024, 1280]
    assert all(folder.name in name for name in neptune_files(folder)) and len(neptune_files(folder)) == 2
    assert "saved experiments" in capsys.readouterr().out


def test_by_default_there_are_only_lines_of_json(args, tmp_path, capsys):
    del args["log"]  # settings that an earlier version saved
    pufferl.train("puffer_squared", args)
    found = {path.name for path in only_run(tmp_path).iterdir()}
    weights = {"model_puffer_squared_000003.pt", "last.pt", "last.json"}
    assert found == {".lock", "config.json", "metrics.jsonl", "trainer_state.pt", *weights}


def test_loggers_of_ones_own_replace_those_of_the_settings(args, tmp_path, capsys):
    args["log"]["tensorboard"] = True
    own = [JsonLogger(tmp_path / "mine.jsonl"), TensorBoardLogger(tmp_path / "mine" / "tensorboard")]
    pufferl.train("puffer_squared", args, logger=own)
    assert len(lines(only_run(tmp_path))) == 3 and not (only_run(tmp_path) / "tensorboard").exists()
    assert len((tmp_path / "mine.jsonl").read_text().splitlines()) == 3
    assert tensorboard_steps(tmp_path / "mine")["sps"] == STEPS


def test_the_time_that_opening_takes_is_no_part_of_the_speed(args, tmp_path, capsys, monkeypatch):
    ticks, late = itertools.count(), []
    monkeypatch.setattr(time, "perf_counter", lambda: 0.001 * next(ticks) + sum(late))  # as fast on a busy machine

    class Slow(NoLogger):
        logs = []

        def describe(self, settings):
            late.append(1000.0)

        def log(self, metrics, step):
            self.logs.append(metrics)

    pufferl.train("puffer_squared", args, logger=Slow())
    first = Slow.logs[0]
    assert 256 / first["sps"] < 500 and first["performance/other"] < 0.9


def test_a_missing_package_is_said_before_anything_is_written(args, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    args["log"]["wandb"] = True
    with pytest.raises(MissingExtraError, match=r"pufferlib\[wandb\]"):
        pufferl.train("puffer_squared", args)
    assert not list(tmp_path.iterdir())


def test_the_settings_become_loggers(tmp_path):
    settings = {"tensorboard": True, "wandb": True, "neptune": True, "entity": "team", "name": "first"}
    loggers = make_loggers(settings, tmp_path / "run", "mine", resume_step=64)
    names = [type(logger).__name__ for logger in loggers]
    assert names == ["JsonLogger", "TensorBoardLogger", "WandbLogger", "NeptuneLogger"]
    assert {logger.run_id for logger in loggers} == {"mine"}
    for logger in loggers:
        logger.close(None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tags", "found"), [(None, []), ("", []), ("one", ["one"]), ("one, two,", ["one", "two"]), (["a b"], ["a b"])]
)
def test_tags_are_a_list_or_words_with_commas(tags, found):
    assert words(LogConfig.from_dict({"tags": tags}).tags) == found


def test_a_wrong_log_setting_is_one_sentence():
    with pytest.raises(ConfigError, match=r"no setting 'tensorbord' in \[log\]; did you mean 'tensorboard'"):
        LogConfig.from_dict({"tensorbord": True})


def test_the_command_line_sets_them_for_runs_of_earlier_versions_too():
    args = {"train": {}}  # no section [log]
    found = FlagTable("puffer_squared").parse(["--log.tensorboard", "--log.tags", "one,2", "--log.name=7"])
    apply_flags(found, args)
    assert args["log"] == {"tensorboard": True, "tags": "one,2", "name": "7"}
    assert "--log.tensorboard False" in settings_text("puffer_squared", pufferl.load_config("puffer_squared"))
