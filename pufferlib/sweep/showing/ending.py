"""The end of a sweep: its files, and a summary of what it found."""

from __future__ import annotations

import shlex
import shutil
from itertools import accumulate
from typing import TextIO

from pufferlib.metrics.dashboard import duration_text, number_text
from pufferlib.metrics.output import say
from pufferlib.play.plain_table import plain_table
from pufferlib.reports.texts import cost_text, short_names, value_text
from pufferlib.sweep.showing.best_file import write_settings
from pufferlib.sweep.showing.html_report import REPORT_FILE, write_report
from pufferlib.sweep.showing.texts import winner_text
from pufferlib.sweep.showing.trial_table import TRIALS_FILE, write_trials
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.confirmation import cheapest_solver, confirmed_trials, winner
from pufferlib.sweep.study.results import Results, results_of, solve_threshold

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
