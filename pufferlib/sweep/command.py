"""`puffer sweep`: runs a sweep, prints its progress, and writes the trials, the best settings and a page with plots."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, TextIO

from plotly import graph_objects as go

from pufferlib.config import check_config, load_config
from pufferlib.config.flags import SweepOptions
from pufferlib.dashboard.output import page_template, plain_table, printable, printable_lines, say, terminal_columns
from pufferlib.dashboard.panel import cost_text, duration_text, number_text
from pufferlib.runs.folder import write_atomically
from pufferlib.setting import format_value, parse_value
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.results import COUNTED, Confirmation, FoundTrial, Results, SweepState, trial_table
from pufferlib.sweep.space import trial_args, trial_settings
from pufferlib.sweep.study import naming_database, without_password

_COMMENT = re.compile(r"\s[;#]|^[;#]")  # what an ini would cut off
_NAME = re.compile(r"[A-Za-z_][\w.-]*")  # of a setting
_TABLE_TRIALS = 10


def sweep_command(env_name: str, args: dict[str, Any], options: SweepOptions) -> None:
    """Runs `puffer sweep`, see `show_sweep`."""
    args["sweep"] |= {name: value for name, value in vars(options).items() if value is not None}
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
    stream = io.StringIO() if quiet else None
    with naming_database(place):
        known = f", {len(state.trials)} of them begun before" if state.trials else ""
        side = f", {config.workers} side by side" if config.workers > 1 else ""
        say(
            f"sweeping {len(sweep.space.dimensions)} settings of {state.env_name} to {config.goal} {state.metric}: "
            f"{config.num_trials} trials{known}{side}\n"
            f"the study {place.name!r} is in {without_password(place.storage)}; {again} continues it or takes part",
            stream,
        )
        try:
            sweep.run(ProgressLines(stream).show)
        except KeyboardInterrupt:
            finish(state, stream)
            say(f"\ninterrupted; {again} continues it", stream)
            raise
        finish(state, stream)


def write_results(state: SweepState) -> dict[str, Path]:
    """Writes the table of trials and the settings of the best; returns the files by what they hold."""
    results = state.results()
    best, cheapest = results.winner, results.cheapest_past(state.threshold)
    paths = {"trials": state.folder / "trials.csv"}
    write_atomically(paths["trials"], trials_csv(results).encode())
    for kind, trial in (("best", best), ("cheapest", cheapest)):
        path = state.folder / f"{kind}.ini"
        if trial is None or (kind == "cheapest" and trial is best):
            path.unlink(missing_ok=True)  # one of before, whose trial is the winner now
            continue
        comments = [
            f"The {kind} of {results.num_ended} trials of puffer sweep {state.env_name}, {trial.text}",
            f"{state.args['sweep']['goal']} {state.metric}, study {state.study.study_name}",
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
        is_same = parse_value(text) == value and not text.startswith("~/")  # which would be the home folder
        if is_same and text.isprintable() and not _COMMENT.search(text) and _NAME.fullmatch(key):
            return f"{key} = {text}"
    return f"; {printable(' '.join(key.split()))} is left out, as an ini cannot hold it"


def summary(state: SweepState) -> str:
    """Returns what a sweep found, in some lines of plain text."""
    results = state.results()
    parts = [f"{len(trials)} {kind}" for kind in COUNTED if (trials := results.in_state(kind))]
    spent = f"{duration_text(results.total_cost)} of training"
    lines = [f"\n{state.env_name}: {results.num_ended} trials ({', '.join(parts)}) in {spent}"] if parts else []
    lines += [f"trial {each.number} failed: {each.reason}" for each in results.in_state("failed")[-1:]]
    if results.winner is None:
        return "\n".join([*lines, "no trial has run to its end\n"])
    table = plain_table(*trial_table(results.complete[:_TABLE_TRIALS]), terminal_columns())
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
    left = state.to_confirm or state.args["sweep"]["num_trials"] - found.num_ended
    done = sum(min(run.progress, 1.0) for run in state.running)
    seconds = max(0.0, left - done) * typical / max(state.args["sweep"]["workers"], found.running)
    return seconds if state.to_confirm else min(seconds, max(0.0, state.deadline - time.monotonic()))


class ProgressLines:
    """Prints a line for every trial and confirmation that ended, and writes the files, so that they survive a kill."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream
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
        lines = []
        if before is not None:
            lines += [_trial_line(state, found, trial) for number, trial in ended.items() if number not in before]
            lines += [_confirmation_line(state, run) for key, run in confirmed.items() if key not in before]
        elif ended:
            lines.append(f"{state.env_name}  continues after {found.num_ended} trial{'s' * (found.num_ended != 1)}")
        for line in lines:
            say(printable(line), self._stream)


def _confirmation_line(state: SweepState, run: Confirmation) -> str:
    outcome = f"failed: {run.error}" if run.score is None else f"score {number_text(run.score)}"
    return f"{state.env_name}  trial {run.trial} again with seed {run.seed}  {outcome}  cost {cost_text(run.cost)}"


def _trial_line(state: SweepState, found: Results, trial: FoundTrial) -> str:
    if trial.state == "complete":
        of = "" if trial.episodes is None else f" of {trial.episodes:,} episodes"
        front = "  on the front" if trial in found.front else ""
        outcome = f"score {number_text(trial.score)}{of}  cost {cost_text(trial.cost)}{front}"
    else:
        outcome = f"{'not counted' if trial.state == 'uncounted' else trial.state}: {trial.reason}"
    done = f"trial {trial.number}  {found.num_ended}/{state.args['sweep']['num_trials']} done"
    best = next(iter(found.complete), None)
    reached = f"  best {number_text(best.score)} of trial {best.number}" if best else ""
    left = duration_text(remaining_seconds(state, found))
    return f"{state.env_name}  {done}  {outcome}{reached}  remaining {left}"


TEAL, RED, GREY = "#008B8B", "#BB0000", "#9AA8A8"
_LEAST_COST = 1e-3  # seconds: a logarithmic axis has no 0
IMPORTANCE_TRIALS = 20  # complete ones: of fewer, importance is noise
_TREE_DEPTH = 6  # of the forest behind importance: as right as deeper ones, and 10 times as fast for 400 trials


def report_html(state: SweepState) -> str:
    """Returns the page, which includes plotly's script once."""
    from plotly.offline import get_plotlyjs

    results = state.results()
    facts: dict[str, object] = {
        "goal": f"{state.args['sweep']['goal']} {state.metric}",
        "method": state.args["sweep"]["method"],
        "study": state.study.study_name,
        **{kind: len(results.in_state(kind)) for kind in COUNTED},
        "training": duration_text(results.total_cost),
    }
    cheapest = results.cheapest_past(state.threshold)
    if cheapest is not None:
        facts[f"solved at {number_text(state.threshold)} by"] = f"trial {cheapest.number} in {cost_text(cheapest.cost)}"
    settings = results.winner.settings if results.winner else {}
    return page_template("pufferlib.sweep", "report.html").render(
        env_name=state.env_name,
        plotly=get_plotlyjs(),
        facts=facts,
        winner=results.winner and results.winner.text,
        settings=[(name, _full_text(value)) for name, value in settings.items()],
        plots=[(title, _plot(name, figure)) for title, name, figure in _figures(state, results)],
        tables=_tables(results),
    )


def _figures(state: SweepState, results: Results) -> Iterable[tuple[str, str, go.Figure]]:
    # Title, name and figure of the plots; none before a trial is complete.
    from optuna import visualization
    from optuna.importance import FanovaImportanceEvaluator

    if not results.complete:
        return
    shown = {"study": state.study, "target_name": state.metric}
    yield "Score against cost", "front", front_figure(results, state.metric)
    yield "History", "history", visualization.plot_optimization_history(**shown)
    if len(results.complete) >= IMPORTANCE_TRIALS and len({trial.score for trial in results.complete}) > 1:
        # Functional ANOVA: where the truth was known it was nearer to it than PED-ANOVA, from 30 trials on.
        evaluator = FanovaImportanceEvaluator(max_depth=_TREE_DEPTH, seed=0)
        yield "Which settings matter", "importance", visualization.plot_param_importances(**shown, evaluator=evaluator)
    yield "Score against every setting", "slices", visualization.plot_slice(**shown)
    yield "Settings that go together", "parallel", visualization.plot_parallel_coordinate(**shown)
    yield "Learning curves, by tenths of a run", "curves", visualization.plot_intermediate_values(state.study)


def _plot(name: str, figure: go.Figure) -> str:
    figure.update_layout(template="plotly_white", title=None)
    safe = go.Figure(_escaped(json.loads(figure.to_json())))
    return safe.to_html(
        {"displaylogo": False, "responsive": True}, full_html=False, include_plotlyjs=False, div_id=name
    )


def _escaped(value: object) -> object:  # plotly takes every text for HTML; it knows no entity of a quote
    if isinstance(value, dict):
        return {name: _escaped(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_escaped(part) for part in value]
    if not isinstance(value, str):
        return value
    return html.escape(printable(value), quote=False).replace("&lt;br&gt;", "<br>")  # of hover texts


def _tables(results: Results) -> Iterable[tuple[str, Sequence[str], Sequence[Sequence[object]]]]:
    # Title, names of the columns, and rows; a table without rows is left out.
    yield "Best trials", *trial_table(results.complete[:_TABLE_TRIALS], _full_text)
    yield "Front: no other trial scores more at their cost", *trial_table(results.front, _full_text)
    runs = [run for trial in results.ended for run in trial.runs]
    scores = ["-" if run.score is None else number_text(run.score) for run in runs]
    rows = [
        (run.trial, run.seed, score, cost_text(run.cost), run.error or run.run_folder)
        for run, score in zip(runs, scores, strict=True)
    ]
    yield "The best again on fresh seeds", ["trial", "seed", "score", "cost", "run"], rows
    for title, state in (("Failed trials", "failed"), ("Trials that were stopped early", "stopped")):
        yield title, ["trial", "why"], [(each.number, each.reason) for each in results.in_state(state)]


def front_figure(results: Results, metric: str) -> go.Figure:
    """Returns scores against costs, with the front as a line of steps and the settings as hover text."""
    layout = {"height": 420, "hovermode": "closest", "yaxis_title": metric}
    figure = go.Figure(layout={**layout, "xaxis": {"title": "seconds of training", "type": "log"}})
    priced = [trial for trial in results.complete if math.isfinite(trial.cost)]
    winner = [trial for trial in priced if trial is results.winner]
    figure.add_trace(_points(priced, "trial", color=GREY, size=7))
    front = _points(results.front, "on the front", color=TEAL, size=9)
    figure.add_trace(front.update(mode="lines+markers", line={"shape": "hv", "color": TEAL}))
    if winner:
        figure.add_trace(_points(winner, "winner", color=RED, size=13, symbol="star"))
    return figure


def _points(trials: Sequence[FoundTrial], name: str, **marker: str | int) -> go.Scatter:
    def hover(trial: FoundTrial) -> str:
        settings = [f"{name} {_full_text(value)}" for name, value in trial.settings.items()]
        return "<br>".join([f"trial {trial.number}: {trial.score:.6g} in {cost_text(trial.cost)}", *settings])

    return go.Scatter(
        x=[max(trial.cost, _LEAST_COST) for trial in trials],
        y=[trial.score for trial in trials],
        mode="markers",
        name=name,
        marker=marker,
        hovertext=[*map(hover, trials)],
        hoverinfo="text",
    )


def _full_text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)  # as many digits as one would copy
