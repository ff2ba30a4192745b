"""The HTML page of a sweep, with its plots by plotly."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
from plotly import graph_objects as go

from pufferlib.dashboard.output import printable, printable_lines
from pufferlib.dashboard.panel import cost_text, duration_text, number_text, short_names
from pufferlib.runs.folder import write_atomically
from pufferlib.sweep.panel import winner_text
from pufferlib.sweep.results import (
    ConfirmedTrial,
    FoundTrial,
    Results,
    confirmed_trials,
    cost_of,
    goal_sign,
    importance,
    results_of,
    solve_threshold,
    winner,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial
    from plotly.graph_objects import Figure

    from pufferlib.sweep.results import SweepState


TEAL, RED, GREY, DARK = "#008B8B", "#BB0000", "#9AA8A8", "#0B3B3B"
CURVE_TRIALS = 5  # whose learning curves are drawn
_LEAST_COST = 1e-3  # seconds: a logarithmic axis has no 0
_SCALE = [[0.0, "#D7E3E3"], [0.5, "#4FB3B3"], [1.0, "#0B3B3B"]]


def front_figure(results: Results, metric: str, winner: FoundTrial | None) -> go.Figure:
    """Returns scores against costs, with the front as a line of steps and the settings as hover text."""
    figure = _figure("seconds of training", metric)
    figure.update_xaxes(type="log")
    priced = [trial for trial in results.complete if math.isfinite(trial.cost)]
    figure.add_trace(_points(priced, "trial", {"color": GREY, "size": 7}))
    steps = [(max(trial.cost, _LEAST_COST), trial.score) for trial in results.front]
    figure.add_trace(_line(steps, "front", TEAL, shape="hv"))
    figure.add_trace(_points(results.front, "on the front", {"color": TEAL, "size": 9}))
    if winner is not None and math.isfinite(winner.cost):
        figure.add_trace(_points([winner], "winner", {"color": RED, "size": 13, "symbol": "star"}))
    return figure


def history_figure(results: Results, trials: Sequence[FrozenTrial], metric: str) -> go.Figure:
    """Returns scores, and the best so far, against the training of all trials until then."""
    ended = sorted((trial for trial in trials if trial.datetime_complete), key=lambda trial: trial.datetime_complete)
    spent = dict(zip([trial.number for trial in ended], np.nancumsum([cost_of(trial) for trial in ended]), strict=True))
    complete = sorted(
        (trial for trial in results.complete if trial.number in spent), key=lambda each: spent[each.number]
    )
    places = [spent[trial.number] for trial in complete]
    sign = goal_sign(results.goal)
    best = [sign * score for score in accumulate((sign * trial.score for trial in complete), max)]
    figure = _figure("seconds of training of all trials", metric)
    figure.add_trace(_points(complete, "trial", {"color": GREY, "size": 7}, places))
    figure.add_trace(_line(list(zip(places, best, strict=True)), "best so far", TEAL, shape="hv"))
    return figure


def importance_figure(shares: Mapping[str, float]) -> go.Figure:
    """Returns the share of the scores' variance that each setting explains, as bars."""
    names = short_names(list(shares))
    figure = _figure("share of the scores' variance", "")
    labels = [_escaped(names[name]) for name in shares]
    figure.add_trace(go.Bar(x=list(shares.values()), y=labels, orientation="h", marker={"color": TEAL}))
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    return figure


def parallel_figure(results: Results, metric: str, distributions: Mapping[str, BaseDistribution]) -> go.Figure:
    """Returns parallel coordinates: a line for every trial through its settings and its score."""
    trials = results.complete
    scores = [trial.score for trial in trials]
    names = short_names(list(distributions))
    axes = [_axis(name, label, [trial.settings.get(name) for trial in trials], distributions[name])
            for name, label in names.items()]  # fmt: skip
    colors = {"color": scores, "colorscale": _SCALE, "showscale": True, "reversescale": results.goal == "minimize"}
    figure = go.Figure(go.Parcoords(line=colors, dimensions=[*axes, {"label": _escaped(metric), "values": scores}]))
    figure.update_layout(template="plotly_white", height=420, margin={"l": 70, "r": 60, "t": 60, "b": 30})
    return figure


def slice_figure(study: Study, metric: str) -> go.Figure:
    """Returns Optuna's plot of scores against every setting, the later trials darker."""
    from optuna.visualization import plot_slice

    figure = plot_slice(study, target_name=_escaped(metric))
    for axis in figure.select_xaxes():
        axis.update(title_text=_escaped(axis.title.text or ""))
        if axis.categoryarray:
            axis.update(categoryarray=[*map(_escaped, axis.categoryarray)])
    for trace in figure.select_traces():
        trace.update(x=[_escaped(x) if isinstance(x, str) else x for x in trace.x])
    figure.update_layout(template="plotly_white", title=None, height=360, margin={"l": 60, "r": 20, "t": 20, "b": 50})
    return figure


def curves_figure(trials: Sequence[FoundTrial], metric: str) -> go.Figure:
    """Returns the learning curves of trials."""
    figure = _figure("seconds of training", metric)
    for trial in trials:
        points = [(row[1], row[2]) for row in trial.curve]
        figure.add_trace(_line(points, f"trial {trial.number}", None, mode="lines+markers"))
    return figure


def _figure(x: str, y: str) -> go.Figure:
    layout = {"template": "plotly_white", "height": 420, "margin": {"l": 60, "r": 20, "t": 20, "b": 50}}
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0.0}
    figure = go.Figure(layout={**layout, "legend": legend, "hovermode": "closest"})
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=_escaped(y))
    return figure


def _points(
    trials: Sequence[FoundTrial], name: str, marker: Mapping[str, Any], places: Sequence[float] | None = None
) -> go.Scatter:
    return go.Scatter(
        x=[max(trial.cost, _LEAST_COST) for trial in trials] if places is None else places,
        y=[trial.score for trial in trials],
        mode="markers",
        name=name,
        marker=marker,
        hovertext=[_hover(trial) for trial in trials],
        hoverinfo="text",
    )


def _line(
    points: Sequence[tuple[float, float]],
    name: str,
    color: str | None,
    *,
    mode: str = "lines",
    shape: str = "linear",
) -> go.Scatter:
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return go.Scatter(x=xs, y=ys, mode=mode, name=name, line={"shape": shape, "color": color})


def _hover(trial: FoundTrial) -> str:
    settings = [f"{_escaped(name)} {_escaped(full_text(value))}" for name, value in trial.settings.items()]
    return "<br>".join([f"<b>trial {trial.number}</b> {trial.score:.6g} in {cost_text(trial.cost)}", *settings])


def _axis(name: str, label: str, values: Sequence[Any], distribution: BaseDistribution) -> dict[str, Any]:
    choices = getattr(distribution, "choices", None)
    label = _escaped(label)
    if choices is not None:
        places = [choices.index(value) if value in choices else math.nan for value in values]
        texts = [_escaped(str(choice)) for choice in choices]
        return {"label": label, "values": places, "tickvals": list(range(len(choices))), "ticktext": texts}
    numbers = [float(value) if isinstance(value, (int, float)) else math.nan for value in values]
    if not distribution.log:
        return {"label": label, "values": numbers}
    logs = [math.log10(number) if number > 0 else math.nan for number in numbers]
    ticks = list(_ticks([each for each in logs if math.isfinite(each)]))
    return {"label": label, "values": logs, "tickvals": ticks, "ticktext": [f"{10**tick:.3g}" for tick in ticks]}


def _ticks(logs: Sequence[float]) -> Iterable[float]:
    if logs:
        low, high = min(logs), max(logs)
        inside = [float(power) for power in range(math.ceil(low), math.floor(high) + 1)]
        yield from sorted({low, high, *inside})


def full_text(value: object) -> str:
    """Returns the value of a setting with as many digits as one would copy."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=False)  # plotly knows no entity of a quote


REPORT_FILE = "report.html"
_TABLE_TRIALS = 10

Table = tuple[str, Sequence[str], Sequence[Sequence[object]], int | None]
"""Title, names of the columns, rows, and the column of text that may wrap; a table without rows is left out."""


def write_report(state: SweepState, path: Path) -> None:
    """Writes the report.

    Raises:
        StorageError: if it cannot be written; the one before is left as it was.
    """
    write_atomically(path, report_html(state).encode())


def report_html(state: SweepState) -> str:
    """Returns the page, which includes plotly's script once."""
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
    )
    template = environment.from_string(resources.files("pufferlib.sweep").joinpath("report.html").read_text())
    results = results_of(state.trials, state.args["sweep"]["goal"])
    best = winner(results, state.confirmations)
    settings = {} if best is None else best.trial.settings
    return template.render(
        env_name=state.env_name,
        plotly=get_plotlyjs(),
        facts=_report_facts(state, results),
        winner=None if best is None else winner_text(best),
        settings=[(name, full_text(value)) for name, value in settings.items()],
        plots=[(title, _plot(name, figure)) for title, name, figure in _figures(state, results, best)],
        tables=_tables(state, results),
    )


def _printable(value: object) -> object:
    # Of what comes from the template and plotly nothing is changed.
    return value if hasattr(value, "__html__") else printable_lines(str(value))


def _report_facts(state: SweepState, results: Results) -> dict[str, object]:
    sweep = state.args["sweep"]
    facts: dict[str, object] = {
        "goal": f"{sweep['goal']} {state.metric}",
        "method": sweep["method"],
        "study": state.study.study_name,
        "complete": len(results.complete),
        "stopped": len(results.stopped),
        "failed": len(results.failed),
        "training": duration_text(results.total_cost),
    }
    times = [trial.datetime_start for trial in state.trials if trial.datetime_start]
    if times:
        ends = [trial.datetime_complete for trial in state.trials if trial.datetime_complete]
        facts["from"] = f"{min(times):%Y-%m-%d %H:%M}"
        facts["to"] = f"{max(ends or times):%Y-%m-%d %H:%M}"
    threshold = solve_threshold(state.args, state.metric)
    if threshold is not None:
        cheapest = results.cheapest_past(threshold)
        by = "no trial" if cheapest is None else f"trial {cheapest.number} in {cost_text(cheapest.cost)}"
        facts[f"solved at {number_text(threshold)} by"] = by
    return facts


def _figures(state: SweepState, results: Results, best: ConfirmedTrial | None) -> Iterable[tuple[str, str, Figure]]:
    # Title, name and figure of those plots for which there is anything to show.
    if best is None:
        return
    yield "Score against cost", "front", front_figure(results, state.metric, best.trial)
    yield "History", "history", history_figure(results, state.trials, state.metric)
    shares = importance(state.study)
    if shares:
        yield "Which settings matter", "importance", importance_figure(shares)
    distributions = {name: each for trial in state.trials for name, each in trial.distributions.items()}
    if distributions:
        yield "Score against every setting", "slices", slice_figure(state.study, state.metric)
        yield "Settings that go together", "parallel", parallel_figure(results, state.metric, distributions)
    drawn = [trial for trial in results.complete if trial.curve][:CURVE_TRIALS]
    if drawn:
        yield "Learning curves of the best", "curves", curves_figure(drawn, state.metric)


def _plot(name: str, figure: Figure) -> str:
    return figure.to_html(
        {"displaylogo": False, "responsive": True}, full_html=False, include_plotlyjs=False, div_id=name
    )


def _tables(state: SweepState, results: Results) -> Iterable[Table]:
    confirmed = confirmed_trials(results, state.confirmations)
    yield _trials_table("Best trials", results.complete[:_TABLE_TRIALS], confirmed)
    yield _trials_table("Front: no other trial scores more at their cost", results.front, confirmed)
    runs = sorted(state.confirmations, key=lambda run: (run.trial, run.seed))
    scores = ["-" if run.score is None else number_text(run.score) for run in runs]
    rows = [
        (run.trial, run.seed, score, cost_text(run.cost), run.error or run.run_folder)
        for run, score in zip(runs, scores, strict=True)
    ]
    yield "The best again on fresh seeds", ["trial", "seed", "score", "cost", "run"], rows, 4
    for title, ended in (("Failed trials", results.failed), ("Trials that were stopped early", results.stopped)):
        yield title, ["trial", "why"], [(each.number, each.reason) for each in ended], 1


def _trials_table(title: str, trials: Sequence[FoundTrial], confirmed: Sequence[ConfirmedTrial]) -> Table:
    again = {each.trial.number: each.text for each in confirmed}
    names = short_names(list(trials[0].settings)) if trials else {}
    rows = []
    for trial in trials:
        row = [trial.number, number_text(trial.score), trial.episodes_text, cost_text(trial.cost)]
        row += [again.get(trial.number, "")] if again else []
        rows.append([*row, *(full_text(trial.settings.get(name, "-")) for name in names)])
    header = ["trial", "score", "episodes", "cost", *(["confirmed"] if again else []), *names.values()]
    return title, header, rows, None
