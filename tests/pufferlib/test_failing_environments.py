"""A Python environment that fails while `puffer train` runs: one message, exit code 2, nothing left behind."""

from __future__ import annotations

import psutil
import pytest
from command import run

MODULE = """
import os, signal
import gymnasium
import numpy as np

class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, trouble="raise", render_mode=None):
        self.trouble = trouble
        self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 5 and self.trouble == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps == 5:
            raise RuntimeError("the ball went through the wall")
        return np.zeros(2, np.float32), 0.0, False, False, {}

gymnasium.register("Broken-v0", entry_point=Broken)
"""


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ("raise", "RuntimeError: the ball went through the wall"),
        ("die", "was killed by SIGKILL, so the vector is closed"),
    ],
)
def test_the_command_line_reports_an_environment_that_fails_in_a_worker(tmp_path, monkeypatch, trouble, expected):
    (tmp_path / "broken_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    workers = ["--vec.backend", "Multiprocessing", "--vec.num-envs", 2, "--vec.num-workers", 1]
    sizes = ["--train.batch-size", 256, "--train.bptt-horizon", 64, "--train.minibatch-size", 64]
    name = "broken_envs:Broken-v0"
    code, stderr = run(tmp_path, "train", name, *workers, *sizes, "--env.trouble", trouble, "--train.device", "cpu")
    assert code == 2
    assert expected in stderr
    assert stderr.count("puffer: ") == 1
    assert not [child for child in psutil.Process().children(recursive=True) if is_worker(child)]


def is_worker(process):
    try:
        return "pufferlib.vector.worker" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
