"""Sweeps of an environment that can do anything wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import optuna
import psutil

from pufferlib.config import load_config

NAME = "trouble_envs:Trouble-v0"
SMALL = [
    *("--train.device", "cpu", "--vec.backend", "Serial", "--vec.num-envs", "4", "--train.bptt-horizon", "16"),
    *("--train.total-timesteps", "2048", "--train.batch-size", "64", "--train.minibatch-size", "64"),
    *("--sweep.method", "Random", "--sweep.confirm-best", "0", "--sweep.metric", "episode_return"),
]


def trouble_args(folder, *flags, level=True):
    """The settings of a sweep of the environment whose files go to `folder`, and which varies what it pays."""
    args = load_config(NAME, [*SMALL, "--train.data-dir", str(Path(folder, "experiments")), *map(str, flags)])
    settings = {name: value for name, value in args["sweep"].items() if not isinstance(value, dict)}
    varied = {"env": {"level": {"distribution": "uniform", "min": 0.0, "max": 1.0}}} if level else {}
    return {**args, "sweep": {**settings, **varied}}


DRIVER = """
import sys
from trouble import NAME, trouble_args
from pufferlib.sweep.driver import Sweep
Sweep(NAME, trouble_args(*sys.argv[1:])).run()
"""


def start_driver(folder, *flags, pause=0.0):
    """Starts a driver of such a sweep in a process of its own."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "TROUBLE_PAUSE": str(pause)}
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), *map(str, flags)], env=variables)


def the_study(folder):
    """The only study of the folder, as it is now."""
    (path,) = Path(folder, "experiments", "sweeps").glob("*.db")
    return optuna.load_study(study_name=None, storage=f"sqlite:///{path}")


def trial_processes(process=None):
    """The processes of trials that a process started, by default this one."""
    return [each for each in psutil.Process(process).children(recursive=True) if is_trial(each)]


def is_trial(process):
    """Whether it is that of a trial, and runs."""
    try:
        return "trial_training import main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def wait_until(holds, seconds=600):
    """Waits for something; what it gives at last."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return found
