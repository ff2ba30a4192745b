"""Files of studies: databases, and the journals of earlier versions."""

from __future__ import annotations

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from scripted_trials import ENV, SPACE, sweep_args

from pufferlib.errors import ConfigError
from pufferlib.sweep.results import COST
from pufferlib.sweep.study import claim_study, open_study, sqlite_url, study_place

pytestmark = [
    pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed"),  # a driver's own calls are silent
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]


def old_study(path, name="s"):
    path.parent.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(path)))
    return optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)


@pytest.mark.parametrize("storage", [None, "{}/mine.journal", "{}/mine.db"])
def test_a_study_in_a_journal_of_an_earlier_version_continues_in_a_database(tmp_path, storage):
    args = sweep_args(tmp_path, storage=storage and storage.format(tmp_path))
    place = study_place(ENV, args)
    journal = tmp_path / (f"sweeps/{ENV}.journal" if storage is None else "mine.journal")
    study = old_study(journal, ENV)
    claim_study(study, ENV, SPACE)
    for state in (TrialState.COMPLETE, TrialState.FAIL, None):
        trial = study.ask()
        trial.suggest_float("train.learning_rate", 1e-4, 0.1, log=True)
        trial.set_user_attr(COST, 3.0)
        if state is not None:
            study.tell(trial, 0.5 if state is TrialState.COMPLETE else None, state)
    study.set_user_attr("confirming/0/1", {"key": "a driver"})
    before, half = journal.read_bytes(), b'{"op_code":8,"worker'
    journal.write_bytes(before + half)
    for _ in range(2):
        found = open_study(place, "maximize")
        assert claim_study(found, ENV, SPACE) != 0
        assert [trial.state for trial in found.trials] == [TrialState.COMPLETE, TrialState.FAIL, TrialState.WAITING]
        assert [trial.params for trial in found.trials] == [trial.params for trial in study.trials]
        assert found.best_value == 0.5 and found.trials[0].user_attrs == {COST: 3.0}
        assert "confirming/0/1" not in found.user_attrs
    assert found.ask().params == study.trials[2].params
    assert journal.read_bytes() == before + half
    assert {path.suffix for path in journal.parent.iterdir() if path.is_file()} == {".journal", ".db"}


def damaged(path, change):
    """A journal with a study, in which some bytes are changed."""
    old_study(path).set_user_attr("before", 1)
    path.write_bytes(change(path.read_bytes()))
    return path.read_bytes()


STUDY = b'{"op_code":0,"worker_id":"1","study_name":"s","directions":[2]}\n'
DAMAGES = {
    "garbage in the middle": (lambda found: STUDY + b"garbage\n" + found, "something else in line 2"),
    "a line cut off in the middle": (lambda found: STUDY[:30] + b"\n" + found, "something else in line 1"),
    "bytes": (lambda found: bytes(range(256)) * 10, "something else in line 1"),
    "an archive": (lambda found: b"PK\3\4" + bytes(100), "something else in line 1"),
    "a line without end": (lambda found: STUDY + b"x" * (2**20 + 1), "something else in line 2"),
    "deep lists": (lambda found: b"[" * 100_000 + b"\n", "something else in line 1"),
    "no entry": (lambda found: b"[]\n", "something else in line 1"),
    "an operation of another type": (lambda found: b'{"op_code":"0"}\n', "something else in line 1"),
    "an unknown operation": (lambda found: b'{"op_code":77}\n', r"do not belong together \(AssertionError\)"),
    "an entry that lacks all": (lambda found: STUDY + b'{"op_code":4}\n', r"do not belong together \(KeyError\)"),
    "a study without directions": (
        lambda found: b'{"op_code":0,"worker_id":"1","study_name":"s","directions":[]}\n',
        r"do not belong together \(\w+\)",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_journal_is_told_in_a_sentence_and_stays(tmp_path, name):
    change, words = DAMAGES[name]
    path = tmp_path / "s.journal"
    before = damaged(path, change)
    with pytest.raises(
        ConfigError, match=f"cannot be opened: it must be a journal of sweeps, found .*{words}; mend it"
    ) as raised:
        sqlite_url(tmp_path / "s.db")
    assert "\n" not in str(raised.value) and path.read_bytes() == before
    assert not (tmp_path / "s.db").exists()


def test_a_file_that_is_no_database_is_told_and_stays(tmp_path):
    path = tmp_path / "s.db"
    path.write_text("notes")
    with pytest.raises(ConfigError, match="must be a database of SQLite"):
        sqlite_url(path)
    assert path.read_text() == "notes"
