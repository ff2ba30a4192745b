"""Weights & Biases."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.extras import require_extra
from pufferlib.loggers.logger import LazyLogger, is_offline, plain_settings


class WandbLogger(LazyLogger):
    """Logs to a run of Weights & Biases: settings as its config, metrics by agent step, the final model as an artifact.

    The same `run_id` continues the same run. W&B keeps the first row of each step, so the steps that a resumed run
    repeats stay as they were. Offline, every start writes a folder of its own; `wandb sync` sends them as one run. A
    process that is killed takes with it what W&B had not written yet: offline, the last 32 KiB.

    Attributes:
        run: what `wandb.init` returned, for whatever else is to be logged; None until something was logged.
        run_id: the run's id; a new one unless given.
    """

    def __init__(
        self,
        project: str = "pufferlib",
        entity: str | None = None,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        tags: Iterable[str] = (),
        mode: str | None = None,
        folder: str | os.PathLike | None = None,
    ):
        """Neither a connection nor a file is made yet.

        Args:
            project: its name.
            entity: the team or user; None is the account's default.
            name: the run's name on the page; None is its id.
            config: added to the trainer's settings, and in place of those of the same name.
            run_id: that of an earlier run continues it. Characters that W&B does not take become underscores.
            tags: the run's tags.
            mode: `online`, `offline` (files only, for `wandb sync`), or None for what WANDB_MODE says.
            folder: where W&B keeps its files, in `wandb` there; None is the working directory.

        Raises:
            MissingExtraError: if wandb is not installed.
            APIUsageError: if the mode is none of the above.
        """
        if not isinstance(project, str):
            found = type(project).__name__
            raise APIUsageError(f"project must be text, got a {found}; write WandbLogger(project=..., name=...)")
        require_extra("wandb", "wandb")
        super().__init__(run_id)
        self.run: Any = None
        self._config = dict(config or {})
        self._resume = None if is_offline(mode, "WANDB_MODE") else "allow"  # offline there is nothing to ask about it
        self._folder = None if folder is None else Path(folder).absolute()
        self._keywords = {
            **{"project": project, "entity": entity, "name": name or self.run_id, "id": _clean(self.run_id)},
            **{"tags": list(tags) or None, "mode": mode},
        }

    @override
    def _open(self) -> None:
        import wandb

        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)  # W&B would fall back on the temporary folder
        self.run = wandb.init(
            **self._keywords,
            config=plain_settings(self._config),
            dir=self._folder,
            resume=self._resume,
            reinit="create_new",  # a run of the user's own, and those of other trainers, stay open
            settings=wandb.Settings(console="off"),  # what the dashboard draws is no log
        )

    @override
    def _describe(self, settings: Mapping[str, Any]) -> None:
        settings = {name: value for name, value in settings.items() if name not in self._config}
        self.run.config.update(plain_settings(settings), allow_val_change=True)

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        self.run.log(dict(metrics), step=step)

    @override
    def _close(self, model_path: str | None) -> None:
        has_failed = sys.exc_info()[0] is not None  # closed while an error passes through the trainer
        try:
            if model_path is not None:
                self._log_model(model_path)
        finally:
            self.run.finish(exit_code=1 if has_failed else 0)

    def _log_model(self, model_path: str) -> None:
        import wandb

        artifact = wandb.Artifact(_clean(f"model-{self.run_id}"), type="model")
        # A model file is never changed, so it is read where it is, not copied to W&B's folders in the home directory.
        artifact.add_file(os.path.abspath(model_path), policy="immutable", skip_cache=True)
        self.run.log_artifact(artifact)


def _clean(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
