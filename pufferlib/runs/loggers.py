"""Makes loggers from the `[log]` settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pufferlib.config import LogConfig
from pufferlib.loggers.json_logger import JsonLogger
from pufferlib.loggers.logger import Logger
from pufferlib.loggers.neptune_logger import NeptuneLogger
from pufferlib.loggers.tensorboard_logger import TensorBoardLogger
from pufferlib.loggers.wandb_logger import WandbLogger


def make_loggers(
    log_settings: Mapping[str, Any], run_folder: Path, run_id: str, resume_step: int | None = None
) -> list[Logger]:
    """Makes the loggers of a run, which keep their files in its folder.

    Args:
        log_settings: the `[log]` section; keys that are absent take their defaults.
        run_folder: `metrics.jsonl` and the folders `tensorboard`, `wandb` and `neptune` are made there.
        run_id: the run's name, the same when it is resumed.
        resume_step: the agent step from which a resumed run continues; None for a new run.

    Returns:
        A JsonLogger, then those that the settings ask for.

    Raises:
        ConfigError: if a setting is wrong.
        MissingExtraError: if a logger's package is not installed.
        APIUsageError: if Neptune's workspace is missing.
    """
    config = LogConfig.from_dict(log_settings)
    common = {
        **{"name": config.name, "tags": config.tag_list, "run_id": run_id},
        **{"mode": "offline" if config.offline else None},
    }
    loggers: list[Logger] = [JsonLogger(run_folder / "metrics.jsonl", resume_step, run_id)]
    if config.tensorboard:
        loggers.append(TensorBoardLogger(run_folder / "tensorboard", run_id, resume_step))
    if config.wandb:
        loggers.append(WandbLogger(config.project, config.entity, **common, folder=run_folder))
    if config.neptune:
        loggers.append(NeptuneLogger(config.neptune_project, **common, folder=run_folder / "neptune"))
    return loggers
