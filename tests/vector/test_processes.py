"""Worker processes that are slow, fail, die, or are left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from environments import CountingEnv, TroubledEnv, WaitingEnv
from rollouts import digest, make_quietly, rollout

from pufferlib import vector
from pufferlib.errors import APIUsageError, WorkerError
from pufferlib.vector import processes
from pufferlib.vector.worker import ALERT_SECONDS

HERE = Path(__file__).parent


def make_processes(creator=CountingEnv, **options):
    return make_quietly(creator, backend="Multiprocessing", **{"num_envs": 2, "num_workers": 2, **options})


def workers_of(pid=None):
    """The live workers of a process, in fresh interpreters."""
    return [child for child in psutil.Process(pid).children(recursive=True) if is_worker(child)]


def is_worker(process):
    try:
        return "pufferlib.vector.worker" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def wait_until(is_true, seconds=600.0):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def step_until_error(vecenv):
    vecenv.reset()
    with pytest.raises(WorkerError) as caught:
        for _ in range(10):
            vecenv.step(np.zeros((6, 2), int))
    assert vecenv.state is vector.State.CLOSED
    return str(caught.value)


def test_more_processes_than_a_machine_has_are_refused(monkeypatch):
    monkeypatch.setattr(processes, "WorkerHandle", None)  # none may be started
    with pytest.raises(APIUsageError, match="num_workers must be 'auto' or an integer from 1 to 1024, got 2000"):
        make_processes(num_envs=2000, num_workers=2000)


@pytest.mark.slow
@pytest.mark.parametrize("zero_copy", [True, False])
def test_a_slow_environment_holds_up_nobody_else(zero_copy, tmp_path):
    creators = [WaitingEnv, CountingEnv]
    kwargs = [{"file": str(tmp_path / "go on")}, {}]
    with make_processes(creators, env_kwargs=kwargs, batch_size=1, zero_copy=zero_copy) as vecenv:
        vecenv.async_reset()
        ids = [vecenv.recv()[5].tolist() for _ in range(2)]
        assert sorted(ids) == [[0, 1, 2], [3, 4, 5]]
        for _ in range(2):
            vecenv.send(np.zeros((3, 2), int))
        quick = []
        for step in range(1, 21):
            observations, *_, agent_ids, _ = vecenv.recv()
            quick.append(agent_ids.tolist())
            assert (observations[:, 1] == step % 5).all()
            vecenv.send(np.zeros((3, 2), int))
        assert quick == [[3, 4, 5]] * 20
        (tmp_path / "go on").touch()


def test_batches_mix_the_workers_that_are_ready(tmp_path):
    slow, quick = {"file": str(tmp_path / "go on")}, {"file": str(tmp_path)}
    kwargs = [slow, quick, slow, quick]
    options = {"env_kwargs": kwargs, "num_envs": 4, "num_workers": 4, "batch_size": 2, "zero_copy": False}
    with make_processes(WaitingEnv, **options) as vecenv:
        vecenv.async_reset()
        for _ in range(2):
            vecenv.recv()
        for _ in range(2):
            vecenv.send(np.ones((6, 2), int))
        _, rewards, *_, agent_ids, _ = vecenv.recv()
        assert sorted(agent_ids.tolist()) == [3, 4, 5, 9, 10, 11]
        assert rewards.tolist() == [1] * 6
        (tmp_path / "go on").touch()


def test_an_exception_reaches_the_parent_with_its_traceback():
    message = step_until_error(make_processes(TroubledEnv, env_kwargs=[{"trouble": "none"}, {"trouble": "raise"}]))
    assert "worker 1" in message
    assert "environments 1 to 1" in message
    assert "RuntimeError: the ball went through the wall" in message
    assert "environments.py" in message
    assert workers_of() == []


@pytest.mark.quick("die", "exit")
@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ("die", "was killed by SIGKILL"),
        ("vanish", "exited with code 7"),
        ("exit", "SystemExit: 7"),
        ("reset", "ConnectionResetError: the simulator has hung up"),
    ],
)
def test_a_worker_that_ends_is_reported_at_once(trouble, expected):
    message = step_until_error(make_processes(TroubledEnv, env_kwargs={"trouble": trouble}, num_workers=1))
    assert "worker 0 (process" in message
    assert expected in message
    assert workers_of() == []


@pytest.mark.parametrize(("trouble", "expected"), [("raise", "went through the wall"), ("die", "killed by SIGKILL")])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_is_reported_like_every_other(trouble, expected):
    options = {"env_kwargs": {"trouble": trouble}, "num_workers": 1, "context": "fork"}
    message = step_until_error(make_processes(TroubledEnv, **options))
    assert "worker 0 (process" in message
    assert expected in message


@pytest.mark.slow
def test_a_worker_killed_while_idle_is_reported_by_the_next_call():
    vecenv = make_processes()
    vecenv.reset()
    vecenv._workers[1].process.kill()
    wait_until(lambda: len(workers_of()) == 1)
    with pytest.raises(WorkerError, match=r"worker 1 .* was killed by SIGKILL, so the vector is closed"):
        vecenv.step(np.zeros((6, 2), int))


def test_an_environment_that_cannot_be_made_is_reported_with_its_traceback():
    parent = os.getpid()

    def creator(buf, seed):
        if os.getpid() != parent:
            raise FileNotFoundError("level_7.map")
        return CountingEnv(buf=buf, seed=seed)

    with pytest.raises(WorkerError, match=r"FileNotFoundError: level_7\.map"):
        make_processes(creator, num_workers=1)
    assert workers_of() == []


def test_creators_that_cannot_be_pickled_are_refused():
    lock = __import__("threading").Lock()
    with pytest.raises(APIUsageError, match="pickling them failed .*lock.*; make them picklable"):
        make_processes(lambda buf, seed: CountingEnv(buf=buf, seed=seed) if lock else None)
    assert workers_of() == []


@pytest.mark.quick("fork")
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_every_start_method_gives_the_same_rollout(context):
    reference = digest(rollout(vector.make(CountingEnv, num_envs=2, backend="Serial"), steps=8))
    assert digest(rollout(make_processes(num_workers=1, context=context), steps=8)) == reference


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [2, 4])
def test_no_wake_up_is_lost_between_those_who_are_about_to_sleep(batch_size):
    """Pauses around the moment for which workers stay awake, of steps with infos and without, against a hang."""
    random = np.random.default_rng(0)
    options = {"num_envs": 4, "num_workers": 4, "batch_size": batch_size, "step_timeout_seconds": 60}
    with make_processes(**options) as vecenv:
        vecenv.async_reset()
        for pause in random.uniform(0, 3 * ALERT_SECONDS, 200):
            observations, *_ = vecenv.recv()
            time.sleep(pause)
            vecenv.send(np.zeros((len(observations), 2), int))


@pytest.mark.slow
def test_idle_workers_sleep():
    with make_processes(num_workers=1) as vecenv:
        vecenv.reset()
        processes = workers_of()

        def seconds_used_in_half_a_second():
            before = sum(sum(process.cpu_times()[:2]) for process in processes)
            time.sleep(0.5)
            return sum(sum(process.cpu_times()[:2]) for process in processes) - before

        wait_until(lambda: seconds_used_in_half_a_second() < 0.1)  # the first may still hold the end of the reset


def test_ctrl_c_while_a_worker_that_hangs_is_closed_kills_it(monkeypatch):
    def interrupt(workers, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_join_all", interrupt)
    vecenv = make_processes(TroubledEnv, env_kwargs={"trouble": "hang in C"}, num_envs=1, num_workers=1)
    vecenv.reset()
    for _ in range(2):
        vecenv.step(np.zeros((3, 2), int))
    vecenv.send(np.zeros((3, 2), int))
    with pytest.raises(KeyboardInterrupt):
        vecenv.close()
    assert workers_of() == []


def test_a_forgotten_vector_leaves_no_process():
    vecenv = make_processes()
    vecenv.reset()
    vecenv.send(np.zeros((6, 2), int))
    assert len(workers_of()) == 2
    del vecenv
    gc.collect()
    assert workers_of() == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_see_the_end_while_a_forked_child_lives():
    vecenv = make_processes()
    workers = [worker.process for worker in vecenv._workers]
    child = os.fork()
    if not child:
        while True:
            signal.pause()
    vecenv.close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert [worker.exitcode for worker in workers] == [0, 0]  # none had to be terminated


SCRIPT = """
import os, signal, sys
import numpy as np
sys.path.insert(0, {here!r})
from environments import CountingEnv
from pufferlib import vector

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored

def creator(buf, seed):
    return CountingEnv(buf=buf, seed=seed)

vecenv = vector.make(creator, num_envs=2, num_workers=1, backend="Multiprocessing")
vecenv.reset()
print("ready", flush=True)
{rest}
"""


def start_script(rest: str, **options) -> subprocess.Popen:
    """A program without `if __name__ == "__main__"` whose creator is its own function."""
    script = SCRIPT.format(here=str(HERE), rest=rest)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True, **options)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_an_unguarded_program_that_forgets_to_close_ends_silently():
    process = start_script("vecenv.send(np.zeros((6, 2), int))")
    assert process.communicate(timeout=600) == ("", "")
    assert process.returncode == 0


def test_workers_end_when_their_parent_is_killed():
    process = start_script("while True: vecenv.step(np.zeros((6, 2), int))")
    workers = workers_of(process.pid)
    assert len(workers) == 1
    process.kill()
    process.communicate(timeout=600)
    wait_until(lambda: not any(map(is_worker, workers)))


HANGING = """
from environments import TroubledEnv
hanging = vector.make(TroubledEnv, env_kwargs={{"trouble": {trouble!r}}}, num_workers=1, backend="Multiprocessing")
hanging.reset()
for _ in range(2):
    hanging.step(np.zeros((3, 2), int))
hanging.send(np.zeros((3, 2), int))
print("hanging", flush=True)
vecenv.recv()
"""


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["hang", "hang in C"])
def test_a_worker_that_hangs_ends_when_its_parent_is_killed(trouble):
    process = start_script(HANGING.format(trouble=trouble))
    assert process.stdout.readline() == "hanging\n"
    workers = workers_of(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate(timeout=600)
    wait_until(lambda: not any(map(is_worker, workers)), seconds=60)


@pytest.mark.slow
def test_a_worker_outlives_the_thread_that_started_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(make_processes()))
    thread.start()
    thread.join()
    with made[0] as vecenv:
        vecenv.reset()
        time.sleep(7)  # longer than a worker without a parent is given
        vecenv.step(np.zeros((6, 2), int))


@pytest.mark.quick("hang in C")
@pytest.mark.parametrize("trouble", ["hang", "hang in C"])
def test_a_step_that_takes_too_long_ends_with_the_worker_that_hangs(trouble):
    kwargs = [{"trouble": "none"}, {"trouble": trouble}]
    vecenv = make_processes(TroubledEnv, env_kwargs=kwargs, step_timeout_seconds=600, batch_size=1)
    vecenv.async_reset()
    agents, steps = [vecenv.recv()[5][0] for _ in range(2)], 0
    while steps < 10:  # the other worker goes on
        for _ in agents:
            vecenv.send(np.zeros((3, 2), int))
        agents = [vecenv.recv()[5][0] for _ in range(1 if steps > 1 else 2)]
        steps += 1
    vecenv._timeout = 0.2  # of the one that is still awaited, however long this machine takes for the others
    expected = r"worker 1 \(process \d+, environments 1 to 1\) took longer than step_timeout_seconds 0.2 and was killed"
    with pytest.raises(WorkerError, match=expected):
        vecenv.recv()
    assert vecenv.state is vector.State.CLOSED
    assert workers_of() == []


@pytest.mark.slow
def test_a_timeout_is_for_steps_and_takes_no_worker_that_answers(tmp_path):
    kwargs = {"file": str(tmp_path / "go on")}
    with make_processes(WaitingEnv, env_kwargs=kwargs, num_workers=1, step_timeout_seconds=600) as vecenv:
        vecenv.reset()
        threading.Timer(0.2, (tmp_path / "go on").touch).start()
        for _ in range(3):
            vecenv.step(np.zeros((6, 2), int))


@pytest.mark.parametrize("seconds", [0, -1, "3", True, float("inf"), float("nan")])
def test_a_timeout_must_be_a_number_above_0(seconds):
    with pytest.raises(APIUsageError, match="step_timeout_seconds must be None or a number above 0, got"):
        vector.make(CountingEnv, step_timeout_seconds=seconds)


def test_a_backend_that_cannot_end_a_step_refuses_a_timeout():
    with pytest.raises(APIUsageError, match="a backend that can end a step, got Serial; use the Multiprocessing"):
        vector.make(CountingEnv, backend="Serial", step_timeout_seconds=3)
    with vector.make(CountingEnv, step_timeout_seconds=60) as vecenv:
        assert isinstance(vecenv, vector.Multiprocessing)


def test_ctrl_c_is_the_parents_business_and_leaves_nothing():
    process = start_script(
        "try:\n"
        "    print('stepping', flush=True)\n"
        "    while True: vecenv.step(np.zeros((6, 2), int))\n"
        "except KeyboardInterrupt:\n"
        "    vecenv.close(); print('closed')",
        start_new_session=True,
    )
    assert process.stdout.readline() == "stepping\n"
    workers = workers_of(process.pid)
    for target in (process, *workers):
        os.kill(target.pid, signal.SIGINT)
    assert process.communicate(timeout=600) == ("closed\n", "")
    assert not any(map(is_worker, workers))
