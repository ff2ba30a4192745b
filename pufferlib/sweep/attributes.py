"""The keys of the user attributes of the trials and the study of a sweep.

A trial that is complete has its score as its value; the other attributes hold for failed and stopped ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

# Of a trial
CURVE = "curve"  # [[progress in (0, 1], seconds of training until then, score], ...]; the last one is where it ended
COST = "cost"  # seconds of training, float; playing for the score does not count
EPISODES = "episodes"  # how many the score is the mean of; None where it is no mean over episodes
EPISODE_STEPS = "episode_steps"  # agent steps in which every agent plays one episode, the fewest seen
CONFIG = "config"  # {section: {setting: value}}: what the trial ran with that the sweep chose, after repairs
ERROR = "error"  # why it failed, one sentence
STOPPED = "stopped"  # why it was stopped early, one sentence
RUN_FOLDER = "run_folder"  # of the run, with its metrics and weights
HOST = "host"  # name of the machine that runs it
RETRY_OF = "retry_of"  # number of the interrupted trial that this one runs again
UNSCORED = "unscored"  # true of a failed trial that was too short to be scored: its settings may be good ones
UNCOUNTED = "uncounted"  # true of a failed trial that is not one of num_trials: it never ran, or is run again

# Of a study
ENV_NAME = "env_name"
METRIC = "metric"
DRIVERS = "drivers/"  # before the key of a driver that opened the study: the name of its machine
SPACE = "space"  # a text that is the same for the same dimensions
CONFIRMATION = "confirmation"  # "confirmation/TRIAL/SEED": {"score" or None, "cost", "run_folder", "error"} of its run
CONFIRMING = "confirming"  # "confirming/TRIAL/SEED": [key of the driver that runs it, seconds since the epoch]


def uncounted_numbers(trials: Sequence[FrozenTrial]) -> set[int]:
    """Returns the numbers of failed trials that do not count: they never ran, or run again under another number."""
    retried = {number for trial in trials for number in trial.system_attrs.get("retry_history", ())}  # by Optuna
    return retried | {trial.number for trial in trials if trial.user_attrs.get(UNCOUNTED)}
