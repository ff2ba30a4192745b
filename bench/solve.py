"""How long until it is solved: trains environments from several seeds and records time, steps and score.

    python bench/solve.py puffer_breakout --seeds 1 2 3 --minutes 10
    python bench/solve.py puffer_cartpole --seeds 1 2 3 --minutes 3 -- --train.learning-rate 0.01
    torchrun --standalone --nproc-per-node=2 bench/solve.py puffer_breakout --seeds 1 2 3

A run is solved when the mean of the metric in the environment's `[solve]` section reaches its threshold over 1,000
whole episodes that the policy plays. It plays when the mean over the last 1,000 episodes that ended is as high, and
when the minutes or the steps of the schedule are over. What follows `--` are settings as `puffer train` takes them.
The clock starts before the first step and stops at that moment; it stands still while the policy plays.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

from recent_episodes import RecentEpisodes
from seeds import Rows, make_trainer, measure, parse

from pufferlib import Score, distributed
from pufferlib.config import load_config

EPISODES = 1_000  # in the mean that decides


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    is_solved: bool
    seconds: float
    steps: int
    score: float
    episodes: int  # that the score is the mean of


def solve(env_name: str, args: dict, minutes: float) -> Outcome:
    """Trains until solved or out of time."""
    metric, threshold = args["solve"]["metric"], args["solve"]["threshold"]
    trainer = make_trainer(env_name, args)
    recent = RecentEpisodes(metric, "n", EPISODES)
    begin = time.perf_counter()
    next_line = 15.0
    try:
        while trainer.epoch < trainer.total_epochs:
            for statistics in trainer.ranks.gather(trainer.evaluate()):
                recent.add(statistics)
            trainer.train()
            is_solved = recent.reaches(threshold, trainer)
            seconds = time.perf_counter() - begin - recent.played_seconds
            if is_solved or trainer.ranks.total(seconds >= 60 * minutes):
                break
            if seconds >= next_line and trainer.ranks.is_first:
                print(
                    f"  {seconds:5.0f} s  {trainer.global_step / 1e6:6.1f} M steps  {metric} {recent.mean:.3f}",
                    flush=True,
                )
                next_line += 15.0
        if not is_solved:
            played = recent.play(trainer)
            is_solved = played is not None and played.mean >= threshold
        score = recent.played or Score(recent.mean, math.nan, recent.episodes)
        return Outcome(is_solved, seconds, trainer.global_step, score.mean, score.episodes)
    finally:
        trainer.release()


def rows(case: str, outcome: Outcome, metric: str) -> Rows:
    """What is recorded of a run."""
    case = f"{case}: {'solved' if outcome.is_solved else 'not solved'}"
    return [
        (f"{case}, time", outcome.seconds, "s"),
        (f"{case}, steps", outcome.steps, "steps"),
        (f"{case}, mean over {outcome.episodes:,} episodes", outcome.score, metric),
        (f"{case}, throughput", outcome.steps / outcome.seconds, "steps/s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threshold", type=float, help="count as solved at this mean in place of [solve] threshold")
    options, settings = parse(parser)
    world_size = distributed.connect().world_size

    def run(env_name: str, seed: int, folder: str) -> Rows:
        args = load_config(env_name, argv=settings)
        args["train"].update(seed=seed, data_dir=folder)
        if options.threshold is not None:
            args["solve"]["threshold"] = options.threshold
        metric, threshold = args["solve"]["metric"], args["solve"]["threshold"]
        case = f"{env_name}, seed {seed}, {metric} >= {threshold:g}"
        if world_size > 1:
            case = f"{case}, {world_size} processes"
        return rows(case, solve(env_name, args, options.minutes), metric)

    measure("solve", options.environments, options.seeds, run)


if __name__ == "__main__":
    main()
