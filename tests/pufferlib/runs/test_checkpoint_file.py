import enum

import numpy as np
import pytest
import torch

import pufferlib
from pufferlib import PuffeRL
from pufferlib.errors import APIUsageError, CheckpointError
from pufferlib.models import Default
from pufferlib.runs import checkpoint
from pufferlib.runs.state_check import plain_metadata
from pufferlib.runs.trainer_state import learner_state

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def make_trainer():
    made = []

    def make(hidden_size=16, size=5, **keywords):
        env = pufferlib.make("puffer_squared", num_envs=4, size=size)
        torch.manual_seed(len(made))
        keywords = {"batch_size": 64, "device": "cpu", "learning_rate": 1e-2, **keywords}
        made.append(PuffeRL(env, Default(env, hidden_size), **keywords))
        return made[-1]

    yield make
    for trainer in made:
        trainer.release()


def step(trainer, count=1):
    for _ in range(count):
        trainer.evaluate()
        trainer.train()


def weights(trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])


# --- what comes back


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_everything_learnt_comes_back(make_trainer, optimizer):
    first = make_trainer(optimizer=optimizer)
    step(first, 2)
    first.learning_rate, uptime = 5e-3, first.uptime
    first.save_checkpoint("checkpoint.pt")
    second = make_trainer(optimizer=optimizer)
    step(second)
    assert second.load_checkpoint("checkpoint.pt") == {}
    assert torch.equal(weights(second), weights(first))
    assert (second.epoch, second.global_step, second.learning_rate) == (2, 128, 5e-3)
    assert second.uptime >= uptime

    saved, found = learner_state(first._learner), learner_state(second._learner)
    assert str(saved["optimizer"]) == str(found["optimizer"])


def test_the_environment_stays_as_it_is(make_trainer):
    first, second = make_trainer(), make_trainer()
    step(first)
    step(second, 2)
    observations = second._collector.actor.last_observations.clone()
    first.save_checkpoint("checkpoint.pt")
    second.load_checkpoint("checkpoint.pt")
    assert torch.equal(second._collector.actor.last_observations, observations)
    step(second)
    assert second.epoch == 2 and second.global_step == 128


def test_a_rollout_from_before_is_dropped(make_trainer):
    trainer = make_trainer()
    trainer.save_checkpoint("checkpoint.pt")
    trainer.evaluate()
    trainer.load_checkpoint("checkpoint.pt")
    with pytest.raises(APIUsageError, match=r"train\(\) needs a new rollout; call evaluate\(\) first"):
        trainer.train()
    step(trainer)
    assert trainer.mean_and_log()["agent_steps"] == 64


def test_closing_saves_what_was_loaded(make_trainer):
    trainer = make_trainer()
    step(trainer)
    loaded = weights(trainer)
    trainer.save_checkpoint("checkpoint.pt")
    other = make_trainer(data_dir="runs")
    step(other)
    other.save_checkpoint()
    other.load_checkpoint("checkpoint.pt")
    saved = torch.load(other.close(), weights_only=True)
    assert torch.equal(torch.cat([tensor.flatten() for tensor in saved.values()]), loaded)


def test_the_dashboard_goes_on_after_loading(make_trainer, capsys):
    trainer = make_trainer()
    step(trainer)
    trainer.save_checkpoint("checkpoint.pt")
    trainer.load_checkpoint("checkpoint.pt")
    trainer.print_dashboard()
    step(trainer)
    trainer.print_dashboard()
    assert "128" in capsys.readouterr().out


def test_a_run_folder_keeps_metadata_too(make_trainer):
    trainer = make_trainer()
    step(trainer)
    trainer.save_checkpoint(metadata={"stage": "first"})
    assert trainer.load_checkpoint(trainer.run_folder) == {"stage": "first"}
    trainer.save_checkpoint()
    assert trainer.load_checkpoint(trainer.run_folder) == {}


def test_the_file_is_one_and_whole(make_trainer, tmp_path):
    trainer = make_trainer()
    path = trainer.save_checkpoint(tmp_path / "deep" / "in" / "checkpoint.pt")
    assert path == str(tmp_path / "deep" / "in" / "checkpoint.pt")
    assert [file.name for file in (tmp_path / "deep" / "in").iterdir()] == ["checkpoint.pt"]
    assert not (tmp_path / "experiments").exists()


# --- metadata


class Level(enum.IntEnum):
    HARD = 3


def test_metadata_comes_back_as_plain_python(make_trainer):
    given = {
        "iteration": 3,
        "best_reward": np.float32(1.5),
        "count": np.int64(2**40),
        "done": np.bool_(True),
        "level": Level.HARD,
        "double": np.float64(0.1),
        "name": "stage 1",
        "nothing": None,
        "infinite": float("inf"),
        "nested": {"list": [1, [2.5, "x"], {"deep": np.float64(2.0)}]},
    }
    trainer = make_trainer()
    trainer.save_checkpoint("checkpoint.pt", metadata=given)
    found = trainer.load_checkpoint("checkpoint.pt")
    assert found == given
    kinds = [type(found[name]) for name in ("best_reward", "count", "done", "level", "double")]
    assert kinds == [float, int, bool, int, float]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"policy": object()}, r"metadata must be numbers, .*object.*; convert it first"),
        ({"a": {"b": [1, np.zeros(2)]}}, "metadata must be .*; convert it first"),
        ({"loss": torch.zeros(())}, r"metadata must be .*Tensor.* \.item\(\)"),
        ({"when": np.datetime64("2025-01-01")}, "metadata must be"),
        ({(3, 4): 1}, "metadata must be .*keys must be str"),
        ([1], "metadata must be a dict, got list"),
    ],
)
def test_other_metadata_is_refused(make_trainer, metadata, message, tmp_path):
    with pytest.raises(APIUsageError, match=message):
        plain_metadata(metadata)
    trainer = make_trainer()
    with pytest.raises(APIUsageError, match=message):
        trainer.save_checkpoint("checkpoint.pt", metadata=metadata)
    assert list(tmp_path.iterdir()) == []


def test_more_metadata_than_a_file_is_read_with_is_refused():
    assert plain_metadata({"a": list(range(100_000))})
    with pytest.raises(APIUsageError, match=r"metadata must have at most 1,048,576 letters as JSON, got 1,\d{3},\d{3}"):
        plain_metadata({"a": "x" * 2**20})


# --- what cannot be loaded


def test_no_file(make_trainer):
    with pytest.raises(CheckpointError, match="there is no checkpoint nowhere.pt; check the path"):
        make_trainer().load_checkpoint("nowhere.pt")


def test_weights_alone_and_parts_of_a_run_are_no_state_of_a_trainer(make_trainer):
    trainer = make_trainer()
    weights = trainer.save_checkpoint()
    torch.save({"epoch": 3}, "other.pt")
    for path in (weights, trainer.run_folder / checkpoint.TRAINER_STATE, "other.pt"):
        with pytest.raises(CheckpointError, match=f"{path} holds no state of a trainer; pass a run's folder or"):
            trainer.load_checkpoint(path)


def test_a_folder_is_no_file(make_trainer, tmp_path):
    with pytest.raises(CheckpointError, match="must be a file, and .* is a folder; name one in it"):
        make_trainer().save_checkpoint(tmp_path)


def damaged(path):
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 128] = bytes(byte ^ 255 for byte in content[middle : middle + 128])  # padding is shorter
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "settings", "message"),
    [
        (damaged, {}, "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), {}, "damaged"),
        (None, {"hidden_size": 8}, r"tensor 'encoder.0.weight' must have shape \(8, 25\), got \(16, 25\)"),
        (None, {"size": 3}, r"tensor 'encoder.0.weight' must have shape \(16, 9\), got \(16, 25\)"),
        (None, {"optimizer": "muon"}, r"\['optimizer'\] must be 'muon', got 'adam'; .* with the same optimizer"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(make_trainer, tmp_path, spoil, settings, message):
    first, second = make_trainer(), make_trainer(**settings)
    step(first)
    path = tmp_path / "checkpoint.pt"
    first.save_checkpoint(path)
    if spoil is not None:
        spoil(path)
    before = weights(second)
    with pytest.raises(CheckpointError, match=message) as caught:
        second.load_checkpoint(path)
    assert "\n" not in str(caught.value)
    assert torch.equal(weights(second), before) and second.epoch == 0
