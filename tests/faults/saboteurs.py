"""The library broken on purpose, in the process of a run: what the cases must notice, or they show nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from fault_plants import replace


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _instead(path: str, function: Any) -> None:
    replace(path, lambda original: function)


# ----------------------------------------------------------------------------------------------------------- workers


def deaths_unseen() -> None:
    """Nobody looks whether a worker is still there."""
    _instead("pufferlib.vector.processes.Multiprocessing._raise_end", lambda *_: time.sleep(1000))


def timeouts_ignored() -> None:
    """A worker may take as long as it likes."""
    _instead("pufferlib.vector.processes.Multiprocessing._patience", _nothing)


_DEAF = """
import time, pufferlib.vector.worker as worker
def receive(connection):
    try:
        return connection.recv_bytes()
    except (EOFError, ConnectionResetError):
        time.sleep(1000)
worker._received, worker.end_with_parent = receive, lambda seconds: None
"""


def orphans_kept() -> None:
    """Workers do not notice that their parent is gone."""

    def make(original: Any) -> Any:
        def start(arguments: list[str], **keywords: Any) -> Any:
            if "vector.worker" in arguments[-1]:
                program = arguments[-1].replace(
                    "from pufferlib.vector.worker", f"exec({_DEAF!r}); from {'pufferlib'}.vector.worker"
                )
                arguments = [*arguments[:-1], program]
            return original(arguments, **keywords)

        return start

    replace("subprocess.Popen", make)


def workers_kept() -> None:
    """Nor does anybody end them."""
    orphans_kept()
    _instead("pufferlib.vector.processes.end_workers", _nothing)


def shared_memory_named() -> None:
    """Shared memory is a file that somebody would have to remove."""
    numbers = itertools.count()

    def make() -> int:
        path = f"/dev/shm/puffer_{os.getpid()}_{next(numbers)}"
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    _instead("pufferlib.vector.arrays._unnamed_file", make)


# ----------------------------------------------------------------------------------------------------------- signals


def signals_ignored() -> None:
    """Ctrl-C does nothing."""
    _instead("pufferlib.runs.stopping.StopRequest._handle", _nothing)


def second_signal_ignored() -> None:
    """Ctrl-C only ever asks."""

    def handle(self: Any, *_: Any) -> None:
        self._handled_time = time.monotonic()  # or the process would be ended for it, with a sentence
        self.requested = True

    _instead("pufferlib.runs.stopping.StopRequest._handle", handle)


# -------------------------------------------------------------------------------------------------- what is on the disk


def checkpoints_dropped() -> None:
    """Nothing is saved."""
    _instead("pufferlib.runs.checkpoint.save_checkpoint_folder", _nothing)


def renames_left_out() -> None:
    """Files are written under their own names from the first byte on."""

    def write(path: Path, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    _instead("pufferlib.runs.folder._write_atomically", write)


def unfinished_kept() -> None:
    """What could not be written to its end stays there."""

    def write(path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)

    _instead("pufferlib.runs.folder._write_atomically", write)


def epoch_forgotten() -> None:
    """A resume begins one epoch too late."""

    def make(original: Any) -> Any:
        def load(*arguments: Any) -> Any:
            progress, *others = original(*arguments)
            return changed(progress, epoch=progress.epoch + 1), *others

        return load

    replace("pufferlib.runs.run.Run.load", make)


def checksums_unread() -> None:
    """Nothing compares what is read of a file with its checksum."""
    _instead("zipfile.ZipExtFile._update_crc", _nothing)


def refusals_half_done() -> None:
    """What of a damaged checkpoint could be read is kept."""
    import torch

    def make(original: Any) -> Any:
        def read(folder: Path, env_name: str, parts: Any, ranks: Any) -> Any:
            with torch.no_grad():
                for parameter in parts.policy.parameters():
                    parameter.zero_()
            return original(folder, env_name, parts, ranks)

        return read

    replace("pufferlib.runs.checkpoint.read_checkpoint_folder", make)


def earlier_weights_unnamed() -> None:
    """What one can go on from is not told."""
    _instead("pufferlib.runs.checkpoint._newest_whole", _nothing)


def folder_not_made_again() -> None:
    """A folder that was once there is taken to be there for ever."""

    def make(original: Any) -> Any:
        return lambda self: None if self._is_open else original(self)

    replace("pufferlib.runs.folder.RunFolder.open", make)


def folder_not_locked() -> None:
    """Anybody may write to the folder of a run."""
    _instead("pufferlib.runs.folder.RunFolder.lock", _nothing)


# ------------------------------------------------------------------------------------------------------ what is told


def failures_fatal() -> None:
    """A disk that is full for a moment ends the run."""
    _instead("pufferlib.runs.run.Run.warn_on_storage_error", lambda self: contextlib.nullcontext())


def failures_silent() -> None:
    """What could not be saved is not told."""
    from pufferlib.errors import StorageError

    def make(original: Any) -> Any:
        def save(self: Any, *arguments: Any) -> Any:
            with contextlib.suppress(StorageError):
                return original(self, *arguments)

        return save

    replace("pufferlib.runs.run.Run.save", make)


def failures_repeated() -> None:
    """Each checkpoint that cannot be written is told of."""

    def make(original: Any) -> Any:
        def outlive(self: Any) -> Any:
            self._storage_reason = None
            return original(self)

        return outlive

    replace("pufferlib.runs.run.Run.warn_on_storage_error", make)


def errors_swallowed() -> None:
    """Whatever happens, the command ends well."""

    def make(original: Any) -> Any:
        def run(tokens: list[str]) -> None:
            with contextlib.suppress(Exception):
                original(tokens)

        return run

    replace("pufferlib.cli.run", make)


def errors_raw() -> None:
    """Mistakes and what is lacking are told by a traceback."""
    _instead("pufferlib.cli._sentence", _nothing)


def loggers_trusted() -> None:
    """A logger that raises ends the run."""

    def call_each(self: Any, call: Callable[[Any], object]) -> None:
        for logger in self.loggers:
            call(logger)

    _instead("pufferlib.loggers.logger.Loggers._each", call_each)


def remedy_forgotten() -> None:
    """What to do about it is left to the user."""
    replace(
        "pufferlib.errors.describe_lack",
        lambda original: lambda error: (original(error) or "").partition(";")[0] or None,
    )


def tensorboard_not_made_again() -> None:
    """Files of TensorBoard that were once there are taken to be there for ever."""
    _instead("pufferlib.loggers.services.TensorBoardLogger._has_files", lambda self: self._writer is not None)


def output_trusted() -> None:
    """Text that cannot be written ends the run."""
    _instead("pufferlib.dashboard.output.Output._attempt", lambda self, call: call())
