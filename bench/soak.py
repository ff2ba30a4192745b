"""Whether anything is left behind: trains again and again in one process, and watches what the process holds.

    python bench/soak.py --minutes 10
    python bench/soak.py --trainers 2016 --epochs 3       one every five minutes of a week, without the waiting
    python bench/soak.py --one-run --epochs 10_000        one trainer that goes on and on

Each round makes a vector, a policy and a trainer of one backend after the other, trains them for some epochs, saves,
loads and closes (every fourth trainer is let go of without a word instead). After each round it counts threads, child
processes, open files, shared memory and resident memory. The first rounds fill caches; what grows after them is a leak.
One run is of tiny settings, logs and saves all the time, and is looked at after every twentieth of its epochs.
"""

from __future__ import annotations

import argparse
import gc
import shlex
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import psutil
from calibrate import calibration
from record import keep

from pufferlib import pufferl
from pufferlib.loggers.logger import JsonLogger

ROUNDS_TO_FILL_CACHES = 5
MEMORY_TOLERANCE = 0.03  # of what is resident: allocators keep some of what they were given back
CASES = [  # environment, backend, PufferEnvs, rnn_name
    ("puffer_breakout", "Native", 2, "MinGRU"),
    ("puffer_squared", "Multiprocessing", 2, None),
    ("puffer_breakout", "Serial", 1, "LSTM"),
]


@dataclass(frozen=True)
class Holdings:
    """What a process holds."""

    threads: int
    children: int
    files: int
    shared_files: int  # in /dev/shm, of all processes
    megabytes: float  # resident

    @classmethod
    def now(cls) -> Holdings:
        gc.collect()
        process = psutil.Process()
        shared = len(list(Path("/dev/shm").iterdir())) if Path("/dev/shm").exists() else 0
        memory = process.memory_info().rss / 2**20
        return cls(process.num_threads(), len(process.children(recursive=True)), process.num_fds(), shared, memory)


def train_once(folder: str, case: tuple, epochs: int, is_closed: bool) -> int:
    """One trainer from beginning to end; returns its agent steps."""
    env_name, backend, num_envs, rnn_name = case
    args = pufferl.load_config(env_name)
    args["rnn_name"] = rnn_name
    args["rnn"] = {}
    args["env"]["num_envs"] = 64
    args["vec"].update(backend=backend, num_envs=num_envs)
    args["train"].update(device="cpu", bptt_horizon=16, minibatch_size="auto", data_dir=folder, log_interval=5)
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    logger = JsonLogger(Path(folder, "metrics.jsonl"))
    trainer = pufferl.PuffeRL({**args["train"], "env": env_name}, vecenv, policy, logger)
    for _ in range(epochs):
        trainer.evaluate()
        trainer.train()
    trainer.save_checkpoint()
    trainer.load_checkpoint(trainer.run_folder)
    if is_closed:
        trainer.close()
        trainer.close()
    return trainer.global_step


def soak_trainers(options: argparse.Namespace) -> tuple[str, list[Holdings]]:
    """Trainers one after the other; what they are called in the results, and what was held after each round."""
    end = time.monotonic() + 60 * options.minutes
    held: list[Holdings] = []
    trainers = steps = 0
    while len(held) <= ROUNDS_TO_FILL_CACHES or is_short(trainers, options.trainers, end):
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES:
                trainers += 1
                steps += train_once(folder, case, options.epochs, is_closed=trainers % 4 != 0)
        held.append(Holdings.now())
        if len(held) % 5 == 1:
            print(f"{trainers:5} trainers  {steps / 1e6:6.1f} M steps  {held[-1]}", flush=True)
    return f"soak, {trainers} trainers of {options.epochs} epochs", held


def is_short(trainers: int, wanted: int | None, end: float) -> bool:
    """Whether there are more to come: as many as are wanted, or as time lets."""
    return trainers < wanted if wanted is not None else time.monotonic() < end


def soak_one(options: argparse.Namespace) -> tuple[str, list[Holdings]]:
    """One run of many epochs; as `soak_trainers`."""
    args = pufferl.load_config("puffer_squared")
    args["env"]["num_envs"] = 8
    args["vec"].update(backend="Native", num_envs=2)
    args["train"].update(device="cpu", bptt_horizon=16, minibatch_size=128, log_interval=10, checkpoint_interval=100)
    args["train"].update(num_iterations=options.epochs, evaluations=20, evaluation_envs=2)
    held = []
    with tempfile.TemporaryDirectory() as folder:
        args["train"]["data_dir"] = folder
        vecenv = pufferl.load_env("puffer_squared", args)
        policy = pufferl.load_policy(args, vecenv, "puffer_squared")
        trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_squared"}, vecenv, policy)
        while trainer.epoch < options.epochs:
            trainer.evaluate()
            trainer.train()
            if trainer.epoch % max(1, options.epochs // 20) == 0:
                held.append(Holdings.now())
                print(f"{trainer.epoch:6} epochs  {held[-1]}", flush=True)
        trainer.close()
    return f"soak, one run of {options.epochs} epochs", held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--trainers", type=int, help="as many, however long it takes")
    parser.add_argument("--epochs", type=int, default=20, help="of each trainer")
    parser.add_argument("--one-run", action="store_true")
    options = parser.parse_args()
    calibration_before = calibration()
    case, held = (soak_one if options.one_run else soak_trainers)(options)
    before, after = held[ROUNDS_TO_FILL_CACHES - 1], held[-1]
    results = [
        (f"{case}: {field.name} {moment}", value, "MB" if field.name == "megabytes" else field.name)
        for moment, holdings in (("once caches are full", before), ("at the end", after))
        for field, value in zip(fields(Holdings), astuple(holdings), strict=True)
    ]
    keep("soak", results, shlex.join(["python", "bench/soak.py", *sys.argv[1:]]), calibration_before)
    for field in fields(Holdings):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if now > was * (1 + MEMORY_TOLERANCE if field.name == "megabytes" else 1):
            sys.exit(f"{field.name} grew from {was} to {now}")


if __name__ == "__main__":
    main()
