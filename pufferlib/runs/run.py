"""The run of a trainer: its name, its folder, its loggers, and its last checkpoint."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pufferlib.errors import ConfigError, DivergedError, PufferWarning, StorageError
from pufferlib.families.catalog import slug
from pufferlib.loggers.logger import METRICS_FILE, JsonLogger, Loggers, NoLogger
from pufferlib.ppo.losses import ppo_loss
from pufferlib.runs import checkpoint
from pufferlib.runs.calls import AnyLogger, ResolvedCall
from pufferlib.runs.description import describe_run, settings_of
from pufferlib.runs.folder import TRAINER_STATE, RunFolder, free_folder
from pufferlib.runs.loaders import make_loggers
from pufferlib.runs.making import wrapper_names
from pufferlib.runs.trainer_state import Progress, TrainerParts, find_nonfinite, load_trainer_state, rank_state


class Run:
    """The run of a trainer. Of several processes the first alone writes and logs, and names the run for all of them."""

    def __init__(self, call: ResolvedCall, describe_computation: Callable[[], dict[str, str | None]]):
        self._ranks, self._call = call.ranks, call
        given = Loggers(call.logger if self._ranks.is_first else None)
        run_id = self._ranks.from_first(lambda: given.run_id)
        self.env_name = call.env_name
        self.model_path: Path | None = None  # of the weights that were saved or loaded last
        self.settings: dict[str, Any] | None = None  # of `config.json`; None for those of the trainer's parts
        self._describe_computation = describe_computation
        self._storage_reason: str | None = None  # why the last checkpoint could not be written
        self._divergence: str | None = None  # the error that ended the training, until a checkpoint is loaded
        self._changed: dict[str, Any] = {}  # `[train]` settings since the trainer was made
        path = Path(call.config.data_dir) / slug(f"{call.env_name}_{run_id}")  # of a user's logger, too
        folder = self._ranks.from_first(lambda: free_folder(path))
        self.folder = RunFolder(folder, self.describe)  # made with the first log or checkpoint
        self._metrics_file = JsonLogger(folder / METRICS_FILE, run_id=run_id)
        wants_file = not given.loggers or any(type(logger) is not NoLogger for logger in given.loggers)
        files = [self._metrics_file] if wants_file and self._ranks.is_first else []
        train = asdict(call.config)
        self._logged = {"env_name": call.env_name, "train": train, "computation": describe_computation()}
        self.logger = Loggers([*files, given], self._logged)

    def replace_loggers(self, loggers: AnyLogger) -> None:
        """Logs to these alone, with the description of the run first."""
        self.logger = loggers if isinstance(loggers, Loggers) else Loggers(loggers, self._logged)

    def change_settings(self, settings: Mapping[str, Any]) -> None:
        """Changes `[train]` settings in `config.json`, and for loggers that have not been opened yet."""
        self._changed.update(settings)
        self._logged["train"].update(settings)
        with self.warn_on_storage_error():
            self.folder.update_description()

    def describe(self) -> dict[str, Any]:
        """Returns the content of `config.json`: see `describe_run`."""
        call, settings = self._call, self.settings
        if settings is None:
            settings = settings_of(call.env_name, call.settings, call.vecenv, call.policy)
        train = {**settings["train"], **self._changed}
        settings = {**settings, "train": train, "selfplay": asdict(call.selfplay)}
        simulator = getattr(call.vecenv.driver_env, "simulator", None)
        loss = None if call.loss is ppo_loss else getattr(call.loss, "__qualname__", type(call.loss).__name__)
        own = {"loss": loss, "wrappers": ", ".join(wrapper_names(call.vecenv))}  # which no name makes again
        described = describe_run(settings, call.policy, self._describe_computation(), simulator)
        return {**described, **{name: kept for name, kept in own.items() if kept}}

    def open_folder(self) -> None:
        """Makes the folder, unless it is open; where another trainer of this process has taken it, another one."""
        if self.folder.is_lost:
            lost, path = self.folder.path, free_folder(self.folder.path)
            warnings.warn(
                f"another trainer of this process writes to {lost} now; this one goes on in {path}",
                PufferWarning,
                stacklevel=3,
            )
            self.folder = RunFolder(path, self.describe)
            self._metrics_file.continue_in(path / METRICS_FILE, resume_step=None)
        self.folder.open()

    def begin(self, log_settings: Mapping[str, Any] | None, resume_step: int | None) -> None:
        """Opens the folder and describes the run to its loggers, those of the `[log]` settings if they are given.

        A folder that cannot be written raises ConfigError.
        """
        if log_settings is not None:
            path = self.folder.path
            self.logger = Loggers(make_loggers(log_settings, path, path.absolute().name, resume_step))
        try:
            self.open_folder()
        except OSError as error:
            raise ConfigError(
                f"[train] data_dir must be a folder that can be written, got {self._call.config.data_dir!r} "
                f"({error.strerror}); make it so, or name another one"
            ) from error
        description = self.describe()
        description |= {**description.pop("settings"), **self._logged}  # with every size that was 'auto'
        description.pop("sweep", None)  # the ranges of a sweep do not describe this run
        self.logger.describe(description)

    def save(
        self, parts: TrainerParts, progress: Progress, statistics: dict[str, float] | None, metadata: Mapping[str, Any]
    ) -> str:
        """Writes a checkpoint into the folder, and returns the path of the weights; all processes call it."""
        ranks = self._ranks.gather(rank_state(parts, statistics))

        def write() -> Path:
            self.open_folder()
            folder = self.folder.path
            checkpoint.save_checkpoint_folder(folder, self.env_name, parts, progress, ranks, metadata)
            return checkpoint.model_path(folder, self.env_name, progress.epoch)

        self.model_path = self._ranks.from_first(write)
        self._storage_reason = None
        return str(self.model_path)

    def load(self, path: Path, parts: TrainerParts) -> tuple[Progress, dict[str, float] | None, dict[str, Any]]:
        """Restores a checkpoint, and continues in its folder if it has one; if it is refused, nothing changes.

        Returns the progress, the statistics of the untrained rollout that was restored, if any, and the metadata.
        """
        if not self._ranks.from_first(path.is_dir):
            progress, metadata = checkpoint.load_checkpoint_file(path, parts, self._ranks)
            self.model_path = self._divergence = None
            return progress, None, metadata
        weights, state = checkpoint.read_checkpoint_folder(path, self.env_name, parts, self._ranks)
        is_own = self.folder.path.resolve() == path.resolve()
        folder = self.folder if is_own else RunFolder(path, self.describe)
        self._ranks.from_first(folder.take_over)
        progress, statistics = load_trainer_state(path / TRAINER_STATE, parts, self._ranks, weights, state)
        if self._ranks.is_first:
            for unfinished in path.glob("*.tmp"):  # by a process that was killed
                unfinished.unlink(missing_ok=True)
        if not is_own:
            self.folder.close()
        self.folder, self.model_path, self._divergence = folder, path / state["model"], None
        self._metrics_file.continue_in(path / METRICS_FILE, progress.global_step)
        return progress, statistics, dict(state["metadata"])

    def require_finite(self, parts: TrainerParts) -> None:
        """Raises DivergedError, which names the checkpoint to use, if a number is not finite."""
        found = self._ranks.from_first(lambda: find_nonfinite(parts))
        if found is not None:
            raise DivergedError(self._divergence or f"{found}, so nothing was saved; {self._checkpoint_hint()}")

    @contextlib.contextmanager
    def append_checkpoint_hint(self) -> Iterator[None]:
        """Appends to a DivergedError which checkpoint to continue from."""
        try:
            yield
        except DivergedError as error:
            self._divergence = f"{error}; {self._checkpoint_hint()}"
            raise DivergedError(self._divergence) from error

    def _checkpoint_hint(self) -> str:
        if self.model_path is None:
            return "there is no earlier checkpoint of this run"
        return f"the last good checkpoint, {self.model_path}, is kept"

    @contextlib.contextmanager
    def warn_on_storage_error(self) -> Iterator[None]:
        """Turns a StorageError into a warning, once until a checkpoint is written; each interval tries again."""
        try:
            yield
        except StorageError as error:
            reason, self._storage_reason = self._storage_reason, error.strerror
            if self._ranks.is_first and reason != error.strerror:
                warnings.warn(f"{error}; the training goes on", PufferWarning, stacklevel=4)
