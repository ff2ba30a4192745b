"""What a run leaves on disk, whichever way it was begun, and who may write there."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys

import gymnasium
import pytest
from torch import nn

import pufferlib
from pufferlib import JsonLogger, NoLogger, PuffeRL, cli, models, pufferl, vector
from pufferlib.config import load_config
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.errors import CheckpointError, PufferWarning, StorageError
from pufferlib.runs.folder import RunFolder

SMALL = {"device": "cpu", "batch_size": 256}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small_args(env_name="puffer_squared"):
    args = load_config(env_name)
    args["env"]["num_envs"] = 16
    args["train"].update(device="cpu", num_iterations=2, bptt_horizon=16, minibatch_size="auto", log_interval=1)
    return args


def by_config(args, env_name="puffer_squared", config=None):
    vecenv = pufferl.load_env(env_name, args)
    return PuffeRL(config or args["train"], vecenv, pufferl.load_policy(args, vecenv, env_name))


def finish(trainer, iterations=2):
    for _ in range(iterations):
        trainer.evaluate()
        trainer.train()
    trainer.close()
    return trainer.run_folder


def settings(folder):
    return json.loads((folder / "config.json").read_text())["settings"]


def plays(capsys, env_name, *flags):
    """Evaluates the latest weights as a user does; returns what is said if it fails."""
    capsys.readouterr()
    arguments = ["--load-model-path", "latest", "--episodes", "2", "--headless", "--train.device", "cpu", *flags]
    code = cli.main(["eval", env_name, *arguments])
    out, err = capsys.readouterr()
    assert code == 2 or "episode_return" in out
    return err


class Squares(nn.Module):
    """A policy of the user's own."""

    def __init__(self, env):
        super().__init__()
        self.layer = nn.Linear(env.single_observation_space.shape[0], env.single_action_space.n + 1)

    def forward(self, observations):
        outputs = self.layer(observations.float() ** 2)
        return outputs[:, :-1], outputs[:, -1]


# --- begun in Python, played by the command line


def begin_by_name():
    return PuffeRL("puffer_cartpole", num_envs=8, **SMALL)


def begin_by_name_of_gymnasiums():
    return PuffeRL("CartPole-v1", None, num_envs=2, num_workers=1, **SMALL)


def begin_with_a_ready_environment():
    env = pufferlib.make("puffer_cartpole", num_envs=8)
    return PuffeRL(env, models.Default(env, 24, num_layers=2, activation="relu"), **SMALL)


def begin_with_a_gymnasium_environment():
    return PuffeRL(gymnasium.make("CartPole-v1"), **SMALL)


def begin_with_a_recurrent_policy():
    env = pufferlib.make("puffer_cartpole", num_envs=8)
    policy = models.LSTMWrapper(env, models.Default(env, hidden_size=16), 16, 16, num_layers=2)
    return PuffeRL(env, policy, normalize_observations=True, **SMALL)


@pytest.mark.quick("begin_by_name", "begin_with_a_recurrent_policy")
@pytest.mark.parametrize(
    ("begin", "name"),
    [
        (begin_by_name, "puffer_cartpole"),
        (begin_by_name_of_gymnasiums, "CartPole-v1"),
        (begin_with_a_ready_environment, "puffer_cartpole"),
        (begin_with_a_gymnasium_environment, "CartPole-v1"),
        (begin_with_a_recurrent_policy, "puffer_cartpole"),
    ],
)
def test_a_run_by_keyword_is_played_by_the_command_line(begin, name, capsys):
    folder = finish(begin())
    assert plays(capsys, name) == ""
    assert {path.name for path in folder.iterdir()} >= {"config.json", "metrics.jsonl", "trainer_state.pt"}
    assert [json.loads(line)["epoch"] for line in (folder / "metrics.jsonl").read_text().splitlines()] == [1, 2]


def test_a_run_by_configuration_is_played_by_the_command_line_with_its_sizes(capsys):
    args = small_args()
    args["env"]["size"], args["policy"]["hidden_size"] = 7, 24
    folder = finish(by_config(args))
    assert folder.name.startswith("puffer_squared_")
    assert plays(capsys, "puffer_squared") == ""
    saved = settings(folder)
    assert saved["env"]["size"] == 7 and saved["policy"]["hidden_size"] == 24
    assert saved["train"]["num_iterations"] == 2 and saved["train"]["seed"] == args["train"]["seed"]


def test_a_name_for_the_run_does_not_hide_the_environment(capsys):
    args = small_args()
    args["env"]["size"] = 7
    folder = finish(by_config(args, config={**args["train"], "env": "my first try"}))
    assert folder.name.startswith("my_first_try_") and settings(folder)["env"]["size"] == 7


def test_a_run_begun_in_python_is_resumed_by_the_command_line():
    folder = finish(by_config(small_args()))
    assert cli.main(["train", "puffer_squared", "--resume", "latest", "--train.num-iterations", "3"]) == 0
    assert [json.loads(line)["epoch"] for line in (folder / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]


def test_the_sizes_of_a_policy_given_to_train_are_noted(capsys):
    args = small_args()
    vecenv = pufferl.load_env("puffer_squared", args)
    pufferl.train("puffer_squared", args, vecenv, models.Default(vecenv.driver_env, 48))
    assert plays(capsys, "puffer_squared") == ""


def test_a_policy_of_ones_own_is_named_where_it_cannot_be_made(capsys):
    env = pufferlib.make("puffer_cartpole", num_envs=8)
    folder = finish(PuffeRL(env, Squares(env), **SMALL))
    words = f"was trained with the policy {__name__}.Squares of your own program"
    said = plays(capsys, "puffer_cartpole")
    assert words in said and "load the weights into it there" in said and said.count("\n") == 1
    assert cli.main(["train", "puffer_cartpole", "--resume", "latest"]) == 2
    assert words in capsys.readouterr().err
    assert "lacks the tensor" in plays(capsys, "puffer_cartpole", "--policy-name", "Default")
    assert json.loads((folder / "config.json").read_text())["policy_class"] == f"{__name__}.Squares"


def test_an_environment_of_ones_own_is_described_as_far_as_it_can_be():
    class Mine(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 1.0, False, False, {}

    vecenv = vector.make(GymnasiumPufferEnv, env_kwargs={"env_creator": Mine}, num_envs=2, backend="Serial")
    trainer = PuffeRL(vecenv, models.Default(vecenv, 8), **SMALL)
    saved = settings(finish(trainer, 1))
    assert saved["env_name"] == trainer.env_name and saved["policy"]["hidden_size"] == 8


# --- when it is written


def test_nothing_is_written_before_the_first_log(folder):
    trainer = PuffeRL("puffer_cartpole", num_envs=8, log_interval=2, **SMALL)
    trainer.evaluate()
    trainer.train()
    assert not any(folder.iterdir())
    trainer.evaluate()
    trainer.train()
    assert {path.name for path in trainer.run_folder.iterdir()} == {".lock", "config.json", "metrics.jsonl"}
    trainer.release()


def test_loggers_of_ones_own_come_beside_the_file_of_metrics(folder):
    own = JsonLogger(folder / "own.jsonl")
    path = finish(PuffeRL("puffer_cartpole", logger=own, num_envs=8, **SMALL))
    assert own.path.read_text() == (path / "metrics.jsonl").read_text()
    assert path.name == f"puffer_cartpole_{own.run_id}"


def test_no_logger_means_no_metrics():
    path = finish(PuffeRL("puffer_cartpole", logger=NoLogger(), num_envs=8, **SMALL))
    assert (path / "config.json").exists() and not (path / "metrics.jsonl").exists()


def test_a_resume_in_python_goes_on_with_the_metrics_of_the_run():
    first = by_config(small_args())
    path = finish(first)
    second = by_config(small_args())
    second.load_checkpoint(path)
    assert finish(second, 1) == path
    assert [json.loads(line)["epoch"] for line in (path / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]


@pytest.mark.quick("../../evil")
@pytest.mark.parametrize("run_id", ["../../evil", "/tmp/evil", "team/first run", ".."])
def test_the_name_that_a_logger_gives_does_not_lead_out_of_the_folder_of_runs(folder, run_id):
    args = small_args()
    vecenv = pufferl.load_env("puffer_squared", args)
    policy = pufferl.load_policy(args, vecenv, "puffer_squared")
    path = finish(PuffeRL(args["train"], vecenv, policy, NoLogger(run_id)), 1)
    assert path.resolve().parent == (folder / "experiments").resolve()
    assert cli.main(["train", "puffer_squared", "--resume", run_id]) == 0
    assert [found.name for found in folder.iterdir()] == ["experiments"]
    assert [found.name for found in (folder / "experiments").iterdir()] == [path.name]


def test_runs_of_loggers_of_one_name_do_not_mix():
    paths = [finish(PuffeRL("puffer_cartpole", logger=JsonLogger("own.jsonl", run_id="mine"), num_envs=8, **SMALL))]
    before = {path.name: path.read_bytes() for path in paths[0].iterdir()}
    paths += [finish(PuffeRL("puffer_cartpole", logger=NoLogger("mine"), num_envs=8, **SMALL), 1) for _ in range(2)]
    assert [path.name for path in paths] == [f"puffer_cartpole_mine{number}" for number in ("", "_2", "_3")]
    assert {path.name: path.read_bytes() for path in paths[0].iterdir()} == before


# --- one process at a time


def hold(path, is_held, may_end):
    run_folder = RunFolder(path, lambda: json.loads((path / "config.json").read_text()))
    run_folder.open()
    is_held.set()
    may_end.wait(600)
    os._exit(0)  # without letting go


def test_a_second_process_is_told_of_the_first(folder, capsys):
    path = finish(by_config(small_args()))
    context = multiprocessing.get_context("fork")
    is_held, may_end = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(path, is_held, may_end))
    holder.start()
    try:
        assert is_held.wait(600)
        (path / "unfinished.tmp").touch()
        words = f"is being written by process {holder.pid}; wait for its end, or begin another run"
        assert cli.main(["train", "puffer_squared", "--resume", "latest", "--train.num-iterations", "3"]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1
        trainer = by_config(small_args())
        with pytest.raises(CheckpointError, match=words):
            trainer.load_checkpoint(path)
        trainer.release()
        assert (path / "unfinished.tmp").exists()
    finally:
        may_end.set()
        holder.join(600)
    trainer = by_config(small_args())
    trainer.load_checkpoint(path)
    trainer.release()


def test_a_killed_process_and_its_children_lock_nothing(folder):
    """A worker that outlives the process that forked it does not keep the run."""
    code = (
        "import os, sys, time; from pathlib import Path; from pufferlib.runs.folder import RunFolder\n"
        "run = RunFolder(Path('run'), dict); run.open()\n"
        "child = os.fork()\n"
        "if child == 0:\n    os.close(1); time.sleep(60); os._exit(0)\n"
        "print(child, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    try:
        with pytest.raises(CheckpointError, match=str(process.pid)):
            RunFolder(folder / "run", dict).open()
        process.kill()
        process.wait(600)
        process.stdout.close()
        last = RunFolder(folder / "run", dict)
        last.open()
        last.close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_trainer_that_was_closed_locks_nothing():
    path = finish(by_config(small_args()))
    code = "import sys; from pathlib import Path; from pufferlib.runs.folder import RunFolder\n"
    code += "RunFolder(Path(sys.argv[1]), dict).open()"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_that_cannot_be_described_leaves_no_folder(folder):
    def fail():
        raise StorageError("no room")

    run = RunFolder(folder / "experiments" / "run", fail)
    with pytest.raises(StorageError):
        run.open()
    assert not (folder / "experiments" / "run").exists()
    (folder / "experiments" / "run").mkdir()
    (folder / "experiments" / "run" / "mine").touch()
    with pytest.raises(StorageError):
        run.open()
    assert (folder / "experiments" / "run" / "mine").exists()


# --- two trainers of one process


def test_two_trainers_with_one_name_write_into_two_folders():
    first, second = (PuffeRL("puffer_squared", logger=NoLogger("mine"), **SMALL, num_envs=4) for _ in range(2))
    assert first.run_folder == second.run_folder
    first.save_checkpoint()
    with pytest.warns(PufferWarning, match=r"another trainer .* writes to .*_mine now; this one goes on in .*_mine_2"):
        second.save_checkpoint()
    assert second.run_folder.name == "puffer_squared_mine_2"
    for trainer in (first, second):
        trainer.evaluate()
        trainer.train()
        assert str(trainer.run_folder) in trainer.close()
    assert sorted(path.name for path in first.run_folder.parent.iterdir()) == [
        "puffer_squared_mine",
        "puffer_squared_mine_2",
    ]


def test_a_trainer_whose_run_another_one_continues_goes_on_elsewhere():
    keywords = {**SMALL, "num_envs": 4, "log_interval": 1}
    first, second = PuffeRL("puffer_squared", **keywords), PuffeRL("puffer_squared", **keywords)
    first.evaluate(), first.train()
    first.save_checkpoint()
    folder = first.run_folder
    second.load_checkpoint(folder)
    assert second.run_folder == folder
    with pytest.warns(PufferWarning, match="this one goes on in"):
        first.evaluate(), first.train()
    second.evaluate(), second.train()
    second.save_checkpoint(metadata={"by": "second"})
    first.close(), second.close()
    assert first.run_folder == folder.with_name(f"{folder.name}_2")
    steps = {
        path: [json.loads(line)["agent_steps"] for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (folder, first.run_folder)
    }
    assert steps == {folder: [256, 512], first.run_folder: [512]}
    third = PuffeRL("puffer_squared", **keywords)
    assert third.load_checkpoint(folder) == {"by": "second"}
    third.close()
