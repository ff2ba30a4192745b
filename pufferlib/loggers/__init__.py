"""Destinations of a run's metrics: nowhere, a file, TensorBoard, Weights & Biases, Neptune, or several of them.

None of the packages behind them is imported before something is logged.
"""

from pufferlib.loggers.logger import METRICS_FILE, JsonLogger
from pufferlib.loggers.logger import Logger, NoLogger
from pufferlib.loggers.neptune_logger import NeptuneLogger
from pufferlib.loggers.logger import make_run_id
from pufferlib.loggers.logger import Loggers
from pufferlib.loggers.tensorboard_logger import TensorBoardLogger
from pufferlib.loggers.wandb_logger import WandbLogger

__all__ = [
    "METRICS_FILE",
    "JsonLogger",
    "Logger",
    "Loggers",
    "NeptuneLogger",
    "NoLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "make_run_id",
]
