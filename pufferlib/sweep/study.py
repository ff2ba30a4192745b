"""The study of a sweep: where it is stored, and whether it belongs to this sweep."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import socket
import sqlite3
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial
from sqlalchemy.exc import SQLAlchemyError

from pufferlib.config import SweepConfig, load_config
from pufferlib.errors import ConfigError, StorageError
from pufferlib.families.catalog import slug
from pufferlib.loggers.logger import plain_settings
from pufferlib.reading import open_regular
from pufferlib.sweep.results import DRIVERS, ENV_NAME, FIXED, SPACE, by_name
from pufferlib.sweep.space import Categorical, SearchSpace, trial_settings

HEARTBEAT_SECONDS = 10  # between two heartbeats of a trial that runs
GRACE_SECONDS = 60  # without a heartbeat, after which the driver of a trial is gone and the trial is retried
MAX_RETRIES = 2  # of a trial whose drivers are killed
_ATTEMPTS = 5  # to open a database

# Where and how trials run, which may differ between the drivers of a study.
_FREE = {
    *("train.device", "train.checkpoint_interval", "train.log_interval"),
    *("vec.backend", "vec.num_workers", "vec.step_timeout_seconds"),
}


class StudyPlace:
    """Where a study and the files of its sweep are, by the settings of the sweep."""

    def __init__(self, env_name: str, args: Mapping[str, Any]):
        config = SweepConfig.from_dict(args["sweep"])
        sweeps = Path(args["train"]["data_dir"], "sweeps")
        self.name = config.study or env_name  # of the study
        self.storage = config.storage or str(sweeps / f"{slug(self.name)}.db")  # a file, or the URL of a database
        self.folder = sweeps / slug(self.name)  # for the trials' runs and their output, and what a sweep leaves
        given = {"--storage": config.storage and without_password(config.storage), "--study": config.study}
        flags = [f"{flag} {shlex.quote(value)}" for flag, value in given.items() if value is not None]
        self.flags = " ".join(flags)  # those that lead there, without the password of a database


def without_password(storage: str) -> str:
    """Returns the URL of a database with stars in place of its password; a file as it is."""
    hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", storage)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", hidden)


@contextlib.contextmanager
def naming_database(place: StudyPlace) -> Iterator[None]:
    """Turns an error of the database into a StorageError of one sentence, with its URL and what to do."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ or error
        reason = " ".join(str(getattr(cause, "orig", cause)).split())
        raise StorageError(
            f"the database of the sweep, {without_password(place.storage)}, failed: {reason}; restore or "
            f"restart it, then the same sweep continues the study {place.name!r}"
        ) from error


def open_study(place: StudyPlace, goal: str) -> optuna.Study:
    """Opens or makes a study; ConfigError if the storage cannot be used, or the study has the other goal."""
    with quiet_optuna():
        storage = _open_storage(place.storage)
        try:
            study = optuna.create_study(study_name=place.name, storage=storage, direction=goal, load_if_exists=True)
            found = study.direction.name.lower()
        except (AssertionError, AttributeError, LookupError, TypeError) as error:  # Optuna takes what a file holds
            sentence = f"the study {place.name!r} is damaged; mend its storage, or begin another study by --study NAME"
            raise ConfigError(sentence) from error
    if found != goal:
        raise _difference(place.name, "goal", found, goal)
    return study


def claim_study(study: optuna.Study, env_name: str, space: SearchSpace, args: Mapping[str, Any]) -> int:
    """Returns a number of this driver, 0 for the first.

    Raises ConfigError if the study is of another environment or space, or other settings that it does not vary.
    """
    claim(study, ENV_NAME, "environment", env_name)
    for key, label, absent, now in (
        (SPACE, "[sweep.{}]", ("not varied", "does not vary it"), _space_facts(space)),
        (FIXED, "{}", ("the environment's own",) * 2, _fixed_settings(env_name, space, args)),
    ):
        found = study.user_attrs.get(key)
        if found is None:
            study.set_user_attr(key, now)
            continue
        for name in {**found, **now}:
            before, after = found.get(name, absent[0]), now.get(name, absent[1])
            if before != after:
                raise _difference(study.study_name, label.format(name), before, after)
    driver = uuid.uuid4()
    study.set_user_attr(f"{DRIVERS}{driver.hex}", socket.gethostname())
    is_first = sum(name.startswith(DRIVERS) for name in study.user_attrs) == 1
    return 0 if is_first else driver.int


def claim(study: optuna.Study, key: str, label: str, value: str) -> None:
    """Sets an attribute of a study; ConfigError, which calls it by its label, if it has another value."""
    found = study.user_attrs.get(key)
    if found is None:
        study.set_user_attr(key, value)
    elif found != value:
        raise _difference(study.study_name, label, found, value)


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silences Optuna's log of every trial, and its warnings of features that it calls experimental."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # such as heartbeats
            warnings.filterwarnings("ignore", "Heartbeat of storage is supposed", UserWarning)  # `ask` has them too
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _open_storage(storage: str) -> RDBStorage:
    name, url = without_password(storage), storage
    # Other drivers may hold a file for some seconds; servers close idle connections.
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    try:
        if "://" not in storage:
            path = Path(storage).absolute()
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                open_regular(path).close()
            url = "sqlite:///sweep.db"  # any file: paths with ? or % mean another one in a URL
            options = {"creator": partial(sqlite3.connect, path, timeout=60, check_same_thread=False)}
        return _open_database(url, options)
    except Exception as error:  # of any of the packages that reach databases
        cause = getattr(error, "strerror", None) or getattr(error, "orig", error)
        found = " ".join(str(cause).replace(storage, name).split())
        remedy = "name a file of SQLite, or the URL of another database"
        raise ConfigError(f"[sweep] storage {name!r} cannot be opened: {found}; {remedy}") from error


def _open_database(url: str, options: dict[str, Any]) -> RDBStorage:
    heartbeats = {"heartbeat_interval": HEARTBEAT_SECONDS, "grace_period": GRACE_SECONDS}
    for attempt in itertools.count(1):
        try:
            return RDBStorage(url, engine_kwargs=options, **heartbeats, heartbeat_stale_trial_callback=_retry)
        except SQLAlchemyError:  # another driver may make the tables in the same moment
            if attempt == _ATTEMPTS:
                raise
            time.sleep(0.1 * attempt)


def _retry(study: optuna.Study, trial: FrozenTrial) -> None:
    trial.user_attrs = {}  # of the run that ended
    RetryHeartbeatStaleTrialCallback(MAX_RETRIES)(study, trial)


def _space_facts(space: SearchSpace) -> dict[str, Any]:
    # The same for the same dimensions, wherever their search starts, as JSON keeps them.
    found = {
        each.name: each.choices
        if isinstance(each, Categorical)
        else (each.distribution, each.min, each.max, each.is_integer)
        for each in space.dimensions
    }
    return plain_settings(found)


def _fixed_settings(env_name: str, space: SearchSpace, args: Mapping[str, Any]) -> dict[str, Any]:
    changed = by_name(trial_settings(load_config(env_name), args, ()))
    is_free = {name: name in space.names or name in _FREE for name in changed}
    return plain_settings({name: value for name, value in changed.items() if not is_free[name]})


def _difference(name: str, what: str, before: object, now: object) -> ConfigError:
    return ConfigError(f"the study {name!r} has {what} {before}, this sweep {now}; --study NAME begins another study")
