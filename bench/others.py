"""Other trainers beside ours: the same task with the same steps, in turn, each in a virtual environment of its own.

    python bench/others.py                                      every trainer on every task that it can train
    python bench/others.py rejax pufferlib --tasks CartPole-v1 --seeds 1 2 3
    python bench/others.py --no-rows                            prints, and records nothing

A trainer is installed from PyPI, in the version that stands in TRAINERS, below `--folder`, where it stays for the next
time. What cannot be installed is named with the error's last line. Each trains by a script of its own in bench/others,
which says what it was made with: ours with nothing set but the steps, the others by their defaults or by the command
that their documentation gives for such a task. All have two cores and no GPU.

What is not equal: Sample Factory steps in processes, rejax in JAX, compiled together with an environment of gymnax,
whose CartPole is the same but for its limit, and RLtools knows continuous actions alone. The clock runs over the
training; the start beside it, with imports and compilers, is Sample Factory's whole program in `seconds`. The score is
the mean return of the final policy over 20 episodes (128 with rejax), by its likeliest actions where there is a choice.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

from seeds import Rows, measure, parse

HERE = Path(__file__).parent
CARTPOLE, PENDULUM, HALFCHEETAH = "CartPole-v1", "Pendulum-v1", "HalfCheetah-v5"
STEPS = {CARTPOLE: 200_000, PENDULUM: 300_000, HALFCHEETAH: 300_000}


@dataclass(frozen=True)
class Trainer:
    """A script of bench/others, what it needs from PyPI, and the tasks that it trains."""

    script: str
    packages: tuple[str, ...]
    tasks: tuple[str, ...]


TRAINERS = {
    "pufferlib": Trainer("pufferlib_ppo.py", (f"{HERE.parent}[mujoco]",), (CARTPOLE, PENDULUM, HALFCHEETAH)),
    "pufferlib-3.0.0": Trainer("pufferlib_3.py", ("pufferlib==3.0.0",), (CARTPOLE,)),
    "stable-baselines3": Trainer(
        "stable_baselines_ppo.py",
        ("stable-baselines3==2.9.2", "gymnasium[mujoco]"),
        (CARTPOLE, PENDULUM, HALFCHEETAH),
    ),
    "rejax": Trainer("rejax_ppo.py", ("rejax==0.1.2", "gymnax==0.0.9"), (CARTPOLE,)),
    "sample-factory": Trainer("sample_factory_ppo.py", ("sample-factory==2.1.1",), (CARTPOLE,)),
    "rltools": Trainer("rltools_ppo.py", ("rltools==2.2.1", "gymnasium[mujoco]"), (PENDULUM, HALFCHEETAH)),
}


def install(name: str, folder: Path) -> Path:
    """The interpreter of a trainer's virtual environment, which is made where it is not there.

    Raises:
        RuntimeError: if pip fails, with its last line.
    """
    place, trainer = folder / name, TRAINERS[name]
    python, finished = place / "bin" / "python", place / "installed"
    if not finished.exists():
        venv.create(place, clear=True, with_pip=True)
        run([str(python), "-m", "pip", "install", "--quiet", *trainer.packages], str(folder))
        finished.touch()
    return python


def run(command: list[str], folder: str) -> str:
    """What a program prints that runs in a folder, where it leaves its files.

    Raises:
        RuntimeError: if it fails, with the last line that says what went wrong.
    """
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if "rror: " in line]
        raise RuntimeError(lines[-1] if lines else f"exit status {done.returncode}")
    return done.stdout


def rows_of(name: str, task: str, python: Path, seed: int, folder: str) -> Rows:
    """Trains; returns its steps a second, seconds, seconds of the start, and score."""
    script = str(HERE / "others" / TRAINERS[name].script)
    printed = run([str(python), script, task, str(STEPS[task]), str(seed), str(time.time())], folder)
    found = json.loads(printed.splitlines()[-1])
    case = f"{task}, {name}, seed {seed}"
    return [
        (f"{case}: throughput", found["steps"] / found["seconds"], "steps/s"),
        (f"{case}: training", found["seconds"], "s"),
        (f"{case}: start", found["start"], "s"),
        (f"{case}: score after {found['steps']:,} steps", found["score"], "return"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainers", nargs="*", metavar="TRAINER", help=f"of {', '.join(TRAINERS)}")
    parser.add_argument("--tasks", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "others")
    parser.add_argument("--no-rows", action="store_true", help="print alone")
    arguments, _ = parse(parser)
    unknown = set(arguments.trainers) - set(TRAINERS)
    if unknown:
        parser.error(f"expected some of {', '.join(TRAINERS)}, got {', '.join(sorted(unknown))}")
    interpreters = {}
    for name in arguments.trainers or TRAINERS:
        try:
            interpreters[name] = install(name, arguments.folder.absolute())
        except RuntimeError as error:
            print(f"{name}: not installed: {error}", file=sys.stderr)
    cases = [(name, task) for task in arguments.tasks for name in interpreters if task in TRAINERS[name].tasks]

    def train(case: tuple[str, str], seed: int, folder: str) -> Rows:
        name, task = case
        try:
            return rows_of(name, task, interpreters[name], seed, folder)
        except RuntimeError as error:
            print(f"{task}, {name}, seed {seed}: did not train: {error}", file=sys.stderr)
            return []

    measure("others", cases, arguments.seeds, train, not arguments.no_rows)


if __name__ == "__main__":
    main()
