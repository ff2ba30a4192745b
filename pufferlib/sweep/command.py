"""`puffer sweep`: runs a sweep, prints its progress, and writes the table of trials and the best settings."""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any, TextIO

from pufferlib.config import check_config, load_config
from pufferlib.config.flags import SweepOptions
from pufferlib.dashboard.output import plain_table, printable, printable_lines, say, terminal_columns
from pufferlib.dashboard.panel import cost_text, duration_text, number_text
from pufferlib.runs.folder import write_atomically
from pufferlib.setting import format_value, parse_value
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.report import report_html
from pufferlib.sweep.results import Confirmation, FoundTrial, Results, SweepState, trial_columns
from pufferlib.sweep.space import trial_args, trial_settings
from pufferlib.sweep.study import naming_database, without_password

_COMMENT = re.compile(r"\s[;#]|^[;#]")  # what an ini would cut off
_NAME = re.compile(r"[A-Za-z_][\w.-]*")  # of a setting
_SUMMARY_TRIALS = 10


def sweep_command(env_name: str, args: dict[str, Any], options: SweepOptions) -> None:
    """Runs `puffer sweep`, see `show_sweep`."""
    args["sweep"].update((name, value) for name, value in vars(options).items() if value is not None)
    check_config(args)
    sweep = Sweep(env_name, args)
    again = f"puffer sweep {shlex.quote(env_name)} {sweep.place.flags}".rstrip()
    show_sweep(sweep, f"`{again}` with the same settings")


def show_sweep(sweep: Sweep, again: str, quiet: bool = False) -> None:
    """Runs a sweep that has not run yet, shows it unless it is `quiet`, and writes its files.

    `again` is the call or command that continues it. Raises PufferError if it cannot be done, and KeyboardInterrupt if
    it was interrupted.
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
        try:
            sweep.run(ProgressLines().show)
        except KeyboardInterrupt:
            finish(state)
            say(f"\ninterrupted; {again} continues it")
            raise
        finish(state)


def write_results(state: SweepState) -> dict[str, Path]:
    """Writes the table of trials and the settings of the best; returns the files by what they hold."""
    results = state.results()
    best, cheapest = results.winner, results.cheapest_past(state.threshold)
    paths = {"trials": state.folder / "trials.csv"}
    write_atomically(paths["trials"], trials_csv(results).encode())
    for kind, trial in {"best": best, "cheapest": None if cheapest is best else cheapest}.items():
        path = state.folder / f"{kind}.ini"
        if trial is None:
            path.unlink(missing_ok=True)  # one of before, whose trial is the winner now
            continue
        comments = [
            f"The {kind} of {results.num_ended} trials of puffer sweep {state.env_name}, {trial.text}",
            f"{results.goal} {state.metric}, study {state.study.study_name}",
        ]
        args = trial_args(state.args, trial.settings)
        settings = trial_settings(load_config(state.env_name), args, trial.settings)
        write_atomically(path, best_ini(state.env_name, settings, comments).encode())
        paths[kind] = path
    return paths


def finish(state: SweepState, stream: TextIO | None = None) -> None:
    """Writes the files of a sweep and prints what it found; StorageError if a file cannot be written."""
    report = state.folder / "report.html"
    paths = {**write_results(state), "report": report}
    write_atomically(report, report_html(state).encode())
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


def best_ini(env_name: str, settings: Mapping[str, Mapping[str, Any]], comments: Iterable[str]) -> str:
    """Returns the text of an ini file that begins with comments; settings at the top are in `base`."""
    header = [*comments, f"puffer train {shlex.quote(env_name)} --config THIS_FILE"]
    lines = [f"; {printable(' '.join(line.split()))}" for line in header]
    for section, values in settings.items():
        lines += ["", f"[{section}]", *(_ini_line(key, value) for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _ini_line(key: str, value: object) -> str:
    for text in (format_value(value), repr(value)):
        is_read_back = parse_value(text) == value and text.isprintable() and not _COMMENT.search(text)
        if is_read_back and _NAME.fullmatch(key):
            return f"{key} = {text}"
    return f"; {printable(' '.join(key.split()))} is left out, as an ini cannot hold it"


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
    headings, cells = zip(*trial_columns(results.complete[:_SUMMARY_TRIALS]), strict=True)
    table = plain_table(headings, [*zip(*cells, strict=True)], terminal_columns())
    lines += ["", table, "", f"the winner is {results.winner.text}"]
    cheapest = results.cheapest_past(state.threshold)
    if cheapest is not None:
        lines.append(f"the cheapest past {number_text(state.threshold)} is {cheapest.text}")
    return "\n".join([*lines, ""])


_RECENT = 20  # trials whose durations say how long the next ones take


def remaining_seconds(state: SweepState, found: Results) -> float:
    """Returns the seconds until the trials, or the confirmations, are over at the pace of the last trials."""
    recent = [trial for trial in found.ended if trial.state in ("complete", "stopped")][-_RECENT:]
    if not recent:
        return math.inf
    typical = mean(max(0.0, (trial.ended - trial.begun).total_seconds()) for trial in recent)
    left = state.to_confirm or state.sweep["num_trials"] - found.num_ended
    done = sum(min(trial.progress, 1.0) for trial in state.running)
    seconds = max(0.0, left - done) * typical / max(state.sweep["workers"], found.running)
    if state.deadline is None or state.to_confirm:
        return seconds
    return min(seconds, max(0.0, state.deadline - time.monotonic()))


class ProgressLines:
    """Prints a line for every trial and confirmation that ended, and writes the files, so that they survive a kill."""

    def __init__(self) -> None:
        self._told: set[int | tuple[int, int]] | None = None  # trials by number, confirmations by trial and seed

    def show(self, state: SweepState) -> None:
        """Shows a sweep as it is now; StorageError if a file cannot be written."""
        found = state.results()
        ended = {trial.number: trial for trial in found.ended}
        confirmed = {(run.trial, run.seed): run for run in state.confirmations}
        before, self._told = self._told, {*ended, *confirmed}
        if self._told == before:
            return
        write_results(state)
        if before is None and ended:
            say(f"{state.env_name}  continues after {found.num_ended} trial{'s' * (found.num_ended != 1)}")
        elif before is not None:
            lines = [_trial_line(state, found, trial) for number, trial in ended.items() if number not in before]
            lines += [_confirmation_line(state, run) for key, run in confirmed.items() if key not in before]
            for line in lines:
                say(printable(line))


def _confirmation_line(state: SweepState, run: Confirmation) -> str:
    outcome = f"failed: {run.error}" if run.score is None else f"score {number_text(run.score)}"
    return f"{state.env_name}  trial {run.trial} again with seed {run.seed}  {outcome}  cost {cost_text(run.cost)}"


def _trial_line(state: SweepState, found: Results, trial: FoundTrial) -> str:
    if trial.state == "complete":
        of = "" if trial.episodes is None else f" of {trial.episodes_text} episodes"
        front = "  on the front" if trial in found.front else ""
        outcome = f"score {number_text(trial.score)}{of}  cost {cost_text(trial.cost)}{front}"
    else:
        outcome = f"{'not counted' if trial.state == 'uncounted' else trial.state}: {trial.reason}"
    done = f"trial {trial.number}  {found.num_ended}/{state.sweep['num_trials']} done"
    best = f"  best {number_text(found.best.score)} of trial {found.best.number}" if found.best else ""
    left = duration_text(remaining_seconds(state, found))
    return f"{state.env_name}  {done}  {outcome}{best}  remaining {left}"
