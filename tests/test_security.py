"""What SECURITY.md promises: files of strangers are data, and nothing is written but where runs are kept."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from command import context, only_run
from hypothesis import given, strategies as st

from pufferlib.families.entry import slug

SMALL = [
    *("--env.num-envs", 8, "--train.device", "cpu", "--train.bptt-horizon", 16),
    *("--train.minibatch-size", 128, "--train.total-timesteps", 2048),
]
ROOT = Path(__file__).parents[1]
PACKAGE = [ROOT / name for name in ("pufferlib", "ocean", "vector", "extensions")]
WRITING = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")


@given(st.text() | st.sampled_from(["", ".", "..", "../..", "/", "/etc", "..\\..", "a/../../b", "\0", "~", ".git"]))
def test_a_name_of_a_file_leads_nowhere_else(name):
    path = Path("/folder", slug(name))
    assert path.parent == Path("/folder") and path.name not in ("", ".", "..") and not path.name.startswith(".")
    assert "\0" not in path.name and "\\" not in path.name


def test_names_that_were_fine_stay(tmp_path):
    assert [slug(name) for name in ("puffer_pong", "ALE/Pong-v5")] == ["puffer_pong", "ALE_Pong-v5"]


def run_audited(folder, arguments, events):
    """Runs the command line in `folder`, and notes every path that Python's own code changes anything at."""
    import os

    changed = set()

    def hook(event, given):
        if event not in WRITING or event == "open" and not is_for_writing(given[1], given[2]):
            return
        for path in given[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
            if isinstance(path, (str, bytes, os.PathLike)):
                changed.add(os.path.abspath(os.fsdecode(path)))

    os.chdir(folder)
    sys.stdout = sys.stderr = Path("output").open("w")  # noqa: SIM115 - until the process ends
    from pufferlib.cli import main

    sys.addaudithook(hook)
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as leaving:
        code = leaving.code
    Path(events).write_text(json.dumps([code, sorted(changed)]))


def is_for_writing(mode, flags):
    import os

    return any(letter in mode for letter in "wax+") if mode else bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def audited(folder, *arguments):
    """The exit status, and the paths that were changed, but for what is nobody's file."""
    events = folder / "events.json"
    process = context.Process(target=run_audited, args=(str(folder), arguments, str(events)))
    process.start()
    process.join(300)
    code, changed = json.loads(events.read_text())
    return code, [Path(path) for path in changed if not path.startswith(("/dev/", "/proc/")) and path != str(events)]


@pytest.mark.slow
def test_a_run_writes_into_the_folder_of_runs_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    code, changed = audited(tmp_path, "train", "puffer_squared", *SMALL)
    run = only_run(tmp_path)
    assert code == 0 and any(path.parent == run for path in changed)
    assert [path for path in changed if not path.is_relative_to(run) and path not in (run, run.parent)] == []

    code, changed = audited(tmp_path, "train", "puffer_squared", "--resume", "latest", "--train.num-iterations", 24)
    assert code == 0
    assert [path for path in changed if not path.is_relative_to(run)] == []

    code, changed = audited(tmp_path, "eval", "puffer_squared", "--load-model-path", "latest", "--episodes", 2)
    assert (code, changed) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("study", ["../../elsewhere", ".."])
def test_a_sweep_writes_into_the_folder_of_sweeps_alone(tmp_path, study):
    trials = ["--sweep.num-trials", 1, "--sweep.confirm-best", 0, "--study", study]
    code, changed = audited(tmp_path, "sweep", "puffer_squared", *SMALL, *trials)
    sweeps = tmp_path / "experiments/sweeps"
    assert code == 0, (tmp_path / "output").read_text()
    outside = [path for path in changed if not path.is_relative_to(sweeps) and path not in sweeps.parents]
    assert [path for path in outside if path.name != "matplotlib"] == []  # a library's own folder for its caches
    assert {path.name for path in tmp_path.iterdir()} <= {"experiments", "events.json", "output"}
    assert {path.name for path in (tmp_path / "experiments").iterdir()} == {"sweeps"}


# --- files of strangers


def test_torch_loads_weights_only():
    calls = [
        node
        for folder in PACKAGE
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    names = {ast.unparse(call.func) for call in calls}
    assert "json.loads" in names and not names & {"load_state_dict_from_url", "pickle.load"}
    loads = [call for call in calls if ast.unparse(call.func) == "torch.load"]
    flags = [ast.unparse(keyword) for call in loads for keyword in call.keywords if keyword.arg == "weights_only"]
    assert flags == ["weights_only=True"] * len(loads) == ["weights_only=True"]


def test_words_of_a_configuration_are_never_code(tmp_path, monkeypatch):
    from pufferlib.config import load_config
    from pufferlib.errors import ConfigError

    monkeypatch.chdir(tmp_path)
    bomb = "__import__('os').system('touch evaluated')"
    for value in (bomb, f"[{bomb}]", "${" + bomb + "}", "%(bomb)s", f"lambda: {bomb}"):
        Path("mine.ini").write_text(f"[train]\nlearning_rate = {value}\n")
        with pytest.raises(ConfigError, match="learning_rate"):
            load_config("puffer_squared", ["--config", "mine.ini"])
        with pytest.raises(ConfigError, match="learning_rate"):
            load_config("puffer_squared", ["--train.learning-rate", value])
    assert not Path("evaluated").exists()
