"""How long until it is solved: trains environments from several seeds and records time, steps and score.

    python bench/solve.py puffer_breakout --seeds 1 2 3 --minutes 10
    python bench/solve.py puffer_cartpole --seeds 1 2 3 --minutes 3 -- --train.learning-rate 0.01
    torchrun --standalone --nproc-per-node=2 bench/solve.py puffer_breakout --seeds 1 2 3

A run is solved when the mean of the metric in the environment's `[solve]` section over the last 1,000 episodes reaches
its threshold; what follows `--` are settings as `puffer train` takes them. The clock starts before the first step and
stops at that moment, or when the minutes or the steps of the schedule are over.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass

from calibrate import calibration
from record import keep

from pufferlib import distributed, pufferl
from pufferlib.config import load_config

EPISODES = 1_000  # in the mean that decides


class RecentEpisodes:
    """The mean of a metric over at least the last episodes, from means over groups of them."""

    def __init__(self, metric: str, count: str = "n", least: int = EPISODES):
        """Takes the names of the metric and of the number of episodes that it is a mean over, and how many to keep."""
        self._metric = metric
        self._count = count
        self._least = least
        self._groups: deque[tuple[float, float]] = deque()  # (mean, episodes), oldest first
        self._episodes = 0.0

    def add(self, stats: dict[str, float]) -> None:
        if self._metric not in stats:  # the environment may report in another rollout than its episodes end in
            return
        self._groups.append((stats[self._metric], stats[self._count]))
        self._episodes += stats[self._count]
        while self._episodes - self._groups[0][1] >= self._least:
            self._episodes -= self._groups.popleft()[1]

    @property
    def mean(self) -> float:
        return sum(mean * count for mean, count in self._groups) / max(self._episodes, 1.0)

    @property
    def is_full(self) -> bool:
        return self._episodes >= self._least


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    is_solved: bool
    seconds: float
    steps: int
    score: float


def solve(env_name: str, args: dict, minutes: float) -> Outcome:
    """Trains until solved or out of time."""
    metric, threshold = args["solve"]["metric"], args["solve"]["threshold"]
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    trainer = pufferl.PuffeRL({**args["train"], "env": env_name}, vecenv, policy)
    recent = RecentEpisodes(metric)
    begin = time.perf_counter()
    next_line = 15.0
    try:
        while trainer.epoch < trainer.total_epochs:
            for statistics in trainer.ranks.gather(trainer.evaluate()):
                recent.add(statistics)
            trainer.train()
            seconds = time.perf_counter() - begin
            is_solved = recent.is_full and recent.mean >= threshold
            if is_solved or trainer.ranks.start_total(seconds >= 60 * minutes).result():
                break
            if seconds >= next_line and trainer.ranks.is_first:
                print(
                    f"  {seconds:5.0f} s  {trainer.global_step / 1e6:6.1f} M steps  {metric} {recent.mean:.3f}",
                    flush=True,
                )
                next_line += 15.0
        return Outcome(is_solved, time.perf_counter() - begin, trainer.global_step, recent.mean)
    finally:
        trainer.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threshold", type=float, help="count as solved at this mean in place of [solve] threshold")
    own, settings = sys.argv[1:], []
    if "--" in own:
        own, settings = own[: own.index("--")], own[own.index("--") + 1 :]
    options = parser.parse_args(own)
    ranks = distributed.connect()
    launcher = (
        ["python"] if ranks.world_size == 1 else ["torchrun", "--standalone", f"--nproc-per-node={ranks.world_size}"]
    )
    for env_name in options.environments:
        for seed in options.seeds:
            args = load_config(env_name, argv=settings)
            args["train"]["seed"] = seed
            if options.threshold is not None:
                args["solve"]["threshold"] = options.threshold
            calibration_before = calibration()
            with tempfile.TemporaryDirectory() as folder:
                args["train"]["data_dir"] = folder
                outcome = solve(env_name, args, options.minutes)
            if not ranks.is_first:
                continue
            metric = args["solve"]["metric"]
            case = f"{env_name}, seed {seed}, {metric} >= {args['solve']['threshold']:g}"
            if ranks.world_size > 1:
                case = f"{case}, {ranks.world_size} processes"
            words = "solved" if outcome.is_solved else "not solved"
            print(
                f"{case}: {words}, {outcome.score:.3f} after {outcome.seconds:.1f} s, {outcome.steps / 1e6:.2f} M steps"
            )
            results = [
                (f"{case}: {words}, time", outcome.seconds, "s"),
                (f"{case}: {words}, steps", outcome.steps, "steps"),
                (f"{case}: {words}, last mean", outcome.score, metric),
                (f"{case}: {words}, throughput", outcome.steps / outcome.seconds, "steps/s"),
            ]
            command = shlex.join([*launcher, "bench/solve.py", *sys.argv[1:]])
            keep("solve", results, command, calibration_before)


if __name__ == "__main__":
    main()
