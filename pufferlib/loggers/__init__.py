"""Destinations of a run's metrics: nowhere, a file, TensorBoard, Weights & Biases, Neptune, or several of them.

None of the packages behind them is imported before something is logged.
"""

from pufferlib.loggers.logger import METRICS_FILE, JsonLogger, Logger, Loggers, NoLogger, make_run_id
from pufferlib.loggers.services import NeptuneLogger, TensorBoardLogger, WandbLogger

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
