import json
import os
import random
import re
import signal
import time

import pytest
import torch
from command import metrics, only_run, run, start

from pufferlib.runs import checkpoint

SQUARED = (
    "train puffer_squared --env.num-envs 16 --train.bptt-horizon 16 --train.log-interval 2 --train.device cpu "
    "--train.update-epochs 1.25 --train.minibatch-size 64"
)
BREAKOUT = (
    "train puffer_breakout --env.num-envs 8 --train.bptt-horizon 16 --train.log-interval 2 --train.device cpu "
    "--policy.hidden-size 16 --rnn.hidden-size 16 --rnn.input-size 16 --train.minibatch-size 64"
)
EPOCHS = 10


def weights(path):
    state = checkpoint.load(path)
    return torch.cat([tensor.flatten() for tensor in state.values()])


def final_weights(folder, epoch=EPOCHS):
    (path,) = only_run(folder).glob(f"model_*_{epoch:06d}.pt")
    return weights(path)


@pytest.fixture
def folders(tmp_path):
    made = [tmp_path / "whole", tmp_path / "parts"]
    for folder in made:
        folder.mkdir()
    return made


# --- stopping and going on


def stop_at(folder, command, epoch):
    """Runs to an epoch of the longer run: its schedules and everything else are those of the longer run."""
    process = start(folder, *command, "--train.checkpoint-interval", 1)
    try:
        pattern = f"*/model_*_{epoch:06d}.pt"
        wait_for(lambda: any((folder / "experiments").glob(pattern)), process)
    finally:
        process.kill()
        process.join()


def wait_for(condition, process, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end and process.is_alive(), "the run ended before the test could stop it"
        time.sleep(0.002)


@pytest.mark.quick("native mingru")
@pytest.mark.parametrize(
    ("command", "epochs"),
    [
        pytest.param(f"{SQUARED} --vec.backend Native", 24, id="native", marks=pytest.mark.slow),
        pytest.param(f"{SQUARED} --vec.backend Serial --train.optimizer adam", 24, id="serial"),
        pytest.param(f"{BREAKOUT} --vec.backend Native --vec.num-envs 2", 16, id="native mingru"),
        pytest.param(f"{BREAKOUT} --vec.backend Serial --rnn-name LSTM", 16, id="serial lstm", marks=pytest.mark.slow),
        pytest.param(
            f"{BREAKOUT} --vec.backend Native --rnn-name LSTM --train.precision bfloat16",
            16,
            id="lstm in bfloat16",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            f"{SQUARED} --train.evaluations 6 --train.evaluation-envs 5", 24, id="evaluated", marks=pytest.mark.slow
        ),
    ],
)
def test_a_resumed_run_equals_the_uninterrupted_one(folders, command, epochs):
    whole, parts = folders
    command = [*command.split(), "--train.num-iterations", epochs]
    assert run(whole, *command) == (0, "")
    stop_at(parts, command, epoch=epochs // 4)
    assert run(parts, *command[:2], "--resume", "latest", "--train.checkpoint-interval", 1000) == (0, "")
    assert torch.equal(final_weights(whole, epochs), final_weights(parts, epochs))
    first, second = metrics(only_run(whole)), metrics(only_run(parts))
    assert len(first) == epochs // 2
    assert first == second
    notes = [checkpoint.read_facts(only_run(folder) / "best.json") for folder in folders]
    assert notes[0] == notes[1] and bool(notes[0]) == ("--train.evaluations" in command)


@pytest.mark.slow
def test_a_finished_run_resumes_to_nothing(tmp_path):
    command = [*SQUARED.split(), "--train.num-iterations", 4]
    assert run(tmp_path, *command) == (0, "")
    before = metrics(only_run(tmp_path))
    unfinished = [only_run(tmp_path) / name for name in (".trainer_state.pt.1.tmp", "metrics.jsonl.1.tmp")]
    for path in unfinished:
        path.write_bytes(b"half of")
    assert run(tmp_path, *command[:2], "--resume", "latest") == (0, "")
    assert metrics(only_run(tmp_path)) == before
    assert not any(path.exists() for path in unfinished)


# --- killed


def kill_at_random(folder, command, rng):
    """Kills the command some time after it wrote its first or next checkpoint; returns whether it was still running."""
    states = list((folder / "experiments").glob(f"*/{checkpoint.TRAINER_STATE}"))
    before = states[0].stat().st_mtime_ns if states else 0

    def has_saved():
        states = list((folder / "experiments").glob(f"*/{checkpoint.TRAINER_STATE}"))
        return bool(states) and states[0].stat().st_mtime_ns != before

    process = start(folder, *command)
    try:
        wait_for(has_saved, process)
        time.sleep(rng.uniform(0, 0.1))
    finally:
        is_alive = process.is_alive()
        process.kill()
        process.join()
    return is_alive


@pytest.mark.slow
def test_a_run_killed_at_any_moment_goes_on_to_the_same_end(folders):
    """Three kills, or as many as the environment variable PUFFER_KILLS says."""
    whole, parts = folders
    kills = int(os.environ.get("PUFFER_KILLS", "3"))
    epochs = 20 * kills
    command = [*SQUARED.split(), "--train.num-iterations", epochs]
    assert run(whole, *command) == (0, "")
    rng = random.Random(kills)
    command += ["--train.checkpoint-interval", 1]
    for kill in range(kills):
        assert kill_at_random(parts, command, rng)
        state = checkpoint.load(only_run(parts) / checkpoint.TRAINER_STATE)
        assert 0 < state["epoch"] < epochs
        assert weights(only_run(parts) / state["model"]).isfinite().all()
        if kill == 0:
            command = [*SQUARED.split()[:2], "--resume", "latest"]
    assert run(parts, *command, "--train.checkpoint-interval", 1000) == (0, "")
    assert torch.equal(final_weights(whole, epochs), final_weights(parts, epochs))
    assert metrics(only_run(whole)) == metrics(only_run(parts))
    assert not list(only_run(parts).glob("*.tmp"))


# --- interrupted


@pytest.mark.quick("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_saves_and_leaves_quietly(tmp_path, number):
    command = [*SQUARED.split(), "--train.num-iterations", 100_000, "--train.log-interval", 1]
    process = start(tmp_path, *command)
    wait_for(lambda: any((tmp_path / "experiments").glob("*/metrics.jsonl")), process)
    time.sleep(0.3)
    os.kill(process.pid, number)
    process.join(600)
    assert process.exitcode == 130
    assert (tmp_path / "stderr").read_text() == ""
    state = checkpoint.load(only_run(tmp_path) / checkpoint.TRAINER_STATE)
    assert state["epoch"] > 0
    assert weights(only_run(tmp_path) / state["model"]).isfinite().all()
    assert metrics(only_run(tmp_path))[-1]["epoch"] == state["epoch"]
    last_line = (tmp_path / "stdout").read_text().splitlines()[-1]
    stopped = r"stopped after [\d,]+ of [\d,]+ steps, --resume latest goes on"
    assert re.fullmatch(rf"saved experiments/puffer_squared_\S+\.pt; {stopped}", last_line)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_end(folders):
    whole, parts = folders
    command = [*SQUARED.split(), "--train.num-iterations", 60]
    assert run(whole, *command) == (0, "")
    process = start(parts, *command)
    wait_for(lambda: any((parts / "experiments").glob("*/metrics.jsonl")), process)  # the first file of a run
    os.kill(process.pid, signal.SIGINT)
    process.join(600)
    assert process.exitcode == 130
    assert run(parts, *command[:2], "--resume", "latest") == (0, "")
    assert torch.equal(final_weights(whole, 60), final_weights(parts, 60))
    assert metrics(only_run(whole)) == metrics(only_run(parts))


# --- changes of mind


def test_a_resume_may_change_settings(tmp_path):
    command = [*SQUARED.split(), "--train.num-iterations", 4]
    assert run(tmp_path, *command) == (0, "")
    assert run(tmp_path, *command[:2], "--resume", "latest", "--train.num-iterations", 6) == (0, "")
    assert metrics(only_run(tmp_path))[-1]["epoch"] == 6


@pytest.mark.slow
def test_a_changed_learning_rate_is_the_one_that_is_used(tmp_path):
    command = [*SQUARED.split(), "--train.num-iterations", 4, "--train.anneal-lr", "False"]
    assert run(tmp_path, *command) == (0, "")
    changes = ["--train.learning-rate", "0.5", "--train.log-interval", 1, "--train.total-timesteps", 6 * 256]
    assert run(tmp_path, *command[:2], "--resume", "latest", *changes) == (0, "")
    assert [line["learning_rate"] for line in metrics(only_run(tmp_path))] == [0.02, 0.02, 0.5, 0.5]
    said = (tmp_path / "stdout").read_text()
    assert "resumes experiments/puffer_squared_" in said and "after 4 of 6 epochs, 1024 steps, with " in said
    for change in ("learning-rate 0.5 (was 0.02)", "log-interval 1 (was 2)", "total-timesteps 1536 (was "):
        assert f"--train.{change}" in said
    saved = json.loads((only_run(tmp_path) / "config.json").read_text())["settings"]["train"]
    assert saved["learning_rate"] == 0.5 and saved["num_iterations"] is None


@pytest.mark.slow
def test_a_run_that_began_from_weights_goes_on_where_these_are_gone_and_its_folder_was_moved(tmp_path):
    command = [*SQUARED.split(), "--train.num-iterations", 2]
    assert run(tmp_path, *command) == (0, "")
    first = only_run(tmp_path)
    assert run(tmp_path, *command, "--load-model-path", "latest") == (0, "")
    first.rename(tmp_path / "gone")
    second, runs = only_run(tmp_path), tmp_path / "runs"
    second.parent.rename(runs)
    description = runs / second.name / "config.json"
    begun = json.loads(description.read_text())["settings"]["load_model_path"]
    assert begun == f"experiments/{first.name}/model_puffer_squared_000002.pt"
    resume = ["--resume", "latest", "--train.data-dir", f"{runs}/"]
    assert run(tmp_path, *command[:2], *resume, "--train.total-timesteps", 4 * 256) == (0, "")
    assert metrics(runs / second.name)[-1]["epoch"] == 4
    assert json.loads(description.read_text())["settings"]["load_model_path"] == begun
    code, said = run(tmp_path, *command[:2], *resume, "--load-model-path", "x.pt")
    assert code == 2 and "got --resume latest and --load-model-path x.pt; pass one of them" in said


def test_a_finished_run_says_so(tmp_path):
    command = [*SQUARED.split(), "--train.num-iterations", 2]
    assert run(tmp_path, *command) == (0, "")
    assert run(tmp_path, *command[:2], "--resume", "latest") == (0, "")
    said = (tmp_path / "stdout").read_text()
    assert "finished: experiments/puffer_squared_" in said and "saved" not in said
    assert "after 2 of 2 epochs, 512 steps; --train.total-timesteps N goes on until N" in said


@pytest.mark.quick("['--train.num-iterations', 1]")
@pytest.mark.parametrize("length", [["--train.total-timesteps", 300], ["--train.num-iterations", 1]], ids=str)
def test_a_length_that_the_run_has_already_is_refused_before_anything_is_written(tmp_path, length):
    command = [*SQUARED.split(), "--train.num-iterations", 2]
    assert run(tmp_path, *command) == (0, "")
    before = {path: path.read_bytes() for path in only_run(tmp_path).glob("[!.]*")}
    code, said = run(tmp_path, *command[:2], "--resume", "latest", *length)
    words = f"{length[0]} must be more than the 512 steps, 2 iterations, that experiments/"
    assert code == 2 and words in said and said.count("\n") == 1
    assert {path: path.read_bytes() for path in only_run(tmp_path).glob("[!.]*")} == before


@pytest.mark.quick("--policy.hidden-size")
@pytest.mark.parametrize(
    "change",
    [
        ["--train.optimizer", "sgd"],
        ["--env.num-envs", "8"],
        ["--policy.hidden-size", "8"],
        ["--train.bptt-horizon", "17"],
    ],
    ids=lambda change: change[0],
)
def test_a_resume_with_settings_that_do_not_fit_is_refused(tmp_path, change):
    command = [*SQUARED.split(), "--train.num-iterations", 2]
    assert run(tmp_path, *command) == (0, "")
    before = final_weights(tmp_path, 2)
    code, stderr = run(tmp_path, *command[:2], "--resume", "latest", *change)
    assert code == 2 and f"was begun with {change[0]} " in stderr and stderr.count("\n") == 1
    assert f"and cannot go on with {change[1]}; leave it as it was" in stderr
    assert torch.equal(final_weights(tmp_path, 2), before)


POLICY = """
import torch


class Own(torch.nn.Module):
    def __init__(self, env, width=8):
        super().__init__()
        self.encoder = torch.nn.Linear(env.single_observation_space.shape[0], width)
        self.actor, self.critic = torch.nn.Linear(width, env.single_action_space.n), torch.nn.Linear(width, 1)

    def forward(self, observations, state=None):
        hidden = self.encoder(observations.float()).tanh()
        return self.actor(hidden), self.critic(hidden)
"""


def test_a_policy_of_a_module_is_trained_goes_on_and_is_played_where_it_is_named(folders, monkeypatch):
    whole, parts = folders
    (whole.parent / "own_policy.py").write_text(POLICY)
    monkeypatch.syspath_prepend(whole.parent)
    named = "--policy-name own_policy:Own"
    begin = f"{SQUARED} --rnn-name None --train.anneal-lr False --train.num-iterations".split()
    flags = f"{named} --policy.width 6".split()
    assert run(whole, *begin, 4, *flags)[0] == 0
    assert run(parts, *begin, 2, *flags)[0] == 0
    again = ["train", "puffer_squared", "--resume", "latest", "--train.num-iterations", "4"]
    exit_code, errors = run(parts, *again)
    assert exit_code == 2 and "trained with the policy own_policy.Own of your own program" in errors
    assert run(parts, *again, *named.split())[0] == 0
    assert torch.equal(final_weights(whole, 4), final_weights(parts, 4))
    play = ["eval", "puffer_squared", "--load-model-path", "latest", "--headless", "--episodes", "3"]
    assert run(parts, *play)[0] == 2
    assert run(parts, *play, *named.split())[0] == 0
    assert "(n = 3)" in (parts / "stdout").read_text()
