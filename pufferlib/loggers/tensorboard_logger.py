"""TensorBoard event files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from pufferlib.extras import require_extra
from pufferlib.loggers.logger import LazyLogger, plain_settings


class TensorBoardLogger(LazyLogger):
    """Writes event files that `tensorboard --logdir FOLDER` shows.

    Names of metrics become tags as they are, agent steps become steps, the settings become the text `settings`. Every
    `log` is on its way to the disk when it returns. There is no place for models in TensorBoard.

    Attributes:
        folder: where the event files are.
        run_id: the run's name; a new one unless given.
    """

    def __init__(self, folder: str | os.PathLike, run_id: str | None = None, resume_step: int | None = None):
        """Touches no file yet.

        Args:
            folder: of this run alone; a resumed run uses the same.
            run_id: the run's name. Given, the run continues the one in the folder.
            resume_step: events after this agent step are hidden, as the run will write them again. None hides those
                from the first step logged on where a `run_id` is given, else nothing.

        Raises:
            MissingExtraError: if tensorboard is not installed.
        """
        require_extra("tensorboard", "tensorboard")
        super().__init__(run_id)
        self.folder = Path(folder)
        self._is_resumable = run_id is not None
        self._resume_step = resume_step
        self._settings: Mapping[str, Any] | None = None
        self._writer: Any = None

    @override
    def _open(self) -> None:
        pass  # the writer must know the first step: events from there on are hidden

    @override
    def _describe(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        if self._writer is not None and not self._has_files():
            self._writer.close()  # somebody removed them, and what a thread of TensorBoard writes to
            self._writer = None
        if self._writer is None:
            self._writer = self._make_writer(step)
        if self._settings is not None:
            text = json.dumps(plain_settings(self._settings), indent=4)
            self._writer.add_text("settings", f"```json\n{text}\n```", step)
            self._settings = None
        for name, value in metrics.items():
            if isinstance(value, str):
                self._writer.add_text(name, value, step)
            elif value is not None:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def _make_writer(self, step: int) -> Any:
        from torch.utils.tensorboard import SummaryWriter  # seconds

        purge_step = None
        if self._has_files():
            if self._resume_step is not None:
                purge_step = self._resume_step + 1
            elif self._is_resumable:
                purge_step = step
        return SummaryWriter(self.folder, purge_step=purge_step)

    def _has_files(self) -> bool:
        return any(self.folder.glob("events.out.tfevents.*"))

    @override
    def _close(self, model_path: str | None) -> None:
        if self._writer is not None:
            self._writer.close()
