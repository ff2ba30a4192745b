"""Our vector beside EnvPool alone and beside what steps the environment without EnvPool, in turn in one sitting.

    python bench/envpool_vector.py                     the table below, a minute a name on a quiet machine
    python bench/envpool_vector.py --train             with `PuffeRL`, 64 x 64, one pass, for the names that have it
    python bench/envpool_vector.py --busy 4            with four other programs on the cores

Prints steps per second of all environments: the ways of a name are measured in turns, the median of them counts.
Actions are random and prepared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from calibrate import calibration
from record import tell

from pufferlib import vector
from pufferlib.families import catalog
from pufferlib.machine import usable_cores
from pufferlib.vector.envpool_vector import EnvPoolEnv, import_envpool

NAMES = {  # EnvPool's names of Gymnasium's
    "MiniGrid-DoorKey-8x8-v0": "MiniGrid-DoorKey-8x8-v0",
    "BipedalWalker-v3": "BipedalWalker-v3",
    "LunarLander-v3": "LunarLander-v3",
    "CartPole-v1": "CartPole-v1",
    "HalfCheetah-v5": "HalfCheetah-v5",
    "Ant-v5": "Ant-v5",
    "ALE/Pong-v5": "Pong-v5",
}
PREPARED = 16  # rows of actions, used in turn


def prepared_actions(space, num_envs: int, dtype) -> list[np.ndarray]:
    space.seed(0)
    return [np.stack([space.sample() for _ in range(num_envs)]).astype(dtype) for _ in range(PREPARED)]


def bare(task: str, num_envs: int, batch_size: int, threads: int) -> Callable[[int], None]:
    """Steps EnvPool itself, without anything of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = import_envpool().make_gymnasium(
            task, num_envs=num_envs, batch_size=batch_size, num_threads=threads, seed=1
        )
        space = pool.action_space
    dtype = pool.spec.action_array_spec["action"].dtype
    actions = prepared_actions(space, batch_size, dtype)
    pool.async_reset()
    envs = pool.recv()[4]["env_id"]

    def step(count: int) -> None:
        nonlocal envs
        for turn in range(count):
            pool.send(actions[turn % PREPARED], envs)
            envs = pool.recv()[4]["env_id"]

    return step


def ours(vecenv: vector.Vector) -> Callable[[int], None]:
    """Steps a vector, batch by batch."""
    actions = prepared_actions(vecenv.single_action_space, vecenv.agents_per_batch, vecenv.driver_env.actions.dtype)
    vecenv.async_reset()
    for _ in range(vecenv.num_agents // vecenv.agents_per_batch):
        ids = vecenv.recv()[5]
    for _ in range(vecenv.num_agents // vecenv.agents_per_batch - 1):
        vecenv.send(actions[0])

    def step(count: int) -> None:
        nonlocal ids
        for turn in range(count):
            vecenv.send(actions[turn % PREPARED])
            ids = vecenv.recv()[5]

    return step


def in_turn(steppers: dict[str, tuple[Callable[[int], None], int]], seconds: float, turns: int) -> dict[str, float]:
    """The median rate of each, in steps per second; each comes with the environments of one of its steps."""
    counts = {}
    for name, (step, _) in steppers.items():
        step(20)
        begin = time.perf_counter()
        step(20)
        counts[name] = max(20, int(20 * seconds / (time.perf_counter() - begin)))
    rates: dict[str, list[float]] = {name: [] for name in steppers}
    for _ in range(turns):
        for name, (step, size) in steppers.items():
            begin = time.perf_counter()
            step(counts[name])
            rates[name].append(counts[name] * size / (time.perf_counter() - begin))
    return {name: statistics.median(found) for name, found in rates.items()}


def trained(name: str, num_envs: int, threads: int, steps: int) -> float:
    """The rate of a training: a policy of 64 x 64 and one pass."""
    from pufferlib import PuffeRL
    from pufferlib.models import Default

    vecenv = vector.make(catalog.find(f"envpool/{NAMES[name]}").creator, num_envs=num_envs, num_workers=threads)
    policy = Default(vecenv, hidden_size=64, num_layers=2)
    sizes = {"batch_size": 64 * num_envs, "num_steps": 64, "update_epochs": 1, "minibatch_size": 8 * num_envs}
    with tempfile.TemporaryDirectory() as folder:
        trainer = PuffeRL(vecenv, policy, device="cpu", data_dir=folder, shuffle="segments", **sizes)
        trainer.evaluate(), trainer.train()
        begin, first = time.perf_counter(), trainer.global_step
        while trainer.global_step - first < steps:
            trainer.evaluate(), trainer.train()
        rate = (trainer.global_step - first) / (time.perf_counter() - begin)
        trainer.release()
    vecenv.close()
    return rate


def measure(name: str, num_envs: int, threads: int, given: argparse.Namespace) -> dict[str, float]:
    task, half = NAMES[name], num_envs // 2
    made = partial(vector.make, partial(EnvPoolEnv, task), num_envs=num_envs, num_workers=threads)
    vectors = {"ours": made(), "ours, two batches": made(batch_size=half)}
    if not given.alone:
        entry = catalog.find(name)
        backend = "Serial" if name in ("CartPole-v1",) else "auto" if name.startswith("ALE/") else "Multiprocessing"
        vectors["without EnvPool"] = entry.make_vector({}, num_envs=num_envs, backend=backend)
    steppers = {"EnvPool": (bare(task, num_envs, num_envs, threads), num_envs)}
    steppers["EnvPool, two batches"] = bare(task, num_envs, half, threads), half
    steppers |= {which: (ours(vecenv), vecenv.agents_per_batch) for which, vecenv in vectors.items()}
    rates = in_turn(steppers, given.seconds, given.turns)
    for vecenv in vectors.values():
        vecenv.close()
    if given.train:
        rates["trained"] = trained(name, num_envs, threads, int(4 * given.seconds * rates["EnvPool"] / 2))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--busy", type=int, default=0, help="other programs that compute meanwhile")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--alone", action="store_true", help="leave out what steps it without EnvPool")
    parser.add_argument("--no-record", action="store_true")
    given = parser.parse_args()
    threads = usable_cores()
    for name in given.names:
        before = calibration()
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
        try:
            rates = measure(name, given.num_envs, threads, given)
        finally:
            for other in others:
                other.kill()
                other.wait()
        beside = f", beside {given.busy} busy programs" if given.busy else ""
        case = f"{name}, {given.num_envs} environments{beside}"
        rows = [(f"{case}: {which}", rate, "steps/s") for which, rate in rates.items()]
        rows += [(f"{case}: {which}", rate / rates["EnvPool"], "of EnvPool") for which, rate in rates.items()][1:]
        tell("envpool_vector", rows, before, not given.no_record)


if __name__ == "__main__":
    main()
