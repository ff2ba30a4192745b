import json
import subprocess

import pytest

from pufferlib.config import load_config
from pufferlib.errors import CheckpointError
from pufferlib.runs import description
from pufferlib.runs.folder import CONFIG_FILE, TRAINER_STATE, write_json


def test_a_run_is_described_by_settings_versions_and_seed(tmp_path):
    args = load_config("puffer_squared")
    args["train"]["seed"] = 7
    write_json(tmp_path / CONFIG_FILE, description.describe_run(args))
    written = json.loads((tmp_path / description.CONFIG_FILE).read_text())
    assert written["settings"] == args and written["seed"] == 7
    assert {"python", "pufferlib", "torch", "numpy", "gymnasium"} <= written["versions"].keys()
    assert all(written["versions"].values())
    commit = written["git_commit"]
    assert commit is None or len(commit) == 40
    assert description.read_description(tmp_path / "config.json", "puffer_squared")["settings"] == args


def test_the_commit_is_none_of_a_repository_that_the_library_is_installed_in(tmp_path, monkeypatch):
    installed = tmp_path / "venv" / "pufferlib" / "runs" / "description.py"
    installed.parent.mkdir(parents=True)
    who = ["-c", "user.name=they", "-c", "user.email=they@example.org"]
    for command in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.setattr(description, "__file__", str(installed))
    assert description.describe_run(load_config("puffer_squared"))["git_commit"] is None


def make_run(data_dir, launch, name="puffer_squared_1"):
    folder = data_dir / name
    write_json(folder / CONFIG_FILE, {"launch": launch, "settings": {"env_name": "puffer_squared"}})
    (folder / "model_puffer_squared_000001.pt").touch()
    (folder / TRAINER_STATE).touch()
    return folder


def test_a_restart_by_torchrun_goes_on_with_the_run_of_that_launch(tmp_path, monkeypatch):
    assert description.describe_run(load_config("puffer_squared"))["launch"] is None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    launch = description.describe_run(load_config("puffer_squared"))["launch"]
    make_run(tmp_path, launch, "puffer_squared_0")
    folder = make_run(tmp_path, launch)
    make_run(tmp_path, "none 1 2.0", "puffer_squared_2")  # by another torchrun
    assert description.restarted_run(tmp_path, "puffer_squared") is None  # its first start
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert description.restarted_run(tmp_path, "puffer_squared") == folder
    assert description.restarted_run(tmp_path, "puffer_pong") is None
    (folder / description.CONFIG_FILE).write_text("{")
    assert description.restarted_run(tmp_path, "puffer_squared") == tmp_path / "puffer_squared_0"


def test_settings_of_another_environment_are_refused(tmp_path):
    write_json(tmp_path / CONFIG_FILE, description.describe_run(load_config("puffer_squared")))
    with pytest.raises(CheckpointError, match="must be of a run of puffer_pong, got one of puffer_squared"):
        description.read_description(tmp_path / "config.json", "puffer_pong")


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"settings": 3}', '{"settings": {}}'])
def test_settings_that_cannot_be_read_are_refused(tmp_path, text):
    if text is not None:
        (tmp_path / description.CONFIG_FILE).write_text(text)
    with pytest.raises(CheckpointError, match="must hold the settings of the run"):
        description.read_description(tmp_path / "config.json", "puffer_squared")
