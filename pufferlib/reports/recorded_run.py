"""Runs as their folders record them, read without torch: settings, metrics, state, differences, `puffer runs`."""

from __future__ import annotations

import contextlib
import glob
import itertools
import math
import os
import re
import shlex
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from pufferlib.config.flags import RunsOptions
from pufferlib.config.sections import ARGUMENTS, SECTIONS
from pufferlib.dashboard.output import plain_table, printable, terminal_columns
from pufferlib.dashboard.panel import cost_text, count_text, number_text, settings_text, short_names
from pufferlib.dashboard.score import FINAL, count_name, find_metric
from pufferlib.errors import CheckpointError, ConfigError, nearest
from pufferlib.families.catalog import slug
from pufferlib.loggers.logger import METRICS_FILE
from pufferlib.reading import UnreadableFile, lines, open_regular, parse_json, read_json
from pufferlib.runs.folder import CONFIG_FILE, TRAINER_STATE, find_folder, read_facts, writing_process

LATEST = "latest"
RETURN = "episode/return_mean"
_MOST_METRICS = 2**28  # bytes of metrics.jsonl: 130,000 lines
_TAIL_BYTES = 16_384  # of the end of metrics.jsonl: a line has about 2,000
_SECTIONS = ("train", "env", "policy", "rnn", "vec", "selfplay")
_ARGUMENTS = ("env.", "policy.", "rnn.")
_IGNORED = frozenset({"package", "env_name", "resume"}) | {  # where a run is and what it tells, not how it learns
    f"train.{name}" for name in ("data_dir", "log_interval", "checkpoint_interval", "dashboard_interval_seconds")
}
_LABEL_CHARACTERS = 48  # of the settings in a legend
_BEGUN = re.compile(r"(\d{8}_\d{6})_\d{6}_[0-9a-f]{8}$")  # of a run id that `make_run_id` made, in UTC


class RecordedRun:
    """A run on disk; properties read its files when they are first needed."""

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        self.folder, self.config = folder, config
        self.name = folder.resolve().name
        # The nested dict of `load_config` that it was begun with; empty where it was not recorded.
        self.settings: Mapping[str, Any] = config.get("settings", {})
        env_name = self.settings.get("env_name")
        self.env_name = env_name if isinstance(env_name, str) else None  # None where it was not recorded
        self.run_id = self.name.removeprefix(f"{slug(self.env_name)}_") if self.env_name else self.name

    @cached_property
    def begun(self) -> datetime | None:
        """When it was begun, in local time: by its id, else by its oldest file; None for an empty folder."""
        found = _BEGUN.search(self.name)
        with contextlib.suppress(TypeError, ValueError):  # no such name, or no date in it
            return datetime.strptime(found[1], "%Y%m%d_%H%M%S").replace(tzinfo=timezone.utc).astimezone()
        times = [path.stat().st_mtime for path in self.folder.iterdir() if path.is_file()]
        return datetime.fromtimestamp(min(times)).astimezone() if times else None

    @cached_property
    def written(self) -> float:
        """When it was written to last, in seconds since the epoch."""
        paths = (self.folder / METRICS_FILE, self.folder / CONFIG_FILE)
        return max(path.stat().st_mtime for path in paths if path.exists())

    @cached_property
    def logs(self) -> list[dict[str, Any]]:
        """The lines of its `metrics.jsonl`, in order; one that is torn is left out."""
        return list(_lines(self.folder / METRICS_FILE, 0))

    @cached_property
    def newest(self) -> dict[str, Any]:
        """The newest value of every metric that its last lines have."""
        newest: dict[str, Any] = {}
        are_read, tail_bytes = "logs" in vars(self), _TAIL_BYTES  # if they are, they tell of the same moment
        logs = self.logs if are_read else list(_lines(self.folder / METRICS_FILE, tail_bytes))
        while not logs and tail_bytes < _MOST_METRICS:  # a line is longer, of hundreds of statistics
            tail_bytes *= 16
            logs = list(_lines(self.folder / METRICS_FILE, tail_bytes))
        for line in logs:
            if line.get("agent_steps") != newest.get("agent_steps"):  # what was final is trained further
                newest = {name: value for name, value in newest.items() if not name.startswith(f"{FINAL}/")}
            newest.update((name, value) for name, value in line.items() if value is not None)
        return newest

    @property
    def score_metric(self) -> str:
        """The metric of its score: the one that its environment is solved by, else the mean return."""
        name = (self.settings.get("solve") or {}).get("metric")  # `read_run` requires that a section is one
        return find_metric(str(name), self.newest) or RETURN

    @property
    def score_name(self) -> str:
        """The score's metric in one word, such as `perf` or `return`."""
        return "return" if self.score_metric == RETURN else self.score_metric.partition("/")[2]

    @property
    def _scored_by(self) -> str:
        final = f"{FINAL}/{self.score_metric.partition('/')[2]}"
        return final if final in self.newest else self.score_metric

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
    def steps(self) -> int:
        """Agent steps up to the last log."""
        return int(number(self.newest.get("agent_steps")) or 0)

    @property
    def seconds(self) -> float:
        """Wall time up to the last log."""
        return float(number(self.newest.get("uptime")) or 0.0)

    @cached_property
    def state(self) -> str:
        """`running`, `finished`, `stopped` or `failed`; see `puffer runs --help`."""
        if writing_process(self.folder) is not None:
            return "running"
        saved = read_facts(self.folder / "last.json")
        steps, epoch, end = (number(saved.get(name)) for name in ("agent_steps", "epoch", "end"))
        is_saved = steps is not None and steps >= self.steps
        if is_saved and None not in (epoch, end) and epoch >= end:  # not by steps, which absent agents do not make
            return "finished"
        return "stopped" if is_saved and (self.folder / TRAINER_STATE).exists() else "failed"


def read_run(folder: Path) -> RecordedRun:
    """Returns the run in a folder; CheckpointError if there is none, or its `config.json` is damaged."""
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


def differences(runs: Iterable[RecordedRun]) -> dict[Path, dict[str, Any]]:
    """Returns the settings in which runs differ from others of the same environment, by folder.

    They have their whole names, such as `train.learning_rate`; one that a run does not have is left out there. That
    alone is a difference for arguments of the environment and the policy, which only those runs were given.
    """
    flat = {run.folder: (run.env_name, flat_settings(run.settings)) for run in runs}
    values: defaultdict[tuple[str | None, str], Counter[str]] = defaultdict(Counter)
    for env_name, settings in flat.values():
        for name, value in settings.items():
            values[env_name, name][repr(value)] += 1
    counts = Counter(env_name for env_name, settings in flat.values() if settings)  # of runs whose settings are known
    return {
        folder: {
            name: value
            for name, value in settings.items()
            if len(values[env_name, name]) > 1
            or (name.startswith(_ARGUMENTS) and values[env_name, name].total() < counts[env_name])
        }
        for folder, (env_name, settings) in flat.items()
    }


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that say how a run learns, by their whole names; those at the top go without a section."""
    found = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    for section in _SECTIONS:
        found |= {f"{section}.{name}": value for name, value in (settings.get(section) or {}).items()}
    return {name: value for name, value in found.items() if name not in _IGNORED}


def labels(runs: list[RecordedRun]) -> dict[Path, str]:
    """Returns a unique name for each run: its differing settings, with its id where these are alike."""
    differing, short = differences(runs), short_names([run.name for run in runs], "_")
    has_several = len({run.env_name for run in runs}) > 1
    names = {}
    for run in runs:
        text = textwrap.shorten(settings_text(differing[run.folder]), _LABEL_CHARACTERS, placeholder=" ...")
        names[run.folder] = " ".join(filter(None, [has_several and run.env_name, text]))
    taken = Counter(names.values())
    for run in runs:
        name = names[run.folder]
        if not name or taken[name] > 1:
            names[run.folder] = f"{name} {short[run.name]}".strip()
    return names


def find_runs(words: Iterable[str], data_dir: str | Path) -> list[RecordedRun]:
    """Returns the runs of words, see `find_run`, each once; a pattern such as `puffer_pong_*` finds several."""
    found: dict[Path, RecordedRun] = {}
    for word in words:
        if any(sign in word for sign in "*?[") and not (Path(word).exists() or Path(data_dir, word).exists()):
            names = glob.glob(word, root_dir=data_dir)
            runs, _ = _read_runs(sorted(Path(data_dir, name) for name in names) or sorted(map(Path, glob.glob(word))))
            if not runs:
                raise CheckpointError(f"no run in {data_dir} matches {word!r}; `puffer runs` lists them")
        else:
            runs = [find_run(word, data_dir)]
        for run in runs:
            found.setdefault(run.folder.resolve(), run)
    return list(found.values())


def find_run(word: str, data_dir: str | Path) -> RecordedRun:
    """Returns the run of a word; CheckpointError if there is none, there are several, or it is damaged.

    The word is a path to the run's folder or to a file in it; the folder's name in `data_dir`; a run id, or the end of
    one, as `puffer runs` shows it; `latest`; or an environment, for its latest.
    """
    data_dir = Path(data_dir)
    named = find_folder(word, data_dir, is_run, kind=f"runs in {data_dir}")
    if named is not None:
        return read_run(named)
    folders = run_folders(data_dir)
    known, _ = _read_runs(folders)
    if not known:
        remedy = "`puffer runs` tells what is there" if folders else "train something first"
        raise CheckpointError(f"there is no run {word!r}, and {data_dir} holds none; {remedy}")
    meant = known if word == LATEST else [run for run in known if run.env_name == word]
    if meant:
        return max(meant, key=lambda run: (run.written, run.name))
    names = {LATEST, *(run.env_name for run in known if run.env_name), *(folder.name for folder in folders)}
    remedy = nearest(word, names) or "; `puffer runs` lists them, and `latest` is the newest"
    raise CheckpointError(f"there is no run {word!r} in {data_dir}{remedy}")


def run_folders(data_dir: Path) -> list[Path]:
    """Returns every folder in `data_dir`, sorted by name, whether it holds a run or not."""
    return sorted(path for path in data_dir.iterdir() if path.is_dir()) if data_dir.is_dir() else []


def is_run(folder: Path) -> bool:
    """Whether a folder holds what a run leaves."""
    return (folder / CONFIG_FILE).is_file() or (folder / METRICS_FILE).is_file()


def _read_runs(folders: Iterable[Path]) -> tuple[list[RecordedRun], dict[Path, str]]:
    # And why there is none in the other folders.
    runs, unreadable = [], {}
    for folder in folders:
        try:
            runs.append(read_run(folder))
        except CheckpointError as error:
            unreadable[folder] = str(error)
    return runs, unreadable


HEADER = ("run", "environment", "begun", "steps", "score", "state", "time", "differs in")


def runs_command(options: RunsOptions) -> None:
    """Prints the table of runs, on a terminal cut to its width, and what else is in their folder."""
    data_dir = Path(options.data_dir)
    if not data_dir.is_dir():
        raise ConfigError(f"--data-dir must be a folder of runs, got {str(data_dir)!r}, which is none; train something")
    runs, others = _read_runs(run_folders(data_dir))
    if options.env is not None:
        known = {run.env_name for run in runs if run.env_name}
        runs, others = [run for run in runs if run.env_name == options.env], {}
        if not runs:
            listed = f"; there are runs of {', '.join(sorted(known))}" if known else ""
            remedy = nearest(options.env, known) or listed
            raise ConfigError(f"there are no runs of {options.env!r} in {data_dir}{remedy}")
    if not runs and not others:
        raise ConfigError(f"there are no runs in {data_dir}; `puffer train puffer_cartpole` makes one")
    shown = sorted(runs, key=_SORT_KEYS[options.sort])[: options.limit]
    changed, names = differences(shown), short_names([run.name for run in shown], "_")
    if shown:
        rows = [_row(run, names[run.name], changed[run.folder]) for run in shown]
        print(plain_table(HEADER, rows, terminal_columns()))
    for folder, reason in others.items():
        for place, told in (_runs_inside(folder) or {folder: reason}).items():
            print(printable(f"{place.relative_to(data_dir)}: {told}"))
    if len(runs) > len(shown) and sys.stdout.isatty():
        print(f"and {len(runs) - len(shown)} more")


def _runs_inside(folder: Path) -> dict[Path, str]:
    # The folders of runs in a folder that is no run, as of a sweep, with a sentence about each.
    paths = [] if is_run(folder) else [*folder.glob(f"*/{CONFIG_FILE}"), *folder.glob(f"*/*/{CONFIG_FILE}")]
    return {
        place: f"{count} run{'s' * (count != 1)}, listed by `puffer runs --data-dir {shlex.quote(str(place))}`"
        for place, count in sorted(Counter(path.parents[1] for path in paths).items())
    }


def _row(run: RecordedRun, name: str, changed: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        run.env_name or "-",
        "-" if run.begun is None else f"{run.begun:%Y-%m-%d %H:%M}",
        count_text(run.steps),
        "-" if run.score is None else f"{number_text(run.score)} {run.score_name}",
        run.state,
        cost_text(run.seconds),
        settings_text(changed),
    )


_SORT_KEYS: dict[str, Callable[[RecordedRun], object]] = {
    "date": lambda run: -run.begun.timestamp() if run.begun else math.inf,
    "score": lambda run: (run.env_name or "", math.inf if run.score is None else -run.score),  # within an environment
    "steps": lambda run: -run.steps,
    "time": lambda run: -run.seconds,
}
