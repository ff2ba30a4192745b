"""How good searches are on a real environment that trains in seconds: best score against what the trials cost together.

    python bench/sweeps.py                                cartpole, 20 sweep seeds of 30 seconds each
    python bench/sweeps.py --seeds 3 --seconds 60 --methods Protein TPE

Every search has the same ranges, which begin in their middle and not at the tuned settings, and ends with the trial
that exceeds the seconds. Trials are trained one after another in one process; what one costs is the processor time of
its training. Several searches run side by side, each on a core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Queue, get_context

import numpy as np

ENV_NAME = "puffer_cartpole"
SPACE = {
    "total_timesteps": {"distribution": "log_normal", "min": 1e5, "max": 1.5e6, "is_integer": True},
    "learning_rate": {"distribution": "log_normal", "min": 1e-4, "max": 0.3},
    "gamma": {"distribution": "logit_normal", "min": 0.8, "max": 0.9999},
    "gae_lambda": {"distribution": "logit_normal", "min": 0.6, "max": 0.995},
    "ent_coef": {"distribution": "log_normal", "min": 1e-5, "max": 0.2},
    "update_epochs": {"distribution": "log_normal", "min": 0.5, "max": 4},
    "minibatch_size": {"distribution": "uniform_pow2", "min": 512, "max": 32768},
    "bptt_horizon": {"distribution": "uniform_pow2", "min": 8, "max": 128},
}
SHARES = (0.25, 0.5, 1.0)  # of the seconds, at which the best score so far is recorded


def take_core(cores: Queue) -> None:
    """Keeps this process on a core of its own."""
    os.sched_setaffinity(0, {cores.get()})


def search(method: str, seed: int, seconds: float) -> list[tuple[float, float]]:
    """The cumulated cost and the score of every trial."""
    warnings.simplefilter("ignore")
    from pufferlib import Protein, pufferl
    from pufferlib.sweep.space import trial_args

    args = pufferl.load_config(ENV_NAME)
    protein = Protein(search_space=SPACE, method=method, seed=seed, max_suggestion_cost=seconds)
    found, spent = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        while spent < seconds:
            values = protein.suggest()
            trial = trial_args(args, {f"train.{name}": value for name, value in values.items()})
            trial["train"].update(data_dir=folder, log_interval=1, seed=len(found))
            curve = train(trial, keeps_horizon="bptt_horizon" in values)
            protein.observe(values, curve[-1][2], curve[-1][1], curve)
            spent += curve[-1][1]
            found.append((spent, curve[-1][2]))
    return found


def train(args: dict, keeps_horizon: bool) -> list[list[float]]:
    """The learning curve of one run in tenths: progress, processor time of training, and the score, as of a trial."""
    from pufferlib import NoLogger, pufferl
    from pufferlib.sweep.results import TENTHS
    from pufferlib.sweep.trial_training import fit_sizes

    vecenv = pufferl.load_env(ENV_NAME, args)
    config = fit_sizes(args["train"], vecenv.num_agents, "cpu", keeps_horizon)
    trainer = pufferl.PuffeRL(config, vecenv, pufferl.load_policy(args, vecenv, ENV_NAME), NoLogger())
    begin, curve, tenth = time.process_time(), [], 0
    while trainer.epoch < trainer.total_epochs:
        trainer.evaluate()
        trainer.train()
        before, tenth = tenth, TENTHS * trainer.epoch // trainer.total_epochs
        if tenth > before:
            cost = time.process_time() - begin
            score = trainer.score(1_000 if tenth == TENTHS else 100)[f"environment/{args['solve']['metric']}"]
            curve.append([tenth / TENTHS, cost, score.mean])
            begin = time.process_time() - cost  # play is no cost
    trainer.close()
    return curve


def best_within(trials: list[tuple[float, float]], seconds: float) -> float:
    """The best score of the trials that had ended by then; 0 where none had."""
    return max((score for cost, score in trials if cost <= seconds), default=0.0)


def main() -> None:
    from calibrate import calibration
    from record import tell

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["Protein", "Random", "TPE"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--threshold", type=float, default=0.95, help="the score to reach")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    before, rows = calibration(), []
    context, cores = get_context("spawn"), sorted(os.sched_getaffinity(0))
    queue = context.Queue()
    for core in cores:
        queue.put(core)
    with ProcessPoolExecutor(len(cores), context, take_core, (queue,)) as pool:
        running = {
            (method, seed): pool.submit(search, method, seed, options.seconds)
            for seed in range(options.seeds)
            for method in options.methods
        }
        found = {key: future.result() for key, future in running.items()}
    for method in options.methods:
        searches = [found[method, seed] for seed in range(options.seeds)]
        for share in SHARES:
            seconds = share * options.seconds
            scores = [best_within(trials, seconds) for trials in searches]
            rows.append((f"{method}, best after {seconds:g} s", statistics.median(scores), "median perf"))
        reached = [next((cost for cost, score in each if score >= options.threshold), np.inf) for each in searches]
        rows.append((f"{method}, until {options.threshold:g}", statistics.median(reached), "median s"))
        reaching = sum(cost <= options.seconds for cost in reached)
        rows.append((f"{method}, reached {options.threshold:g}", reaching, f"of {options.seeds}"))
        rows.append((f"{method}, trials", statistics.median(len(each) for each in searches), "median"))
    tell("sweeps", rows, before, not options.no_record)


if __name__ == "__main__":
    main()
