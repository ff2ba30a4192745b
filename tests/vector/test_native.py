"""What C threads under a Python process must not do."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import psutil
import pytest
from rollouts import make_quietly

from pufferlib.errors import APIUsageError
from pufferlib.ocean.squared.squared import Squared
from pufferlib.vector._native import Stepper


def make_squared(**options):
    return make_quietly(Squared, env_kwargs={"num_envs": 500}, backend="Native", **{"num_workers": 3, **options})


def num_threads():
    return psutil.Process().num_threads()


def run_script(script: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


def test_an_environment_is_busy_while_its_step_runs_and_free_afterwards():
    with make_squared(num_envs=2) as vecenv:
        vecenv.async_reset()
        vecenv.recv()
        vecenv.send(np.zeros(500, int))
        env = vecenv.driver_env
        for call in (env.snapshot, env.close, lambda: env.step(env.actions), env.episode_statistics):
            with pytest.raises(RuntimeError, match="being stepped by another thread"):
                call()
        vecenv.recv()
        vecenv.recv()
        env.snapshot()


def test_a_closed_environment_is_refused_and_the_vector_says_so():
    with make_squared() as vecenv:
        vecenv.reset()
        vecenv.driver_env.close()
        with pytest.raises(APIUsageError, match="an environment of the batch is closed; make a new vector"):
            vecenv.step(np.zeros(500, int))


def test_only_handles_of_environments_are_stepped():
    with pytest.raises(APIUsageError, match="handle is a 'pufferlib.vec' capsule, got int"):
        Stepper([[7]], 1)
    stepper = Stepper([[Squared(2).handle]], 1)
    with pytest.raises(IndexError, match="batch must be from 0 to 0, got 1"):
        stepper.start(1)
    stepper.close()
    stepper.close()
    with pytest.raises(APIUsageError, match="make a new vector"):
        stepper.start(0)


def test_one_worker_starts_no_threads_and_closing_ends_them():
    before = num_threads()
    with make_squared(num_workers=1):
        assert num_threads() == before
    with make_squared(num_workers=3):
        assert num_threads() == before + 2
    assert num_threads() == before


def test_a_forgotten_vector_leaves_no_threads_even_while_it_steps():
    before = num_threads()
    for _ in range(3):
        vecenv = make_squared()
        vecenv.reset()
        vecenv.send(np.zeros(500, int))
        del vecenv
    gc.collect()
    assert num_threads() == before


def test_a_program_that_forgets_to_close_ends_silently():
    done = run_script(
        "import numpy as np, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from pufferlib import vector\n"
        "from pufferlib.ocean.squared.squared import Squared\n"
        "vecenv = vector.make(Squared, num_envs=2, num_workers=3)\n"
        "vecenv.async_reset(); vecenv.recv(); vecenv.send(np.zeros(1024, int))\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_forked_child_is_told_to_make_its_own_vector_and_does_not_hang():
    done = run_script(
        "import os, numpy as np, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from pufferlib import vector\n"
        "from pufferlib.ocean.squared.squared import Squared\n"
        "vecenv = vector.make(Squared, num_envs=2, num_workers=3)\n"
        "vecenv.async_reset(); vecenv.recv(); vecenv.send(np.zeros(1024, int))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        vecenv.recv()\n"
        "    except ValueError as error:\n"
        "        print(error, flush=True)\n"
        "    vecenv.close()\n"
        "    del vecenv\n"
        "    own = vector.make(Squared, num_workers=3); own.reset(); own.step(np.zeros(1024, int)); own.close()\n"
        "else:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    vecenv.recv(); vecenv.recv(); vecenv.close()\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "recv() is not possible now; the vector belongs to the process this one was forked from"
    )


def test_statistics_count_every_episode_of_every_thread():
    def episodes(num_workers):
        with make_squared(num_workers=num_workers) as vecenv:
            vecenv.reset()
            terminals, counted = 0, 0
            for _ in range(64):
                _, _, ended, _, infos = vecenv.step(np.full(500, 1))
                terminals += int(ended.sum())
                counted += sum(info["n"] for info in infos)
            assert counted == terminals
            return counted

    assert episodes(1) == episodes(3) > 0
