"""Output that cannot be written, and disks that are full: the run goes on."""

import errno
import io
import json
import os
import subprocess
import sys
import time
import warnings

import pytest
from trained import iterate

from pufferlib import JsonLogger, PuffeRL, cli
from pufferlib.dashboard.output import Output, say, terminal_columns
from pufferlib.dashboard.panel import Dashboard
from pufferlib.errors import StorageError
from pufferlib.runs import checkpoint
from pufferlib.runs.folder import _write_atomically, write_atomically

TRAIN = (
    "train puffer_squared --env.num-envs 16 --train.bptt-horizon 16 --train.minibatch-size 64 --train.device cpu "
    "--train.num-iterations 4 --train.log-interval 1"
)
SMALL = {"device": "cpu", "num_envs": 8, "batch_size": 256}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Lost(io.StringIO):
    """A stream of a terminal that is gone."""

    tries = 0

    def write(self, text):
        self.tries += 1
        raise OSError(errno.EIO, "Input/output error")


# --- a stream


def test_what_cannot_be_written_is_left_after_the_first_try():
    stream = Lost()
    output = Output(stream)
    for _ in range(3):
        assert output.write("text") == 4
        output.flush()
    assert stream.tries == 1
    with pytest.warns(RuntimeWarning, match=r"the output cannot be written \(Input/output error\); the run goes on"):
        output.report()


@pytest.mark.parametrize("make", [lambda: None, io.StringIO], ids=["closed from the start", "closed later"])
def test_a_closed_stream_is_no_error(make):
    output, stream = Output(None), make()
    if stream is not None:
        output = Output(stream)
        stream.close()
    assert not output.isatty()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        output.write("text")
        output.flush()
        output.report()


def test_signs_that_a_stream_lacks_are_replaced():
    written = io.BytesIO()
    with io.TextIOWrapper(written, "ascii") as stream:
        output = Output(stream)
        output.write("━━─ 1 ± 2 … é")
        output.flush()
        assert written.getvalue() == b"==- 1 + 2 ~ ?" and output.error is None


def test_nothing_stays_behind_in_a_stream_on_a_full_disk():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w") as stream, pytest.warns(RuntimeWarning, match="No space left on device"):  # noqa: SIM115
        say("text", stream)  # closing the stream would raise


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_dashboard_without_its_terminal_warns_once(is_terminal, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Lost()
    stream.isatty = lambda: is_terminal
    before = sys.stdout, sys.stderr
    shown = Dashboard("squared", {}, 100, stream)
    assert shown.is_panel is is_terminal
    with pytest.warns(RuntimeWarning, match="the output cannot be written") as caught:
        shown.show({"agent_steps": 1})
    assert len(caught) == 1 and (sys.stdout, sys.stderr) == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        shown.show({"agent_steps": 2})
    shown.close()
    assert stream.tries == 1


# --- a whole run


def final_epoch(folder):
    (path,) = (folder / "experiments").glob(f"*/{checkpoint.TRAINER_STATE}")
    return checkpoint.load(path)["epoch"]


@pytest.mark.slow
def test_other_commands_say_that_the_disk_is_full():
    command = f"exec {sys.executable} -m pufferlib envs >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "the output cannot be written (No space left on device); direct it elsewhere" in done.stderr


ON_A_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores, for the tests as well
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "pufferlib", *sys.argv[1:]])
"""


def on_a_terminal(arguments, **variables):
    """Starts the command on a terminal of its own; returns the process and our end of the terminal."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, *arguments]
    environment = {**os.environ, "TERM": "xterm", **variables}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    return process, ours


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_the_run_with_a_checkpoint(folder):
    process, ours = on_a_terminal([*TRAIN.split(), "--train.num-iterations", "1000000"])
    deadline = time.monotonic() + 600
    while not list(folder.glob("experiments/*/metrics.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.close(ours)
    try:
        assert process.wait(600) == 130
    finally:
        process.kill()
    assert final_epoch(folder) > 0


@pytest.mark.slow
def test_a_terminal_without_unicode_shows_the_panel_and_gets_its_cursor_back(folder):
    process, ours = on_a_terminal(TRAIN.split(), PYTHONIOENCODING="ascii", LC_ALL="C")
    written = b""
    while True:
        try:
            chunk = os.read(ours, 65_536)
        except OSError:
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    assert process.wait(600) == 0 and final_epoch(folder) == 4
    text = written.decode("ascii")
    assert "PufferLib" in text and "Traceback" not in text and "+-" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


# --- a full disk


@pytest.fixture
def disk(monkeypatch):
    """A disk for checkpoints that is full where `disk.is_full`."""

    class Disk:
        is_full = False
        write = staticmethod(_write_atomically)

        def write_if_there_is_room(self, path, content):
            if self.is_full and path.suffix == ".pt":
                raise OSError(errno.ENOSPC, "No space left on device")
            self.write(path, content)

    disk = Disk()
    monkeypatch.setattr("pufferlib.runs.folder._write_atomically", disk.write_if_there_is_room)
    return disk


def test_a_full_disk_in_the_middle_of_a_run_is_warned_about(disk):
    trainer = PuffeRL("puffer_squared", checkpoint_interval=1, **SMALL)
    iterate(trainer)
    before = {path.name: path.read_bytes() for path in trainer.run_folder.glob("*.pt")}
    disk.is_full = True
    with pytest.warns(RuntimeWarning, match="cannot be written .No space left on device.* the training goes on"):
        iterate(trainer)
    assert {path.name: path.read_bytes() for path in trainer.run_folder.glob("*.pt")} == before
    assert not list(trainer.run_folder.glob("*.tmp")) and not list(trainer.run_folder.glob(".*.tmp"))
    with pytest.raises(StorageError, match="No space left on device"):
        trainer.close()
    disk.is_full = False
    iterate(trainer)
    assert trainer.close().endswith("_000003.pt")


def test_a_disk_that_stays_full_is_warned_about_once_until_it_is_not(disk):
    trainer = PuffeRL("puffer_squared", checkpoint_interval=1, **SMALL)
    told = []
    for is_full in (True, True, False, True):
        disk.is_full = is_full
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            iterate(trainer)
        told.append(len(caught))
    assert told == [1, 0, 0, 1]
    trainer.release()


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room and"),
        (errno.EROFS, "make it writable and"),
        (errno.EMFILE, "allow more file handles by `ulimit -n` and"),
    ],
)
def test_what_helps_depends_on_what_kept_a_file_from_being_written(tmp_path, monkeypatch, number, remedy):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=rf"; what was saved before is whole, {remedy} try again$"):
        write_atomically(tmp_path / "file", b"content")


def test_a_full_disk_at_an_evaluation_is_warned_about(disk):
    settings = {**SMALL, "num_iterations": 2, "evaluations": 1, "evaluation_envs": 2}
    trainer = PuffeRL("puffer_squared", **settings)
    iterate(trainer)
    disk.is_full = True
    with pytest.warns(RuntimeWarning, match="best.pt cannot be written"):
        iterate(trainer)
    trainer.release()


def test_a_full_disk_at_the_end_is_one_sentence(disk, capsys):
    disk.is_full = True
    assert cli.main([*TRAIN.split()]) == 2
    said = capsys.readouterr().err
    assert (
        said.count("\n") == 1 and "cannot be written (No space left on device); what was saved before is whole" in said
    )


def test_a_log_on_a_full_disk_keeps_whole_lines(folder, monkeypatch):
    logger = JsonLogger(folder / "metrics.jsonl")
    logger.log({"value": 1}, 1)
    opened = type(logger.path).open
    monkeypatch.setattr(type(logger.path), "open", lambda *given, **named: Filling(opened(*given, **named)))
    with pytest.raises(OSError, match="No space left"):
        logger.log({"value": 2}, 2)
    monkeypatch.undo()
    logger.log({"value": 3}, 3)
    assert [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()] == [1, 3]


class Filling:
    """A file on a disk that takes ten more bytes."""

    def __init__(self, file):
        self.file = file
        self.room = 10

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self.file.write(data[: self.room])
        self.room -= taken
        return taken


def test_a_stream_of_ones_own_may_have_two_methods_alone(monkeypatch):
    class Tee:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    tee = Tee()
    monkeypatch.setattr(sys, "stdout", tee)
    assert not Output(tee).isatty() and terminal_columns() == 10**6
    say("told")
    assert tee.text == "told\n"
