"""The loop of a training: iteration after iteration, until the last one, or until somebody asks to stop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pufferlib import ocean
from pufferlib.errors import APIUsageError, CallbackError, PufferError, RankError
from pufferlib.metrics.output import say
from pufferlib.metrics.report import prefixed
from pufferlib.runs.early_notes import notes_on_episodes, notes_on_length, notes_on_rollout
from pufferlib.runs.stopping import StopRequest

DEAF_SECONDS = 20.0
"""How long after a signal others count as the same one, of several processes: less than torchrun gives them to end."""

_ENDED = ("environment/", "episode/")  # metrics of the episodes that ended


def iterate(
    trainer: Any,
    stop: StopRequest,
    look: Callable[[dict[str, float], dict[str, float]], bool | None],
    has_notes: bool = True,
) -> bool:
    """Trains until the last epoch, or until somebody asks to stop: then all processes do so in the same epoch.

    Args:
        trainer: a PuffeRL.
        stop: by a signal, to whichever process.
        look: called after each iteration with what `evaluate` and `train` returned; True stops, in all processes or in
            none.
        has_notes: whether to print what is likely to keep the policy from learning, as a new training begins.

    Returns:
        Whether it was a signal.
    """
    ranks = trainer.ranks
    has_notes = has_notes and trainer.epoch == 0 and ranks.is_first
    if has_notes:
        _say_notes(notes_on_length(trainer.config, trainer.total_epochs))
    is_length_awaited = has_notes and not trainer.env_name.startswith(ocean.PREFIX)  # whose settings were tuned
    while trainer.epoch < trainer.total_epochs:
        begin = time.perf_counter()
        episodes = trainer.evaluate()
        if has_notes and trainer.epoch == 0:
            _say_notes(notes_on_rollout(trainer, episodes, time.perf_counter() - begin))
        if is_length_awaited and "episode/length_mean" in episodes:
            is_length_awaited = False
            _say_notes(notes_on_episodes(episodes["episode/length_mean"], trainer.config.gamma))
        votes = ranks.start_total(stop.requested)  # counted meanwhile
        losses = trainer.train()
        is_enough = look(episodes, losses)
        if votes.result() > 0 or (ranks.world_size == 1 and stop.requested):
            return True
        if is_enough:
            return False
    return False


def learn(trainer: Any, total_timesteps: float | None, callbacks: Any, is_shown: bool) -> None:
    """What `PuffeRL.learn` does."""
    callbacks, ranks, first_epoch = _listed(callbacks), trainer.ranks, trainer.epoch
    is_anybody_asked = any(ranks.gather(bool(callbacks)))
    if total_timesteps is not None:
        trainer.total_epochs = trainer.epoch + math.ceil(_checked(total_timesteps) / trainer.config.batch_size)

    def look(episodes: dict[str, float], losses: dict[str, float]) -> bool:
        logs = _told(trainer, episodes, losses)
        answers = [_ask(callback, "on_iteration", trainer, logs) for callback in callbacks]
        if is_shown:
            trainer.print_dashboard()
        return is_anybody_asked and ranks.start_total(any(answers) and ranks.is_first).result() > 0

    try:
        for callback in callbacks:
            if hasattr(callback, "on_start"):
                _ask(callback, "on_start", trainer)
        if is_shown and ranks.is_first and trainer.epoch == 0:
            for sentence in trainer.chosen:
                say(f"chosen for {sentence}")
        with StopRequest(DEAF_SECONDS if ranks.world_size > 1 else 0.0) as stop:
            is_interrupted = iterate(trainer, stop, look, has_notes=is_shown)
            if trainer.epoch > first_epoch:
                trainer.mean_and_log()
                if is_shown:
                    trainer.report.show_soon()
                    trainer.print_dashboard()
                trainer.save_checkpoint()
    except CallbackError as error:
        ranks.announce(error)
        _close(trainer)
        raise
    except Exception as error:
        ranks.announce(error)
        raise
    finally:
        trainer.report.end_showing()
    if is_interrupted:
        raise KeyboardInterrupt


def _say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(f"note: {note}")


def _checked(total_timesteps: float) -> int:
    is_number = isinstance(total_timesteps, (int, float, np.number)) and not isinstance(total_timesteps, bool)
    if not is_number or not 1 <= total_timesteps < math.inf or int(total_timesteps) != total_timesteps:
        raise APIUsageError(
            f"total_timesteps must be a whole number of agent steps, 1 or more, got {total_timesteps!r}; "
            "None goes on to the end that the settings name"
        )
    return int(total_timesteps)


def _listed(callbacks: Any) -> list[Any]:
    """The callbacks that were given, of which there may be one alone, or None."""
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


def _told(trainer: Any, episodes: dict[str, float], losses: dict[str, float]) -> dict[str, float]:
    """What callbacks are told of an iteration, as `pufferlib.callbacks` describes it."""
    logged = trainer.mean_and_log() if trainer.is_logged else {}
    return {
        **{name: value for name, value in logged.items() if not name.startswith(_ENDED)},
        **{"agent_steps": trainer.global_step, "epoch": trainer.epoch, "sps": trainer.sps, "uptime": trainer.uptime},
        **prefixed("losses", losses),
        **{name if name.startswith("episode/") else f"environment/{name}": value for name, value in episodes.items()},
    }


def _ask(callback: Any, method: str, *arguments: Any) -> bool:
    """Whether a callback wants to stop.

    Raises:
        CallbackError: if it raises, or answers something else than True, False and None.
    """
    trainer = arguments[0]
    name = getattr(callback, "__name__", type(callback).__name__)
    try:
        answer = getattr(callback, method, callback)(*arguments)
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


def _close(trainer: Any) -> None:
    """Saves what there is, as far as one process alone can do so, and lets go of everything."""
    if trainer.ranks.world_size == 1:
        with contextlib.suppress(PufferError):
            trainer.close()
    trainer.release()
    trainer.logger.close(None)
