"""What of a run is not in its trainer: a name, a folder, loggers, and the checkpoint that was kept last."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pufferlib.errors import DivergedError, PufferWarning, StorageError
from pufferlib.families.catalog import slug
from pufferlib.loggers import METRICS_FILE, JsonLogger, Loggers, NoLogger
from pufferlib.runs import checkpoint, checkpoint_file, run_checkpoint
from pufferlib.runs.calls import Call
from pufferlib.runs.description import describe_run
from pufferlib.runs.folder import RunFolder
from pufferlib.runs.policy_settings import class_text, policy_settings
from pufferlib.runs.settings import settings_of
from pufferlib.runs.trainer_state import (
    Loaded,
    Progress,
    TrainerParts,
    find_not_finite,
    load_trainer_state,
    rank_state,
)


class Run:
    """The run of a trainer. Of several processes the first alone writes and logs, and names the run for all of them.

    Attributes:
        env_name: what is trained in.
        logger: where metrics go.
        model_path: the weights that were saved or loaded last; None before the first.
    """

    def __init__(self, call: Call, find_computation: Callable[[], dict[str, str | None]]):
        """Names the run and prepares its folder and loggers; nothing is written yet.

        Args:
            call: what the trainer is made of.
            find_computation: tells what computes the policy, and why it is nothing faster.
        """
        self._ranks = ranks = call.ranks
        given = Loggers(call.logger if ranks.is_first else None)  # beside metrics.jsonl; a NoLogger alone for nothing
        run_id = ranks.from_first(lambda: given.run_id)
        self.env_name = env_name = call.env_name
        self.model_path: Path | None = None
        self._policy = call.policy
        self._find_settings = partial(settings_of, env_name, dict(call.settings), call.vecenv, call.policy)
        self._find_computation = find_computation
        self._told_reason: str | None = None  # why nothing could be written, since the last checkpoint that could
        self._divergence: str | None = None  # what ended the training, if it did not go on from a checkpoint since
        folder = Path(call.config.data_dir) / slug(f"{env_name}_{run_id}")  # of a user's logger, too
        self._folder = RunFolder(folder, self.describe)
        self._metrics_file = JsonLogger(folder / METRICS_FILE, run_id=run_id)
        wants_file = not given.loggers or any(type(each) is not NoLogger for each in given.loggers)
        files = [self._metrics_file] if wants_file and ranks.is_first else []
        self._length: dict[str, int | None] = {}  # settings that replace those of before
        self._told = {"env_name": env_name, "train": asdict(call.config), "computation": find_computation()}
        self.logger = Loggers([*files, given], self._told)

    @property
    def folder(self) -> Path:
        """Where checkpoints and metrics go; made with the first of them."""
        return self._folder.path

    def describe_by(self, settings: dict[str, Any]) -> None:
        """Has `config.json` hold these settings, instead of what can be told of the trainer's parts."""
        self._find_settings = lambda: settings

    def set_length(self, total_timesteps: int) -> None:
        """Has `config.json`, and loggers that were told nothing yet, know of another number of agent steps."""
        self._length = {"total_timesteps": total_timesteps, "num_iterations": None}
        self._told["train"].update(self._length)
        with self.outliving_full_disks():
            self._folder.describe_anew()

    def describe(self) -> dict[str, Any]:
        """What `config.json` holds: see `describe_run`."""
        settings = self._find_settings()
        settings = {**settings, "train": {**settings["train"], **self._length}}
        is_known = policy_settings(self._policy, settings["env_name"]) is not None
        return describe_run(settings, None if is_known else class_text(self._policy), self._find_computation())

    def open(self) -> None:
        """Makes and describes the folder, which is needed only to have it before the first log or checkpoint.

        Raises:
            CheckpointError: if another process is writing to it.
            StorageError: if it cannot be written.
        """
        if self._ranks.is_first:
            self._folder.open()

    def close(self) -> None:
        """Lets other processes write to the folder; calling it twice is harmless."""
        self._folder.close()

    # ------------------------------------------------------------------------------------------------------ checkpoints

    def save(
        self,
        parts: TrainerParts,
        progress: Progress,
        statistics: dict[str, float] | None,
        metadata: Mapping[str, Any],
    ) -> str:
        """Writes a checkpoint into the folder; all processes call it.

        Args:
            parts: of this process.
            progress: of the trainer.
            statistics: as for `rank_state`.
            metadata: from `plain_metadata`.

        Returns:
            The path of the weights.

        Raises:
            CheckpointError: if another process is writing to the folder.
            StorageError: if it cannot be written.
        """
        ranks = self._ranks.gather(rank_state(parts, statistics))

        def write() -> None:
            self.open()
            run_checkpoint.save(self.folder, self.env_name, parts, progress, ranks, metadata)

        self._ranks.from_first(write)
        self._told_reason = None
        self.model_path = run_checkpoint.model_path(self.folder, self.env_name, progress.epoch)
        return str(self.model_path)

    def load(self, path: Path, parts: TrainerParts) -> Loaded:
        """Goes on from a checkpoint, in its folder where it has one; one that is refused leaves all as it was.

        Args:
            path: the folder of a run, or a file of `checkpoint_file.save`.
            parts: of this process, which are as they were then afterwards.

        Raises:
            CheckpointError: if there is no checkpoint, it does not fit, or another process is writing to the folder.
        """
        if not self._ranks.from_first(path.is_dir):
            loaded = checkpoint_file.load(path, parts, self._ranks)
            self.model_path = self._divergence = None
            return loaded
        weights, state = run_checkpoint.read(path, self.env_name, parts, self._ranks)
        is_own = self.folder.resolve() == path.resolve()
        folder = self._folder if is_own else RunFolder(path, self.describe)
        self._ranks.from_first(folder.lock)
        loaded = load_trainer_state(path / checkpoint.TRAINER_STATE, parts, self._ranks, weights, state)
        if self._ranks.is_first:
            checkpoint.remove_unfinished(path)
        if not is_own:
            self._folder.close()
        self._folder, self.model_path, self._divergence = folder, path / state["model"], None
        self._metrics_file.go_on(path / METRICS_FILE, loaded.progress.global_step)
        return loaded

    # --------------------------------------------------------------------------------------------- when something fails

    def require_finite(self, parts: TrainerParts, learning_rate: float) -> None:
        """Refuses to keep what nobody can go on from; the first process looks for all.

        Raises:
            DivergedError: names it, or what led to it, and the checkpoint that is kept instead.
        """

        def require() -> None:
            found = find_not_finite(parts, learning_rate)
            if found is not None:
                raise DivergedError(self._divergence or f"{found}, so nothing was saved; {self._kept_text()}")

        self._ranks.from_first(require)

    @contextlib.contextmanager
    def telling_what_is_kept(self) -> Iterator[None]:
        """Has a DivergedError end with where one can go on from."""
        try:
            yield
        except DivergedError as error:
            self._divergence = f"{error}; {self._kept_text()}"
            raise DivergedError(self._divergence) from error

    def _kept_text(self) -> str:
        if self.model_path is None:
            return "there is no earlier checkpoint of this run"
        return f"the last good checkpoint, {self.model_path}, is kept"

    @contextlib.contextmanager
    def outliving_full_disks(self) -> Iterator[None]:
        """Warns of what could not be written in the middle of a run, once until it can; each interval tries."""
        try:
            yield
        except StorageError as error:
            reason, self._told_reason = self._told_reason, error.strerror
            if self._ranks.is_first and reason != error.strerror:
                warnings.warn(f"{error}; the training goes on", PufferWarning, stacklevel=4)
