"""How good searches are on functions whose optimum is known, beside random search, TPE and Optuna's GP.

    python bench/search.py                              every objective, 20 seeds, 60 trials
    python bench/search.py --objectives rising --methods Protein GP --seeds 5

Protein makes its trials first, in each seed; the others may then spend as much as those cost, in as many trials as
they like. The regret is that of the best trial (with noise: the true one of the trial that looked best). The
hypervolume is the part of [cheapest, dearest] x [regret of a typical random point, 0] that lies below the front of the
trials, costs on a logarithmic scale; only where costs differ.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import optuna
from calibrate import calibration
from objectives import OBJECTIVES, Objective
from record import tell
from threadpoolctl import threadpool_limits

from pufferlib.machine import usable_cores
from pufferlib.sweep.proposal import make_sampler
from pufferlib.sweep.results import COST, best_within, pareto_front
from pufferlib.sweep.space import Dimension, SearchSpace

METHODS = ("Protein", "Random", "TPE", "GP")
MOST_TRIALS = 400  # of a method whose trials are cheap


@dataclass(frozen=True)
class Search:
    """The trials of one search: what each was seen to be, truly is above the least value, and cost."""

    seen: np.ndarray
    regrets: np.ndarray
    costs: np.ndarray

    @property
    def regret(self) -> float:
        """Of the trial that looked best."""
        return float(self.regrets[np.argmin(self.seen)])


def search(objective: Objective, method: str, seed: int, trials: int, budget: float = np.inf) -> Search:
    """Makes trials until there are so many, or the next one exceeds the budget."""
    names = [f"x{index}" for index in range(objective.dimensions)]
    space = SearchSpace(tuple(Dimension(name, "uniform", 0.0, 1.0) for name in names))
    noise = np.random.default_rng(seed).normal(0, objective.noise, MOST_TRIALS)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=make_sampler(method, space, seed, np.inf))
    rows: list[tuple[float, float, float]] = []
    while len(rows) < trials:
        trial = study.ask(space.distributions)
        point = np.array([trial.params[name] for name in names])
        cost = objective.cost(point) if objective.cost else 1.0
        if sum(row[2] for row in rows) + cost > budget * (1 + 1e-9):
            break
        regret = objective.regret(point)
        rows.append((regret + noise[len(rows)], regret, cost))
        trial.set_user_attr(COST, cost)
        study.tell(trial, rows[-1][0])
    return Search(*np.array(rows).T)


def hypervolume(objective: Objective, found: Search) -> float:
    """The part of the plane of log cost and regret that trials leave below them, in [0, 1]."""
    points = np.random.default_rng(0).random((4096, objective.dimensions))
    typical = np.median([objective.regret(point) for point in points])
    costs = np.log([objective.cost(point) for point in points])
    scores = np.clip(1 - found.regrets / typical, 0, 1)
    limits = np.linspace(costs.min(), costs.max(), 512)
    front = pareto_front(np.log(found.costs), scores)
    at = np.log(found.costs)[front]
    return float(np.mean([best_within(at, scores[front], limit) if limit >= at[0] else 0.0 for limit in limits]))


def compare(name: str, methods: list[str], seed: int, trials: int) -> dict[str, Search]:
    """The searches of all methods from one seed, all as dear as that of the first."""
    warnings.simplefilter("ignore")  # of Optuna's own samplers, which say that they are experimental
    objective, found = OBJECTIVES[name], {}
    with threadpool_limits(1):
        found[methods[0]] = search(objective, methods[0], seed, trials)
        budget = float(found[methods[0]].costs.sum())
        for method in methods[1:]:
            found[method] = search(objective, method, seed, MOST_TRIALS, budget)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="the first sets the cost")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    for name in options.objectives:
        before, objective = calibration(), OBJECTIVES[name]
        with ProcessPoolExecutor(usable_cores()) as pool:
            running = [
                pool.submit(compare, name, options.methods, seed, options.trials) for seed in range(options.seeds)
            ]
            searches = [future.result() for future in running]
        rows = []
        for method in options.methods:
            found = [each[method] for each in searches]
            rows.append((f"{name}, {method}", statistics.median(each.regret for each in found), "median regret"))
            rows.append((f"{name}, {method}", float(np.mean([len(each.seen) for each in found])), "trials"))
            if objective.cost:
                volumes = [hypervolume(objective, each) for each in found]
                rows.append((f"{name}, {method}", statistics.median(volumes), "median hypervolume"))
        tell("search", rows, before, not options.no_record)


if __name__ == "__main__":
    main()
