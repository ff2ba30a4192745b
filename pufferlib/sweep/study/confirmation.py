"""Confirmations: runs of the best trials on fresh seeds, because the winner of a sweep is often luck.

The study keeps every result under a key of its own, so that a sweep that continues repeats none, and drivers that share
a study lose none.
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
    """One more run of a trial's settings."""

    trial: int  # the number of the trial
    seed: int  # of the run
    score: float | None  # None where the run failed
    cost: float = 0.0  # seconds of training, until it failed where it did
    run_folder: str = ""  # of the run; empty where it is not known
    error: str = ""  # why it failed, one sentence; empty where it did not


@dataclass(frozen=True)
class ConfirmedTrial:
    """A trial with all its confirmations."""

    trial: FoundTrial  # as the search saw it
    runs: Sequence[Confirmation] = ()  # with its settings; none where it was not confirmed

    @property
    def scores(self) -> list[float]:
        """The scores of the runs that did not fail."""
        return [run.score for run in self.runs if run.score is not None]

    @property
    def mean(self) -> float:
        """The mean of the scores; NaN where there are none."""
        return mean(self.scores) if self.scores else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation of the scores."""
        return pstdev(self.scores) if self.scores else math.nan

    @property
    def num_failed(self) -> int:
        """The number of runs that failed."""
        return len(self.runs) - len(self.scores)

    @property
    def text(self) -> str:
        """A text such as `0.95 ± 0.02 on 3 fresh seeds`; empty where it was not confirmed."""
        if not self.runs:
            return ""
        mean = f"{number_text(self.mean)} ± {self.spread:.2g}" if self.scores else "-"
        failures = f", {self.num_failed} failed" if self.num_failed else ""
        return f"{mean} on {len(self.runs)} fresh seed{'s' * (len(self.runs) != 1)}{failures}"


def candidates(results: Results, count: int, threshold: float | None = None) -> list[FoundTrial]:
    """Returns the best trials that differ in their settings, and the cheapest of those that reached a threshold."""
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
    """Returns the seeds of confirmations, with which no trial of the sweep ran."""
    first = args["train"]["seed"] + FIRST_SEED
    return list(range(first, first + args["sweep"]["confirm_seeds"]))


def outstanding(
    results: Results, known: Sequence[Confirmation], args: Mapping[str, Any], metric: str
) -> list[tuple[FoundTrial, int]]:
    """Returns the trials and seeds that have not run yet, the best trial first."""
    done = {(run.trial, run.seed) for run in known}
    chosen = candidates(results, args["sweep"]["confirm_best"], solve_threshold(args, metric))
    return [(trial, seed) for trial in chosen for seed in fresh_seeds(args) if (trial.number, seed) not in done]


def confirmed_trials(results: Results, known: Sequence[Confirmation]) -> list[ConfirmedTrial]:
    """Returns the confirmed trials, the best first: fewest failures, then the best mean, then the cheapest."""
    runs: dict[int, list[Confirmation]] = {}
    for run in sorted(known, key=lambda run: (run.trial, run.seed)):
        runs.setdefault(run.trial, []).append(run)
    found = [ConfirmedTrial(trial, runs[trial.number]) for trial in results.complete if trial.number in runs]
    return sorted(found, key=lambda each: (each.num_failed, *_confirmed_rank(each, results.goal)))


def winner(results: Results, known: Sequence[Confirmation]) -> ConfirmedTrial | None:
    """Returns the trial that was confirmed best, else that with the best score; None where no trial is complete."""
    found = confirmed_trials(results, known)
    if found and found[0].scores:
        return found[0]
    return None if results.best is None else ConfirmedTrial(results.best)


def cheapest_solver(results: Results, known: Sequence[Confirmation], threshold: float | None) -> ConfirmedTrial | None:
    """Returns the cheapest trial that reached a threshold with its confirmations; None where there is none."""
    found = None if threshold is None else results.cheapest_past(threshold)
    if found is None:
        return None
    return ConfirmedTrial(found, [run for run in known if run.trial == found.number])


def known_confirmations(study: Study) -> list[Confirmation]:
    """Returns the confirmations in a study."""
    found = []
    for key, value in study.user_attrs.items():
        kind, _, place = key.partition("/")
        if kind == CONFIRMATION and place:
            trial, seed = map(int, place.split("/"))
            found.append(Confirmation(trial, seed, **value))
    return found


def remember(study: Study, run: Confirmation) -> None:
    """Stores a confirmation in a study."""
    value = {"score": run.score, "cost": run.cost, "run_folder": run.run_folder, "error": run.error}
    study.set_user_attr(f"{CONFIRMATION}/{run.trial}/{run.seed}", value)


def _confirmed_rank(each: ConfirmedTrial, goal: str) -> tuple[float, float]:
    score = -goal_sign(goal) * each.mean if each.scores else math.inf
    return score, math.inf if math.isnan(each.trial.cost) else each.trial.cost
