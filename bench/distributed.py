"""Training by several processes beside one, on the same cores.

    python bench/distributed.py
    python bench/distributed.py --env puffer_pong --processes 1 2 --rounds 5

Each round runs every number of processes in turn, as torchrun starts them: breakout with its default settings, whose
batch the processes share. A value is the median over the rounds, in agent steps per second of all processes together,
without start and warm-up. The ratios to the first number of processes are taken within each round.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calibrate import calibration
from record import keep

WARM_UP_EPOCHS, EPOCHS = 5, 40


def work(env_name: str, result: Path, folder: str) -> None:
    """One process: trains, and where it is the first one writes the speed."""
    from pufferlib import pufferl

    args = pufferl.load_config(env_name)
    args["train"]["data_dir"] = folder
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    trainer = pufferl.PuffeRL({**args["train"], "env": env_name}, vecenv, policy)

    def train(epochs: int) -> float:
        begin = time.perf_counter()
        for _ in range(epochs):
            trainer.evaluate()
            trainer.train()
        return time.perf_counter() - begin

    train(WARM_UP_EPOCHS)
    seconds = train(EPOCHS)
    trainer.release()
    if trainer.ranks.is_first:
        result.write_text(str(EPOCHS * trainer.config.batch_size / seconds))


def measure(env_name: str, processes: int) -> float:
    """Agent steps per second of some processes."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command = [__file__, "--env", env_name, "--result", str(result), "--folder", folder]
        subprocess.run([*launcher, *command], check=True, stderr=subprocess.DEVNULL)
        return float(result.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="puffer_breakout")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)  # these two: of a process that works
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.result:
        work(options.env, options.result, options.folder)
        return
    calibration_before = calibration()
    speeds: dict[int, list[float]] = {processes: [] for processes in options.processes}
    for _ in range(options.rounds):
        for processes, found in speeds.items():
            found.append(measure(options.env, processes))
            print(f"{processes} process(es): {found[-1]:,.0f} steps/s", flush=True)
    first = speeds[options.processes[0]]
    results = []
    for processes, found in speeds.items():
        case = f"{options.env}, {processes} process(es)"
        ratios = [speed / reference for speed, reference in zip(found, first, strict=True)]
        results += [
            (case, statistics.median(found), "steps/s"),
            (case, statistics.median(ratios), f"of {options.processes[0]} process(es)"),
        ]
    keep("distributed", results, shlex.join(["python", "bench/distributed.py", *sys.argv[1:]]), calibration_before)


if __name__ == "__main__":
    main()
