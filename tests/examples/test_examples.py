"""Every example runs as it is."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = "--train.total-timesteps 70000 --env.num-envs 256 --train.minibatch-size auto"
EXTRAS = {"stable_baselines3_cartpole.py": ("stable_baselines3", "sb3")}  # packages that some need
LINES = {"ppo_from_scratch.py": 100}  # an algorithm in one file; the others show how little it takes
QUICK = ("basic_training.py", "custom_environment.py", "custom_policy.py", "ppo_from_scratch.py")
SMALL = {"training_by_config.py": FLAGS.split()}  # the others count iterations


@pytest.fixture
def beside_examples(in_tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)  # as for a script, which may import its neighbours


@pytest.mark.quick("custom_environment.py", "ppo_from_scratch.py")
@pytest.mark.usefixtures("beside_examples")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=() if path.name in QUICK else pytest.mark.slow)
        for path in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_it_runs(name, monkeypatch, capsys):
    if name in EXTRAS:
        package, extra = EXTRAS[name]
        pytest.importorskip(package, reason=f"pip install 'pufferlib[{extra}]'")
    monkeypatch.setattr(sys, "argv", [name, *SMALL.get(name, ["2"])])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    captured = capsys.readouterr()
    assert captured.out and not captured.err


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_it_is_short_and_says_how_to_run_it(path):
    text = path.read_text()
    assert len(text.splitlines()) < LINES.get(path.name, 40)
    assert re.search(rf"^Usage: python examples/{path.name} \[.+\]$", text, re.MULTILINE)


@pytest.mark.slow
def test_it_runs_as_a_script(tmp_path):
    command = [sys.executable, str(EXAMPLES / "curriculum.py"), "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
