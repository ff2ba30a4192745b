"""Neptune."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.extras import require_extra
from pufferlib.loggers.logger import LazyLogger, is_finite, is_offline, plain_settings

CLOSE_SECONDS = 60.0  # to wait for what is still to be sent: without a limit, forever for a server that is gone
OFFLINE_WORKSPACE = "offline"  # of a project without one, where no server minds


class NeptuneLogger(LazyLogger):
    """Logs to a run of Neptune: settings under `config`, metrics by agent step, the final model as the file `model`.

    The public service at neptune.ai was shut down in March 2026; online mode is for servers of one's own, which the
    API token names. Offline, every start writes an SQLite file of its own, which `neptune sync` sends.

    The same `run_id` continues the same run. Neptune keeps the first value of each step, so the steps that a resumed
    run repeats stay as they were. Metrics that are not finite are left out, as Neptune refuses them.

    Attributes:
        run: the `neptune_scale.Run`, for whatever else is to be logged; None until something was logged.
        run_id: the run's id; a new one unless given.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        api_token: str | None = None,
        *,
        run_id: str | None = None,
        tags: Iterable[str] = (),
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
        self._tags = list(tags)
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
        self.run.log_configs({"config": _flat_settings(settings)}, flatten=True, cast_unsupported=True)

    @override
    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        numbers = {name: value for name, value in metrics.items() if is_finite(value)}
        texts = {name: value for name, value in metrics.items() if isinstance(value, str)}
        self.run.log_metrics(numbers, step=step)
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
        return f"{OFFLINE_WORKSPACE}/{project}"
    raise APIUsageError(f"Neptune's project must be 'workspace/project', got {project!r}; name both")


def _flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    # Numbers that are not finite become text, as Neptune refuses them.
    def convert(value: object) -> object:
        if isinstance(value, dict):
            return {name: convert(inner) for name, inner in value.items()}
        return str(value) if isinstance(value, float) and not is_finite(value) else value

    return convert(plain_settings(settings))
