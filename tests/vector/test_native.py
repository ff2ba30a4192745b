"""What C threads under a Python process must not do."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
from rollouts import make_quietly

from pufferlib.errors import APIUsageError
from pufferlib.ocean.squared.squared import Squared
from pufferlib.vector import native
from pufferlib.vector._native import Stepper


def make_squared(**options):
    return make_quietly(Squared, env_kwargs={"num_envs": 500}, backend="Native", **{"num_workers": 3, **options})


def threads():
    return {thread.id for thread in psutil.Process().threads()}


def come_to(before, count):
    """Whether there are that many threads beside those before, which may end meanwhile.

    The kernel lists a thread for a moment after it was joined.
    """
    for _ in range(1000):
        if len(threads() - before) == count:
            return True
        time.sleep(0.01)
    return False


def run_script(script: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)


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
    before = threads()
    with make_squared(num_workers=1):
        assert come_to(before, 0)
    with make_squared(num_workers=3):
        assert come_to(before, 2)
    assert come_to(before, 0)


@pytest.mark.slow
def test_a_forgotten_vector_leaves_no_threads_even_while_it_steps():
    before = threads()
    for _ in range(3):
        vecenv = make_squared()
        vecenv.reset()
        vecenv.send(np.zeros(500, int))
        del vecenv
    gc.collect()
    assert come_to(before, 0)


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


REFUSED = "another thread is inside a call of this vector, .*; wait for that call to return first"


class SlowCapsule:
    """A vec handle whose step waits until it is let go, made as `puffer_vec.h` says."""

    def __init__(self):
        class PufferVec(ctypes.Structure):
            _fields_ = [
                ("version", ctypes.c_uint32),
                ("num_envs", ctypes.c_int),
                ("is_busy", ctypes.c_int),
                ("is_closed", ctypes.c_int),
                ("step_range", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)),
            ]

        self.entered, self.released = threading.Event(), threading.Event()
        callback = PufferVec._fields_[4][1](self._step)  # takes the interpreter lock while it runs
        self._vec = PufferVec(1, 1, 0, 0, callback)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._name = b"pufferlib.vec"
        self.capsule = new(ctypes.addressof(self._vec), self._name, None)

    def _step(self, vec, begin, end):
        self.entered.set()
        self.released.wait(600)


def test_threads_are_not_stopped_under_a_thread_that_waits_for_them():
    slow = SlowCapsule()
    stepper = Stepper([[slow.capsule]], 1)
    stepper.start(0)
    waiting = threading.Thread(target=stepper.finish, args=(0,))
    waiting.start()
    assert slow.entered.wait(600)
    try:
        for call in (stepper.close, lambda: stepper.finish(0)):
            with pytest.raises(APIUsageError, match="another thread is stepping a batch; wait until it is done"):
                call()
    finally:
        slow.released.set()
        waiting.join(600)
    stepper.start(0)
    stepper.finish(0)
    stepper.close()


class WaitingSquared(Squared):
    """Waits at the end of a step until it is let go."""

    entered, released = threading.Event(), threading.Event()

    def report(self):
        self.entered.set()
        self.released.wait(600)
        return super().report()


@pytest.mark.parametrize("backend", ["Native", "Serial"])
def test_another_thread_is_refused_and_changes_nothing(backend):
    WaitingSquared.entered.clear()
    WaitingSquared.released.clear()
    vecenv = make_quietly(WaitingSquared, env_kwargs={"num_envs": 50}, backend=backend)
    vecenv.reset(1)
    vecenv.send(np.zeros(50, int))
    received = []
    waiting = threading.Thread(target=lambda: received.append(vecenv.recv()))
    waiting.start()
    assert WaitingSquared.entered.wait(600)
    calls = [vecenv.recv, vecenv.close, vecenv.reset, vecenv.hand_over, vecenv.snapshot]
    try:
        for call in (*calls, lambda: vecenv.send(np.zeros(50, int)), lambda: vecenv.restore({})):
            with pytest.raises(APIUsageError, match=REFUSED):
                call()
    finally:
        WaitingSquared.released.set()
        waiting.join(600)
    assert len(received) == 1
    vecenv.step(np.zeros(50, int))
    vecenv.close()
    assert not vecenv.is_open


@pytest.mark.slow
def test_receiving_and_closing_in_two_threads_never_touches_freed_memory():
    """With MALLOC_PERTURB_ freed memory is overwritten, so that whoever still uses it crashes."""
    script = (
        "import threading, numpy as np, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from pufferlib import vector\n"
        "from pufferlib.errors import APIUsageError\n"
        "from pufferlib.ocean.squared.squared import Squared\n"
        "def play(vecenv):\n"
        "    try:\n"
        "        while True:\n"
        "            vecenv.recv(); vecenv.send(np.zeros(4096, int))\n"
        "    except APIUsageError:\n"
        "        pass\n"
        "refusals = 0\n"
        "for _ in range(25):\n"
        "    vecenv = vector.make(Squared, env_kwargs={'num_envs': 4096}, num_envs=2, num_workers=3)\n"
        "    vecenv.async_reset()\n"
        "    thread = threading.Thread(target=play, args=(vecenv,)); thread.start()\n"
        "    while vecenv.is_open:\n"
        "        try:\n"
        "            vecenv.close()\n"
        "        except APIUsageError:\n"
        "            refusals += 1\n"
        "    thread.join()\n"
        "print(refusals > 0)\n"
    )
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    command = [sys.executable, "-X", "dev", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_threads_that_cannot_be_started_are_the_callers_mistake(monkeypatch):
    def no_threads(batches, num_threads):
        raise MemoryError(f"cannot start {num_threads - 1} threads; ask for fewer workers")

    monkeypatch.setattr(native, "Stepper", no_threads)
    with pytest.raises(APIUsageError, match="cannot start 2 threads; ask for fewer workers"):
        make_squared()
