"""How long a sweep's sampler thinks: seconds until the next trial is proposed, by the number of observations.

    python bench/suggest.py

Eight dimensions, learning curves of ten points each or none, four trials running; the median of five.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time

import numpy as np
import optuna
from calibrate import calibration
from record import keep

from pufferlib.sweep.proposal import make_sampler
from pufferlib.sweep.results import COST, CURVE
from pufferlib.sweep.space import Dimension, SearchSpace

SPACE = SearchSpace(tuple(Dimension(f"x{index}", "uniform", 0.0, 1.0) for index in range(8)))
REPEATS, RUNNING = 5, 4


def make_study(trials: int, curve_points: int) -> optuna.Study:
    """A study of finished trials with scores that depend on the point and the progress, and noise."""
    generator = np.random.default_rng(0)
    study = optuna.create_study(direction="maximize")
    progress = np.linspace(0, 1, curve_points + 1)[1:]
    for _ in range(trials):
        point = generator.random(len(SPACE.dimensions))
        cost, score = float(np.exp(3 * point[1])), float(np.sin(5 * point[0]) + point[1] - (point[2] - 0.3) ** 2)
        scores = score * progress + 0.1 * generator.standard_normal(curve_points)
        curve = np.column_stack([progress, cost * progress, scores]).tolist()
        study.add_trial(
            optuna.trial.create_trial(
                params=dict(zip(SPACE.names, point.tolist(), strict=True)),
                distributions=SPACE.distributions,
                user_attrs={COST: cost, CURVE: curve},
                value=scores[-1],
            )
        )
    return study


def seconds(trials: int, curve_points: int, method: str) -> float:
    """The median time of a suggestion."""
    study, taken = make_study(trials, curve_points), []
    study.sampler = make_sampler("Random", SPACE, 0, np.inf)
    for _ in range(RUNNING):
        study.ask(SPACE.distributions)
    study.sampler = make_sampler(method, SPACE, 0, np.inf)
    for _ in range(REPEATS):
        begin = time.perf_counter()
        study.tell(study.ask(SPACE.distributions), state=optuna.trial.TrialState.FAIL)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="Protein")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    before, rows = calibration(), []
    for trials, curve_points in ((100, 1), (500, 1), (1000, 1), (2000, 1), (50, 10), (200, 10), (2000, 10)):
        case = f"{options.method}, {trials} trials of {curve_points} point{'s' * (curve_points > 1)}"
        rows.append((case, seconds(trials, curve_points, options.method), "s"))
        print(f"{case}: {rows[-1][1]:.3g} s", flush=True)
    if not options.no_record:
        keep("suggest", rows, shlex.join(["python", "bench/suggest.py", *sys.argv[1:]]), before)


if __name__ == "__main__":
    main()
