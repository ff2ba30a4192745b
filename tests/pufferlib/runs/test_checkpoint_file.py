import enum
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pufferlib
from pufferlib import PuffeRL
from pufferlib.errors import APIUsageError, CheckpointError
from pufferlib.models import Default
from pufferlib.reading import read_json
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


def test_weights_that_were_loaded_after_the_checkpoint_are_saved_by_closing(make_trainer):
    trainer = make_trainer()
    step(trainer)
    trainer.save_checkpoint(metadata={"stage": 1})
    best = {name: torch.full_like(tensor, 0.5) for name, tensor in trainer.policy.state_dict().items()}
    trainer.policy.load_state_dict(best)
    path, folder = trainer.close(), trainer.run_folder
    assert all(bool((tensor == 0.5).all()) for tensor in torch.load(path, weights_only=True).values())
    assert make_trainer().load_checkpoint(folder) == {"stage": 1}


def test_closing_writes_nothing_again(make_trainer):
    trainer = make_trainer()
    step(trainer)
    path = Path(trainer.save_checkpoint())
    before = path.stat().st_mtime_ns
    assert trainer.close() == str(path) and path.stat().st_mtime_ns == before
    with pytest.raises(APIUsageError, match="the trainer is closed"):
        trainer.save_checkpoint()
    trainer.save_checkpoint("after.pt")
    assert make_trainer().load_checkpoint("after.pt") == {}


@pytest.mark.parametrize("batch_size", [16, 96, 128])
def test_another_batch_size_counts_other_epochs(make_trainer, batch_size):
    first = make_trainer(num_iterations=4)
    step(first, 4)
    first.save_checkpoint("stage.pt")
    second = make_trainer(batch_size=batch_size)
    second.load_checkpoint("stage.pt")
    epochs = math.ceil(4 * 64 / batch_size)
    assert (second.epoch, second.total_epochs, second.global_step) == (epochs, epochs, 256)
    third = make_trainer(batch_size=batch_size, total_timesteps=512)
    third.load_checkpoint("stage.pt")
    rates = []
    while third.epoch < third.total_epochs:
        rates.append(third.learning_rate)
        step(third)
    assert len(rates) == third.total_epochs - epochs > 0
    assert rates[0] == pytest.approx(1e-2 * (1 - epochs / third.total_epochs)) and min(rates) > 0


def test_a_file_that_does_not_tell_its_batch_size_is_loaded_as_before(make_trainer):
    first = make_trainer()
    step(first, 3)
    first.save_checkpoint("stage.pt")
    content = checkpoint.load(Path("stage.pt"))
    assert content.pop("batch_size") == 64
    checkpoint.save(Path("stage.pt"), content)
    second = make_trainer(batch_size=128)
    second.load_checkpoint("stage.pt")
    assert second.epoch == 3


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_weights_of_a_compiled_policy_have_the_names_of_the_policys(make_trainer, is_compiled):
    env = pufferlib.make("puffer_squared", num_envs=4)
    policy = Default(env, 16)
    keywords = {"batch_size": 64, "device": "cpu"}
    first = PuffeRL(env, torch.compile(policy, backend="eager"), **keywords)
    step(first)
    first.save_checkpoint("checkpoint.pt")
    path = first.close()
    described = read_json(first.run_folder / "config.json")
    assert described["policy_class"] is None and described["settings"]["policy_name"] == "Default"
    weights = torch.load(path, weights_only=True)
    assert weights.keys() == policy.state_dict().keys()
    env = pufferlib.make("puffer_squared", num_envs=4)
    other = Default(env, 16)
    second = PuffeRL(env, torch.compile(other, backend="eager") if is_compiled else other, **keywords)
    checkpoint.load_policy_weights(second.policy, Path(path))
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, weights[name])
    if is_compiled:
        second.load_checkpoint("checkpoint.pt")
        assert second.epoch == 1
    second.release()


class Half(nn.Module):
    """A policy that compiles a part of itself."""

    def __init__(self, env):
        super().__init__()
        self.inside = torch.compile(Default(env, 8), backend="eager")

    def forward(self, observations, state):
        return self.inside(observations, state)


@pytest.mark.parametrize("normalized", [False, True])
def test_parts_that_a_policy_compiles_itself_keep_their_names(normalized):
    env = pufferlib.make("puffer_cartpole", num_envs=4)
    policy = Half(env)
    names = [f"policy.{name}" for name in policy.state_dict()] if normalized else list(policy.state_dict())
    assert all("inside._orig_mod." in name for name in names)
    trainer = PuffeRL(env, policy, batch_size=64, device="cpu", normalize_observations=normalized)
    step(trainer)
    saved = torch.load(trainer.close(), weights_only=True)
    assert [name for name in saved if name not in ("count", "mean", "variance")] == names


def test_a_compiled_policy_whose_observations_are_normalised_has_the_names_of_the_policys():
    env = pufferlib.make("puffer_cartpole", num_envs=4)
    settings = {"batch_size": 64, "device": "cpu", "normalize_observations": True}
    trainer = PuffeRL(env, torch.compile(Default(env, 8), backend="eager"), **settings)
    step(trainer)
    path = trainer.close()
    assert not any("_orig_mod" in name for name in torch.load(path, weights_only=True))
    env = pufferlib.make("puffer_cartpole", num_envs=4)
    other = PuffeRL(env, Default(env, 8), **settings)
    checkpoint.load_policy_weights(other.policy, Path(path))
    other.release()


class Keeping(nn.Module):
    """A policy with a buffer or a state beside its weights."""

    def __init__(self, env, kept=None):
        super().__init__()
        self.policy, self.extra = Default(env, 8), kept
        if isinstance(kept, torch.Tensor):
            self.register_buffer("kept", kept)

    def get_extra_state(self):
        return torch.zeros(2) if self.extra is None or isinstance(self.extra, torch.Tensor) else self.extra

    def set_extra_state(self, state):
        self.loaded = state

    def forward(self, observations, state):
        return self.policy(observations, state)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.bfloat16, torch.bool, torch.int8, None], ids=str)
def test_whatever_tensors_a_policy_keeps_come_back(dtype):
    kept = None if dtype is None else torch.ones(3, 2).to(dtype)
    settings = {"batch_size": 64, "device": "cpu"}
    env = pufferlib.make("puffer_squared", num_envs=4)
    trainer = PuffeRL(env, Keeping(env, kept), **settings)
    step(trainer)
    trainer.save_checkpoint("checkpoint.pt")
    trainer.close()
    for source in ("checkpoint.pt", trainer.run_folder):
        env = pufferlib.make("puffer_squared", num_envs=4)
        other = PuffeRL(env, Keeping(env, None if kept is None else kept.clone().zero_()), **settings)
        other.load_checkpoint(source)
        assert dtype is None or torch.equal(other.policy.kept.int(), kept.int())
        assert torch.equal(other.policy.loaded, torch.zeros(2))
        other.release()


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (torch.eye(3).to_sparse(), "'kept' must be a dense tensor, .* got a sparse or quantized one; convert it"),
        (torch.zeros(3, 1).expand(3, 4), "'kept' must be a dense tensor, .* got an expanded one"),
        (torch.zeros(3).to(torch.float8_e5m2), "'kept' must be a dense tensor, .* got one of torch.float8_e5m2"),
        ({"seen": 3}, "'_extra_state' must be a dense tensor, .* got a dict"),
    ],
)
def test_what_no_checkpoint_could_give_back_is_refused_before_the_training(kept, found):
    env = pufferlib.make("puffer_squared", num_envs=4)
    with pytest.raises(APIUsageError, match=found):
        PuffeRL(env, Keeping(env, kept), batch_size=64, device="cpu")
    env.close()


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
