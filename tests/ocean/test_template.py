"""The quiz of the template, its two ways of being made, and the instructions for copying it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contract import checksum

from pufferlib.ocean.template.template import Template

ROOT = Path(__file__).parents[2]  # not by the package, whose folder may be a link
OCEAN = ROOT / "ocean"


def right_answers(observations):
    return (observations[:, 0] >= 2).astype(np.int32)


def test_right_answers_pay_until_the_rounds_are_full():
    env = Template(20, rounds=5, report_interval=10**6)
    env.reset(0)
    for step in range(1, 21):
        env.step(right_answers(env.observations))
        assert np.all(env.rewards == 1.0) and not env.terminals.any()
        assert env.truncations.all() == env.truncations.any() == (step % 5 == 0)
    (statistics,) = env.episode_statistics()
    assert statistics == {"perf": 1.0, "score": 5.0, "episode_return": 5.0, "episode_length": 5.0, "n": 80.0}


def test_a_wrong_answer_ends_the_episode():
    env = Template(20, rounds=5, report_interval=10**6)
    env.reset(0)
    for step in range(1, 10):
        answers = right_answers(env.observations)
        env.step(1 - answers if step % 3 == 0 else answers)
        assert np.all(env.rewards == (-1.0 if step % 3 == 0 else 1.0))
        assert env.terminals.all() == env.terminals.any() == (step % 3 == 0)
        assert not env.truncations.any()
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] == pytest.approx(0.4)
    assert (statistics["score"], statistics["episode_return"], statistics["episode_length"]) == (2.0, 1.0, 3.0)


def test_every_question_is_asked_equally_often():
    env = Template(8000)
    env.reset(0)
    counts = np.bincount(env.observations[:, 0], minlength=4)
    assert np.all(np.abs(counts - 2000) < 5 * 2000**0.5)


def test_rollout_is_the_golden_one():
    env = Template(16)
    env.reset(42)
    rows = np.arange(16)
    observed = [env.step((rows * 7 + step) // 3 % 2)[0].copy() for step in range(256)]
    assert checksum(observed) == 2485700910  # printed by the lines above; changes when rules or random streams do


@pytest.mark.parametrize("rounds", [0, 1001])
def test_an_impossible_number_of_rounds_is_refused(rounds):
    with pytest.raises(ValueError, match=f"template: rounds must be an integer from 1 to 1000, got {rounds}"):
        Template(1, rounds=rounds)


def test_the_readmes_way_to_make_instances_that_differ_works():
    *_, source = re.findall(r"```python\n(.*?)```", (OCEAN / "template" / "README.md").read_text(), re.DOTALL)
    methods = {}
    exec(source, methods)
    env = type("Uneven", (Template,), {"make_handle": methods["make_handle"]})(20, report_interval=10**6)
    env.reset(0)
    env.step(right_answers(env.observations))
    assert np.flatnonzero(env.truncations).tolist() == [0, 16]  # those of one round


def shell_blocks():
    return re.findall(r"```sh\n(.*?)```", (OCEAN / "template" / "README.md").read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc, to build the copied environment")
def test_the_readme_makes_an_environment_that_builds_and_runs(tmp_path):
    for path in ("ocean/include", "ocean/template", "vector", "extensions"):
        shutil.copytree(ROOT / path, tmp_path / path)  # what is built there already is not built again
    for path in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / path, tmp_path / path)
    copy, build, *_ = shell_blocks()
    subprocess.run(["sh", "-e", "-c", copy], cwd=tmp_path, check=True)
    text = "".join(path.read_text() for path in (tmp_path / "ocean/mygame").iterdir())
    assert "template" not in text.lower()
    shutil.rmtree(tmp_path / "ocean/template")
    assert build.split()[:2] == ["python", "setup.py"]
    environment = {**os.environ, "PUFFER_WERROR": "1", "PUFFER_CUDA": "0"}
    subprocess.run([sys.executable, *build.split()[1:]], cwd=tmp_path, check=True, capture_output=True, env=environment)
    program = (
        "import sys, pufferlib.ocean; pufferlib.ocean.__path__.insert(0, sys.argv[1])\n"
        "from pufferlib.ocean.mygame.mygame import MyGame\n"
        "env = MyGame(4, rounds=3); env.reset(0); print(env.step((env.observations[:, 0] >= 2).astype('i4'))[1].sum())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "ocean")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "4.0\n"
