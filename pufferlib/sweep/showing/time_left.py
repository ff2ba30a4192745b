"""The time that a sweep still takes."""

from __future__ import annotations

import math
import time
from statistics import mean

from optuna.trial import TrialState

from pufferlib.sweep.state import RunningTrial, SweepState
from pufferlib.sweep.study.results import results_of

_RECENT = 20  # trials whose durations say how long the next ones take
_EARLY = 0.05  # of a run: before that its own speed says little


def remaining_seconds(state: SweepState, now: float | None = None) -> float:
    """Returns the seconds until the trials of a sweep are over, or the confirmations while those run.

    It assumes that trials take as long as the last ones did, and the same number runs side by side on all drivers;
    never longer than to the deadline. It is infinite as long as no trial has ended. `now` is a `time.monotonic()`, None
    for this moment.
    """
    now = time.monotonic() if now is None else now
    typical = _typical_duration(state)
    found = results_of(state.trials, state.args["sweep"]["goal"])
    elsewhere = 0 if state.to_confirm else max(0, found.running - len(state.running))
    left = state.to_confirm or max(0, state.args["sweep"]["num_trials"] - found.num_ended)
    waiting = max(0, left - len(state.running) - elsewhere)
    here = [_of_running(trial, typical, now) for trial in state.running]
    lanes = max(1, state.args["sweep"]["workers"], len(here)) + elsewhere
    ahead = sum(here) + sum([typical] * waiting) + sum([typical / 2] * elsewhere)
    longest = max(ahead / lanes, *here, 0.0)
    if state.deadline is None or state.to_confirm:
        return longest
    return min(longest, max(0.0, state.deadline - now))


def _typical_duration(state: SweepState) -> float:
    ended = [trial for trial in state.trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    seconds = [(trial.datetime_complete - trial.datetime_start).total_seconds() for trial in ended[-_RECENT:]]
    return max(0.0, mean(seconds)) if seconds else math.inf


def _of_running(trial: RunningTrial, typical: float, now: float) -> float:
    elapsed = max(0.0, now - trial.started)
    if trial.progress > _EARLY:
        return elapsed * (1 / min(trial.progress, 1.0) - 1)
    return max(0.0, typical - elapsed)
