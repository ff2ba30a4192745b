"""The plots of a sweep, by plotly."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from plotly import graph_objects as go

from pufferlib.metrics.output import printable
from pufferlib.reports.texts import cost_text, short_names
from pufferlib.sweep.study.results import FoundTrial, Results, cost_of, goal_sign

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

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
