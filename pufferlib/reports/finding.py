"""Finds runs by a word: a path, a name, an id, `latest`, an environment or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from pufferlib.errors import CheckpointError, nearest
from pufferlib.loggers import METRICS_FILE
from pufferlib.reports.recorded_run import RecordedRun, read_run
from pufferlib.runs.files import CONFIG_FILE, find_by_ending

LATEST = "latest"


def find_runs(words: Iterable[str], data_dir: str | Path) -> list[RecordedRun]:
    """Returns the runs of words, each once, in their order; a pattern such as `puffer_pong_*` finds several.

    Raises:
        CheckpointError: if a word means none, or its run is damaged.
    """
    found: dict[Path, RecordedRun] = {}
    for word in words:
        for run in _matching(word, Path(data_dir)) if _is_pattern(word) else [find_run(word, data_dir)]:
            found.setdefault(run.folder.resolve(), run)
    return list(found.values())


def find_run(word: str, data_dir: str | Path) -> RecordedRun:
    """Returns the run of a word.

    Args:
        word: a path to the run's folder or to a file in it; the folder's name in `data_dir`; a run id, or the end of
            one, as `puffer runs` shows it; `latest`; or an environment, for its latest.
        data_dir: the folder of the runs.

    Raises:
        CheckpointError: if there is no such run, there are several, or it is damaged.
    """
    data_dir, path = Path(data_dir), Path(word)
    for folder in (path.parent if path.is_file() else path, data_dir / word):
        if is_run(folder):
            return read_run(folder)
    folders = run_folders(data_dir)
    if not folders:
        raise CheckpointError(f"there is no run {word!r}, and {data_dir} holds none; train something first")
    ending = find_by_ending(word, folders, f"runs in {data_dir}")
    if ending is not None:
        return read_run(ending)
    known = list(_readable(folders))
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


def _is_pattern(word: str) -> bool:
    return any(sign in word for sign in "*?[")


def _matching(pattern: str, data_dir: Path) -> list[RecordedRun]:
    folders = [folder for folder in run_folders(data_dir) if fnmatchcase(folder.name, pattern)]
    folders = folders or [Path(path) for path in sorted(glob.glob(pattern)) if os.path.isdir(path)]
    found = list(_readable(folders))
    if not found:
        raise CheckpointError(f"no run in {data_dir} matches {pattern!r}; `puffer runs` lists them")
    return found


def _readable(folders: Iterable[Path]) -> Iterator[RecordedRun]:
    for folder in folders:
        try:
            yield read_run(folder)
        except CheckpointError:
            continue
