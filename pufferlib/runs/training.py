"""A whole run, from the first step to the last: what `puffer train` does around a trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from pufferlib import distributed
from pufferlib.config import load_config, require_sections
from pufferlib.errors import ConfigError
from pufferlib.loggers import Loggers
from pufferlib.metrics.log_history import LogHistory
from pufferlib.metrics.output import say
from pufferlib.metrics.score import final_text
from pufferlib.runs.calls import AnyLogger
from pufferlib.runs.checkpoint import resolve_run
from pufferlib.runs.description import restarted_run, saved_settings
from pufferlib.runs.files import CONFIG_FILE
from pufferlib.runs.learning import Trainer, iterate
from pufferlib.runs.loaders import load_env, load_policy
from pufferlib.runs.loggers import make_loggers
from pufferlib.runs.resuming import LENGTH, Change, allowed_changes, with_new_length
from pufferlib.runs.run_checkpoint import find_weights
from pufferlib.runs.settings import settings_of
from pufferlib.runs.stopping import SIGNAL_DEBOUNCE_SECONDS, StopRequest
from pufferlib.vector import Vector


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
        trainer = make_trainer({**args["train"], "env": env_name}, vecenv, policy, logger)
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
    # The folder of the run to go on with, asked for or restarted by torchrun, and the settings that change.
    data_dir, resume = args["train"]["data_dir"], args.get("resume")
    folder = resolve_run(data_dir, env_name, resume) if resume else restarted_run(data_dir, env_name)
    if folder is None or not (folder / CONFIG_FILE).exists():
        return folder, []
    return folder, allowed_changes(saved_settings(folder, env_name), args, str(folder))


def _require_longer(changes: list[Change], trainer: Trainer) -> None:
    for change in changes:
        if change.name in LENGTH and trainer.epoch >= trainer.total_epochs:
            done = f"{trainer.global_step:,} steps, {trainer.epoch:,} iterations"
            raise ConfigError(
                f"{change.flag} must be more than the {done}, that {trainer.run_folder} has, got {change.now:,}; give "
                "more, or leave it out to go on to the end that was set before"
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
    with trainer.report.paused():  # a service may take seconds to open its run
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
