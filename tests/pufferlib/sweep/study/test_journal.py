"""The journal file: who may append, and what a kill leaves behind."""

from __future__ import annotations

import subprocess
import sys
import time

import optuna
import pytest

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


HOLDER = """
import sys, time
from pathlib import Path
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
