"""A user's mistake: exit code 2, one line on stderr that says what to do, and nothing written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from pufferlib import cli
from pufferlib.runs import checkpoint

SQUARED = "train puffer_squared --env.num-envs 16 --train.minibatch-size auto --train.bptt-horizon 64"
RUN = "puffer_squared_1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with one short run of squared, named 1."""
    folder = tmp_path_factory.mktemp("trained")
    before = Path.cwd()
    os.chdir(folder)
    try:
        tokens = f"{SQUARED} --train.bptt-horizon 8 --train.total-timesteps 256 --train.device cpu".split()
        assert cli.main(tokens) == 0
    finally:
        os.chdir(before)
    (run,) = (folder / "experiments").iterdir()
    run.rename(run.with_name(RUN))
    (model,) = (folder / "experiments" / RUN).glob("model_*.pt")
    model.rename(folder / "model.pt")
    shutil.copy(folder / "model.pt", model)
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, trained):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    checkpoint.save(tmp_path / "other.pt", nn.Linear(3, 2).state_dict())
    content = bytearray((tmp_path / "model.pt").read_bytes())
    content[len(content) // 2] ^= 0x10
    (tmp_path / "flipped.pt").write_bytes(content)
    (tmp_path / "short.pt").write_bytes(content[: len(content) // 3])
    (tmp_path / "empty.pt").write_bytes(b"")
    torch.save({"weights": print}, tmp_path / "code.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listing(folder):
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def assert_is_mistake(code, stderr, words):
    assert code == 2
    assert stderr.startswith("puffer: ") and stderr.count("\n") == 1 and stderr.endswith("\n")
    assert "Traceback" not in stderr
    assert words in stderr


MISTAKES = [
    # what is named
    ("train puffer_sqared", "did you mean 'puffer_squared'"),
    ("eval puffer_sqared", "did you mean 'puffer_squared'"),
    (f"{SQUARED} --train.learning-rte 0.1", "did you mean '--train.learning-rate'"),
    (f"{SQUARED} --rnn-name GRRU", "rnn_name must name a class"),
    (f"{SQUARED} --policy-name Defualt", "policy_name must name a class"),
    # sizes
    (f"{SQUARED} --train.minibatch-size 1000", "minibatch_size must be a multiple of 64"),
    (f"{SQUARED} --train.minibatch-size 1000000", "at most the batch of 1024"),
    (f"{SQUARED} --train.batch-size 1000", "batch_size must be a multiple of 1024"),
    (f"{SQUARED} --train.total-timesteps 10", "ask for 1024 or more, or have a bptt_horizon of at most 10"),
    (f"{SQUARED} --train.total-timesteps 200", "ask for 1024 or more, or have at most 3 agents at this bptt_horizon"),
    (f"{SQUARED} --env.num-envs 2000000000", "a training of 2,000,000,000 agents"),
    (f"{SQUARED} --vec.num-envs 1000000 --env.num-envs 1000", "a training of 1,000,000,000 agents"),
    (f"{SQUARED} --train.bptt-horizon 100000000000", "each with 100,000,000,000 steps of a rollout"),
    ("train puffer_squared --policy.hidden-size 9000000 --rnn-name None", "a policy of such layers needs at least"),
    (f"{SQUARED} --train.total-timesteps 0", "total_timesteps must be"),
    (f"{SQUARED} --train.bptt-horizon 0", "bptt_horizon must be"),
    ("train puffer_squared --env.num-envs 0", "num_envs"),
    (f"{SQUARED} --env.size 1", "size"),
    (f"{SQUARED} --policy.hidden-size 0", "hidden_size and num_layers must be at least 1"),
    (f"{SQUARED} --rnn-name MinGRU --rnn.hidden-size 7", "must equal policy.hidden_size"),
    (f"{SQUARED} --rnn-name LSTM --rnn.num-layers 0", "num_layers must be at least 1"),
    # vectors
    (f"{SQUARED} --vec.num-envs 2 --vec.batch-size 3", "batch_size"),
    (f"{SQUARED} --vec.backend Paralel", "backend"),
    (
        f"{SQUARED} --vec.backend Multiprocessing --vec.num-envs 2 --vec.num-workers 2 --vec.batch-size 1 "
        "--vec.zero-copy False",
        "set [vec] zero_copy to True",
    ),
    # devices and folders
    (f"{SQUARED} --train.device cuda:99", "torch sees no such device"),
    (f"{SQUARED} --train.device tpu", "device must be auto, cpu"),
    (f"{SQUARED} --train.data-dir model.pt", "data_dir must be a folder that can be written"),
    (f"{SQUARED} --train.data-dir model.pt/below", "data_dir must be a folder that can be written"),
    # checkpoints
    (f"{SQUARED} --load-model-path missing.pt", "there is no checkpoint missing.pt"),
    (f"{SQUARED} --load-model-path other.pt", "lacks the tensor"),
    (f"{SQUARED} --policy.hidden-size 8 --load-model-path model.pt", "must have shape"),
    (f"{SQUARED} --load-model-path flipped.pt", "is damaged"),
    (f"{SQUARED} --load-model-path short.pt", "is damaged"),
    (f"{SQUARED} --load-model-path empty.pt", "is damaged"),
    (f"{SQUARED} --load-model-path code.pt", "is damaged or no checkpoint"),
    (f"{SQUARED} --load-model-path experiments", "is damaged or no checkpoint"),
    (f"{SQUARED} --load-model-path experiments/{RUN}/trainer_state.pt", "does not hold the weights of a policy"),
    ("train puffer_pong --env.num-envs 16 --load-model-path latest", "there is no checkpoint of puffer_pong"),
    ("eval puffer_squared --headless --load-model-path missing.pt", "there is no checkpoint missing.pt"),
    ("eval puffer_squared --headless --load-model-path flipped.pt", "is damaged"),
    ("eval puffer_pong --headless --load-model-path latest", "there is no checkpoint of puffer_pong"),
    ("eval puffer_squared --headless --load-model-path model.pt --policy.hidden-size 8", "must have shape"),
    # runs
    ("train puffer_pong --resume latest", "there is no run of puffer_pong to resume"),
    ("train puffer_squared --resume 77", "there is no run '77' of puffer_squared"),
    (f"train puffer_pong --resume experiments/{RUN}", "must be of a run of puffer_pong"),
]


@pytest.mark.quick(
    "train puffer_sqared",
    "train puffer_squared --env.num-envs 0",
    "train puffer_squared --resume 77",
    "eval puffer_squared --headless --load-model-path flipped.pt",
    "train puffer_pong --resume latest",
)
@pytest.mark.parametrize(("command", "words"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(folder, capfd, command, words):
    before = listing(folder)
    code = cli.main(command.split())
    printed = capfd.readouterr()
    assert_is_mistake(code, printed.err, words)
    assert listing(folder) == before
    assert "training puffer" not in printed.out  # it does not train


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device, so asking for it is no mistake")
def test_cuda_without_cuda_is_a_mistake(folder, capfd):
    code = cli.main(f"{SQUARED} --train.device cuda".split())
    assert_is_mistake(code, capfd.readouterr().err, "use --train.device cpu or auto")


@pytest.mark.parametrize("name", ["trainer_state.pt", "config.json", "model_puffer_squared_000002.pt"])
@pytest.mark.parametrize("damage", ["flipped", "empty", "missing"])
def test_a_damaged_run_is_not_resumed(folder, capfd, name, damage):
    path = folder / "experiments" / RUN / name
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        content[len(content) // 2] = content[len(content) // 2] ^ 0x80
        path.write_bytes(content)
    before = listing(folder)
    code = cli.main(["train", "puffer_squared", "--resume", f"experiments/{RUN}"])
    assert_is_mistake(code, capfd.readouterr().err, RUN)
    assert listing(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", ["train puffer_squared --train.total-timesteps 10", "train puffer_squared --nope 1"]
)
def test_a_mistake_in_a_program_of_its_own(tmp_path, arguments):
    command = [sys.executable, "-m", "pufferlib.pufferl", *arguments.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert_is_mistake(done.returncode, done.stderr, "")
    assert done.stdout in ("", "preparing to train puffer_squared\n")
    assert not list(tmp_path.iterdir())


def test_a_failure_in_the_middle_of_training_closes_everything(folder, monkeypatch):
    """Our mistakes keep their traceback; files, environments and the terminal are released all the same."""
    from pufferlib import JsonLogger, pufferl

    closed = []
    monkeypatch.setattr(JsonLogger, "close", lambda self, path=None: closed.append(path))
    monkeypatch.setattr(pufferl.PuffeRL, "train", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(f"{SQUARED} --train.device cpu".split())
    assert len(closed) == 1
