"""The Dockerfile: short, linted, with all that the package is built from, and built where docker is."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
INSTRUCTIONS = [line for line in LINES if line and not line.startswith("#")]


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, timeout=3_600, **kwargs)


def test_it_has_ten_instructions_and_does_not_run_as_root():
    assert len(INSTRUCTIONS) == 10
    users = [line.split()[1] for line in INSTRUCTIONS if line.startswith("USER")]
    assert users and "0" not in users and "root" not in users


def test_its_first_lines_say_how_to_use_it():
    build, run_it = (line for line in LINES if line.startswith("#"))
    assert build.startswith("# docker build -t pufferlib .")
    assert "pufferlib puffer train puffer_breakout" in run_it
    volume = next(line.split()[1] for line in INSTRUCTIONS if line.startswith("VOLUME"))
    assert f":{volume} " in run_it and "--build-arg TORCH_INDEX=" in build


def test_the_linter_finds_nothing():
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed; pip install -e '.[lint]'")
    done = run("hadolint", "Dockerfile", cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_docker_is_sent_what_the_package_is_built_from_and_nothing_else():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"  # all but what is named
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    assert sent == {"LICENSE", "README.md", "pyproject.toml", "setup.py", "extensions", "ocean", "pufferlib", "vector"}
    assert all((ROOT / name).exists() for name in sent)


@pytest.mark.slow
def test_docker_builds_an_image_that_trains():
    if shutil.which("docker") is None or run("docker", "info").returncode:
        pytest.skip("docker is not running here")
    built = run("docker", "build", "-q", ".", cwd=ROOT)
    assert built.returncode == 0, built.stderr
    image = built.stdout.strip()
    training = ("puffer", "train", "puffer_cartpole", "--train.total-timesteps", "70000")
    done = run("docker", "run", "--rm", image, *training)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "saved experiments/puffer_cartpole_" in done.stdout
