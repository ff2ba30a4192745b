"""The HTML page of a sweep, with its plots by plotly."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
from plotly import graph_objects as go

from pufferlib.dashboard.output import printable, printable_lines
from pufferlib.dashboard.panel import cost_text, duration_text, number_text, short_names
from pufferlib.sweep.results import FoundTrial, Results, SweepState, goal_sign, importance, trial_columns

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

TEAL, RED, GREY = "#008B8B", "#BB0000", "#9AA8A8"
CURVE_TRIALS = 5  # whose learning curves are drawn
_LEAST_COST = 1e-3  # seconds: a logarithmic axis has no 0
_SCALE = [[0.0, "#D7E3E3"], [0.5, "#4FB3B3"], [1.0, "#0B3B3B"]]
_TABLE_TRIALS = 10

Table = tuple[str, Sequence[str], Sequence[Sequence[object]], int | None]
"""Title, names of the columns, rows, and the column of text that may wrap; a table without rows is left out."""


def report_html(state: SweepState) -> str:
    """Returns the page, which includes plotly's script once."""
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        # What comes from the template and plotly stays as it is.
        finalize=lambda value: value if hasattr(value, "__html__") else printable_lines(str(value)),
    )
    template = environment.from_string(resources.files("pufferlib.sweep").joinpath("report.html").read_text())
    results = state.results()
    settings = results.winner.settings if results.winner else {}
    return template.render(
        env_name=state.env_name,
        plotly=get_plotlyjs(),
        facts=_facts(state, results),
        winner=results.winner and results.winner.text,
        settings=[(name, _full_text(value)) for name, value in settings.items()],
        plots=[(title, _plot(name, figure)) for title, name, figure in _figures(state, results)],
        tables=_tables(state, results),
    )


def _facts(state: SweepState, results: Results) -> dict[str, object]:
    facts: dict[str, object] = {
        "goal": f"{results.goal} {state.metric}",
        "method": state.sweep["method"],
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
    if state.threshold is not None:
        cheapest = results.cheapest_past(state.threshold)
        by = "no trial" if cheapest is None else f"trial {cheapest.number} in {cost_text(cheapest.cost)}"
        facts[f"solved at {number_text(state.threshold)} by"] = by
    return facts


def _figures(state: SweepState, results: Results) -> Iterable[tuple[str, str, go.Figure]]:
    # Title, name and figure of those plots for which there is anything to show.
    if not results.complete:
        return
    yield "Score against cost", "front", front_figure(results, state.metric)
    yield "History", "history", history_figure(results, state.metric)
    shares = importance(state.study)
    if shares:
        yield "Which settings matter", "importance", _importance_figure(shares)
    distributions = {name: each for trial in state.trials for name, each in trial.distributions.items()}
    if distributions:
        yield "Score against every setting", "slices", _slice_figure(state.study, state.metric)
        yield "Settings that go together", "parallel", parallel_figure(results, state.metric, distributions)
    drawn = [trial for trial in results.complete if trial.curve][:CURVE_TRIALS]
    if drawn:
        yield "Learning curves of the best", "curves", _curves_figure(drawn, state.metric)


def _plot(name: str, figure: go.Figure) -> str:
    config = {"displaylogo": False, "responsive": True}
    return figure.to_html(config, full_html=False, include_plotlyjs=False, div_id=name)


def _tables(state: SweepState, results: Results) -> Iterable[Table]:
    for title, trials in (
        ("Best trials", results.complete[:_TABLE_TRIALS]),
        ("Front: no other trial scores more at their cost", results.front),
    ):
        columns = trial_columns(trials, _full_text)
        rows = zip(*(cells for _, cells in columns), strict=True)
        yield title, [heading for heading, _ in columns], [*rows], None
    runs = sorted(state.confirmations, key=lambda run: (run.trial, run.seed))
    scores = ["-" if run.score is None else number_text(run.score) for run in runs]
    rows = [
        (run.trial, run.seed, score, cost_text(run.cost), run.error or run.run_folder)
        for run, score in zip(runs, scores, strict=True)
    ]
    yield "The best again on fresh seeds", ["trial", "seed", "score", "cost", "run"], rows, 4
    for title, ended in (("Failed trials", results.failed), ("Trials that were stopped early", results.stopped)):
        yield title, ["trial", "why"], [(each.number, each.reason) for each in ended], 1


def front_figure(results: Results, metric: str) -> go.Figure:
    """Returns scores against costs, with the front as a line of steps and the settings as hover text."""
    figure = _figure("seconds of training", metric)
    figure.update_xaxes(type="log")
    priced = [trial for trial in results.complete if math.isfinite(trial.cost)]
    places = {trial.number: max(trial.cost, _LEAST_COST) for trial in priced}
    winner = results.winner
    figure.add_trace(_points(priced, places, "trial", color=GREY, size=7))
    figure.add_trace(_steps([(places[trial.number], trial.score) for trial in results.front], "front"))
    figure.add_trace(_points(results.front, places, "on the front", color=TEAL, size=9))
    if winner is not None and winner.number in places:
        figure.add_trace(_points([winner], places, "winner", color=RED, size=13, symbol="star"))
    return figure


def history_figure(results: Results, metric: str) -> go.Figure:
    """Returns scores, and the best so far, against the training of all trials until then."""
    ended = sorted((trial for trial in results.ended if trial.ended), key=lambda trial: trial.ended)
    spent = dict(zip([trial.number for trial in ended], np.nancumsum([trial.cost for trial in ended]), strict=True))
    complete = [trial for trial in ended if trial.state == "complete"]
    sign = goal_sign(results.goal)
    best = [sign * score for score in accumulate((sign * trial.score for trial in complete), max)]
    figure = _figure("seconds of training of all trials", metric)
    figure.add_trace(_points(complete, spent, "trial", color=GREY, size=7))
    figure.add_trace(
        _steps([(spent[trial.number], score) for trial, score in zip(complete, best, strict=True)], "best so far")
    )
    return figure


def _importance_figure(shares: Mapping[str, float]) -> go.Figure:
    names = short_names(list(shares))
    figure = _figure("share of the scores' variance", "")
    labels = [_escaped(names[name]) for name in shares]
    figure.add_trace(go.Bar(x=list(shares.values()), y=labels, orientation="h", marker={"color": TEAL}))
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    return figure


def parallel_figure(results: Results, metric: str, distributions: Mapping[str, BaseDistribution]) -> go.Figure:
    """Returns parallel coordinates: a line for every trial through its settings and its score."""
    scores = [trial.score for trial in results.complete]
    axes = [
        {
            "label": _escaped(label),
            **_axis([trial.settings.get(name) for trial in results.complete], distributions[name]),
        }
        for name, label in short_names(list(distributions)).items()
    ]
    colors = {"color": scores, "colorscale": _SCALE, "showscale": True, "reversescale": results.goal == "minimize"}
    figure = go.Figure(go.Parcoords(line=colors, dimensions=[*axes, {"label": _escaped(metric), "values": scores}]))
    figure.update_layout(template="plotly_white", height=420, margin={"l": 70, "r": 60, "t": 60, "b": 30})
    return figure


def _axis(values: Sequence[Any], distribution: BaseDistribution) -> dict[str, Any]:
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        places = [choices.index(value) if value in choices else math.nan for value in values]
        texts = [_escaped(str(choice)) for choice in choices]
        return {"values": places, "tickvals": list(range(len(choices))), "ticktext": texts}
    numbers = [float(value) if isinstance(value, (int, float)) else math.nan for value in values]
    if not distribution.log:
        return {"values": numbers}
    logs = [math.log10(number) if number > 0 else math.nan for number in numbers]
    known = [log for log in logs if math.isfinite(log)]
    ticks = [min(known), *range(math.ceil(min(known)), math.floor(max(known)) + 1), max(known)] if known else []
    ticks = sorted({*map(float, ticks)})
    return {"values": logs, "tickvals": ticks, "ticktext": [f"{10**tick:.3g}" for tick in ticks]}


def _slice_figure(study: Study, metric: str) -> go.Figure:
    # Optuna's: scores against every setting, the later trials darker.
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


def _curves_figure(trials: Sequence[FoundTrial], metric: str) -> go.Figure:
    figure = _figure("seconds of training", metric)
    for trial in trials:
        _, seconds, scores = zip(*trial.curve, strict=True)
        figure.add_trace(go.Scatter(x=seconds, y=scores, mode="lines+markers", name=f"trial {trial.number}"))
    return figure


def _figure(x: str, y: str) -> go.Figure:
    layout = {"template": "plotly_white", "height": 420, "margin": {"l": 60, "r": 20, "t": 20, "b": 50}}
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0.0}
    figure = go.Figure(layout={**layout, "legend": legend, "hovermode": "closest"})
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=_escaped(y))
    return figure


def _points(trials: Sequence[FoundTrial], places: Mapping[int, float], name: str, **marker: str | int) -> go.Scatter:
    def hover(trial: FoundTrial) -> str:
        settings = [f"{_escaped(name)} {_escaped(_full_text(value))}" for name, value in trial.settings.items()]
        return "<br>".join([f"<b>trial {trial.number}</b> {trial.score:.6g} in {cost_text(trial.cost)}", *settings])

    return go.Scatter(
        x=[places[trial.number] for trial in trials],
        y=[trial.score for trial in trials],
        mode="markers",
        name=name,
        marker=marker,
        hovertext=[*map(hover, trials)],
        hoverinfo="text",
    )


def _steps(points: Sequence[tuple[float, float]], name: str) -> go.Scatter:
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return go.Scatter(x=xs, y=ys, mode="lines", name=name, line={"shape": "hv", "color": TEAL})


def _full_text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)  # as many digits as one would copy


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=False)  # plotly knows no entity of a quote
