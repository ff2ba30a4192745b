"""Shares of the cores for processes side by side."""

import os
import subprocess
import sys

import pytest

from pufferlib.sweep.trial_process import core_limits


@pytest.mark.parametrize(("workers", "cores", "threads"), [(2, 8, "4"), (3, 8, "2"), (5, 2, "1")])
def test_several_share_the_cores(monkeypatch, workers, cores, threads):
    monkeypatch.setattr("pufferlib.sweep.trial_process.usable_cores", lambda: cores)
    assert core_limits(workers) == {"OMP_NUM_THREADS": threads, "LOCAL_WORLD_SIZE": f"{workers}"}


def test_a_single_one_has_all_of_them():
    assert core_limits(1) == {}


@pytest.mark.slow
def test_torch_and_the_workers_of_environments_keep_to_the_share():
    code = "import torch; from pufferlib.machine import usable_cores; print(torch.get_num_threads(), usable_cores())"
    environment = {**os.environ, **core_limits(2)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == [core_limits(2)["OMP_NUM_THREADS"]] * 2
