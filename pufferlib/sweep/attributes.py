"""What the trials and the study of a sweep remember besides Optuna's own: the keys of their user attributes.

A trial that is told as complete has its score as its value; the other attributes hold of failed and stopped ones too.
"""

# Of a trial
CURVE = "curve"  # [[progress in (0, 1], seconds of training until then, score], ...]; the last one is where it ended
COST = "cost"  # seconds of training, float; playing for the score does not count
EPISODES = "episodes"  # how many the score is the mean of; None where it is no mean over episodes
EPISODE_STEPS = "episode_steps"  # agent steps in which every agent plays one episode, the fewest seen
CONFIG = "config"  # {section: {setting: value}}: what the trial ran with that the sweep chose, after repairs
ERROR = "error"  # why it failed, one sentence
STOPPED = "stopped"  # why it was stopped early, one sentence
RUN_FOLDER = "run_folder"  # of the run, with its metrics and weights
DRIVER = "driver"  # {"host", "process", "started", "key"}: who runs it
HEARTBEAT = "heartbeat"  # seconds since the epoch, when its driver was last alive
RETRY_OF = "retry_of"  # number of the trial whose driver died, which this one runs again
UNSCORED = "unscored"  # true of a failed trial that was too short to be scored: its settings may be good ones
UNCOUNTED = "uncounted"  # true of a failed trial that is not one of num_trials: it never ran, or is run again

# Of a study
ENV_NAME = "env_name"
METRIC = "metric"
DRIVERS = "drivers/"  # before the key of a driver: who opened the study, as DRIVER of a trial
SPACE = "space"  # a text that is the same for the same dimensions
CONFIRMATION = "confirmation"  # "confirmation/TRIAL/SEED": {"score" or None, "cost", "run_folder", "error"} of its run
CONFIRMING = "confirming"  # "confirming/TRIAL/SEED": the driver that runs it, as DRIVER of a trial, and its heartbeat
