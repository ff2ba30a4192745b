"""Where studies are, and what keeps one from being opened."""

from __future__ import annotations

import os
import threading

import optuna
import pytest
from scripted_trials import ENV, SPACE, sweep_args

from pufferlib.errors import ConfigError
from pufferlib.sweep.study import StudyPlace, claim_study, open_study, quiet_optuna, without_password


def test_a_study_is_in_a_database_beside_its_runs_unless_told_otherwise(tmp_path):
    place = StudyPlace(ENV, sweep_args(tmp_path))
    assert (place.name, place.flags) == (ENV, "")
    assert place.storage == str(tmp_path / "sweeps" / "puffer_squared.db")
    assert place.folder == tmp_path / "sweeps" / "puffer_squared"
    place = StudyPlace("ALE/Pong-v5", sweep_args(tmp_path, study="first try", storage="all.db"))
    assert (place.name, place.storage) == ("first try", "all.db")
    assert place.folder == tmp_path / "sweeps" / "first_try"
    assert place.flags == "--storage all.db --study 'first try'"


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_several_studies_share_a_storage_and_each_goes_on(tmp_path, kind):
    storage = f"sqlite:///{tmp_path}/all.db" if kind == "sqlite" else str(tmp_path / "deep" / "all.db")
    for name in ("a", "b", "a"):
        study = open_study(StudyPlace(ENV, sweep_args(tmp_path, storage=storage, study=name)), "maximize")
        with quiet_optuna():
            study.tell(study.ask(), 1.0)
    assert len(study.trials) == 2


@pytest.mark.parametrize("name", ["what?.db", "100%25.db", "a b#{c}.db"])
def test_a_file_may_have_a_name_that_a_url_takes_for_something_else(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for storage in (name, str(tmp_path / name)):
        study = open_study(StudyPlace(ENV, sweep_args(tmp_path, storage=storage)), "maximize")
        with quiet_optuna():
            study.tell(study.ask(), 1.0)
    assert len(study.trials) == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # threads put each other's filters back
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_drivers_that_begin_in_the_same_moment_are_told_apart(tmp_path, kind):
    storage = f"sqlite:///{tmp_path}/all.db" if kind == "sqlite" else str(tmp_path / "all.db")
    place, found = StudyPlace(ENV, sweep_args(tmp_path, storage=storage)), []

    def take_part():
        found.append(claim_study(open_study(place, "maximize"), ENV, SPACE, sweep_args(tmp_path)))

    threads = [threading.Thread(target=take_part) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(found)) == 4
    assert claim_study(open_study(place, "maximize"), ENV, SPACE, sweep_args(tmp_path)) not in (0, *found)


def test_the_first_driver_of_a_study_proposes_the_same_every_time(tmp_path):
    for folder in ("a", "b"):
        place = StudyPlace(ENV, sweep_args(tmp_path / folder))
        assert claim_study(open_study(place, "maximize"), ENV, SPACE, sweep_args(tmp_path)) == 0


@pytest.mark.slow
def test_a_storage_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("no journal\n\n")
    for storage, message in (
        ("nosuchdatabase://host/name", "storage 'nosuchdatabase://host/name' cannot be opened: "),
        (f"sqlite:///{tmp_path}/missing/s.db", "unable to open database file"),
        (str(tmp_path / "notes.txt"), r"storage '.*notes.txt' cannot be opened: .*file is not a database"),
        (str(tmp_path), r"storage '.*' cannot be opened: .*found a folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_study(StudyPlace(ENV, sweep_args(tmp_path, storage=storage)), "maximize")


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        ("postgresql://me:secret@host:5432/sweeps", "postgresql://me:***@host:5432/sweeps"),
        ("mysql+pymysql://me:se:c/r@et@host/sweeps", "mysql+pymysql://me:***@host/sweeps"),
        (
            "postgresql://host/sweeps?user=me&password=secret&ssl=1",
            "postgresql://host/sweeps?user=me&password=***&ssl=1",
        ),
        ("sqlite:////home/me@work/all.db", "sqlite:////home/me@work/all.db"),
        ("all:of@it.db", "all:of@it.db"),
    ],
)
def test_the_password_of_a_database_is_hidden(tmp_path, storage, shown):
    assert without_password(storage) == shown
    place = StudyPlace(ENV, sweep_args(tmp_path, storage=storage))
    assert place.storage == storage and "secret" not in place.flags


def test_a_database_without_its_driver_is_named_without_its_password(tmp_path):
    place = StudyPlace(ENV, sweep_args(tmp_path, storage="nosuchdatabase://me:secret@host/name"))
    with pytest.raises(ConfigError, match=r"nosuchdatabase://me:\*\*\*@host/name' cannot be opened") as raised:
        open_study(place, "maximize")
    assert "secret" not in str(raised.value)


def test_optuna_says_nothing_of_its_own(tmp_path, capfd):
    before = optuna.logging.get_verbosity()
    for _ in range(2):
        open_study(StudyPlace(ENV, sweep_args(tmp_path)), "maximize")
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before


@pytest.mark.parametrize(
    ("make", "words"),
    [(os.mkfifo, "found a FIFO"), (lambda path: path.symlink_to("/dev/zero"), "found a device")],
    ids=["FIFO", "device"],
)
def test_a_storage_that_is_no_file_is_told(tmp_path, make, words):
    make(tmp_path / "all.db")
    place = StudyPlace(ENV, sweep_args(tmp_path, storage=str(tmp_path / "all.db")))
    with pytest.raises(ConfigError, match=f"cannot be opened: it must be a regular file, {words}"):
        open_study(place, "maximize")
