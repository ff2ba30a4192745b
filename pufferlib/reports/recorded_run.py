"""A run as its folder records it, read without torch: settings, metrics, state."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from pufferlib.config.sections import ARGUMENTS, SECTIONS
from pufferlib.errors import CheckpointError
from pufferlib.families.catalog import slug
from pufferlib.loggers import METRICS_FILE
from pufferlib.metrics.metric_name import FINAL, count_name, find_metric
from pufferlib.reading import UnreadableFile, lines, open_regular, parse_json, read_json
from pufferlib.runs.files import CONFIG_FILE, TRAINER_STATE, read_note
from pufferlib.runs.lock import writing_process

RETURN = "episode/return_mean"
_MOST_METRICS = 2**28  # bytes of metrics.jsonl: 130,000 lines
_TAIL_BYTES = 16_384  # of the end of metrics.jsonl: a line has about 2,000
_BEGUN = re.compile(r"(\d{8}_\d{6})_\d{6}_[0-9a-f]{8}$")  # of a run id that `make_run_id` made, in UTC


@dataclass(frozen=True)
class RecordedRun:
    """A run on disk; properties read its files when they are first needed."""

    folder: Path
    config: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def settings(self) -> Mapping[str, Any]:
        """The nested dict of `load_config` that it was begun with; empty where it was not recorded."""
        found = self.config.get("settings")
        return found if isinstance(found, dict) else {}

    @property
    def env_name(self) -> str | None:
        """The name of its environment; None where it was not recorded."""
        found = self.settings.get("env_name")
        return found if isinstance(found, str) else None

    @property
    def run_id(self) -> str:
        """Its name without that of the environment."""
        return self.name.removeprefix(f"{slug(self.env_name)}_") if self.env_name else self.name

    @cached_property
    def begun(self) -> datetime | None:
        """When it was begun, in local time: by its id, else by its oldest file; None for an empty folder."""
        found = _BEGUN.search(self.name)
        if found:
            return datetime.strptime(found[1], "%Y%m%d_%H%M%S").replace(tzinfo=timezone.utc).astimezone()
        times = [path.stat().st_mtime for path in self.folder.iterdir() if path.is_file()]
        return datetime.fromtimestamp(min(times)).astimezone() if times else None

    @cached_property
    def written(self) -> float:
        """When it was written to last, in seconds since the epoch."""
        paths = (self.folder / METRICS_FILE, self.folder / CONFIG_FILE)
        return max(path.stat().st_mtime for path in paths if path.exists())

    # ----------------------------------------------------------------------------------------------------- its metrics

    @cached_property
    def logs(self) -> list[dict[str, Any]]:
        """The lines of its `metrics.jsonl`, in order; one that is torn is left out."""
        return list(_lines(self.folder / METRICS_FILE, 0))

    @cached_property
    def newest(self) -> dict[str, Any]:
        """The newest value of every metric that its last lines have."""
        newest: dict[str, Any] = {}
        are_read = "logs" in vars(self)  # then these tell of the same moment
        for line in self.logs if are_read else _lines(self.folder / METRICS_FILE, _TAIL_BYTES):
            if line.get("agent_steps") != newest.get("agent_steps"):  # what was final is trained further
                newest = {name: value for name, value in newest.items() if not name.startswith(f"{FINAL}/")}
            newest.update((name, value) for name, value in line.items() if value is not None)
        return newest

    @property
    def score_metric(self) -> str:
        """The metric of its score: the one that its environment is solved by, else the mean return."""
        solve = self.settings.get("solve")
        name = solve.get("metric") if isinstance(solve, dict) else None
        return find_metric(str(name), self.newest) or RETURN

    @property
    def score_name(self) -> str:
        """The score's metric in one word, such as `perf` or `return`."""
        return "return" if self.score_metric == RETURN else self.score_metric.partition("/")[2]

    @property
    def score(self) -> float | None:
        """The score of the final policy; of an unfinished run the newest value of the metric; None where there is none.

        The newest value is of the episodes that ended since the log before, among which long ones lack early in a run.
        """
        return number(self.newest.get(self._scored_by))

    @property
    def score_episodes(self) -> int | None:
        """Episodes that the score is the mean of; None where the run does not say."""
        found = number(self.newest.get(count_name(self._scored_by) or ""))
        return None if found is None else int(found)

    @property
    def _scored_by(self) -> str:
        final = f"{FINAL}/{self.score_metric.partition('/')[2]}"
        return final if final in self.newest else self.score_metric

    @property
    def steps(self) -> int:
        """Agent steps up to the last log."""
        return int(number(self.newest.get("agent_steps")) or 0)

    @property
    def seconds(self) -> float:
        """Wall time up to the last log."""
        return float(number(self.newest.get("uptime")) or 0.0)

    # ------------------------------------------------------------------------------------------------ what became of it

    @cached_property
    def state(self) -> str:
        """`running`, `finished`, `stopped` or `failed`; see `puffer runs --help`."""
        if writing_process(self.folder) is not None:
            return "running"
        if self._has_all_steps():
            return "finished"
        saved_steps = number(read_note(self.folder, "last").get("agent_steps"))
        is_saved = (self.folder / TRAINER_STATE).exists() and saved_steps is not None and saved_steps >= self.steps
        return "stopped" if is_saved else "failed"

    def _has_all_steps(self) -> bool:
        train = self.settings.get("train") or {}
        iterations, steps = (number(train.get(name)) for name in ("num_iterations", "total_timesteps"))
        if iterations is not None:
            return (number(self.newest.get("epoch")) or 0) >= iterations
        return steps is not None and self.steps >= steps


def read_run(folder: Path) -> RecordedRun:
    """The run in a folder.

    Raises:
        CheckpointError: if there is none, or its `config.json` is damaged.
    """
    path = folder / CONFIG_FILE
    try:
        config = read_json(path)
    except FileNotFoundError:
        if not (folder / METRICS_FILE).exists():
            raise CheckpointError(f"{folder} holds no run: there is neither {CONFIG_FILE} nor {METRICS_FILE}") from None
        config = {}
    except (OSError, ValueError) as error:
        reason = f" ({error.strerror})" if isinstance(error, UnreadableFile) else ""
        raise CheckpointError(f"{path} is damaged{reason}; its run cannot be read") from error
    _open_metrics(folder / METRICS_FILE).close()
    if not isinstance(config, dict) or (config and not isinstance(config.get("settings"), dict)):
        raise CheckpointError(f"{path} must hold the settings of a run, found none")
    for section in (*SECTIONS, *ARGUMENTS):
        found = config["settings"].get(section) if config else None
        if not isinstance(found, dict | None):
            raise CheckpointError(f"{path} must hold a section {section!r} of the run, found {type(found).__name__}")
    return RecordedRun(folder, config)


def number(found: object) -> int | float | None:
    """Returns a finite number of a file, below 2**63; None for anything else that stands there."""
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool) and abs(found) < 2**63
    return found if is_number else None


def _lines(path: Path, tail_bytes: int) -> Iterator[dict[str, Any]]:
    with _open_metrics(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - tail_bytes) if tail_bytes else 0
        file.seek(start)
        for line in itertools.islice(lines(file), int(start > 0), None):  # the first may be torn
            with contextlib.suppress(ValueError):
                found = parse_json(line)
                if isinstance(found, dict):
                    yield found


def _open_metrics(path: Path) -> BinaryIO:
    try:
        file = open_regular(path)
    except UnreadableFile as error:
        raise CheckpointError(f"{path} is damaged ({error.strerror}); remove it to read its run") from error
    except OSError:
        return BytesIO()
    size = os.fstat(file.fileno()).st_size
    if size > _MOST_METRICS:
        file.close()
        raise CheckpointError(f"{path} must have at most {_MOST_METRICS:,} bytes, found {size:,}; shorten it")
    return file
