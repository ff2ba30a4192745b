"""Whether the defaults alone learn: trains small tasks by default.ini, without an ini of their own.

    python bench/defaults.py                            all of them from seeds 1, 2 and 3
    python bench/defaults.py catch recall --seeds 1
    python bench/defaults.py catch -- --train.learning-rate 0.01

A task is learnt when the mean of its metric over the last episodes reaches its threshold, and so does that over as many
whole ones that the policy then plays. A run goes on to the end of `total_timesteps` all the same, as its schedule does,
and what it then plays counts; what follows `--` are settings as `puffer train` takes them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
from recent_episodes import RecentEpisodes
from seeds import Rows, measure, parse
from small_tasks import Catch, Recall

from pufferlib import ocean, pufferl
from pufferlib.config import load_config
from pufferlib.emulation import GymnasiumPufferEnv


@dataclass(frozen=True)
class Task:
    """What is trained, and when it counts as learnt."""

    make_creator: Callable[[], Callable]
    threshold: float
    metric: str = "perf"
    count: str = "n"
    episodes: int = 1_000  # in the mean that decides
    flags: tuple[str, ...] = ()  # what it cannot do without, or would take long without


def _cart_pole(buf=None, seed: int = 0) -> GymnasiumPufferEnv:
    return GymnasiumPufferEnv(env_creator=gymnasium.make, env_args=("CartPole-v1",), buf=buf, seed=seed)


def _ocean(name: str) -> Callable[[], Callable]:
    return lambda: ocean.env_class(f"puffer_{name}")


TASKS = {
    "template": Task(_ocean("template"), 0.95),
    "catch": Task(lambda: Catch, 0.95),
    "squared": Task(_ocean("squared"), 0.95),
    "cartpole": Task(_ocean("cartpole"), 0.95),
    "pong": Task(_ocean("pong"), 15.0, "score"),
    "recall": Task(lambda: Recall, 0.95, flags=("--rnn-name", "MinGRU")),
    "CartPole-v1": Task(
        lambda: _cart_pole,
        475.0,
        "episode/return_mean",
        "episode/count",
        100,
        ("--vec.backend", "Serial", "--train.total-timesteps", "2_000_000"),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    learnt_steps: int | None  # when the threshold was reached first
    last_mean: float
    steps: int
    seconds: float


def learn(task: Task, seed: int, given: list[str], folder: str, stops: bool = False) -> Outcome:
    """Trains to the end, or where `stops` is set until the task is learnt; files go to the folder."""
    creator = task.make_creator()
    args = load_config(creator, argv=[*task.flags, *given])
    args["train"].update(seed=seed, data_dir=folder)
    recent = RecentEpisodes(task.metric, task.count, task.episodes)
    vecenv = pufferl.load_env(creator, args)
    policy = pufferl.load_policy(args, vecenv, creator)
    trainer = pufferl.PuffeRL({**args["train"], "env": args["env_name"]}, vecenv, policy)
    learnt_steps, begin = None, time.perf_counter()
    try:
        while trainer.epoch < trainer.total_epochs and not (stops and learnt_steps):
            recent.add(trainer.evaluate())
            trainer.train()
            if learnt_steps is None and recent.reaches(task.threshold, trainer):
                learnt_steps = trainer.global_step
        seconds = time.perf_counter() - begin - recent.played_seconds
        last = recent.play(trainer)
        return Outcome(learnt_steps, recent.mean if last is None else last.mean, trainer.global_step, seconds)
    finally:
        trainer.release()


def rows(case: str, task: Task, outcome: Outcome) -> Rows:
    """What is recorded of a run."""
    words = "learnt" if outcome.last_mean >= task.threshold else "not learnt"
    case = f"{case}, {task.metric} >= {task.threshold:g}: {words}"
    found = [
        (f"{case}, last mean", outcome.last_mean, task.metric),
        (f"{case}, steps", outcome.steps, "steps"),
        (f"{case}, time", outcome.seconds, "s"),
    ]
    if outcome.learnt_steps is None:
        return found
    return [(f"{case}, first reached after", outcome.learnt_steps, "steps"), *found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all when none is named")
    parser.add_argument("--no-rows", action="store_true", help="only print, for a first look")
    options, given = parse(parser)

    def run(name: str, seed: int, folder: str) -> Rows:
        outcome = learn(TASKS[name], seed, given, folder)
        return rows(", ".join(filter(None, [name, f"seed {seed}", " ".join(given)])), TASKS[name], outcome)

    measure("defaults", options.tasks or TASKS, options.seeds, run, is_kept=not options.no_rows)


if __name__ == "__main__":
    main()
