"""The journal file: who may append, and what a kill leaves behind."""

from __future__ import annotations

import subprocess
import sys
import time

import optuna
import pytest

from pufferlib.errors import ConfigError
from pufferlib.sweep.study.journal import JournalLock, open_journal


def new_study(path):
    return optuna.create_study(storage=open_journal(path), study_name="s", load_if_exists=True)


@pytest.mark.parametrize("torn", ['{"op_code":8,"worker', "x" * 200_000, ""])
def test_half_a_line_is_removed_before_another_comes_after_it(tmp_path, torn):
    path = tmp_path / "deep" / "s.journal"
    study = new_study(path)
    study.set_user_attr("before", 1)
    with path.open("a") as file:
        file.write(torn)
    assert new_study(path).user_attrs == {"before": 1}
    study.set_user_attr("after", 2)
    assert new_study(path).user_attrs == {"before": 1, "after": 2}
    assert path.read_text().endswith("}\n")


def test_a_file_of_half_a_line_alone_becomes_empty(tmp_path):
    path = tmp_path / "s.journal"
    path.write_text('{"op_code"')
    lock = JournalLock(path)
    lock.acquire()
    lock.release()
    assert path.read_bytes() == b""


def damaged(path, change):
    """A journal with a study, in which some bytes are changed."""
    new_study(path).set_user_attr("before", 1)
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
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_journal_is_told_in_a_sentence_and_stays(tmp_path, name):
    change, words = DAMAGES[name]
    path = tmp_path / "s.journal"
    before = damaged(path, change)
    with pytest.raises(
        ConfigError, match=f"cannot be opened: it must be a journal of sweeps, found .*{words}; mend it"
    ) as raised:
        open_journal(path)
    assert "\n" not in str(raised.value) and path.read_bytes() == before


HOLDER = """
import sys, time
from pathlib import Path
from pufferlib.errors import ConfigError
from pufferlib.sweep.study.journal import JournalLock
JournalLock(Path(sys.argv[1])).acquire()
print("has it", flush=True)
time.sleep(60)
"""


def test_a_holder_that_is_killed_keeps_nobody_waiting(tmp_path):
    path = tmp_path / "s.journal"
    study = new_study(path)
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"has it\n"
        holder.kill()
    begun = time.monotonic()
    study.set_user_attr("after", 1)
    assert time.monotonic() - begun < 5  # Optuna's own lock would be waited for half a minute


def test_a_file_system_without_locks_has_that_of_optuna(tmp_path, monkeypatch):
    path = tmp_path / "s.journal"
    monkeypatch.setattr(JournalLock, "_lock", lambda self: False)
    study = new_study(path)
    study.set_user_attr("a", 1)
    assert new_study(path).user_attrs == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["s.journal"]
