"""One run of the command line that something is done to, and what it leaves behind."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import command
import psutil

HERE = Path(__file__).parent
PATIENCE_SECONDS = 120.0  # for what is to happen in a run, on a machine that others use
HELD = "held"  # the file that a run makes where `fault_plants.hold` has it wait
GO = "go"  # and the one that it waits for
PLANTED = "planted"  # and the one that it makes when all plants are there

Plant = tuple[Any, ...]
"""A function of `fault_plants` or `saboteurs` by name, with its arguments: called in the process before the command."""


class FaultRun:
    """A running `puffer ARGUMENTS`, with all processes that it starts.

    Attributes:
        folder: where it runs; its output goes to the files `stdout` and `stderr` there.
        struck: when the fault was made, by `time.monotonic()`.
    """

    def __init__(self, folder: Path, arguments: str, plants: Sequence[Plant] = (), is_real: bool = False):
        """Starts it.

        Args:
            folder: where to run; it is there.
            arguments: of the command.
            plants: called in its process first.
            is_real: whether by an interpreter of its own, as a shell starts one; otherwise it is forked from a server
                that has imported torch already, in a fifth of the time.
        """
        self.folder = Path(folder)
        self._token = uuid.uuid4().hex
        self._seen: set[psutil.Process] = set()  # processes that it had
        self._shared: set[str] = set()  # files in /dev/shm that these had open or mapped
        for name in (HELD, GO, PLANTED, "struck"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        variables = {"PUFFER_FAULT": self._token, "TMPDIR": str(self.folder / "tmp"), "PYTHONPATH": _paths()}
        start = _start_interpreter if is_real else _start_forked
        self._process = start(self.folder, arguments.split(), list(plants), variables)
        self.pid = self._process.pid
        self.struck = time.monotonic()

    # ------------------------------------------------------------------------------------------------- while it runs

    @property
    def code(self) -> int | None:
        """The exit code, minus the signal that killed it; None while it runs."""
        return self._process.poll() if isinstance(self._process, subprocess.Popen) else self._process.exitcode

    @property
    def is_planted(self) -> bool:
        """Whether all plants were there."""
        return (self.folder / PLANTED).exists()

    @property
    def said(self) -> str:
        """What it wrote to stderr so far."""
        path = self.folder / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def run_folder(self) -> Path:
        """The folder of the run that it makes, or goes on with."""
        return command.only_run(self.folder)

    def wait_for(self, holds: Callable[[], Any]) -> Any:
        """Waits until something holds; returns what it gives.

        Raises:
            AssertionError: if the run ends before, or it takes too long.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := holds()):
            assert self.code is None, f"the run ended too early, with {self.code}: {self.said[-2000:]}"
            assert time.monotonic() < deadline, f"it never came: {self.said[-2000:]}"
            time.sleep(0.002)
        return found

    def wait_until_held(self) -> None:
        """Waits until the run waits in turn, as the plant `hold` has it; notes what it has open there."""
        self.wait_for((self.folder / HELD).exists)
        self.look()

    def let_go(self) -> None:
        """Ends the waiting of the run; what goes wrong does so from now on."""
        self.struck = time.monotonic()
        (self.folder / GO).touch()

    def look(self) -> None:
        """Notes which processes and which shared memory the run has now."""
        found = [psutil.Process(self.pid)] if self.code is None else []
        with contextlib.suppress(psutil.Error):
            found += psutil.Process(self.pid).children(recursive=True)
        self._seen.update(found)
        self._shared.update(path for process in found for path in _shared_files(process.pid))

    def workers(self) -> list[psutil.Process]:
        """The processes that it started, oldest first, once these are there."""
        return self.wait_for(lambda: sorted(psutil.Process(self.pid).children(), key=lambda each: each.pid))

    def signal(self, number: int) -> None:
        """Sends it a signal; one that has ended hears nothing."""
        if self.code is None:
            os.kill(self.pid, number)

    # ------------------------------------------------------------------------------------------------- when it is over

    def finish(self, seconds: float = PATIENCE_SECONDS) -> tuple[float | None, float | None]:
        """Waits for the end; whatever is left then is for `leftovers` to find.

        Returns:
            Seconds from the fault to the first line on stderr and to the end; None for what did not come.
        """
        told = None
        deadline = time.monotonic() + seconds
        while self.code is None and time.monotonic() < deadline:
            if told is None and self.said.endswith("\n"):
                told = time.monotonic()
            time.sleep(0.005)
        now = time.monotonic()
        told = now if told is None and self.said else told
        began = self._moment_of_the_fault()
        return told and told - began, None if self.code is None else now - began

    def _moment_of_the_fault(self) -> float:
        """When it was made here, or in the run: then a file `struck` has the time."""
        path = self.folder / "struck"
        return float(path.read_text()) if path.exists() and path.stat().st_size else self.struck

    def leftovers(self, seconds: float) -> list[str]:
        """Processes and shared memory that outlived the run; they get a moment, and are ended after it."""
        deadline = time.monotonic() + seconds
        while (found := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        told = [f"process {process.pid} ({_line(process)})" for process in found]
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        told += [f"shared memory {path}" for path in sorted(self._shared) if os.path.exists(path)]
        for path in self._shared:
            Path(path).unlink(missing_ok=True)
        return told + [f"temporary file {path.name}" for path in (self.folder / "tmp").glob("*")]

    def _processes(self) -> list[psutil.Process]:
        """Those of the run that still are: of its session, with its mark, or seen before."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        if process.pid == self.pid and self.code is not None:  # ended, and waited for by who forked it
            return False
        if process in self._seen:
            return True
        try:
            if os.getsid(process.pid) == self.pid:
                return True
            return f"PUFFER_FAULT={self._token}".encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            return False


def _line(process: psutil.Process) -> str:
    try:
        return f"{process.status()}: {' '.join(process.cmdline())[:80]}"
    except psutil.Error:
        return "gone"


def _shared_files(pid: int) -> set[str]:
    """The files in /dev/shm that a process has open or mapped."""
    found = set()
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        found |= {line.split(maxsplit=5)[5] for line in lines if " /dev/shm/" in line}
        found |= {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    return {path for path in found if path.startswith("/dev/shm/") and not path.endswith(" (deleted)")}


# ------------------------------------------------------------------------------------------------------- how it starts


def _paths() -> str:
    """What the processes of a run import from: this folder, for the environments in it."""
    return os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))


def _start_forked(folder: Path, arguments: list[str], plants: list[Plant], variables: dict[str, str]) -> Any:
    process = command.context.Process(target=_main, args=(str(folder), arguments, plants, variables))
    process.start()
    return process


def _main(folder: str, arguments: list[str], plants: list[Plant], variables: dict[str, str]) -> None:
    os.setsid()
    os.environ.update(variables)
    sys.path[:0] = [str(HERE)] if str(HERE) not in sys.path else []
    os.chdir(folder)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    _redirect()
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    plant_all(plants)

    from pufferlib.cli import main

    try:
        code = main(arguments)
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()  # which a forked process goes without, and a program has
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _redirect() -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)


def _start_interpreter(folder: Path, arguments: list[str], plants: list[Plant], variables: dict[str, str]) -> Any:
    program = [sys.executable, "-m", "pufferlib.pufferl", *arguments]
    if plants:
        program = [sys.executable, "-c", _WITH_PLANTS, json.dumps(plants), *arguments]
    with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
        keywords = {"cwd": folder, "env": {**os.environ, **variables}, "start_new_session": True}
        return subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, **keywords)


_WITH_PLANTS = f"""
import json, runpy, sys
sys.path.insert(0, {str(HERE.parent / "pufferlib")!r})
from fault_run import plant_all
plant_all(json.loads(sys.argv.pop(1)))
sys.argv[0] = "puffer"
runpy.run_module("pufferlib", run_name="__main__")
"""


def plant_all(plants: Sequence[Plant]) -> None:
    """Calls the plants, in the process that is to go wrong."""
    planted = Path(PLANTED).absolute()
    for module, name, *arguments in plants:
        getattr(importlib.import_module(module), name)(*arguments)
    planted.touch()
