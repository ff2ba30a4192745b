"""The report of a sweep: one HTML file with plots that needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from pufferlib.metrics.dashboard import duration_text, number_text
from pufferlib.metrics.output import printable_lines
from pufferlib.reports.texts import cost_text, short_names
from pufferlib.runs.whole_files import write_atomically
from pufferlib.sweep.showing.figures import (
    CURVE_TRIALS,
    curves_figure,
    front_figure,
    full_text,
    history_figure,
    importance_figure,
    parallel_figure,
    slice_figure,
)
from pufferlib.sweep.showing.texts import winner_text
from pufferlib.sweep.study.confirmation import ConfirmedTrial, confirmed_trials, winner
from pufferlib.sweep.study.results import FoundTrial, Results, importance, results_of, solve_threshold

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from pufferlib.sweep.state import SweepState

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
