import errno
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time

import command
import pytest
import torch
from torch import nn

from pufferlib.errors import CheckpointError, StorageError
from pufferlib.runs import checkpoint
from pufferlib.runs.checkpoint import TRAINER_STATE, load, load_policy_weights, resolve_model, resolve_run, save
from pufferlib.runs.folder import write_atomically

CONTENT = {
    "tensor": torch.arange(12.0).view(3, 4),
    "bytes": torch.arange(7, dtype=torch.uint8),
    "epoch": 3,
    "none": None,
}


def is_same(found):
    tensors = all(torch.equal(found[name], CONTENT[name]) for name in ("tensor", "bytes"))
    return tensors and found["epoch"] == 3 and found["none"] is None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "model.pt"


@pytest.fixture(scope="module")
def saved_bytes():
    file = io.BytesIO()
    torch.save(CONTENT, file)
    return file.getvalue()


# --- whole or not at all


def test_what_was_saved_is_loaded(path):
    save(path, CONTENT)
    assert is_same(load(path))
    assert [file.name for file in path.parent.iterdir()] == ["model.pt"]


def test_saving_replaces_the_file_before(path):
    save(path, {"epoch": 1})
    save(path, CONTENT)
    assert is_same(load(path))


def test_a_failure_while_writing_leaves_the_file_before(path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save(path, CONTENT)

    with pytest.raises(TypeError):
        write_atomically(path, 3)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        write_atomically(path, b"half")
    assert is_same(load(path))
    assert [file.name for file in path.parent.iterdir()] == ["model.pt"]


INTERRUPTED = """
import sys, torch
from pathlib import Path
from pufferlib.runs.checkpoint import save

class Interrupted:  # torch finishes an archive that nobody finished when it lets go of it, which is too late then
    def __init__(self, writer):
        self.writer = writer
    def __getattr__(self, name):
        if name == "write_end_of_file":
            raise KeyboardInterrupt
        return getattr(self.writer, name)

writer = torch._C.PyTorchFileWriter
torch._C.PyTorchFileWriter = lambda *arguments: Interrupted(writer(*arguments))
try:
    save(Path(sys.argv[1]), {"epoch": 4})
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_an_interrupt_while_saving_leaves_the_file_before(path):
    save(path, CONTENT)
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(path)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
    assert is_same(load(path))
    assert [file.name for file in path.parent.iterdir()] == ["model.pt"]


def test_the_file_is_on_the_disk_before_it_takes_the_name(path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, original=original: calls.append(name) or original(*a))
    save(path, CONTENT)
    assert calls == ["fsync", "replace", "fsync"]  # the file, the rename, the folder


@pytest.mark.quick("0.02")
@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_a_kill_while_saving_leaves_a_whole_file(path, tmp_path, delay):
    save(path, {"version": -1, "data": torch.zeros(1)})
    code = (
        "import sys, torch; from pathlib import Path; from pufferlib.runs.checkpoint import save\n"
        "print('go', flush=True)\n"
        "for version in range(100000):\n"
        "    save(Path(sys.argv[1]), {'version': version, 'data': torch.full((300000,), version)})"
    )
    process = command.start_code(tmp_path, code, path)
    said = tmp_path / "stdout"
    while not (said.exists() and said.read_text() == "go\n"):
        assert process.is_alive(), (tmp_path / "stderr").read_text()
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    found = load(path)
    assert (found["data"] == max(found["version"], 0)).all()


# --- damage


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 3])
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path, saved_bytes, bit):
    path = tmp_path / "damaged.pt"
    refused = 0
    for position in range(len(saved_bytes)):
        damaged = bytearray(saved_bytes)
        damaged[position] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            assert is_same(load(path))
        except CheckpointError as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error)
    assert refused > len(saved_bytes) / 3  # the rest is padding, dates and comments


@pytest.mark.parametrize("length", [0, 1, 100, 0.5, 0.99, -1])
def test_a_truncated_file_is_refused(path, saved_bytes, length):
    path.parent.mkdir()
    path.write_bytes(saved_bytes[: int(length * len(saved_bytes)) if isinstance(length, float) else length])
    with pytest.raises(CheckpointError, match="is damaged"):
        load(path)


class Payload:
    """Runs code when it is unpickled without restraint."""

    def __reduce__(self):
        return os.mkdir, ("payload_ran",)


@pytest.mark.parametrize("is_zipped", [True, False])
def test_code_in_a_checkpoint_is_not_run(path, monkeypatch, is_zipped):
    path.parent.mkdir()
    monkeypatch.chdir(path.parent)
    if is_zipped:
        torch.save({"weights": Payload()}, path)
    else:
        path.write_bytes(pickle.dumps({"weights": Payload()}))
    with pytest.raises(CheckpointError):
        load(path)
    assert not (path.parent / "payload_ran").exists()


def test_a_missing_file_or_a_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*nothing.pt; check the path or pass 'latest'"):
        load(tmp_path / "nothing.pt")
    with pytest.raises(CheckpointError):
        load(tmp_path)


# --- weights


def save_weights(path, policy):
    save(path, policy.state_dict())


def test_weights_are_loaded(path):
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    save_weights(path, source)
    load_policy_weights(target, path)
    assert torch.equal(source.weight, target.weight) and torch.equal(source.bias, target.bias)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (nn.Linear(3, 5).state_dict(), r"'weight' must have shape \(2, 3\), got \(5, 3\); use the policy"),
        (nn.Linear(3, 2, bias=False).state_dict(), "lacks the tensor 'bias'; it was made with another policy"),
        ({**nn.Linear(3, 2).state_dict(), "extra": torch.ones(1)}, "has a tensor 'extra' that the policy lacks"),
        ({"epoch": 3}, "does not hold the weights of a policy"),
        (torch.ones(3), "does not hold the weights of a policy"),
    ],
)
def test_weights_of_another_policy_are_refused_and_change_nothing(path, content, words):
    save(path, content)
    policy = nn.Linear(3, 2)
    before = policy.weight.detach().clone()
    with pytest.raises(CheckpointError, match=words):
        load_policy_weights(policy, path)
    assert torch.equal(policy.weight, before)


# --- finding runs


def make_run(data_dir, env_name, run_id, epochs=(), has_state=True):
    folder = data_dir / f"{env_name}_{run_id}"
    for epoch in epochs:
        save(folder / f"model_{env_name}_{epoch:06d}.pt", CONTENT)
    if has_state:
        save(folder / TRAINER_STATE, {"env": env_name})
    return folder


def set_age(path, seconds):
    os.utime(path, ns=(10**18 - seconds * 10**9,) * 2)


def test_the_latest_model_is_the_newest_of_all_runs_of_that_environment(tmp_path):
    old = make_run(tmp_path, "puffer_pong", "1", (5, 900))
    new = make_run(tmp_path, "puffer_pong", "2", (10, 20))
    other = make_run(tmp_path, "puffer_squared", "3", (1,))
    longer = make_run(tmp_path, "puffer_pong_hard", "4", (1,))
    for age, folder in ((300, old), (200, new), (0, other), (0, longer)):
        for path in folder.iterdir():
            set_age(path, age)
    set_age(new / "model_puffer_pong_000020.pt", 100)
    assert resolve_model(tmp_path, "puffer_pong", "latest") == new / "model_puffer_pong_000020.pt"
    assert resolve_model(tmp_path, "puffer_pong", "some/path.pt").name == "path.pt"


def test_the_latest_run_is_the_one_that_saved_last(tmp_path):
    first = make_run(tmp_path, "puffer_pong", "1", (5,))
    second = make_run(tmp_path, "puffer_pong", "2", (5,))
    make_run(tmp_path, "puffer_pong", "3", has_state=False)
    longer = make_run(tmp_path, "puffer_pong_hard", "4", (1,))
    set_age(first / TRAINER_STATE, 100)
    set_age(second / TRAINER_STATE, 200)
    set_age(longer / TRAINER_STATE, 0)
    assert resolve_run(tmp_path, "puffer_pong", "latest") == first


def test_a_run_is_found_by_path_folder_name_id_and_its_end(tmp_path):
    folder = make_run(tmp_path, "puffer_pong", "2026_77", (5,))
    for name in (str(folder), folder.name, "2026_77", "77"):
        assert resolve_run(tmp_path, "puffer_pong", name) == folder
    make_run(tmp_path, "puffer_pong", "2027_77", (5,))
    make_run(tmp_path, "puffer_squared", "2028_77", (5,))
    with pytest.raises(CheckpointError, match="2 runs of puffer_pong end with '77', such as puffer_pong_2026_77 and"):
        resolve_run(tmp_path, "puffer_pong", "77")


@pytest.mark.parametrize("run", ["latest", "77", "puffer_pong_77"])
def test_a_run_without_a_checkpoint_is_refused(tmp_path, run):
    make_run(tmp_path, "puffer_pong", "77", has_state=False)
    with pytest.raises(CheckpointError, match="there is no run"):
        resolve_run(tmp_path, "puffer_pong", run)
    with pytest.raises(CheckpointError, match="there is no checkpoint of puffer_pong"):
        resolve_model(tmp_path, "puffer_pong", "latest")


# --- weights with a name of their own


def test_named_weights_have_a_note(tmp_path):
    facts = {"epoch": 3, "eval/return_mean": 1.5}
    checkpoint.keep_best(tmp_path, "eval/return_mean", {"weight": torch.ones(2)}, facts)
    assert checkpoint.load(tmp_path / "best.pt")["weight"].tolist() == [1, 1]
    assert checkpoint.read_facts(tmp_path / "best.json") == facts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", "best.pt"]


@pytest.mark.parametrize("content", [None, b"", b"[1]", b"{", b"\xff"])
def test_a_note_that_cannot_be_read_says_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "best.json").write_bytes(content)
    assert checkpoint.read_facts(tmp_path / "best.json") == {}


def test_best_and_last_are_found_by_the_environment_of_their_notes(tmp_path):
    for age, run, env_name in ((300, "1", "ALE/Pong-v5"), (200, "2", "ALE/Pong-v5"), (100, "3", "CartPole-v1")):
        folder = tmp_path / f"{env_name.replace('/', '_')}_{run}"
        for name in checkpoint.NAMED:
            checkpoint.save(folder / f"{name}.pt", {})
            (folder / f"{name}.json").write_text(json.dumps({"env": env_name}))
            set_age(folder / f"{name}.pt", age)
    for name in checkpoint.NAMED:
        assert resolve_model(tmp_path, "ALE/Pong-v5", name) == tmp_path / "ALE_Pong-v5_2" / f"{name}.pt"
    (tmp_path / "ALE_Pong-v5_2" / "best.pt").unlink()
    assert resolve_model(tmp_path, "ALE/Pong-v5", "best") == tmp_path / "ALE_Pong-v5_1" / "best.pt"
    with pytest.raises(
        CheckpointError, match=r"no best weights of puffer_pong in .*; train it with --train.evaluations"
    ):
        resolve_model(tmp_path, "puffer_pong", "best")
    with pytest.raises(CheckpointError, match="no last weights of puffer_pong"):
        resolve_model(tmp_path, "puffer_pong", "last")
