"""What docs/tutorials/custom_loss.md does to a checkout, done to a copy of one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "custom_loss.md"


@pytest.fixture
def checkout(tmp_path):
    """A copy that Python finds first where it is the current folder."""
    for name in ("pufferlib", "extensions", "tests/extensions"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    for name in ("ocean", "vector"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("ocean", "vector", "extensions"):
        if not (tmp_path / "pufferlib" / name).exists():  # where the installation made no links of these names
            (tmp_path / "pufferlib" / name).symlink_to(tmp_path / name)
    return tmp_path


def apply(difference, checkout):
    command = ["git", "apply", "-p1", "--directory=", "-"]
    done = subprocess.run(command, input=difference, cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def train(checkout, name, *flags):
    """Trains by the copy; returns its status, what it printed, and the mean of `losses/approx_kl`."""
    short = ("--train.total-timesteps", "100_000", "--train.log-interval", "1", "--train.data-dir", name)
    command = [sys.executable, "-m", "pufferlib.pufferl", "train", "puffer_cartpole", *short, *flags]
    variables = {name: value for name, value in os.environ.items() if name != "PUFFER_FLAGS"}
    done = subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=600)
    rows = [
        json.loads(row) for file in checkout.glob(f"{name}/*/metrics.jsonl") for row in file.read_text().splitlines()
    ]
    moved = [row["losses/approx_kl"] for row in rows if "losses/approx_kl" in row]
    return done.returncode, done.stdout + done.stderr, sum(moved) / max(len(moved), 1)


def test_the_differences_fit_the_files_as_they_are():
    differences = [block.parsed.text for block in blocks_of(PAGE) if block.parsed.language == "diff"]
    assert len(differences) == 3
    for difference in differences:
        command = ["git", "apply", "--check", "-p1", "-"]
        done = subprocess.run(command, input=difference, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_page_edits_a_checkout_as_it_says(checkout):
    term, setting, kernel = (block.parsed.text for block in blocks_of(PAGE) if block.parsed.language == "diff")
    apply(term, checkout)
    status, output, _ = train(checkout, "without")
    assert status != 0 and "got 'kl_coef'; add it to config/schema.py" in " ".join(output.split())
    apply(setting, checkout)
    status, output, moved = train(checkout, "free", "--train.kl-coef", "0")
    assert status == 0 and "computed by torch (ppo/losses.py changed, and the kernel did not follow)" in output
    status, _, moved_with_care = train(checkout, "careful", "--train.kl-coef", "10")
    assert status == 0 and moved_with_care < moved / 3
    apply(kernel, checkout)
