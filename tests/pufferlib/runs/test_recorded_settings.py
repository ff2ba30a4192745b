import functools

import gymnasium
import pytest
from test_own_loss import curious_loss

import pufferlib
from pufferlib import PuffeRL
from pufferlib.config import load_config
from pufferlib.errors import CheckpointError, ConfigError
from pufferlib.ppo.losses import ppo_loss
from pufferlib.reading import read_json
from pufferlib.runs import checkpoint, description
from pufferlib.runs.description import find_run, model_settings, run_settings
from pufferlib.runs.folder import CONFIG_FILE, write_json
from pufferlib.wrappers import ClipReward, FrameStack

SQUARED = "puffer_squared"


@pytest.fixture
def run(tmp_path):
    """The folder of a run with settings of its own, and those of today."""

    def make(policy_class=None):
        begun, folder = load_config(SQUARED), tmp_path / "puffer_squared_1"
        begun["train"].update(gamma=0.5, device="cuda", data_dir=str(tmp_path))
        folder.mkdir()
        write_json(folder / CONFIG_FILE, {**description.describe_run(begun), "policy_class": policy_class})
        checkpoint.save(folder / "model_puffer_squared_000001.pt", {})
        (folder / checkpoint.TRAINER_STATE).touch()
        today = load_config(SQUARED)
        today["train"].update(device="cpu", data_dir=str(tmp_path))
        return folder, today

    return make


def test_a_run_goes_on_as_it_was_begun(run):
    folder, today = run()
    found = run_settings(SQUARED, {**today, "resume": "latest"}, is_policy_named=False)
    assert found["resume"] == str(folder)
    assert (found["train"]["gamma"], found["train"]["device"]) == (0.5, "cuda")


def test_an_argument_that_a_run_left_at_its_default_stays_so(run):
    folder, today = run()
    described = read_json(folder / CONFIG_FILE)
    default = described["settings"]["env"].pop("size")
    write_json(folder / CONFIG_FILE, described)

    def resumed(size):
        changed = {**today, "resume": str(folder), "env": {**today["env"], "size": size}}
        return find_run(SQUARED, {**changed, "train": described["settings"]["train"]})

    assert resumed(default) == (folder, [])
    with pytest.raises(ConfigError, match=f"begun with --env.size {default} and cannot go on with {default + 1}"):
        resumed(default + 1)


def test_a_model_is_played_as_it_was_trained_but_on_the_device_of_today(run):
    folder, today = run()
    found = model_settings(SQUARED, {**today, "load_model_path": "latest"}, is_policy_named=False)
    assert found["load_model_path"] == str(folder / "model_puffer_squared_000001.pt") and found["resume"] is None
    assert (found["train"]["gamma"], found["train"]["device"]) == (0.5, "cpu")


def test_a_model_without_its_run_is_played_by_the_settings_of_today(run):
    folder, today = run()
    (folder / description.CONFIG_FILE).unlink()
    path = str(folder / "model_puffer_squared_000001.pt")
    assert model_settings(SQUARED, {**today, "load_model_path": path}, False) == {**today, "load_model_path": path}


def test_a_file_that_says_how_it_was_trained_is_played_so(run, tmp_path):
    folder, today = run()
    path = tmp_path / "mine.pt"
    checkpoint.save(path, {"description": read_json(folder / CONFIG_FILE)})
    given = {**today, "load_model_path": str(path)}
    found = model_settings(SQUARED, given, is_policy_named=False)
    assert (found["train"]["gamma"], found["load_model_path"]) == (0.5, str(path))
    with pytest.raises(CheckpointError, match="mine.pt must be of a run of puffer_pong, got one of puffer_squared"):
        model_settings("puffer_pong", given, is_policy_named=False)


def test_a_policy_that_no_setting_names_has_to_be_named(run):
    folder, today = run("mine.Policy")
    words = "was trained with the policy mine.Policy of your own program; "
    with pytest.raises(CheckpointError, match=words + r"call trainer.load_checkpoint\(folder\) there"):
        run_settings(SQUARED, {**today, "resume": str(folder)}, is_policy_named=False)
    assert run_settings(SQUARED, {**today, "resume": str(folder)}, is_policy_named=True)["train"]["gamma"] == 0.5
    given = {**today, "load_model_path": "latest"}
    with pytest.raises(CheckpointError, match=words + "load the weights into it there"):
        model_settings(SQUARED, given, is_policy_named=False)
    assert model_settings(SQUARED, given, is_policy_named=True)["train"]["gamma"] == 0.5


@pytest.mark.parametrize(("part", "name"), [("loss", "curious_loss"), ("wrappers", "ClipReward, FrameStack")])
def test_a_run_with_parts_of_a_program_is_not_continued_without_them(run, part, name):
    folder, today = run()
    write_json(folder / CONFIG_FILE, {**read_json(folder / CONFIG_FILE), part: name})
    words = rf"{part} {name} of your own program; call trainer.load_checkpoint\(folder\) there to continue it"
    with pytest.raises(CheckpointError, match=words):
        run_settings(SQUARED, {**today, "resume": "latest"}, is_policy_named=True)


def test_a_run_tells_the_loss_and_the_wrappers_that_a_program_gave(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = {"num_steps": 16, "device": "cpu"}
    cart = gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), abs)
    found = []
    for env, loss in (
        (ClipReward(pufferlib.make(SQUARED, num_envs=8)), None),
        (FrameStack(pufferlib.make(SQUARED, num_envs=8), 2), curious_loss),
        (cart, functools.partial(ppo_loss)),
        (SQUARED, ppo_loss),
    ):
        trainer = PuffeRL(env, loss=loss, **settings)
        described = trainer.run.describe()
        found.append((described.get("wrappers"), described.get("loss")))
        trainer.release()
    assert found == [("ClipReward", None), ("FrameStack", "curious_loss"), ("TransformReward", "partial"), (None, None)]


def test_a_module_in_the_settings_of_a_run_has_to_be_named(run):
    folder, today = run()
    described = read_json(folder / CONFIG_FILE)
    described["settings"]["policy_name"] = "anything:Policy"
    write_json(folder / CONFIG_FILE, described)
    with pytest.raises(CheckpointError, match="trained with the policy anything:Policy of your own program"):
        model_settings(SQUARED, {**today, "load_model_path": "latest"}, is_policy_named=False)


def test_a_run_that_is_not_there_is_one_sentence(tmp_path):
    args = load_config(SQUARED)
    args["train"]["data_dir"] = str(tmp_path)
    with pytest.raises(CheckpointError, match="there is no run of puffer_squared to resume"):
        run_settings(SQUARED, {**args, "resume": "latest"}, is_policy_named=False)
