"""Studies in a file: a database of SQLite, and the journals that earlier versions wrote."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

import optuna
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from pufferlib.errors import ConfigError
from pufferlib.reading import MAX_LINE_BYTES, open_regular, parse_json
from pufferlib.sweep.attributes import CONFIRMING

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
