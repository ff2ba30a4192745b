"""`puffer sweep`: runs a sweep, shows it, and writes the table of trials and the best settings."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from optuna.trial import TrialState

from pufferlib.config import LogConfig, load_config
from pufferlib.config.sections import split_name
from pufferlib.dashboard.output import plain_table, printable, printable_lines, say
from pufferlib.dashboard.panel import cost_text, duration_text, number_text, short_names, value_text
from pufferlib.errors import ConfigError
from pufferlib.loggers import Loggers, make_run_id
from pufferlib.loggers.logger import is_finite
from pufferlib.runs.folder import write_atomically
from pufferlib.runs.loaders import make_loggers
from pufferlib.setting import format_value, parse_value
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.panel import LiveTable, winner_text
from pufferlib.sweep.report import REPORT_FILE, write_report
from pufferlib.sweep.results import (
    COST,
    EPISODES,
    ERROR,
    RUN_FOLDER,
    SERVICES,
    STOPPED,
    FoundTrial,
    Results,
    SweepState,
    cheapest_solver,
    confirmed_trials,
    results_of,
    settings_of,
    solve_threshold,
    uncounted_numbers,
    winner,
)

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


TRIALS_FILE = "trials.csv"

_STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "stopped", TrialState.FAIL: "failed"}


def write_trials(trials: Sequence[FrozenTrial], path: Path) -> None:
    """Writes a row for every trial that has ended, a column for every setting that any of them varied.

    Raises:
        StorageError: if it cannot be written.
    """
    write_atomically(path, trials_csv(trials).encode())


def trials_csv(trials: Sequence[FrozenTrial]) -> str:
    """Returns the table as text; unknown cells are empty."""
    ended = [(trial, settings_of(trial)) for trial in trials if trial.state in _STATES]
    uncounted = uncounted_numbers(trials)
    names = list(dict.fromkeys(name for _, settings in ended for name in settings))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = ["trial", "state", "score", "episodes", "cost"]
    writer.writerow([*header, *map(_cell, names), "reason", "run_folder", "started", "ended"])
    for trial, settings in ended:
        known = trial.user_attrs
        state = "uncounted" if trial.number in uncounted else _STATES[trial.state]
        measured = [trial.number, state, trial.value, known.get(EPISODES), known.get(COST)]
        chosen = [_cell(settings.get(name)) for name in names]
        reasons = [_cell(known.get(ERROR) or known.get(STOPPED)), _cell(known.get(RUN_FOLDER))]
        times = [
            time and time.isoformat(timespec="seconds") for time in (trial.datetime_start, trial.datetime_complete)
        ]
        writer.writerow([*measured, *chosen, *reasons, *times])
    return stream.getvalue()


def _cell(value: object) -> object:
    # A text without control codes that no spreadsheet takes for a formula; anything else as it is.
    if not isinstance(value, str):
        return value
    text = printable_lines(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


_COMMENT = re.compile(r"\s[;#]|^[;#]")  # what an ini would cut off
_NAME = re.compile(r"[A-Za-z_][\w.-]*")  # of a section or a key


def best_ini(env_name: str, settings: Mapping[str, Mapping[str, Any]], comments: Iterable[str]) -> str:
    """Returns the text of an ini file that begins with comments; settings at the top are in `base`.

    Raises:
        ConfigError: if an ini cannot hold a name or a value.
    """
    header = [*comments, f"puffer train {shlex.quote(env_name)} --config THIS_FILE"]
    lines = [f"; {printable(' '.join(line.split()))}" for line in header]
    for section, values in settings.items():
        lines += ["", f"[{section}]", *(f"{key} = {_ini_value(section, key, value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _ini_value(section: str, key: str, value: object) -> str:
    if not (_NAME.fullmatch(section) and _NAME.fullmatch(key)):
        raise ConfigError(f"a setting of an ini must have a name of letters, digits and _, got {f'{section}.{key}'!r}")
    for text in (format_value(value), repr(value)):
        if parse_value(text) == value and text.isprintable() and not _COMMENT.search(text):
            return text
    raise ConfigError(f"[{section}] {key} must be a number, a text or a list to be written to an ini, got {value!r}")


BEST, CHEAPEST = "best.ini", "cheapest.ini"

_BASE = ("policy_name", "rnn_name")
_SECTIONS = ("vec", "env", "policy", "rnn", "train")
_PLACES = ("data_dir",)  # settings of where, not of how


def write_settings(state: SweepState, results: Results) -> dict[str, Path]:
    """Writes the settings of the winner, and of the cheapest trial past the threshold where that is another one.

    Returns the files by their kind: `best`, and `cheapest` where there is one.

    Raises:
        StorageError: if a file cannot be written.
    """
    best = winner(results, state.confirmations)
    cheapest = cheapest_solver(results, state.confirmations, solve_threshold(state.args, state.metric))
    found = {} if best is None else {"best": (best, BEST)}
    if best is not None and cheapest is not None and cheapest.trial.number != best.trial.number:
        found["cheapest"] = (cheapest, CHEAPEST)
    for kind, (trial, name) in found.items():
        comments = [
            f"The {kind} of {results.num_ended} trials of puffer sweep {state.env_name}, {winner_text(trial)}",
            f"{results.goal} {state.metric}, study {state.study.study_name}",
        ]
        text = best_ini(state.env_name, best_settings(state, trial.trial), comments)
        write_atomically(state.folder / name, text.encode())
    if "cheapest" not in found:  # one of an earlier call may have become the winner since
        (state.folder / CHEAPEST).unlink(missing_ok=True)
    return {kind: state.folder / name for kind, (_, name) in found.items()}


def best_settings(state: SweepState, best: FoundTrial) -> dict[str, dict[str, Any]]:
    """Returns the settings, by section, in which a trial or the sweep differs from the environment's own."""
    found = _given(state)
    for name, value in best.settings.items():
        section, key = split_name(name)
        found.setdefault(section, {})[key] = value
    return found


def _given(state: SweepState) -> dict[str, dict[str, Any]]:
    own = load_config(state.env_name)
    found: dict[str, dict[str, Any]] = {}
    for section, values in {"base": state.args, **{name: state.args[name] for name in _SECTIONS}}.items():
        before = own if section == "base" else own[section]
        for key, value in values.items():
            is_setting = section != "base" or key in _BASE
            if is_setting and key not in _PLACES and (key not in before or before[key] != value):
                with contextlib.suppress(ConfigError):
                    best_ini(state.env_name, {section: {key: value}}, ())
                    found.setdefault(section, {})[key] = value
    return found


_SUMMARY_TRIALS = 10


def finish(state: SweepState, stream: TextIO | None = None) -> None:
    """Writes the files of a sweep and prints what it found, to stdout where `stream` is None.

    Raises:
        StorageError: if a file cannot be written.
    """
    results = results_of(state.trials, state.args["sweep"]["goal"])
    paths = {"trials": state.folder / TRIALS_FILE, "report": state.folder / REPORT_FILE}
    write_trials(state.trials, paths["trials"])
    paths |= write_settings(state, results)
    write_report(state, paths["report"])
    say(summary(state, results), stream)
    say("\n".join(f"{name:<10}{path}" for name, path in paths.items()), stream)
    if "best" in paths:
        command = shlex.join(["puffer", "train", state.env_name, "--config", str(paths["best"])])
        say(f"\n{command}", stream)


def summary(state: SweepState, results: Results) -> str:
    """Returns what a sweep found, in some lines of plain text."""
    counts = {"complete": results.complete, "stopped": results.stopped, "failed": results.failed}
    parts = [f"{len(trials)} {name}" for name, trials in counts.items() if trials]
    spent = f"{duration_text(results.total_cost)} of training"
    lines = [f"\n{state.env_name}: {results.num_ended} trials ({', '.join(parts)}) in {spent}"] if parts else []
    lines += [f"trial {each.number} failed: {each.reason}" for each in results.failed[-1:]]
    best = winner(results, state.confirmations)
    if best is None:
        return "\n".join([*lines, "no trial has run to its end\n"])
    lines += ["", _best_table(state, results), "", f"the winner is {winner_text(best)}"]
    threshold = solve_threshold(state.args, state.metric)
    cheapest = cheapest_solver(results, state.confirmations, threshold)
    if cheapest is not None:
        lines.append(f"the cheapest past {number_text(threshold)} is {winner_text(cheapest)}")
    return "\n".join([*lines, ""])


def _best_table(state: SweepState, results: Results) -> str:
    again = {each.trial.number: each.text for each in confirmed_trials(results, state.confirmations)}
    trials = results.complete[:_SUMMARY_TRIALS]
    columns = [
        ["trial", *(str(trial.number) for trial in trials)],
        ["score", *(number_text(trial.score) for trial in trials)],
        ["cost", *(cost_text(trial.cost) for trial in trials)],
    ]
    if any(trial.episodes is not None for trial in trials):
        columns.insert(2, ["episodes", *(trial.episodes_text for trial in trials)])
    if again:
        columns.append(["confirmed", *(again.get(trial.number, "-") for trial in trials)])
    for name, short in short_names(list(trials[0].settings)).items():
        columns.append([short, *(value_text(trial.settings.get(name, "-")) for trial in trials)])
    ends = list(accumulate(max(map(len, column)) + len("  ") for column in columns))
    width = shutil.get_terminal_size((10_000, 0)).columns  # without a terminal there is room for all
    count = max(3, sum(end - len("  ") <= width for end in ends))
    header, *rows = zip(*columns[:count], strict=True)
    return plain_table(header, rows)


class SummaryLog:
    """Logs a sweep to the services that `[log]` names; without one it does nothing.

    Every driver has a run of its own there, with the trials of all drivers that ended while it ran. The files of the
    services are in a folder of that run beside the sweep's other files.
    """

    def __init__(self) -> None:
        self._loggers: Loggers | None = None
        self._told: set[int] | None = None  # numbers of trials
        self._step = 0  # trials that have ended

    def update(self, state: SweepState, results: Results) -> None:
        """Logs the trials that ended since the last call; the first call logs none."""
        ended = {trial.number for trial in state.trials if trial.state.is_finished()}
        if self._told is None:
            self._told, self._step = ended, len(ended)
            self._open(state)
        new, self._told = sorted(ended - self._told), self._told | ended
        if self._loggers is None:
            return
        complete = {trial.number: trial for trial in results.complete}
        for number in new:
            self._step += 1
            self._loggers.log(_metrics(results, complete.get(number)), self._step)

    def close(self) -> None:
        """Ends the run. It may be called twice."""
        if self._loggers is not None:
            self._loggers.close()
            self._loggers = None

    def _open(self, state: SweepState) -> None:
        config = LogConfig.from_dict(state.args["log"])
        if not any(getattr(config, service) for service in SERVICES):
            return
        run_id = make_run_id()
        settings = {**state.args["log"], "name": config.name or f"sweep of {state.study.study_name}"}
        self._loggers = Loggers(make_loggers(settings, state.folder / f"log_{run_id}", run_id))
        self._loggers.describe({"env_name": state.env_name, "metric": state.metric, **state.args["sweep"]})


def _metrics(results: Results, trial: FoundTrial | None) -> dict[str, float]:
    metrics: dict[str, float] = {
        "sweep/complete": len(results.complete),
        "sweep/stopped": len(results.stopped),
        "sweep/failed": len(results.failed),
        "sweep/total_cost": results.total_cost,
    }
    if results.best is not None:
        metrics["sweep/best"] = results.best.score
    if trial is not None:
        metrics |= {"sweep/score": trial.score, "sweep/cost": trial.cost, "sweep/trial": trial.number}
        metrics |= {f"settings/{name}": value for name, value in trial.settings.items() if is_finite(value)}
    return metrics


class SweepView:
    """Shows a sweep, and keeps its files up to date, so that they are there even where the sweep is killed."""

    def __init__(self, stream: TextIO | None = None):
        self._table, self._log = LiveTable(stream), SummaryLog()
        self._known: tuple[int, int] | None = None  # trials that ended and confirmations, as the files have them

    def show(self, state: SweepState) -> None:
        """Shows a sweep as it is now.

        Raises:
            StorageError: if a file cannot be written.
        """
        known = sum(trial.state.is_finished() for trial in state.trials), len(state.confirmations)
        if known != self._known:
            self._known = known
            results = results_of(state.trials, state.args["sweep"]["goal"])
            self._log.update(state, results)
            write_trials(state.trials, state.folder / TRIALS_FILE)
            write_settings(state, results)
        self._table.show(state)

    def close(self) -> None:
        """Leaves the last panel on the screen, restores the terminal and ends the logs. It may be called twice."""
        self._table.close()
        self._log.close()


def sweep_command(env_name: str, args: Mapping[str, Any]) -> None:
    """Sweeps until the trials or the minutes are used up, or it is interrupted.

    Raises:
        PufferError: if it cannot be done.
        KeyboardInterrupt: if it was interrupted.
    """
    sweep = Sweep(env_name, args)
    show_sweep(sweep, f"`{_again(sweep)}` with the same settings")


def show_sweep(sweep: Sweep, again: str, quiet: bool = False) -> None:
    """Runs a sweep, shows it and what it found, and writes its files.

    Args:
        sweep: that has not run yet.
        again: the call or command that continues it.
        quiet: whether nothing is shown.

    Raises:
        PufferError: if it cannot be done.
        KeyboardInterrupt: if it was interrupted.
    """
    if quiet:
        sweep.run()
        finish(sweep.state, io.StringIO())
        return
    say(_beginning(sweep, again))
    view = SweepView()
    try:
        sweep.run(view.show)
    except KeyboardInterrupt:
        view.close()
        finish(sweep.state)
        say(f"\ninterrupted; {again} continues it")
        raise
    finally:
        view.close()
    finish(sweep.state)


def _beginning(sweep: Sweep, again: str) -> str:
    state, config = sweep.state, sweep.config
    number = len(sweep.space.dimensions)
    known = f", {len(state.trials)} of them begun before" if state.trials else ""
    side = f", {config.workers} side by side" if config.workers > 1 else ""
    return (
        f"sweeping {number} settings of {state.env_name} to {config.goal} {state.metric}: "
        f"{config.num_trials} trials{known}{side}\n"
        f"the study {sweep.place.name!r} is in {sweep.place.storage}; {again} continues it or takes part"
    )


def _again(sweep: Sweep) -> str:
    return f"puffer sweep {shlex.quote(sweep.state.env_name)} {sweep.state.where}".rstrip()
