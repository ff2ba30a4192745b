"""Environments in actors of a local Ray cluster; one for all tests of this module."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
from environments import CountingEnv, TroubledEnv, WaitingEnv
from rollouts import Driver, digest, make_quietly, rollout

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.errors import APIUsageError, MissingExtraError, WorkerError
from pufferlib.families.envpool_family import make_vector
from pufferlib.vector import ray as ray_cluster

pytestmark = pytest.mark.slow  # a cluster is many processes
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def ray():
    """Ray with a cluster of this library's making, which nobody's vector ends."""
    module = pytest.importorskip("ray")
    assert ray_cluster.join_cluster(2, 1 << 20)
    yield module
    ray_cluster.leave_cluster()
    assert not module.is_initialized()


def make(creator=CountingEnv, **options):
    return make_quietly(creator, backend="Ray", **{"num_envs": 2, "num_workers": 1, **options})


def actor_processes():
    """The processes of workers; Ray names them after their class."""
    return [child for child in psutil.Process().children(recursive=True) if "RayWorker" in child.name()]


def wait_until(is_true, seconds=600.0):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("options", [{}, {"batch_size": 2, "zero_copy": False}])
def test_actors_give_the_serial_rollout(ray, options):
    def run(**chosen):
        return digest(rollout(make_quietly(CountingEnv, num_envs=4, seed=5, **chosen), steps=32))

    assert run(backend="Ray", num_workers=2, **options) == run(backend="Serial")


def test_actors_make_ids_that_only_the_parent_has_registered(ray):
    gymnasium.register("OfTheParent-v0", "gymnasium_environments:Scripted")
    try:
        with make(partial(gymnasium.make, "OfTheParent-v0")) as vecenv:
            vecenv.reset()
    finally:
        gymnasium.registry.pop("OfTheParent-v0")


def test_structured_environments_and_their_infos_pass_through_actors(ray):
    def creator(buf, seed):
        env = gymnasium.make("MountainCar-v0", max_episode_steps=3)
        return GymnasiumPufferEnv(env, buf=buf, seed=seed)

    with make(creator, seed=3) as vecenv, make_quietly(creator, num_envs=2, seed=3, backend="Serial") as serial:
        for each in (vecenv, serial):
            each.reset()
            each.step(np.zeros(2, int))
            each.step(np.zeros(2, int))
        found, expected = vecenv.step(np.zeros(2, int))[4], serial.step(np.zeros(2, int))[4]
        assert [info["agent_id"] for info in found] == [0, 1]
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours["final_observation"], theirs["final_observation"])
            assert ours["final_observation"].flags.writeable


def test_a_slow_environment_holds_up_nobody_else(ray, tmp_path):
    kwargs = [{"file": str(tmp_path / "go on")}, {}]
    with make([WaitingEnv, CountingEnv], env_kwargs=kwargs, num_workers=2, batch_size=1) as vecenv:
        vecenv.async_reset()
        for _ in range(2):
            vecenv.recv()
        for _ in range(2):
            vecenv.send(np.zeros((3, 2), int))
        for _ in range(20):
            assert vecenv.recv()[5].tolist() == [3, 4, 5]
            vecenv.send(np.zeros((3, 2), int))
        (tmp_path / "go on").touch()


def test_a_snapshot_of_another_backend_continues_in_actors(ray):
    actions = np.random.default_rng(0).integers(0, 3, (8, 6, 2))
    with make(seed=9) as vecenv, make_quietly(CountingEnv, num_envs=2, seed=3, backend="Serial") as serial:
        original, copy = Driver(serial), Driver(vecenv)
        serial.async_reset()
        original.receive_all()
        original.send_all(actions[0])
        after_one_step = original.receive_all()[0]
        vecenv.restore(serial.snapshot())
        copy.received = original.received.copy()
        for step in actions[1:]:
            for driver in (original, copy):
                driver.send_all(step)
            for expected, found in zip(original.receive_all(), copy.receive_all(), strict=True):
                np.testing.assert_array_equal(expected, found)
        assert vecenv.snapshot() == serial.snapshot()
        vecenv.send(np.zeros((6, 2), int))
        vecenv.reset(seed=3)  # drops the step that runs
        np.testing.assert_array_equal(vecenv.step(actions[0])[0], after_one_step)


# --- failures


@pytest.mark.parametrize(
    ("trouble", "expected"), [("raise", "RuntimeError: the ball went through the wall"), ("die", "is lost, so the")]
)
def test_an_actor_that_fails_is_reported_at_once(ray, trouble, expected):
    vecenv = make(TroubledEnv, env_kwargs=[{"trouble": "none"}, {"trouble": trouble}], num_workers=2)
    vecenv.reset()
    with pytest.raises(WorkerError) as caught:
        for _ in range(10):
            vecenv.step(np.zeros((6, 2), int))
    assert "worker 1 (actor" in str(caught.value)
    assert "environments 1 to 1" in str(caught.value)
    assert expected in str(caught.value)
    assert ("environments.py" in str(caught.value)) == (trouble != "die")
    assert vecenv.state is vector.State.CLOSED


def test_environments_that_cannot_be_made_are_reported_with_their_traceback(ray):
    parent = os.getpid()

    def failing(buf, seed):
        if os.getpid() != parent:
            raise FileNotFoundError("level_7.map")
        return CountingEnv(buf=buf, seed=seed)

    with pytest.raises(WorkerError, match=r"FileNotFoundError: level_7\.map"):
        make(failing)
    with pytest.raises(WorkerError, match="same num_agents, environment 0 has 3, environment 1 has 2"):
        make([CountingEnv, lambda buf, seed: CountingEnv(2, seed=seed)])


def test_creators_that_cannot_be_pickled_are_refused(ray):
    lock = __import__("threading").Lock()
    with pytest.raises(APIUsageError, match=r"Ray sends .* pickling them failed .*lock"):
        make(lambda buf, seed: CountingEnv(buf=buf, seed=seed) if lock else None)


def test_closing_leaves_no_actor_and_the_cluster_to_its_owner(ray, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_num_users", 0)  # now it is somebody else's
    vecenv = make()
    vecenv.reset()
    vecenv.send(np.zeros((6, 2), int))
    assert actor_processes()
    vecenv.close()
    wait_until(lambda: not actor_processes(), 5.0)
    assert ray.is_initialized()


# --- clusters and the package


def test_a_missing_package_says_which_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pufferlib\[ray\]'"):
        make()


def test_ray_is_not_imported_before_it_is_used():
    code = "import sys; from pufferlib import vector; assert vector.BACKENDS['Ray']; print('ray' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


SCRIPT = """
import sys
import numpy as np, psutil
sys.path.insert(0, {here!r})
from environments import CountingEnv
from pufferlib import vector
import ray

first, second = (vector.make(CountingEnv, num_envs=2, num_workers=1, backend="Ray") for _ in range(2))
second.reset()
first.close()
assert ray.is_initialized()
second.send(np.zeros((6, 2), int))
print(*(child.pid for child in psutil.Process().children(recursive=True)))
"""


def test_a_program_that_forgets_to_close_ends_silently_with_the_cluster_it_started():
    pytest.importorskip("ray")
    script = SCRIPT.format(here=str(HERE))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 3
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), 5.0)


@pytest.fixture
def pools(ray):
    pytest.importorskip("envpool", reason="needs the extra envpool")

    def made(**options):
        return make_vector("CartPole-v1", {}, num_envs=8, seed=5, **options)

    return made


def test_actors_step_pools_of_envpool(pools):
    def run(**options):
        with pools(**options) as vecenv:
            observations, _ = vecenv.reset(seed=3)
            found = [observations.copy()]
            for step in range(40):
                observations, rewards, terminals, _, _ = vecenv.step(np.full(8, step % 2))
                found += [observations.copy(), rewards.copy(), terminals.copy()]
            return vecenv.num_agents, np.concatenate([array.ravel() for array in found])

    (agents, by_actors), (_, by_processes) = (run(backend=each, num_workers=2) for each in ("Ray", "Multiprocessing"))
    assert agents == 8 and np.array_equal(by_actors, by_processes)


def test_a_killed_actor_ends_a_vector_of_pools(ray, pools):
    with pools(backend="Ray", num_workers=2) as vecenv:
        vecenv.reset()
        ray.kill(vecenv._workers[1].actor)
        with pytest.raises(WorkerError, match="worker 1"):
            for _ in range(3):
                vecenv.step(np.zeros(8, int))
