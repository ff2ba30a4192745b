"""How an environment is learnt: trains from several seeds and records the metric along the way.

    python bench/curves.py                                       every environment of Ocean by its own settings
    python bench/curves.py puffer_pong --seeds 1 2 3 --minutes 2

The metric is that of the environment's `[solve]` section, its mean over the episodes that ended in each of 24 equal
parts of the run. A run ends with its schedule, or when the minutes are over. The rows go to results/curves.csv. The
documentation draws curves of them over steps: how long a step took on the machine does not matter to them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from seeds import Rows, make_trainer, measure, parse
from torch import nn

from pufferlib import PufferEnv, ocean
from pufferlib.config import load_config

PARTS = 24


def train(
    env_name: str, args: dict, minutes: float, make_policy: Callable[[PufferEnv], nn.Module] | None = None
) -> list[tuple[int, float, float]]:
    """Steps so far, the metric's mean and the episodes that it is of, for every rollout in which some were told of."""
    metric = args["solve"]["metric"]
    trainer = make_trainer(env_name, args, make_policy)
    begin, found = time.perf_counter(), []
    try:
        while trainer.epoch < trainer.total_epochs and time.perf_counter() - begin < 60 * minutes:
            told = trainer.evaluate()
            if metric in told:
                found.append((trainer.global_step, told[metric], told["n"]))
            trainer.train()
        return found
    finally:
        trainer.release()


def in_parts(found: list[tuple[int, float, float]], parts: int = PARTS) -> list[tuple[int, float]]:
    """The end of each of some equal parts of a run, and the mean over the episodes in it; none of parts without any."""
    last = found[-1][0]
    sums = [[0.0, 0.0] for _ in range(parts)]
    for steps, mean, count in found:
        part = sums[min((steps - 1) * parts // last, parts - 1)]
        part[0] += mean * count
        part[1] += count
    return [((index + 1) * last // parts, total / count) for index, (total, count) in enumerate(sums) if count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", help="by default all of Ocean")
    parser.add_argument("--minutes", type=float, default=1.0)
    options, settings = parse(parser)

    def run(env_name: str, seed: int, folder: str) -> Rows:
        args = load_config(env_name, argv=settings)
        args["train"].update(seed=seed, data_dir=folder)
        metric = args["solve"]["metric"]
        curve = in_parts(train(env_name, args, options.minutes))
        return [(f"{env_name}, seed {seed}, {metric} at {steps} steps", value, metric) for steps, value in curve]

    measure("curves", options.environments or ocean.names(), options.seeds, run)


if __name__ == "__main__":
    main()
