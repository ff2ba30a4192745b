"""How well it learns: trains environments from several seeds, then plays the final policy, and records both.

    python bench/learn.py HalfCheetah-v5 --seeds 1 2 3
    python bench/learn.py CartPole-v1 --seeds 1 2 3 --until 475
    python bench/learn.py Pendulum-v1 --steps 200_000 -- --train.gamma 0.95

A run takes the environment's own configuration and all its steps, or those of `--steps`; what follows `--` are settings
as `puffer train` takes them. With `--until` it stops as soon as the mean return of the last 100 training episodes
reaches that number. The final policy then plays episodes by its likeliest actions, in environments of other seeds. The
clock runs from the first step to the last; the play is outside of it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from recent_episodes import RecentEpisodes
from seeds import Rows, make_trainer, measure, parse

from pufferlib.config import load_config
from pufferlib.dashboard.score import Score
from pufferlib.play.scores import evaluate_model

EPISODES = 100  # in the means over training episodes
_OTHER_SEED = 1_000_003  # added to the seed of the training for the environments of the final play
_LINE_SECONDS = 15.0


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    seconds: float
    steps: int
    first_return: float  # the mean of the first EPISODES training episodes: of a policy that has learned little
    last_return: float  # and of the last
    is_reached: bool | None  # the return that was to be reached; None where none was
    final: Score | None  # of the final policy; None where no episode ended


def learn(env_name: str, args: dict, until: float | None, episodes: int) -> Outcome:
    """Trains to the end, or until the return is reached; then plays."""
    trainer = make_trainer(env_name, args)
    recent = RecentEpisodes("episode/return_mean", "episode/count", EPISODES)
    first_return = float("nan")
    try:
        begin = time.perf_counter()
        next_line = _LINE_SECONDS
        seconds, is_reached = 0.0, False
        while trainer.epoch < trainer.total_epochs and not is_reached:
            was_full = recent.is_full
            recent.add(trainer.evaluate())
            trainer.train()
            seconds = time.perf_counter() - begin - recent.played_seconds
            if recent.is_full and not was_full:
                first_return = recent.mean
            is_reached = until is not None and recent.reaches(until, trainer)
            if seconds >= next_line:
                print(f"  {seconds:5.0f} s  {trainer.global_step:>10,} steps  return {recent.mean:.2f}", flush=True)
                next_line += _LINE_SECONDS
        steps, model = trainer.global_step, trainer.close()
    except BaseException:
        trainer.release()
        raise
    final = play(env_name, args, model, episodes)
    return Outcome(seconds, steps, first_return, recent.mean, None if until is None else is_reached, final)


def play(env_name: str, args: dict, model: str, episodes: int) -> Score | None:
    """The return of a saved policy by its likeliest actions."""
    train = {**args["train"], "seed": args["train"]["seed"] + _OTHER_SEED}
    scores = evaluate_model(env_name, {**args, "train": train, "load_model_path": model}, episodes)
    return scores.get("episode_return")


def rows(case: str, outcome: Outcome, until: float | None) -> Rows:
    """What is recorded of a run."""
    if until is not None:
        case = f"{case}, {'reached' if outcome.is_reached else 'did not reach'} {until:g}"
    found = [
        (f"{case}: mean of the first {EPISODES} training episodes", outcome.first_return, "return"),
        (f"{case}: mean of the last {EPISODES} training episodes", outcome.last_return, "return"),
        (f"{case}: steps", outcome.steps, "steps"),
        (f"{case}: time", outcome.seconds, "s"),
        (f"{case}: throughput", outcome.steps / outcome.seconds, "steps/s"),
    ]
    if outcome.final is None:
        return found
    final = f"{case}: final policy, {outcome.final.episodes} episodes"
    return [
        (f"{final}, mean", outcome.final.mean, "return"),
        (f"{final}, standard error", outcome.final.standard_error, "return"),
        *found,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+")
    parser.add_argument("--steps", type=int, help="agent steps, in place of the configuration's total_timesteps")
    parser.add_argument("--until", type=float, help="stop at this mean return of the last 100 training episodes")
    parser.add_argument("--episodes", type=int, default=50, help="episodes that the final policy plays")
    options, settings = parse(parser)

    def run(env_name: str, seed: int, folder: str) -> Rows:
        args = load_config(env_name, argv=settings)
        args["train"].update(seed=seed, data_dir=folder)
        if options.steps is not None:
            args["train"]["total_timesteps"] = options.steps
        outcome = learn(env_name, args, options.until, options.episodes)
        return rows(", ".join(filter(None, [env_name, f"seed {seed}", " ".join(settings)])), outcome, options.until)

    measure("learn", options.environments, options.seeds, run)


if __name__ == "__main__":
    main()
