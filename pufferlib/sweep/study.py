"""The study of a sweep: where it is stored, and whether it belongs to this sweep."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from pufferlib.config import SweepConfig
from pufferlib.errors import ConfigError
from pufferlib.families.catalog import slug
from pufferlib.reading import MAX_LINE_BYTES, UnreadableFile, open_regular, parse_json
from pufferlib.sweep.results import CONFIRMING, DRIVERS, ENV_NAME, METRIC, SPACE
from pufferlib.sweep.space import Categorical, SearchSpace

_SQLITE = b"SQLite format 3\0"


def sqlite_url(path: Path) -> str:
    """Returns the URL of a database in a file; makes its folder where that does not exist.

    Studies of a journal of the same name are copied into a new database; the journal stays as it is.

    Raises:
        ConfigError: if the file is no database, or the journal is damaged.
        OSError: if the file or its folder cannot be used.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = path.with_suffix(".journal")
    if not path.exists() and journal.exists():
        _copy_journal(journal, path)
    with contextlib.suppress(FileNotFoundError), open_regular(path) as file:
        beginning = file.read(len(_SQLITE))
        if beginning not in (b"", _SQLITE):
            raise ConfigError(f"[sweep] storage {str(path)!r} must be a database of SQLite, found another file")
    return f"sqlite:///{path}"


def _copy_journal(journal: Path, path: Path) -> None:
    _require_journal(journal)
    made = path.with_suffix(f".{os.getpid()}.new")  # whole before it has its name
    try:
        _copy_studies(JournalStorage(JournalFileBackend(str(journal))), made)
        with contextlib.suppress(FileExistsError):  # another driver was first
            os.link(made, path)
    except OSError:
        raise
    except Exception as error:  # each kind of entry fails in a way of its own
        raise _no_journal(journal, f"entries that do not belong together ({type(error).__name__})") from error
    finally:
        made.unlink(missing_ok=True)


def _copy_studies(old: JournalStorage, path: Path) -> None:
    new = RDBStorage(f"sqlite:///{path}")
    for name in optuna.get_all_study_names(old):
        study = optuna.load_study(study_name=name, storage=old)
        copy = optuna.create_study(study_name=name, storage=new, directions=study.directions)
        for key, value in study.user_attrs.items():
            if not key.startswith(f"{CONFIRMING}/"):  # of drivers that are gone
                copy.set_user_attr(key, value)
        for trial in study.get_trials():
            if trial.state is TrialState.RUNNING:  # an earlier version ran it: it runs again
                trial.state, trial.datetime_start = TrialState.WAITING, None
            copy.add_trial(trial)
    new.engine.dispose()


def _require_journal(path: Path) -> None:
    # Looks at every line before Optuna does, which takes what it finds.
    with open_regular(path) as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES), b""), 1):
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES and number > 1:
                return  # half a line of a process that was killed
            try:
                entry = parse_json(line)
            except ValueError as error:
                raise _no_journal(path, f"something else in line {number}") from error
            if not isinstance(entry, dict) or type(entry.get("op_code")) is not int:
                raise _no_journal(path, f"something else in line {number}")


def _no_journal(path: Path, found: str) -> ConfigError:
    return ConfigError(
        f"[sweep] storage {str(path)!r} cannot be opened: it must be a journal of sweeps, found {found}; mend it, or "
        "name another one by --storage"
    )


HEARTBEAT_SECONDS = 10  # between two heartbeats of a trial that runs
GRACE_SECONDS = 60  # without a heartbeat, after which the driver of a trial is gone and the trial is retried
MAX_RETRIES = 2  # of a trial whose drivers are killed
_ATTEMPTS = 5  # to make the tables of a database, which another driver may be making


@dataclass(frozen=True)
class StudyPlace:
    """Where a study and the files of its sweep are."""

    name: str  # of the study
    storage: str  # a file, or the URL of a database
    folder: Path  # for the trials' runs and their output, and what a sweep leaves
    flags: str  # those that lead there; empty where none are needed


def study_place(env_name: str, args: Mapping[str, Any]) -> StudyPlace:
    """Returns where a sweep keeps its study, by its settings."""
    config = SweepConfig.from_dict(args["sweep"])
    name = config.study or env_name
    folder = Path(args["train"]["data_dir"], "sweeps")
    storage = config.storage or str(folder / f"{slug(name)}.db")
    if "://" not in storage and storage.endswith(".journal"):
        storage = str(Path(storage).with_suffix(".db"))
    given = {"--storage": config.storage, "--study": config.study}
    flags = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in given.items() if value is not None)
    return StudyPlace(name, storage, folder / slug(name), flags)


def open_study(place: StudyPlace, goal: str) -> optuna.Study:
    """Opens a study, or makes it where it does not exist.

    Raises:
        ConfigError: if the storage cannot be used, or the study has the other goal.
    """
    with quiet_optuna():
        storage = _open_storage(place.storage)
        try:
            study = optuna.create_study(study_name=place.name, storage=storage, direction=goal, load_if_exists=True)
            found = study.direction.name.lower()
        except (AssertionError, AttributeError, LookupError, TypeError) as error:  # Optuna takes what a file holds
            raise _damaged(place.name) from error
    if found != goal:
        raise _difference(place.name, "goal", found, goal)
    return study


def claim_study(study: optuna.Study, env_name: str, space: SearchSpace) -> int:
    """Joins a study, which must be of the same environment and space; returns a number of this driver, 0 for the first.

    Raises:
        ConfigError: naming what differs.
    """
    _claim(study, ENV_NAME, "environment", env_name)
    found = study.user_attrs.get(SPACE)
    text = space_text(space)
    if found is None:
        study.set_user_attr(SPACE, text)
    elif found != text:
        try:
            before, now = dict(json.loads(found)), json.loads(text)
        except (TypeError, ValueError) as error:
            raise _damaged(study.study_name) from error
        name = next((name for name in [*before, *now] if before.get(name) != now.get(name)), None)
        if name is None:
            raise _damaged(study.study_name)
        raise _difference(study.study_name, f"[sweep.{name}]", before.get(name), now.get(name))
    driver = uuid.uuid4()
    study.set_user_attr(f"{DRIVERS}{driver.hex}", socket.gethostname())
    is_first = sum(name.startswith(DRIVERS) for name in study.user_attrs) == 1
    return 0 if is_first else driver.int


def claim_metric(study: optuna.Study, metric: str) -> None:
    """Sets the metric of a study, which is known to exist.

    Raises:
        ConfigError: if the study has another one.
    """
    _claim(study, METRIC, "metric", metric)


def space_text(space: SearchSpace) -> str:
    """Returns a text that is the same for the same dimensions, wherever their search starts."""
    found: dict[str, Any] = {}
    for each in space.dimensions:
        if isinstance(each, Categorical):
            found[each.name] = list(each.choices)
        else:
            found[each.name] = [each.distribution, each.min, each.max, each.is_integer]
    return json.dumps(found, sort_keys=True, default=str)


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
    try:
        return _open_database(storage if "://" in storage else sqlite_url(Path(storage)))
    except ConfigError:
        raise
    except UnreadableFile as error:
        raise ConfigError(f"[sweep] storage {error.filename!r} cannot be opened: {error.strerror}") from error
    except Exception as error:  # of any of the packages that reach databases
        found = " ".join(str(error).split())
        raise ConfigError(f"[sweep] storage {storage!r} cannot be opened: {found}") from error


def _open_database(url: str) -> RDBStorage:
    waiting = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    for attempt in range(_ATTEMPTS):
        try:
            return RDBStorage(
                url,
                engine_kwargs=waiting,
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=GRACE_SECONDS,
                heartbeat_stale_trial_callback=_retry,
            )
        except SQLAlchemyError:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.1 * (attempt + 1))
    raise AssertionError("the last attempt returns or raises")


def _retry(study: optuna.Study, trial: FrozenTrial) -> None:
    trial.user_attrs = {}  # of the run that ended
    RetryHeartbeatStaleTrialCallback(MAX_RETRIES)(study, trial)


def _claim(study: optuna.Study, key: str, label: str, value: str) -> None:
    found = study.user_attrs.get(key)
    if found is None:
        study.set_user_attr(key, value)
    elif found != value:
        raise _difference(study.study_name, label, found, value)


def _damaged(name: str) -> ConfigError:
    return ConfigError(f"the study {name!r} is damaged; mend its storage, or begin another study by --study NAME")


def _difference(name: str, what: str, before: object, now: object) -> ConfigError:
    return ConfigError(
        f"the study {name!r} has {what} {before if before is not None else 'not varied'}, this sweep "
        f"{now if now is not None else 'does not vary it'}; --study NAME begins another study"
    )
