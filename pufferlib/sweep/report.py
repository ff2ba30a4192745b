"""The HTML page of a sweep, with its plots by plotly."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence

from plotly import graph_objects as go

from pufferlib.dashboard.output import page_template, printable
from pufferlib.dashboard.panel import cost_text, duration_text, number_text
from pufferlib.sweep.results import FoundTrial, Results, SweepState, trial_columns

TEAL, RED, GREY = "#008B8B", "#BB0000", "#9AA8A8"
_LEAST_COST = 1e-3  # seconds: a logarithmic axis has no 0
_TABLE_TRIALS = 10
IMPORTANCE_TRIALS = 20  # complete ones: of fewer, importance is noise
_TREE_DEPTH = 6  # of the forest behind importance: as right as deeper ones, and 10 times as fast for 400 trials

Table = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""Title, names of the columns, and rows; a table without rows is left out."""


def report_html(state: SweepState) -> str:
    """Returns the page, which includes plotly's script once."""
    from plotly.offline import get_plotlyjs

    template = page_template("pufferlib.sweep", "report.html")
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
    cheapest = results.cheapest_past(state.threshold)
    if cheapest is not None:
        facts[f"solved at {number_text(state.threshold)} by"] = f"trial {cheapest.number} in {cost_text(cheapest.cost)}"
    return facts


def _figures(state: SweepState, results: Results) -> Iterable[tuple[str, str, go.Figure]]:
    # Title, name and figure of those plots for which there is anything to show.
    from optuna import visualization
    from optuna.importance import FanovaImportanceEvaluator

    if not results.complete:
        return
    yield "Score against cost", "front", front_figure(results, state.metric)
    yield "History", "history", visualization.plot_optimization_history(state.study, target_name=state.metric)
    if len(results.complete) >= IMPORTANCE_TRIALS and len({trial.score for trial in results.complete}) > 1:
        # Functional ANOVA: where the truth was known it was nearer to it than PED-ANOVA, from 30 trials on.
        evaluator = FanovaImportanceEvaluator(max_depth=_TREE_DEPTH, seed=0)
        figure = visualization.plot_param_importances(state.study, evaluator=evaluator, target_name=state.metric)
        yield "Which settings matter", "importance", figure
    if any(trial.distributions for trial in state.trials):
        slices = visualization.plot_slice(state.study, target_name=state.metric)
        yield "Score against every setting", "slices", slices
        parallel = visualization.plot_parallel_coordinate(state.study, target_name=state.metric)
        yield "Settings that go together", "parallel", parallel
    if any(trial.intermediate_values for trial in state.trials):
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


def _tables(state: SweepState, results: Results) -> Iterable[Table]:
    for title, trials in (
        ("Best trials", results.complete[:_TABLE_TRIALS]),
        ("Front: no other trial scores more at their cost", results.front),
    ):
        columns = trial_columns(trials, _full_text)
        rows = zip(*(cells for _, cells in columns), strict=True)
        yield title, [heading for heading, _ in columns], [*rows]
    runs = sorted(state.confirmations, key=lambda run: (run.trial, run.seed))
    scores = ["-" if run.score is None else number_text(run.score) for run in runs]
    rows = [
        (run.trial, run.seed, score, cost_text(run.cost), run.error or run.run_folder)
        for run, score in zip(runs, scores, strict=True)
    ]
    yield "The best again on fresh seeds", ["trial", "seed", "score", "cost", "run"], rows
    for title, ended in (("Failed trials", results.failed), ("Trials that were stopped early", results.stopped)):
        yield title, ["trial", "why"], [(each.number, each.reason) for each in ended]


def front_figure(results: Results, metric: str) -> go.Figure:
    """Returns scores against costs, with the front as a line of steps and the settings as hover text."""
    layout = {"height": 420, "hovermode": "closest", "yaxis_title": metric}
    figure = go.Figure(layout={**layout, "xaxis": {"title": "seconds of training", "type": "log"}})
    priced = [trial for trial in results.complete if math.isfinite(trial.cost)]
    winner = [trial for trial in priced if results.winner is not None and trial.number == results.winner.number]
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
