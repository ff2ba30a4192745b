"""A whole run, from the first step to the last: what `puffer train` does around a trainer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import nn

from pufferlib import distributed, ocean
from pufferlib.config import ResolvedTrainConfig, load_config, require_sections
from pufferlib.dashboard.output import say
from pufferlib.dashboard.report import LogHistory, Report, prefixed
from pufferlib.dashboard.score import Score, final_text
from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, CallbackError, ConfigError, RankError
from pufferlib.loggers import Logger, Loggers
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.calls import AnyLogger
from pufferlib.runs.checkpoint import find_weights, resolve_run
from pufferlib.runs.description import (
    LENGTH,
    Change,
    allowed_changes,
    read_description,
    restarted_run,
    settings_of,
    with_new_length,
)
from pufferlib.runs.early_notes import notes_on_episodes, notes_on_length, notes_on_rollout
from pufferlib.runs.folder import CONFIG_FILE
from pufferlib.runs.loaders import load_env, load_policy, make_loggers
from pufferlib.runs.run import Run
from pufferlib.runs.stopping import SIGNAL_DEBOUNCE_SECONDS, StopRequest
from pufferlib.vector import Vector


class Trainer(Protocol):
    """The part of PuffeRL that the loop of a run uses."""

    config: ResolvedTrainConfig
    ranks: Ranks
    vecenv: Vector
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
            "None trains to the end that the settings name"
        )
    return int(total_timesteps)


def list_callbacks(callbacks: object) -> list[object]:
    """Returns the callbacks that were given, of which there may be one alone, or None; APIUsageError if one is none."""
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


def call_callback(callback: object, method: str, trainer: Trainer, *arguments: object) -> bool:
    """Calls a method of a callback, or the callback if it is a function, and returns whether it wants to stop.

    What it raises becomes a CallbackError, and so does an answer that is not True, False or None.
    """
    name = getattr(callback, "__name__", type(callback).__name__)
    try:
        answer = getattr(callback, method, callback)(trainer, *arguments)
        if answer is not None and not isinstance(answer, (bool, np.bool_)):
            raise APIUsageError(f"it must return True to stop, False or None to continue, got {answer!r}")
    except RankError:
        raise
    except Exception as error:
        remedy = f"mend it, and continue by load_checkpoint({str(trainer.run_folder)!r})"
        if trainer.ranks.world_size > 1:  # one process alone could not save anything
            remedy = "mend it, and continue from the last checkpoint"
        raise CallbackError(
            f"the callback {name} failed after {trainer.epoch} epochs with {type(error).__name__}: {error}; {remedy}"
        ) from error
    return bool(answer)


def train_run(
    make_trainer: Callable[[dict[str, Any], Vector, nn.Module, AnyLogger], Trainer],
    env_name: str,
    args: dict[str, Any] | None = None,
    vecenv: Vector | None = None,
    policy: nn.Module | None = None,
    logger: AnyLogger = None,
) -> list[dict[str, float]]:
    """Trains from the first step to the last; `make_trainer` is PuffeRL, `pufferl.train` documents the rest."""
    args = load_config(env_name) if args is None else args
    require_sections(args)
    ranks = distributed.connect()
    ranks.require_same(_facts(env_name, args))
    folder, changes = ranks.from_first(lambda: _find_run(env_name, args))
    args = with_new_length(args, changes)
    is_from_settings = vecenv is None and policy is None
    vecenv = load_env(env_name, args) if vecenv is None else vecenv
    trainer = None
    try:
        if policy is None:
            weights = None if folder is None else ranks.from_first(lambda: find_weights(folder, env_name))
            policy = load_policy(args, vecenv, env_name, weights)
        trainer = make_trainer(
            {**args["train"], "env": env_name, "selfplay": args.get("selfplay")}, vecenv, policy, logger
        )
        trainer.run.settings = args
        if not is_from_settings:
            trainer.run.settings = settings_of(env_name, args["train"], vecenv, policy, args)
        if folder is not None:
            trainer.load_checkpoint(folder)
            _require_longer(changes, trainer)
            if any(change.name == "learning_rate" for change in changes):
                trainer.learning_rate = trainer.config.learning_rate  # not that of the checkpoint
        # Signals are handled from the first file on, so that what is there can be resumed.
        with StopRequest(SIGNAL_DEBOUNCE_SECONDS if ranks.world_size > 1 else 0.0) as stop:
            if ranks.is_first:
                _open_files(trainer, args, logger is None, folder is not None)
                say(_first_line(env_name, args, trainer, changes, folder is not None))
                say(f"computed by {trainer.computed_by}")
                if (simulator := getattr(vecenv.driver_env, "simulator", None)) is not None:
                    say(f"stepped by {simulator}, on {vecenv.num_workers} threads or workers")
            return _train_to_the_end(trainer, args, stop)
    except BaseException as error:
        ranks.announce(error)
        if trainer is not None:
            trainer.release()
            trainer.logger.close(None)
        vecenv.close()
        raise


def _facts(env_name: str, args: dict[str, Any]) -> dict[str, str]:  # the same in all processes
    own = {name: args.get(name) for name in ("policy_name", "rnn_name", "resume", "load_model_path")}
    of_policy = {f"[{section}] {name}": value for section in ("policy", "rnn") for name, value in args[section].items()}
    return {name: repr(value) for name, value in {"the environment": env_name, **own, **of_policy}.items()}


def _find_run(env_name: str, args: dict[str, Any]) -> tuple[Path | None, list[Change]]:
    # The folder of the run to continue, asked for or restarted by torchrun, and the settings that change.
    data_dir, resume = args["train"]["data_dir"], args.get("resume")
    folder = resolve_run(data_dir, env_name, resume) if resume else restarted_run(data_dir, env_name)
    if folder is None or not (folder / CONFIG_FILE).exists():
        return folder, []
    saved = read_description(folder / CONFIG_FILE, env_name)["settings"]
    return folder, allowed_changes(saved, args, str(folder))


def _require_longer(changes: list[Change], trainer: Trainer) -> None:
    for change in changes:
        if change.name in LENGTH and trainer.epoch >= trainer.total_epochs:
            done = f"{trainer.global_step:,} steps, {trainer.epoch:,} iterations"
            raise ConfigError(
                f"{change.flag} must be more than the {done}, that {trainer.run_folder} has, got {change.now:,}; give "
                "more, or leave it out to train to the end that was set before"
            )


def _first_line(env_name: str, args: dict[str, Any], trainer: Trainer, changes: list[Change], is_resumed: bool) -> str:
    train = args["train"]
    if not is_resumed:
        iterations = train["num_iterations"]
        length = f"{train['total_timesteps']:,} steps" if iterations is None else f"{iterations:,} iterations"
        return f"training {env_name} for {length}, in {train['data_dir']}"
    done = f"{trainer.run_folder} after {trainer.epoch} of {trainer.total_epochs} epochs, {trainer.global_step} steps"
    if trainer.epoch >= trainer.total_epochs:
        return f"finished: {done}; --train.total-timesteps N goes on until N"
    changed = [f"{change.flag} {change.now} (was {change.before})" for change in changes]
    return f"resumes {done}" + (f", with {', '.join(changed)}" if changed else "")


def _open_files(trainer: Trainer, args: dict[str, Any], logs_by_settings: bool, is_resumed: bool) -> None:
    folder = trainer.run_folder
    if logs_by_settings:
        resume_step = trainer.global_step if is_resumed else None
        trainer.logger = Loggers(make_loggers(args.get("log", {}), folder, folder.absolute().name, resume_step))
    try:
        trainer.run.open()
    except OSError as error:
        raise ConfigError(
            f"[train] data_dir must be a folder that can be written, got {trainer.config.data_dir!r} "
            f"({error.strerror}); make it so, or name another one"
        ) from error
    description = trainer.run.describe()
    description |= {**description.pop("settings"), "train": asdict(trainer.config)}  # with every size that was 'auto'
    description.pop("sweep", None)  # the ranges of a sweep do not describe this run
    with trainer.report.uncounted():  # a service may take seconds to open its run
        trainer.logger.describe(description)


def _train_to_the_end(trainer: Trainer, args: dict[str, Any], stop: StopRequest) -> list[dict[str, float]]:
    history, first_epoch = LogHistory(), trainer.epoch

    def keep_log(*iteration: object) -> None:
        if trainer.is_logged:
            log = trainer.mean_and_log()
            if log["agent_steps"] >= 0.2 * trainer.config.total_timesteps:
                history.add(log)
        trainer.print_dashboard()

    trainer.score_finally(lambda: not stop.requested)
    is_interrupted = iterate(trainer, stop, keep_log)
    has_trained, is_over = trainer.epoch > first_epoch, trainer.epoch >= trainer.total_epochs
    if has_trained and is_over:
        trainer.save_checkpoint()  # with the last log, which came after the final play
    path = trainer.close()
    if trainer.ranks.is_first and has_trained:
        if trainer.final_scores:
            say(final_text(trainer.final_scores, args.get("solve", {}).get("metric")))
        steps, total = trainer.global_step, trainer.config.total_timesteps
        stopped = f"; stopped after {steps:,} of {total:,} steps, --resume latest goes on"
        say(f"saved {path}{'' if is_over else stopped}")
    if is_interrupted or stop.requested:
        raise KeyboardInterrupt
    return history.logs()
