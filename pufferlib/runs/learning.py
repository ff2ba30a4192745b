"""The loop of a training, and the callbacks of `PuffeRL.learn`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import nn

from pufferlib import ocean
from pufferlib.config import ResolvedTrainConfig
from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, CallbackError, RankError
from pufferlib.loggers import Logger
from pufferlib.metrics.output import say
from pufferlib.metrics.report import Report, prefixed
from pufferlib.metrics.score import Score
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.early_notes import notes_on_episodes, notes_on_length, notes_on_rollout
from pufferlib.runs.run import Run
from pufferlib.runs.stopping import StopRequest
from pufferlib.vector import Vector


class Trainer(Protocol):
    """The part of PuffeRL that the loop of a run uses."""

    config: ResolvedTrainConfig
    ranks: Ranks
    vecenv: Vector
    policy: nn.Module
    rollout: Rollout
    env_name: str
    epoch: int
    learning_rate: float
    total_epochs: int
    run: Run
    report: Report
    logger: Logger
    final_scores: dict[str, Score]
    global_step: int
    sps: float
    uptime: float
    run_folder: Path
    is_logged: bool
    computed_by: str
    evaluate: Callable[[], dict[str, float]]
    train: Callable[[], dict[str, float]]
    mean_and_log: Callable[[], dict[str, float]]
    print_dashboard: Callable[[], None]
    score_finally: Callable[[Callable[[], bool]], None]
    save_checkpoint: Callable[[], str]
    load_checkpoint: Callable[[Path], dict[str, Any]]
    close: Callable[[], str]
    release: Callable[[], None]


def iterate(
    trainer: Trainer,
    stop: StopRequest,
    after_iteration: Callable[[dict[str, float], dict[str, float]], bool | None],
    has_notes: bool = True,
) -> bool:
    """Trains until the last epoch, or until a signal or `after_iteration` stops all processes in the same epoch.

    Args:
        trainer: that trains.
        stop: set by a signal, in any of the processes.
        after_iteration: called with what `evaluate` and `train` returned; True stops, in all processes or in none.
        has_notes: whether a new training prints what may keep the policy from learning.

    Returns:
        Whether a signal stopped it.
    """
    ranks, config = trainer.ranks, trainer.config
    has_notes = has_notes and trainer.epoch == 0 and ranks.is_first
    if has_notes:
        _say_notes(notes_on_length(config, trainer.total_epochs))
    is_length_awaited = has_notes and not trainer.env_name.startswith(ocean.PREFIX)  # whose settings were tuned
    while trainer.epoch < trainer.total_epochs:
        begin = time.perf_counter()
        episodes = trainer.evaluate()
        if has_notes and trainer.epoch == 0:
            seconds, share = time.perf_counter() - begin, trainer.report.phases.shares().get("environment", 0.0)
            notes = notes_on_rollout(
                config, trainer.rollout, trainer.vecenv, trainer.env_name, episodes, seconds, share
            )
            _say_notes(notes)
        if is_length_awaited and "episode/length_mean" in episodes:
            is_length_awaited = False
            _say_notes(notes_on_episodes(episodes["episode/length_mean"], config.gamma))
        votes = ranks.start_total(stop.requested)  # counted meanwhile
        losses = trainer.train()
        is_enough = after_iteration(episodes, losses)
        if votes.result() > 0 or (ranks.world_size == 1 and stop.requested):
            return True
        if is_enough:
            return False
    return False


def _say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(f"note: {note}")


def whole_steps(total_timesteps: float) -> int:
    """Returns the number of steps, or raises APIUsageError if it is no whole number above 0."""
    is_number = isinstance(total_timesteps, (int, float, np.number)) and not isinstance(total_timesteps, bool)
    if not is_number or not 1 <= total_timesteps < math.inf or int(total_timesteps) != total_timesteps:
        raise APIUsageError(
            f"total_timesteps must be a whole number of agent steps, 1 or more, got {total_timesteps!r}; "
            "None goes on to the end that the settings name"
        )
    return int(total_timesteps)


def list_callbacks(callbacks: object) -> list[object]:
    """Returns the callbacks that were given, of which there may be one alone, or None.

    Raises:
        APIUsageError: if one is no callback.
    """
    is_single = hasattr(callbacks, "on_iteration") or callable(callbacks)
    given = [] if callbacks is None else callbacks
    listed = list(given) if isinstance(given, Iterable) and not is_single else [given]
    for callback in listed:
        is_instance = not isinstance(callback, type)
        if not is_instance or not (hasattr(callback, "on_iteration") or callable(callback)):
            found = repr(callback) if is_instance else f"the class {callback.__name__}"
            raise APIUsageError(
                "callbacks must be objects with on_iteration(trainer, logs), or functions of these two, "
                f"got {found}; see pufferlib.callbacks"
            )
    return listed


def logs_of_iteration(trainer: Trainer, episodes: Mapping[str, float], losses: Mapping[str, float]) -> dict[str, float]:
    """Returns the `logs` of an iteration for callbacks, as `pufferlib.callbacks` describes them."""
    logged = trainer.mean_and_log() if trainer.is_logged else {}
    of_episodes = ("environment/", "episode/")  # those of this iteration count
    return {
        **{name: value for name, value in logged.items() if not name.startswith(of_episodes)},
        **{"agent_steps": trainer.global_step, "epoch": trainer.epoch, "sps": trainer.sps, "uptime": trainer.uptime},
        **prefixed("losses", losses),
        **{name if name.startswith("episode/") else f"environment/{name}": value for name, value in episodes.items()},
    }


def call_callback(callback: Any, method: str, trainer: Trainer, *arguments: Any) -> bool:
    """Calls a method of a callback, or the callback if it is a function, and returns whether it wants to stop.

    Raises:
        CallbackError: if it raises, or returns something else than True, False and None.
    """
    name = getattr(callback, "__name__", type(callback).__name__)
    try:
        answer = getattr(callback, method, callback)(trainer, *arguments)
        if answer is not None and not isinstance(answer, (bool, np.bool_)):
            raise APIUsageError(f"it must return True to stop, False or None to go on, got {answer!r}")
    except RankError:
        raise
    except Exception as error:
        remedy = f"mend it, and go on by load_checkpoint({str(trainer.run_folder)!r})"
        if trainer.ranks.world_size > 1:  # one process alone could not save anything
            remedy = "mend it, and go on from the last checkpoint"
        raise CallbackError(
            f"the callback {name} failed after {trainer.epoch} epochs with {type(error).__name__}: {error}; {remedy}"
        ) from error
    return bool(answer)
