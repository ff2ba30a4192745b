"""Tries every door by which files come in with files that are made to exhaust a machine, in a process of its own.

`python hostile_files.py FOLDER` prints a line of JSON for each case: its name, what the door said, seconds of this
process, and megabytes beyond those that it had before.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

RUN = "puffer_squared_hostile"
PATIENCE = 60  # seconds of wall time; a door that waits for the writer of a FIFO waits for ever


# ------------------------------------------------------------------------------------------------------------ the files


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def hole(path: Path) -> None:
    """A terabyte of zeros after what is there, which takes no room on the disk."""
    with path.open("r+b") as file:
        file.truncate(2**40)


def archive(path: Path, pickled: bytes = b"\x80\2}.", compression: int = zipfile.ZIP_STORED, **parts: bytes) -> None:
    """A file like those of torch.save."""
    with zipfile.ZipFile(path, "w", compression) as made:
        made.writestr("archive/data.pkl", pickled)
        made.writestr("archive/byteorder", b"little")
        for name, content in parts.items():
            made.writestr(f"archive/data/{name.removeprefix('part')}", content)
        made.writestr("archive/version", b"3\n")


def compressed(path: Path) -> None:
    archive(path, compression=zipfile.ZIP_DEFLATED, part0=bytes(2**27), part1=bytes(2**27))


def marks(path: Path) -> None:
    archive(path, b"\x80\2" + b"(" * 2**22 + b".")


def long_pickle(path: Path) -> None:
    archive(path, b"\x80\2]" + b"N" * 2**24 + b".")


def empty_lists(path: Path) -> None:
    archive(path, b"\x80\2](" + b"]" * 2**20 + b"e.")


def doubled_lists(path: Path) -> None:
    """Lists of twice the list before: few instructions for more entries than a machine has bytes."""
    levels = b"".join(b"]q%c(h%ch%ce" % (level + 1, level, level) for level in range(60))
    archive(path, b"\x80\2](]q\0" + levels + b"e.")


def tensor(numbers: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """The pickle of one tensor by name."""

    def integers(*values: int) -> bytes:
        return b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values)

    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu" + integers(numbers) + b"tQ"
    sizes = b"K\0(" + integers(*shape) + b"t(" + integers(*strides) + b"t\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\2}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n(" + storage + sizes + b"s."


def claimed_numbers(path: Path) -> None:
    """A tensor of more numbers than its part has."""
    archive(path, tensor(2**34, (2**34,), (1,)), part0=bytes(4))


def expanded(path: Path) -> None:
    """One number that counts as 2**60."""
    archive(path, tensor(1, (2**30, 2**30), (0, 0)), part0=bytes(4))


def holes(path: Path) -> None:
    """A whole archive of a tensor of 4 GB, all of which are a hole."""
    import torch

    with torch.serialization.skip_data():
        torch.save({"a": torch.empty(2**30)}, path)


FILES = (fifo, device, hole, compressed, claimed_numbers, expanded, holes)
MODELS = (*FILES, marks, long_pickle, empty_lists, doubled_lists)  # whose pickles one function reads for all


def nested(path: Path) -> None:
    path.write_text("[" * 1_000_000)


def long_json(path: Path) -> None:
    path.write_text("[" + "[]," * 2**22 + "[]]")


def with_settings(section: str, **values: object) -> Callable[[Path], None]:
    """A description with other settings of the policy."""

    def change(path: Path) -> None:
        described = json.loads(path.read_text())
        described["settings"][section].update(values)
        path.write_text(json.dumps(described))

    change.__name__ = "_".join(f"{name}_{value}" for name, value in values.items())
    return change


SIZES = (
    with_settings("policy", hidden_size=20_000),
    with_settings("policy", hidden_size=10**9),
    with_settings("policy", hidden_size=2**62),
    with_settings("policy", num_layers=10**6),
    with_settings("policy", num_layers=2**62),
)
DESCRIPTIONS = (fifo, device, hole, nested, long_json)


# ------------------------------------------------------------------------------------------------------------ the doors


def command(*arguments: str) -> None:
    """Runs the command line; what it says to stderr is raised."""
    from pufferlib.cli import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = main(list(arguments))
    if code != 0:
        raise RuntimeError(f"{code}: {errors.getvalue().strip()}")


def agent(folder: Path) -> None:
    from pufferlib import load_agent

    load_agent(folder)


def agent_of_file(folder: Path) -> None:
    from pufferlib import load_agent

    load_agent(model(folder))


def resume(folder: Path) -> None:
    command("train", "puffer_squared", "--resume", str(folder))


def evaluate(folder: Path) -> None:
    command("eval", "puffer_squared", "--headless", "--episodes", "1", "--load-model-path", str(model(folder)))


def begin_from(folder: Path) -> None:
    command("train", "puffer_squared", "--load-model-path", str(model(folder)), "--train.data-dir", str(folder / "new"))


def export(folder: Path) -> None:
    command("export", "puffer_squared", "--load-model-path", str(model(folder)), "--output", str(folder / "out.onnx"))


def configure(folder: Path) -> None:
    command("train", "puffer_squared", "--config", str(folder / "config.json"), "--train.data-dir", str(folder / "new"))


def list_runs(folder: Path) -> None:
    command("runs", "--data-dir", str(folder.parent))


def plot(folder: Path) -> None:
    command("plot", str(folder), "--output", str(folder / "curves.png"))


def report(folder: Path) -> None:
    command("report", str(folder), "--output", str(folder / "page.html"))


def database(folder: Path) -> None:
    from pufferlib.sweep.study import StudyPlace, open_study

    args = {"sweep": {"study": "strange", "storage": str(folder / "data.db")}, "train": {"data_dir": str(folder)}}
    open_study(StudyPlace("puffer_squared", args), "maximize")


def model(folder: Path) -> Path:
    (found,) = folder.glob("model_*.pt")
    return found


def cases() -> Iterator[tuple[str, Callable[[Path], None], Callable[[Path], Path], Callable[[Path], None]]]:
    """The name of each case, what is done to which file, and the door."""
    last, state = (lambda folder: folder / "last.pt"), (lambda folder: folder / "trainer_state.pt")
    config, metrics = (lambda folder: folder / "config.json"), (lambda folder: folder / "metrics.jsonl")
    groups = (
        (MODELS, "last.pt", last, (agent,)),
        (FILES, "model", model, (agent_of_file, resume, evaluate)),
        (MODELS, "trainer_state.pt", state, (resume,)),
        ((fifo, compressed, holes), "model", model, (begin_from, export)),
        ((*DESCRIPTIONS, *SIZES), "config.json", config, (agent, resume, evaluate)),
        (DESCRIPTIONS, "config.json", config, (configure, list_runs, plot, report)),
        ((fifo, device, hole), "metrics.jsonl", metrics, (list_runs, plot, report)),
        ((fifo, device, hole, compressed, nested), "database", lambda folder: folder / "data.db", (database,)),
    )
    for changes, what, find, doors in groups:
        for change in changes:
            for door in doors:
                yield f"{door.__name__} {what} {change.__name__}", change, find, door


def make_run(folder: Path) -> Path:
    """A run of a few steps."""
    command(
        *("train", "puffer_squared", "--env.num-envs", "8", "--train.device", "cpu", "--train.bptt-horizon", "16"),
        *("--train.minibatch-size", "128", "--train.total-timesteps", "1024", "--train.data-dir", str(folder)),
    )
    (made,) = folder.iterdir()
    (made / "data.db").write_text("")
    return made


def expired(*_: object) -> None:
    raise TimeoutError("waited in vain")


def main(folder: Path) -> None:
    signal.signal(signal.SIGALRM, expired)
    made = make_run(folder / "made")
    for door in (agent, evaluate, list_runs, plot, report, database):  # so that all is imported
        with contextlib.suppress(RuntimeError):
            door(made)
    (made / "data.db").write_text("")  # else what follows a database's own pages is never read
    for number, (name, change, find, door) in enumerate(cases()):
        run = folder / str(number) / RUN
        shutil.copytree(made, run)
        change(find(run))
        before, megabytes, said = time.process_time(), peak_megabytes(), "nothing"
        signal.alarm(PATIENCE)
        try:
            door(run)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        signal.alarm(0)
        seconds = time.process_time() - before
        print(json.dumps([name, said, round(seconds, 2), peak_megabytes() - megabytes]), flush=True)
        shutil.rmtree(run.parent)


def peak_megabytes() -> int:
    """Of memory since the last call, above which nothing is counted that was taken and given back before it."""
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # has the peak begin from what is held now
    return peak


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(Path(sys.argv[1]))
