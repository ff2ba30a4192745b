"""Loggers of TensorBoard, Weights & Biases and Neptune, whose packages are not imported before something is logged."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from pufferlib.errors import APIUsageError, require_extra
from pufferlib.loggers.logger import LazyLogger, is_offline, plain_settings


def _list_of(tags: str | Iterable[str]) -> list[str]:  # as text they are separated by commas, as in `[log] tags`
    return [tag.strip() for tag in tags.split(",") if tag.strip()] if isinstance(tags, str) else list(tags)


class TensorBoardLogger(LazyLogger):
    """Writes event files that `tensorboard --logdir FOLDER` shows.

    Names of metrics become tags as they are, agent steps become steps, the settings become the text `settings`. Every
    `log` is on its way to the disk when it returns. There is no place for models in TensorBoard.

    Args:
        folder: of this run alone; a resumed run uses the same.
        run_id: the run's name; None makes a new one.
        resume_step: events after this agent step are hidden, as the run will write them again; None hides those from
            the first step logged on.

    Raises:
        MissingExtraError: if tensorboard is not installed.
    """

    def __init__(self, folder: str | os.PathLike, run_id: str | None = None, resume_step: int | None = None):
        require_extra("tensorboard", "tensorboard")
        super().__init__(run_id)
        self.folder, self._resume_step = Path(folder), resume_step
        self._settings: Mapping[str, Any] | None = None
        self._writer: Any = None

    @override
    def _describe(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        if self._writer is not None and not self._has_files():
            self._writer.close()  # the files were removed while a thread of TensorBoard writes to them
            self._writer = None
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # seconds

            first_hidden = step if self._resume_step is None else self._resume_step + 1
            self._writer = SummaryWriter(self.folder, purge_step=first_hidden if self._has_files() else None)
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

    def _has_files(self) -> bool:
        return any(self.folder.glob("events.out.tfevents.*"))

    @override
    def _close(self, model_path: str | None) -> None:
        if self._writer is not None:
            self._writer.close()


class WandbLogger(LazyLogger):
    """Logs to a run of Weights & Biases: settings as its config, metrics by agent step, the final model as an artifact.

    The same `run_id` continues the same run; the steps that a resumed run repeats stay as they were. Offline, every
    start writes a folder of its own; `wandb sync` sends them as one run. A process that is killed takes with it what
    W&B had not written yet: offline, the last 32 KiB. `run` is what `wandb.init` returned, None until the first log.
    """

    def __init__(
        self,
        project: str = "pufferlib",
        entity: str | None = None,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        tags: str | Iterable[str] = (),
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
            **{"tags": _list_of(tags) or None, "mode": mode},
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
        import wandb

        has_failed = sys.exc_info()[0] is not None  # closed while an error passes through the trainer
        try:
            if model_path is not None:
                artifact = wandb.Artifact(_clean(f"model-{self.run_id}"), type="model")
                # A model file is never changed: it is read where it is, not copied to W&B's folders in the home.
                artifact.add_file(os.path.abspath(model_path), policy="immutable", skip_cache=True)
                self.run.log_artifact(artifact)
        finally:
            self.run.finish(exit_code=1 if has_failed else 0)


def _clean(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)


CLOSE_SECONDS = 60.0  # to wait for what is still to be sent: without a limit, forever for a server that is gone


class NeptuneLogger(LazyLogger):
    """Logs to a run of Neptune: settings under `config`, metrics by agent step, the final model as the file `model`.

    The public service at neptune.ai was shut down in March 2026; online mode is for servers of one's own, which the API
    token names. Offline, every start writes an SQLite file of its own, which `neptune sync` sends. The same `run_id`
    continues the same run; the steps that a resumed run repeats stay as they were. Metrics that are not finite are left
    out. `run` is the `neptune_scale.Run`, None until the first log.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        api_token: str | None = None,
        *,
        run_id: str | None = None,
        tags: str | Iterable[str] = (),
        mode: str | None = None,
        folder: str | os.PathLike | None = None,
    ):
        """Neither a connection nor a file is made yet.

        Args:
            project: `workspace/project`; None is what NEPTUNE_PROJECT says. Offline the workspace may be missing.
            name: the experiment's name; None for a run that belongs to none.
            api_token: None is what NEPTUNE_API_TOKEN says.
            run_id: at most 128 bytes; that of an earlier run continues it.
            tags: the run's tags.
            mode: `online`, `offline` (files only, for `neptune sync`), or None for what NEPTUNE_MODE says.
            folder: where Neptune keeps its files, also online until they are sent; None is `.neptune`.

        Raises:
            MissingExtraError: if neptune-scale is not installed.
            APIUsageError: if the mode is none of the above, or the project has no workspace.
        """
        require_extra("neptune_scale", "neptune")
        super().__init__(run_id)
        self.run: Any = None
        self._tags = _list_of(tags)
        self._error: BaseException | None = None  # the last that Neptune's own process reported
        is_local = is_offline(mode, "NEPTUNE_MODE")
        self._keywords = {
            "run_id": self.run_id,
            "project": _qualified(project or os.environ.get("NEPTUNE_PROJECT"), is_local),
            "experiment_name": name,
            "api_token": api_token,
            "mode": "offline" if is_local else {"online": "async"}.get(mode or ""),
            "log_directory": None if folder is None else Path(folder).absolute(),
        }

    @override
    def _open(self) -> None:
        from neptune_scale import Run

        self.run = Run(
            **self._keywords,
            enable_console_log_capture=False,  # what the dashboard draws is no log
            source_tracking_config=None,  # the settings name the commit
            on_error_callback=self._keep_error,
            on_network_error_callback=self._keep_error,
            on_warning_callback=self._keep_error,
        )
        if self._tags:
            self.run.add_tags(self._tags)

    @override
    def _describe(self, settings: Mapping[str, Any]) -> None:
        # Numbers that are not finite become text, as Neptune refuses them.
        text = json.dumps(plain_settings(settings))
        config = json.loads(text, parse_constant=lambda constant: str(float(constant)))
        self.run.log_configs({"config": config}, flatten=True, cast_unsupported=True)

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        texts = {name: value for name, value in metrics.items() if isinstance(value, str)}
        numbers = {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
        self.run.log_metrics({name: value for name, value in numbers.items() if math.isfinite(value)}, step=step)
        if texts:
            self.run.log_string_series(texts, step=step)
        self._raise_error()

    @override
    def _close(self, model_path: str | None) -> None:
        from neptune_scale.types import File

        try:
            if model_path is not None:
                self.run.assign_files({"model": File(model_path, mime_type="application/octet-stream")})
        finally:
            self.run.close(timeout=CLOSE_SECONDS)
        self._raise_error()

    def _keep_error(self, error: BaseException, last_seen: float | None) -> None:
        # A thread of Neptune's calls this for errors of the process that sends: they come later than the log.
        self._error = error

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def _qualified(project: str | None, is_local: bool) -> str:
    if not isinstance(project, str | None):
        found = type(project).__name__
        raise APIUsageError(f"project must be text, got a {found}; write NeptuneLogger(project=..., name=...)")
    if project and "/" in project:
        return project
    if project and is_local:
        return f"offline/{project}"  # no server minds
    raise APIUsageError(f"Neptune's project must be 'workspace/project', got {project!r}; name both")
