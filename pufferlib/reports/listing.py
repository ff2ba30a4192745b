"""`puffer runs`: the table of runs."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pufferlib.config.flags import RunsOptions
from pufferlib.dashboard.output import Output, plain_table, printable
from pufferlib.dashboard.panel import CYAN, RED, cost_text, count_text, number_text
from pufferlib.errors import CheckpointError, ConfigError, nearest
from pufferlib.reports.recorded_run import (
    RecordedRun,
    difference_text,
    differences,
    is_run,
    read_run,
    run_folders,
    short_ids,
)
from pufferlib.runs.folder import CONFIG_FILE

HEADER = ("run", "environment", "begun", "steps", "score", "state", "time", "differs in")
_NUMBERS = {"steps", "score", "time"}  # columns that are aligned at the right
_DISPENSABLE = ("time", "begun", "steps", "environment")  # columns that go where there is no room, in this order
_LEAST_TEXT = 24  # characters of the last column
_GAP = 2  # characters between columns, one of them the padding
_STATE_COLOURS = {"running": CYAN, "failed": RED}

Unreadable = tuple[Path, str]  # a folder among the runs that holds none, a damaged one, or several; and the reason


def runs_command(options: RunsOptions) -> None:
    """Prints the table: coloured on a terminal, plain where it is piped."""
    runs, unreadable = listed_runs(Path(options.data_dir), options.env)
    shown = sorted(runs, key=_SORT_KEYS[options.sort])[: options.limit]
    changed, names = differences(shown), short_ids(shown)
    rows = [tuple(map(printable, _row(run, names[run.folder], changed[run.folder]))) for run in shown]
    is_terminal = Output(sys.stdout).isatty()
    if rows:
        print_table(rows) if is_terminal else print(plain_table(HEADER, rows))
    for folder, reason in unreadable:
        print(printable(f"{folder.relative_to(options.data_dir)}: {reason}"))
    hidden = len(runs) - len(shown)
    if hidden and is_terminal:
        print(f"and {hidden} more")


def listed_runs(data_dir: Path, env: str | None = None) -> tuple[list[RecordedRun], list[Unreadable]]:
    """Returns the runs in a folder, of one environment where it is named, and what else is there.

    ConfigError if there is no such folder, or no run in it that is asked for.
    """
    if not data_dir.is_dir():
        raise ConfigError(f"--data-dir must be a folder of runs, got {str(data_dir)!r}, which is none; train something")
    runs: list[RecordedRun] = []
    unreadable: list[Unreadable] = []
    for folder in run_folders(data_dir):
        try:
            runs.append(read_run(folder))
        except CheckpointError as error:
            unreadable += _runs_inside(folder) or [(folder, str(error))]
    if env is None:
        if not runs and not unreadable:
            raise ConfigError(f"there are no runs in {data_dir}; `puffer train puffer_cartpole` makes one")
        return runs, unreadable
    chosen = [run for run in runs if run.env_name == env]
    if not chosen:
        known = {run.env_name for run in runs if run.env_name}
        remedy = nearest(env, known) or (f"; there are runs of {', '.join(sorted(known))}" if known else "")
        raise ConfigError(f"there are no runs of {env!r} in {data_dir}{remedy}")
    return chosen, []


def _runs_inside(folder: Path) -> list[Unreadable]:
    paths = [] if is_run(folder) else [*folder.glob(f"*/{CONFIG_FILE}"), *folder.glob(f"*/*/{CONFIG_FILE}")]
    return [
        (place, f"{count} run{'s' * (count != 1)}, listed by `puffer runs --data-dir {shlex.quote(str(place))}`")
        for place, count in sorted(Counter(path.parents[1] for path in paths).items())
    ]


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Prints the table on a terminal; one that is too narrow for all columns gets fewer."""
    console = Console(file=Output(sys.stdout))
    header, rows = fitting(HEADER, rows, console.width)
    table = Table(box=SIMPLE_HEAD, header_style=CYAN, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in header:
        is_last = name == HEADER[-1]
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=not is_last, overflow="fold")
    for row in rows:
        colour = _STATE_COLOURS.get(row[header.index("state")], "")
        table.add_row(*(Text(cell, colour if name == "state" else "") for name, cell in zip(header, row, strict=True)))
    console.print(table)


def fitting(
    header: tuple[str, ...], rows: list[tuple[str, ...]], width: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns the columns of a table for which there is room: the last one folds, but not to less than a few words."""
    for dropped in (None, *_DISPENSABLE):
        kept = [index for index, name in enumerate(header) if name != dropped]
        header, rows = tuple(header[index] for index in kept), [tuple(row[index] for index in kept) for row in rows]
        sizes = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        sizes[-1] = min(sizes[-1], _LEAST_TEXT)
        if sum(sizes) + _GAP * len(sizes) <= width + _GAP:
            break
    return header, rows


def _row(run: RecordedRun, name: str, changed: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        run.env_name or "-",
        "-" if run.begun is None else f"{run.begun:%Y-%m-%d %H:%M}",
        count_text(run.steps),
        "-" if run.score is None else f"{number_text(run.score)} {run.score_name}",
        run.state,
        cost_text(run.seconds),
        difference_text(changed),
    )


_SORT_KEYS: dict[str, Callable[[RecordedRun], object]] = {
    "date": lambda run: -run.begun.timestamp() if run.begun else math.inf,
    "score": lambda run: (run.env_name or "", math.inf if run.score is None else -run.score),  # within an environment
    "steps": lambda run: -run.steps,
    "time": lambda run: -run.seconds,
}
