"""The best trials run again on fresh seeds: the winner of a sweep is often luck.

What every such run led to is kept in the study, each under a key of its own, so that a sweep that goes on runs none of
them twice and drivers that share a study lose none of each other's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, pstdev
from typing import TYPE_CHECKING, Any

from pufferlib.metrics.dashboard import number_text
from pufferlib.sweep.attributes import CONFIRMATION
from pufferlib.sweep.study.results import FoundTrial, Results, goal_sign, solve_threshold

if TYPE_CHECKING:
    from optuna import Study

FIRST_SEED = 1_000_000  # above that of the run: those of trials are below


@dataclass(frozen=True)
class Confirmation:
    """What one more run of a trial's settings led to.

    Attributes:
        trial: the number of the trial.
        seed: of the run.
        score: None where the run failed.
        cost: seconds of training, until it failed where it did.
        run_folder: of the run; empty where it is not known.
        error: why it failed, one sentence; empty where it did not.
    """

    trial: int
    seed: int
    score: float | None
    cost: float = 0.0
    run_folder: str = ""
    error: str = ""


@dataclass(frozen=True)
class ConfirmedTrial:
    """A trial with all that its settings led to on fresh seeds.

    Attributes:
        trial: as the search saw it.
        runs: with its settings; none where it was not confirmed.
    """

    trial: FoundTrial
    runs: Sequence[Confirmation] = ()

    @property
    def scores(self) -> list[float]:
        """Of the runs that came to their end."""
        return [run.score for run in self.runs if run.score is not None]

    @property
    def mean(self) -> float:
        """Of the scores; NaN where there are none."""
        return mean(self.scores) if self.scores else math.nan

    @property
    def spread(self) -> float:
        """Standard deviation of the scores."""
        return pstdev(self.scores) if self.scores else math.nan

    @property
    def num_failed(self) -> int:
        """Runs that failed."""
        return len(self.runs) - len(self.scores)

    @property
    def text(self) -> str:
        """Such as `0.95 ± 0.02 on 3 fresh seeds`; empty where it was not confirmed."""
        if not self.runs:
            return ""
        mean = f"{number_text(self.mean)} ± {self.spread:.2g}" if self.scores else "-"
        failures = f", {self.num_failed} failed" if self.num_failed else ""
        return f"{mean} on {len(self.runs)} fresh seed{'s' * (len(self.runs) != 1)}{failures}"


def candidates(results: Results, count: int, threshold: float | None = None) -> list[FoundTrial]:
    """The best trials that differ in their settings, and the cheapest of those that reached a threshold."""
    chosen: list[FoundTrial] = []
    for trial in results.complete:
        if len(chosen) == count:
            break
        if all(trial.settings != other.settings for other in chosen):
            chosen.append(trial)
    cheapest = results.cheapest_past(threshold) if chosen and threshold is not None else None
    if cheapest is not None and all(cheapest.settings != other.settings for other in chosen):
        chosen.append(cheapest)
    return chosen


def fresh_seeds(args: Mapping[str, Any]) -> list[int]:
    """Seeds that no trial of the sweep ran with, the same ones for all that is confirmed."""
    first = args["train"]["seed"] + FIRST_SEED
    return list(range(first, first + args["sweep"]["confirm_seeds"]))


def outstanding(
    results: Results, known: Sequence[Confirmation], args: Mapping[str, Any], metric: str
) -> list[tuple[FoundTrial, int]]:
    """The trials and seeds that are still to be run, the best trial first.

    Args:
        results: of the search.
        known: what was run already.
        args: the settings, with those of the sweep.
        metric: what it is after.
    """
    done = {(run.trial, run.seed) for run in known}
    chosen = candidates(results, args["sweep"]["confirm_best"], solve_threshold(args, metric))
    return [(trial, seed) for trial in chosen for seed in fresh_seeds(args) if (trial.number, seed) not in done]


def confirmed_trials(results: Results, known: Sequence[Confirmation]) -> list[ConfirmedTrial]:
    """The trials that were run again, the best first: fewest failures, then the best mean, then the cheapest."""
    runs: dict[int, list[Confirmation]] = {}
    for run in sorted(known, key=lambda run: (run.trial, run.seed)):
        runs.setdefault(run.trial, []).append(run)
    found = [ConfirmedTrial(trial, runs[trial.number]) for trial in results.complete if trial.number in runs]
    return sorted(found, key=lambda each: (each.num_failed, *_rank(each, results.goal)))


def winner(results: Results, known: Sequence[Confirmation]) -> ConfirmedTrial | None:
    """The trial that was confirmed best, else that with the best score; None where no trial ran to its end."""
    found = confirmed_trials(results, known)
    if found and found[0].scores:
        return found[0]
    return None if results.best is None else ConfirmedTrial(results.best)


def cheapest_solver(results: Results, known: Sequence[Confirmation], threshold: float | None) -> ConfirmedTrial | None:
    """The cheapest trial that reached a threshold, with what it was confirmed by; None where there is none."""
    found = None if threshold is None else results.cheapest_past(threshold)
    if found is None:
        return None
    return ConfirmedTrial(found, [run for run in known if run.trial == found.number])


def known_confirmations(study: Study) -> list[Confirmation]:
    """What the study remembers."""
    found = []
    for key, value in study.user_attrs.items():
        kind, _, place = key.partition("/")
        if kind == CONFIRMATION and place:
            trial, seed = map(int, place.split("/"))
            found.append(Confirmation(trial, seed, **value))
    return found


def remember(study: Study, run: Confirmation) -> None:
    """Has the study remember what a run led to."""
    value = {"score": run.score, "cost": run.cost, "run_folder": run.run_folder, "error": run.error}
    study.set_user_attr(f"{CONFIRMATION}/{run.trial}/{run.seed}", value)


def _rank(each: ConfirmedTrial, goal: str) -> tuple[float, float]:
    score = -goal_sign(goal) * each.mean if each.scores else math.inf
    return score, math.inf if math.isnan(each.trial.cost) else each.trial.cost
