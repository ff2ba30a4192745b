"""Disks that are full, folders that cannot be written, are removed or replaced, and two runs in one folder."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
from fault_case import BEGIN, HELD, NATIVE, Case, Ending, Fault
from fault_run import FaultRun

WEIGHTS_BYTES = 30_000  # less than the weights of these runs have, and more than their settings
STATE_BYTES = 60_000  # less than the rest of their checkpoint
RUN = r"experiments/puffer_squared_\w+"
GOES_ON = r"what was saved before is whole, make room and try again; the training goes on"
SLOWER = NATIVE.replace("checkpoint-interval 1", "checkpoint-interval 3")  # few messages, where each save fails


# --------------------------------------------------------------------------------------------------- from the outside


def limit_files(num_bytes: int):
    """Has the kernel refuse what is beyond so many bytes of a file."""

    def strike(run: FaultRun) -> None:
        run.wait_until_held()
        process = psutil.Process(run.pid)
        process.rlimit(psutil.RLIMIT_FSIZE, (num_bytes, process.rlimit(psutil.RLIMIT_FSIZE)[1]))
        run.let_go()

    return strike


def for_a_while(num_bytes: int):
    """Plants that do the same between two epochs, of which one is to be saved."""
    limit = ("fault_plants", "limit_at", "rollout")
    return ((*limit, 5, "RLIMIT_FSIZE", num_bytes), (*limit, 8, "RLIMIT_FSIZE", -1))


def mount(size: str):
    """Makes a small disk of the folder of runs."""

    def prepare(folder: Path) -> None:
        (folder / "experiments").mkdir()
        _mount(folder / "experiments", size)

    return prepare


def resize(size: str):
    """Changes the disk before the run goes on."""
    return lambda folder: _call("mount", "-o", f"remount,size={size}", folder / "experiments")


def forbid_writing(folder: Path) -> None:
    """Mounts the folder of runs once more, on itself, so that it can be read alone."""
    _call("mount", "--bind", folder / "experiments", folder / "experiments")
    _call("mount", "-o", "remount,bind,ro", folder / "experiments")


def forbid_writing_to(run: FaultRun) -> None:
    """Does so while the run waits."""
    run.wait_until_held()
    forbid_writing(run.folder)
    run.let_go()


def _call(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def unmount(folder: Path) -> None:
    """Takes one disk away, where there is one."""
    subprocess.run(["umount", "-l", str(folder / "experiments")], check=False, capture_output=True)


def _mount(path: Path, size: str) -> None:
    _call("mount", "-t", "tmpfs", "-o", f"size={size}", "none", path)


@functools.cache
def no_mounts() -> str | None:
    """Why there can be no disks of our own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "experiments").mkdir()
        try:
            _mount(Path(folder) / "experiments", "1m")
        except (OSError, subprocess.CalledProcessError):
            return "mounting a small disk needs root"
        unmount(Path(folder))
    return None


def go_on(run: FaultRun) -> None:
    """Lets the run find out by itself."""
    run.wait_until_held()
    run.let_go()


def remove_run(run: FaultRun) -> None:
    """Removes the folder of the run, of which nothing is left then."""
    run.wait_until_held()
    shutil.rmtree(run.run_folder)
    run.let_go()


def replace_run(run: FaultRun) -> None:
    """Puts a file where the folder of the run was."""
    run.wait_until_held()
    path = run.run_folder
    path.rename(run.folder / "moved")
    path.write_text("a file")
    run.let_go()


def move_back(folder: Path) -> None:
    """Puts the folder back."""
    (path,) = (folder / "experiments").iterdir()
    path.unlink()
    (folder / "moved").rename(path)


def remove_working_directory(run: FaultRun) -> None:
    """Removes the folder in which the command was typed."""
    run.wait_until_held()
    shutil.rmtree(run.folder / "here")
    run.let_go()


def begin_a_second(run: FaultRun) -> None:
    """Goes on with the run while it runs: the second one is told so, the first one hears nothing of it."""
    run.wait_until_held()
    folder = run.folder / "second"
    folder.mkdir()
    (folder / "experiments").symlink_to(run.folder / "experiments")
    second = FaultRun(folder, "train puffer_squared --resume latest")
    told, _ = second.finish()
    expected = f"is being written by process {run.pid}; wait for its end, or begin another run"
    (run.folder / "stderr").write_text(second.said.replace(str(run.pid), "1") if expected in second.said else "nothing")
    shutil.rmtree(folder)
    run.let_go()
    (run.folder / "struck").write_text(repr(time.monotonic() - (told or 0.0)))  # it was told before


def read_only(folder: Path) -> None:
    """Has the folder of runs be one that cannot be written from the start."""
    (folder / "experiments").mkdir()
    forbid_writing(folder)


FULL = r"\((No space left on device|File too large)\)"

CASES = [
    Case(
        "disk full for a while, in the middle",
        rf"puffer: warning: {RUN}/(model_puffer_squared_\d+.pt) cannot be written {FULL}; {GOES_ON}",
        codes=(0,),
        command=SLOWER,
        plants=for_a_while(WEIGHTS_BYTES),
        saboteurs={"renames_left_out": Fault.FILES, "failures_fatal": Fault.CODE, "unfinished_kept": Fault.FILES},
        is_quick=True,
    ),
    Case(
        "disk full for the rest of a checkpoint alone",
        rf"puffer: warning: {RUN}/trainer_state.pt cannot be written {FULL}; {GOES_ON}",
        codes=(0,),
        command=SLOWER,
        plants=for_a_while(STATE_BYTES),
        saboteurs={"failures_fatal": Fault.CODE},
    ),
    Case(
        "disk full to the end",
        rf"(puffer: warning: .* training goes on.*\n)+puffer: {RUN}/[\w.]+ cannot be written {FULL}; "
        "what was saved before is whole, make room and try again",
        command=SLOWER,
        plants=HELD,
        strike=limit_files(WEIGHTS_BYTES),
        saboteurs={"failures_silent": Fault.CODE},
    ),
    Case(
        "disk full at the first file",
        rf"puffer: \[train\] data_dir must be a folder that can be written, got 'experiments' {FULL}; make it so, .*",
        plants=(("fault_plants", "limit_at", "opening", 1, "RLIMIT_FSIZE", 1000),),
        ending=Ending.ANEW,
        saboteurs={"errors_raw": Fault.CODE},
    ),
    Case(
        "a small disk becomes full",
        rf"(?!(.*\n)*.*{GOES_ON}(.*\n)*.*{GOES_ON})(puffer: warning: .* training goes on.*\n)+"
        rf"puffer: {RUN}/[\w.]+ cannot be written {FULL}; what was saved before is whole, make room and try again",
        plants=HELD,
        prepare=mount("500k"),
        strike=go_on,
        mend=resize("100m"),
        clean=unmount,
        misses_logs=True,
        obstacle=no_mounts,
        saboteurs={"renames_left_out": Fault.FILES, "failures_repeated": Fault.MESSAGE},
    ),
    Case(
        "disk becomes read-only",
        rf"(puffer: warning: .*\(.*Read-only file system.*\).*\n)+"
        rf"puffer: {RUN}/[\w.]+ cannot be written \(Read-only file system\); .*",
        command=SLOWER,
        plants=HELD,
        strike=forbid_writing_to,
        mend=unmount,
        clean=unmount,
        misses_logs=True,
        obstacle=no_mounts,
        saboteurs={"failures_silent": Fault.CODE},
    ),
    Case(
        "disk read-only from the start",
        r"puffer: .*, got 'experiments' \(Read-only file system\); make it so, or name another one",
        plants=(BEGIN,),
        prepare=read_only,
        mend=unmount,
        clean=unmount,
        ending=Ending.ANEW,
        obstacle=no_mounts,
        saboteurs={"errors_raw": Fault.CODE},
    ),
    Case(
        "folder of the run removed",
        codes=(0,),
        plants=HELD,
        strike=remove_run,
        misses_logs=True,
        saboteurs={"folder_not_made_again": Fault.FILES},
    ),
    Case(
        "file in the place of the run's folder",
        r"(puffer: warning: .*\n)+puffer: .* cannot be written \((File exists|Not a directory)\); .*",
        command=SLOWER,
        plants=HELD,
        strike=replace_run,
        mend=move_back,
        misses_logs=True,
        saboteurs={"failures_silent": Fault.CODE},
    ),
    Case(
        "working directory removed",
        r"(puffer: warning: .*No such file or directory.*\n)+"
        r"puffer: .* cannot be written \(No such file or directory\); .*",
        plants=(*HELD, ("fault_plants", "change_folder", "here")),
        strike=remove_working_directory,
        ending=Ending.ANEW,
        saboteurs={"failures_silent": Fault.CODE},
    ),
    Case(
        "second run in the same folder",
        r"puffer: .* is being written by process 1; wait for its end, or begin another run",
        codes=(0,),
        plants=HELD,
        strike=begin_a_second,
        saboteurs={"folder_not_locked": Fault.MESSAGE},
    ),
]
