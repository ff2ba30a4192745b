"""`puffer sweep`: runs a sweep, shows it, and writes the table of trials and the best settings."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, TextIO

from pufferlib.config import LogConfig, load_config
from pufferlib.config.sections import split_name
from pufferlib.dashboard.output import plain_table, printable, printable_lines, say
from pufferlib.dashboard.panel import duration_text, number_text
from pufferlib.errors import ConfigError
from pufferlib.loggers import Loggers, make_run_id
from pufferlib.loggers.logger import is_finite
from pufferlib.runs.folder import write_atomically
from pufferlib.runs.loaders import make_loggers
from pufferlib.setting import format_value, parse_value
from pufferlib.sweep.driver import SERVICES, Sweep
from pufferlib.sweep.panel import LiveTable
from pufferlib.sweep.report import report_html
from pufferlib.sweep.results import FoundTrial, Results, SweepState, trial_columns
from pufferlib.sweep.study import naming_database, without_password

_COMMENT = re.compile(r"\s[;#]|^[;#]")  # what an ini would cut off
_NAME = re.compile(r"[A-Za-z_][\w.-]*")  # of a section or a key
_BASE = ("policy_name", "rnn_name")
_SECTIONS = ("vec", "env", "policy", "rnn", "train")
_SUMMARY_TRIALS = 10


def sweep_command(env_name: str, args: Mapping[str, Any]) -> None:
    """Sweeps until the trials or the minutes are used up, or it is interrupted.

    Raises PufferError if it cannot be done, and KeyboardInterrupt if it was interrupted.
    """
    sweep = Sweep(env_name, args)
    again = f"puffer sweep {shlex.quote(env_name)} {sweep.place.flags}".rstrip()
    show_sweep(sweep, f"`{again}` with the same settings")


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
    state, config, place = sweep.state, sweep.config, sweep.place
    with naming_database(place):
        if quiet:
            sweep.run()
            finish(state, io.StringIO())
            return
        known = f", {len(state.trials)} of them begun before" if state.trials else ""
        side = f", {config.workers} side by side" if config.workers > 1 else ""
        say(
            f"sweeping {len(sweep.space.dimensions)} settings of {state.env_name} to {config.goal} {state.metric}: "
            f"{config.num_trials} trials{known}{side}\n"
            f"the study {place.name!r} is in {without_password(place.storage)}; {again} continues it or takes part"
        )
        view = SweepView()
        try:
            sweep.run(view.show)
        except KeyboardInterrupt:
            view.close()
            finish(state)
            say(f"\ninterrupted; {again} continues it")
            raise
        finally:
            view.close()
        finish(state)


class SweepView:
    """Shows a sweep, and keeps its files up to date, so that they are there even where the sweep is killed.

    It also logs to the services that `[log]` names. Every driver has a run of its own there, with the trials of all
    drivers that ended while it ran. The files of the services are in a folder of that run beside the sweep's other
    files.
    """

    def __init__(self, stream: TextIO | None = None):
        self._table = LiveTable(stream)
        self._loggers: Loggers | None = None
        self._logged: set[int] | None = None  # numbers of trials; None before the first `show`
        self._known: tuple[int, int] | None = None  # trials that ended and confirmations, as the files have them

    def show(self, state: SweepState) -> None:
        """Shows a sweep as it is now; StorageError if a file cannot be written."""
        known = sum(trial.state.is_finished() for trial in state.trials), len(state.confirmations)
        if known != self._known:
            self._known = known
            results = state.results()
            self._log(state, results)
            write_atomically(state.folder / "trials.csv", trials_csv(results).encode())
            _write_settings(state, results)
        self._table.show(state)

    def close(self) -> None:
        """Leaves the last panel on the screen, restores the terminal and ends the logs. It may be called twice."""
        self._table.close()
        if self._loggers is not None:
            self._loggers.close()
            self._loggers = None

    def _log(self, state: SweepState, results: Results) -> None:
        if self._logged is None:
            self._logged = {trial.number for trial in results.ended}
            self._loggers = _loggers(state)
        for trial in results.ended:
            if trial.number not in self._logged:
                self._logged.add(trial.number)
                if self._loggers is not None:
                    self._loggers.log(_metrics(results, trial), len(self._logged))


def _loggers(state: SweepState) -> Loggers | None:
    config = LogConfig.from_dict(state.args["log"])
    if not any(getattr(config, service) for service in SERVICES):
        return None
    run_id = make_run_id()
    settings = {**state.args["log"], "name": config.name or f"sweep of {state.study.study_name}"}
    loggers = Loggers(make_loggers(settings, state.folder / f"log_{run_id}", run_id))
    storage = state.sweep.get("storage")
    hidden = {"storage": storage and without_password(storage)}
    loggers.describe({"env_name": state.env_name, "metric": state.metric, **state.sweep, **hidden})
    return loggers


def _metrics(results: Results, trial: FoundTrial) -> dict[str, float]:
    metrics: dict[str, float] = {
        "sweep/complete": len(results.complete),
        "sweep/stopped": len(results.stopped),
        "sweep/failed": len(results.failed),
        "sweep/total_cost": results.total_cost,
    }
    if results.best is not None:
        metrics["sweep/best"] = results.best.score
    if trial.state == "complete":
        metrics |= {"sweep/score": trial.score, "sweep/cost": trial.cost, "sweep/trial": trial.number}
        metrics |= {f"settings/{name}": value for name, value in trial.settings.items() if is_finite(value)}
    return metrics


def finish(state: SweepState, stream: TextIO | None = None) -> None:
    """Writes the files of a sweep and prints what it found, to stdout where `stream` is None.

    Raises StorageError if a file cannot be written.
    """
    results = state.results()
    paths = {"trials": state.folder / "trials.csv", "report": state.folder / "report.html"}
    write_atomically(paths["trials"], trials_csv(results).encode())
    for kind in _write_settings(state, results):
        paths[kind] = state.folder / f"{kind}.ini"
    write_atomically(paths["report"], report_html(state).encode())
    say(summary(state), stream)
    say("\n".join(f"{name:<10}{path}" for name, path in paths.items()), stream)
    if "best" in paths:
        command = shlex.join(["puffer", "train", state.env_name, "--config", str(paths["best"])])
        say(f"\n{command}", stream)


def trials_csv(results: Results) -> str:
    """Returns a row for every trial that has ended, with a column for every setting; unknown cells are empty."""
    names = list(dict.fromkeys(name for trial in results.ended for name in trial.settings))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = ["trial", "state", "score", "episodes", "cost"]
    writer.writerow([*header, *map(_cell, names), "reason", "run_folder", "started", "ended"])
    for trial in results.ended:
        measured = [trial.number, trial.state, trial.score, trial.episodes, trial.cost]
        chosen = [trial.settings.get(name) for name in names]
        times = [time and time.isoformat(timespec="seconds") for time in (trial.begun, trial.ended)]
        writer.writerow(map(_cell, [*measured, *chosen, trial.reason, trial.run_folder, *times]))
    return stream.getvalue()


def _cell(value: object) -> object:
    # A text without control codes that no spreadsheet takes for a formula; nothing in place of NaN.
    if not isinstance(value, str):
        return None if isinstance(value, float) and math.isnan(value) else value
    text = printable_lines(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _write_settings(state: SweepState, results: Results) -> list[str]:
    # Those of the winner as best.ini, and as cheapest.ini those of the cheapest trial past the threshold where that is
    # another one; returns which there are.
    best, cheapest = results.winner, results.cheapest_past(state.threshold)
    found = {} if best is None else {"best": best}
    if best is not None and cheapest is not None and cheapest.number != best.number:
        found["cheapest"] = cheapest
    for kind, trial in found.items():
        comments = [
            f"The {kind} of {results.num_ended} trials of puffer sweep {state.env_name}, {trial.text}",
            f"{results.goal} {state.metric}, study {state.study.study_name}",
        ]
        text = best_ini(state.env_name, best_settings(state, trial), comments)
        write_atomically(state.folder / f"{kind}.ini", text.encode())
    if "cheapest" not in found:  # one of an earlier call may have become the winner since
        (state.folder / "cheapest.ini").unlink(missing_ok=True)
    return list(found)


def best_settings(state: SweepState, best: FoundTrial) -> dict[str, dict[str, Any]]:
    """Returns the settings, by section, in which a trial or the sweep differs from the environment's own."""
    own, given = load_config(state.env_name), state.args
    found: dict[str, dict[str, Any]] = {}
    sections = {"base": {key: given[key] for key in _BASE}, **{name: given[name] for name in _SECTIONS}}
    for section, values in sections.items():
        before = own if section == "base" else own[section]
        for key, value in values.items():
            if key != "data_dir" and (key not in before or before[key] != value):
                with contextlib.suppress(ConfigError):  # an object of a program
                    best_ini(state.env_name, {section: {key: value}}, ())
                    found.setdefault(section, {})[key] = value
    for name, value in best.settings.items():
        section, key = split_name(name)
        found.setdefault(section, {})[key] = value
    return found


def best_ini(env_name: str, settings: Mapping[str, Mapping[str, Any]], comments: Iterable[str]) -> str:
    """Returns the text of an ini file that begins with comments; settings at the top are in `base`.

    Raises ConfigError if an ini cannot hold a name or a value.
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


def summary(state: SweepState) -> str:
    """Returns what a sweep found, in some lines of plain text."""
    results = state.results()
    counts = {"complete": results.complete, "stopped": results.stopped, "failed": results.failed}
    parts = [f"{len(trials)} {name}" for name, trials in counts.items() if trials]
    spent = f"{duration_text(results.total_cost)} of training"
    lines = [f"\n{state.env_name}: {results.num_ended} trials ({', '.join(parts)}) in {spent}"] if parts else []
    lines += [f"trial {each.number} failed: {each.reason}" for each in results.failed[-1:]]
    if results.winner is None:
        return "\n".join([*lines, "no trial has run to its end\n"])
    lines += ["", _best_table(results), "", f"the winner is {results.winner.text}"]
    cheapest = results.cheapest_past(state.threshold)
    if cheapest is not None:
        lines.append(f"the cheapest past {number_text(state.threshold)} is {cheapest.text}")
    return "\n".join([*lines, ""])


def _best_table(results: Results) -> str:
    columns = [[heading, *cells] for heading, cells in trial_columns(results.complete[:_SUMMARY_TRIALS])]
    ends = list(accumulate(max(map(len, column)) + len("  ") for column in columns))
    width = shutil.get_terminal_size((10_000, 0)).columns  # without a terminal there is room for all
    count = max(3, sum(end - len("  ") <= width for end in ends))
    header, *rows = zip(*columns[:count], strict=True)
    return plain_table(header, rows)
