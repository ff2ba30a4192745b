"""Whether somebody writes to a run's folder, asked without disturbing who does."""

import os
import subprocess
import sys

import pytest

from pufferlib.errors import CheckpointError
from pufferlib.runs.folder import RunFolder, writing_process

HOLD = "import sys; from pathlib import Path; from pufferlib.runs.folder import RunFolder\n"
HOLD += "run = RunFolder(Path(sys.argv[1]), dict); run.lock(); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


def test_the_process_that_writes_is_told_until_it_ends(tmp_path, holder):
    assert writing_process(tmp_path) == holder.pid
    with pytest.raises(CheckpointError, match=f"is being written by process {holder.pid}"):
        RunFolder(tmp_path, dict).lock()
    holder.communicate()
    assert writing_process(tmp_path) is None


def test_looking_at_ones_own_lock_does_not_give_it_away(tmp_path):
    run = RunFolder(tmp_path, dict)
    run.lock()
    assert writing_process(tmp_path) == writing_process(tmp_path / "." / "") == os.getpid()
    code = "import sys; from pathlib import Path; from pufferlib.runs.folder import writing_process\n"
    code += "print(writing_process(Path(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == f"{os.getpid()}\n", done.stderr
    run.close()
    assert writing_process(tmp_path) is None
    run.close()


def test_nobody_writes_where_there_is_no_lock(tmp_path):
    assert writing_process(tmp_path) is None
    assert writing_process(tmp_path / "gone") is None


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("../precious")], ids=["FIFO", "link"])
def test_a_lock_that_is_no_file_of_the_folder_is_refused(tmp_path, make):
    (tmp_path / "precious").write_text("kept")
    folder = tmp_path / "run"
    folder.mkdir()
    make(folder / ".lock")
    with pytest.raises(CheckpointError, match=r"\.lock must be a regular file, found something else; remove it"):
        RunFolder(folder, dict).lock()
    assert writing_process(folder) is None
    assert (tmp_path / "precious").read_text() == "kept"
