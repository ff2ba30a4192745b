"""Whether anything is left behind: trains again and again in one process, and watches what the process holds.

    python bench/soak.py --minutes 10

Each round makes a vector, a policy and a trainer of one backend after the other, trains them for some epochs, saves,
loads and closes (every fourth trainer is let go of without a word instead). After each round it counts threads, child
processes, open files, shared memory and resident memory. The first rounds fill caches; what grows after them is a leak.
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
from pufferlib.loggers import JsonLogger

ROUNDS_TO_FILL_CACHES = 5
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--epochs", type=int, default=20, help="of each trainer")
    options = parser.parse_args()
    calibration_before = calibration()
    end = time.monotonic() + 60 * options.minutes
    held: list[Holdings] = []
    trainers = steps = 0
    while time.monotonic() < end or len(held) <= ROUNDS_TO_FILL_CACHES:
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES:
                trainers += 1
                steps += train_once(folder, case, options.epochs, is_closed=trainers % 4 != 0)
        held.append(Holdings.now())
        if len(held) % 5 == 1:
            print(f"{trainers:5} trainers  {steps / 1e6:6.1f} M steps  {held[-1]}", flush=True)
    before, after = held[ROUNDS_TO_FILL_CACHES - 1], held[-1]
    case = f"soak, {trainers} trainers in {options.minutes:g} minutes"
    results = [
        (f"{case}: {field.name} after {moment}", value, "MB" if field.name == "megabytes" else field.name)
        for moment, holdings in ((f"{3 * ROUNDS_TO_FILL_CACHES} trainers", before), ("all", after))
        for field, value in zip(fields(Holdings), astuple(holdings), strict=True)
    ]
    keep("soak", results, shlex.join(["python", "bench/soak.py", *sys.argv[1:]]), calibration_before)
    for field in fields(Holdings)[:-1]:
        if getattr(after, field.name) > getattr(before, field.name):
            sys.exit(f"{field.name} grew from {getattr(before, field.name)} to {getattr(after, field.name)}")


if __name__ == "__main__":
    main()
