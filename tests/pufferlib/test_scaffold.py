"""`puffer new`, from a name to a trained agent, and what the template's README shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from copied_checkout import copy_checkout

from pufferlib import cli, ocean, scaffold
from pufferlib.errors import APIUsageError, MissingExtraError
from pufferlib.ocean.template.template import Template

ROOT = Path(__file__).parents[2]
NAMES = ("catch", "my_game", "a_name_that_is_so_long_that_lines_break", "zebra2")


@pytest.fixture
def root(tmp_path):
    """What of a checkout a copy is made from."""
    (tmp_path / "tests" / "ocean").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "ocean" / "test_template.py", tmp_path / "tests" / "ocean")
    shutil.copytree(ROOT / "ocean" / "template", tmp_path / "ocean" / "template")
    for settings in ("pyproject.toml", ".clang-format"):
        shutil.copy(ROOT / settings, tmp_path)
    return tmp_path


@pytest.mark.quick("my_game", "a_name_that_is_so_long_that_lines_break")
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_the_template_under_another_name(root, name):
    folder, test = scaffold.make(root, name)
    assert (folder, test) == (root / "ocean" / name, root / "tests" / "ocean" / f"test_{name}.py")
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["__init__.py", "binding.c", f"{name}.h", f"{name}.ini", f"{name}.py", f"{name}_render.h"]
    )
    for path in (*folder.iterdir(), test):
        text = path.read_text().replace("ocean/template/README.md", "")
        assert "template" not in text.lower() and "shortest" not in text, path
        assert "_Game" not in text and "My_" not in text, path


@pytest.mark.quick("my_game", "a_name_that_is_so_long_that_lines_break")
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_passes_the_lint(root, name):
    for tool in ("ruff", "clang-format"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder, test = scaffold.make(root, name)
    sources = [path for path in (*folder.iterdir(), test) if path.suffix == ".py"]
    for command in (["ruff", "check"], ["ruff", "format", "--check"]):
        done = subprocess.run([*command, *sources], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    sources = [path for path in folder.iterdir() if path.suffix in (".c", ".h")]
    subprocess.run(["clang-format", "--dry-run", "--Werror", *sources], cwd=root, check=True)


def test_a_window_has_the_name_in_words():
    assert scaffold.renamed('"PufferLib template" template_render', "my_game") == '"PufferLib my game" my_game_render'


def test_what_is_reworded_is_in_the_template():
    text = "".join(path.read_text() for path in (ROOT / "ocean" / "template").glob("*.[hp]*") if path.suffix != ".pt")
    for ours in scaffold.REWORDED:
        assert text.count(ours) == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        *(
            (name, "must be lower-case letters")
            for name in ("", "My", "my-game", "2048", "_x", "x_", "a__b", "x/y", "é")
        ),
        *(
            (name, "must mean nothing in Python, C or here")
            for name in ("lambda", "true", "double", "math", "stdint", "size", "env", "texture")
        ),
        ("puffer_my_game", "must not begin with puffer, which is put before it"),
        *((name, "needs a name that is free, got") for name in ("template", "taken", "environment", "contract")),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_written(root, name, sentence):
    (root / "ocean" / "taken").mkdir()
    (root / "ocean" / "environment.py").touch()
    (root / "tests" / "ocean" / "test_contract.py").touch()
    before = sorted(root.rglob("*"))
    with pytest.raises(APIUsageError, match=sentence):
        scaffold.make(root, name)
    assert sorted(root.rglob("*")) == before


def test_no_type_of_raylib_is_a_name():
    header = Path(pytest.importorskip("raylib").__file__).with_name("raylib.h.modified").read_text()
    for kind in re.findall(r"^} (\w+);", header, re.MULTILINE):
        name = re.sub(r"(?<=[a-z0-9N])([A-Z])", r"_\1", kind).lower()
        if scaffold._camel_case(name) == kind:
            with pytest.raises(APIUsageError, match="must mean nothing"):
                scaffold.check_name(name)


def test_every_environment_has_a_name_that_would_do():
    for name in ocean.names():
        scaffold.check_name(name.removeprefix(ocean.PREFIX))


def test_without_a_checkout_the_command_says_what_it_needs(root, monkeypatch, capsys):
    monkeypatch.setattr(ocean, "config_path", lambda name: root / "ocean" / "template" / "template.ini")
    assert cli.main(["new", "my_game"]) == cli.MISTAKE  # no setup.py
    assert "makes environments in a checkout, found pufferlib installed without one in" in capsys.readouterr().err


def test_the_command_says_what_comes_next(root, monkeypatch, capsys):
    monkeypatch.setattr(scaffold, "checkout", lambda: root)
    monkeypatch.chdir(root)
    assert cli.main(["new", "my_game", "--no-build"]) == cli.OK
    printed = capsys.readouterr().out
    assert "made ocean/my_game and tests/ocean/test_my_game.py" in printed
    assert "\n  puffer train puffer_my_game " in printed and "\n  pytest -n0 tests/ocean -k my_game " in printed
    assert cli.main(["new", "my_game"]) == cli.MISTAKE


def test_a_build_that_fails_is_told_after_what_the_compiler_said(root):
    (root / "setup.py").write_text("raise SystemExit(3)")
    with pytest.raises(MissingExtraError, match="must end without an error, got exit status 3; see above"):
        scaffold.compile_it(root)


def readme_blocks(language):
    text = (ROOT / "ocean" / "template" / "README.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readmes_commands_are_those_of_the_program():
    build, commands = readme_blocks("sh")
    assert build.split() == ["python", *scaffold.BUILD]
    assert {line.split()[1] for line in commands.splitlines() if line.startswith("puffer")} <= {*cli.VERBS}


def test_the_readmes_way_to_make_instances_that_differ_works():
    *_, source = readme_blocks("python")
    methods = {}
    exec(source, methods)
    env = type("Uneven", (Template,), {"make_handle": methods["make_handle"]})(20, report_interval=10**6)
    env.reset(0)
    env.step((env.observations[:, 0] >= 2).astype(np.int32))
    assert np.flatnonzero(env.truncations).tolist() == [0, 16]  # those of one round


@pytest.fixture
def tree(tmp_path):
    """A copy of this checkout, with what was built there."""
    copy = tmp_path / "tree"
    copy_checkout(copy)
    return copy


@pytest.mark.slow
@pytest.mark.weekly  # the page environment_in_c.md runs the same commands
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc, to build the copied environment")
def test_a_new_environment_builds_passes_all_tests_and_is_learned(tree):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHONPATH"))}

    def run(*command):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            **dict(cwd=tree, env={**clean, "PUFFER_WERROR": "1"}, capture_output=True, text=True, timeout=600),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = run("pufferlib", "new", "my_game")
    command = re.search(r"^  python (.*?)  ", printed, re.MULTILINE)[1]
    assert subprocess.run([sys.executable, *command.split()], cwd=tree, env=clean).returncode == 0
    tested = run("pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/ocean", "-k", "my_game")
    assert int(re.search(r"(\d+) passed", tested)[1]) > 40
    run("pufferlib", "train", "puffer_my_game", "--train.seed", "1")
    evaluated = run("pufferlib", "eval", "puffer_my_game", "--load-model-path", "latest", "--headless")
    assert float(re.search(r"perf\W+([\d.]+)", evaluated)[1]) > 0.95, evaluated
