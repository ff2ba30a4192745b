"""The tests themselves: they are found however pytest is called, and so are the modules that they share."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = Path(sysconfig.get_path("scripts"), "pytest")
FOLDERS = sorted({path.parent for path in HERE.rglob("test_*.py")} - {HERE})
SHARED = [
    path
    for folder in FOLDERS
    for path in sorted(folder.glob("*.py"))
    if not path.name.startswith("test_") and path.name != "conftest.py"  # which pytest finds by itself
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param([SCRIPT], id="pytest"),
        pytest.param([sys.executable, "-m", "pytest"], id="python -m pytest"),
    ],
)
def test_both_forms_of_the_command_find_the_tests_of_every_folder(command):
    if not Path(command[0]).exists():
        pytest.skip("pytest was installed without its console script")
    # One file each, as collecting all takes ten seconds.
    smallest = [min(folder.glob("test_*.py"), key=lambda path: path.stat().st_size) for folder in FOLDERS]
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHONPATH"))}
    done = subprocess.run(
        [str(word) for word in (*command, "-n0", "-q", "--collect-only", "-m", "slow or not slow", *smallest)],
        **dict(cwd=HERE.parent, env=variables, capture_output=True, text=True, timeout=600),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for path in smallest:
        assert f"{path.relative_to(HERE.parent).as_posix()}::" in done.stdout


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.stem)
def test_a_shared_module_is_found_by_its_name_alone(path):
    """Its folder stands in pyproject.toml's `pythonpath`, and nothing else is called what it is called."""
    assert Path(importlib.util.find_spec(path.stem).origin) == path


def test_a_function_of_a_test_can_be_sent_to_another_process():
    code = f"import sys, importlib; sys.path[:] = {sys.path!r}; importlib.import_module({__name__!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def readme_commands(text, tmp_path):
    (tmp_path / "README.md").write_text(text)
    command = ["bash", str(HERE.parent / ".ci" / "readme_commands"), "README.md"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)


def test_ci_takes_its_commands_out_of_the_readme(tmp_path):
    text = (HERE.parent / "README.md").read_text()
    done = readme_commands(text, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    train, test = done.stdout.splitlines()
    assert f"\n    {train}\n" in text and " train puffer_" in train
    assert f"\n    {test}\n" in text and "pytest" in test
    changed = readme_commands(text.replace("\n    pip install -e . &&", "\n    pip install pufferlib &&"), tmp_path)
    assert changed.stdout.splitlines() == [train.replace("-e .", "pufferlib"), test]


@pytest.mark.parametrize(
    "change", [("## Start", "## Begin"), ("    pip", "pip"), ("    pip", "    ls\n    pip"), ("    pip", "    uv")]
)
def test_ci_fails_where_the_readme_has_no_two_commands(tmp_path, change):
    done = readme_commands((HERE.parent / "README.md").read_text().replace(*change, 1), tmp_path)
    assert done.returncode == 1 and 'under "## Start" of README.md' in done.stderr
