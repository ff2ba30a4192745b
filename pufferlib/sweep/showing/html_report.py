"""What a sweep found, as one HTML file with its plots that needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pufferlib.metrics.dashboard import duration_text, number_text
from pufferlib.reports.html_text import escaped, table
from pufferlib.reports.texts import cost_text, short_names
from pufferlib.runs.whole_files import write_atomically
from pufferlib.sweep.showing import figures
from pufferlib.sweep.showing.texts import winner_text
from pufferlib.sweep.study.confirmation import Confirmation, ConfirmedTrial, confirmed_trials, winner
from pufferlib.sweep.study.results import EndedEarly, FoundTrial, Results, importance, results_of, solve_threshold

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from pufferlib.sweep.state import SweepState

FILE_NAME = "report.html"

_BEST = 10  # trials in the table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #0B3B3B; max-width: 1100px; margin: 2em auto; padding: 0 1em }
h1, h2 { font-weight: 600 } h2 { margin-top: 2em; border-bottom: 1px solid #D7E3E3 }
.facts span { display: inline-block; margin-right: 2em } .facts b { color: #008B8B; font-weight: 500 }
.table, .wide { overflow-x: auto } table { border-collapse: collapse; font-size: 14px }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #EDF3F3; white-space: nowrap }
th { color: #008B8B; font-weight: 500 } th.text, td.text { text-align: left } td.text { white-space: normal }
code { background: #EDF3F3; padding: .15em .4em; border-radius: 3px }
"""


def write_report(state: SweepState, path: Path) -> None:
    """Writes the report.

    Raises:
        StorageError: if it cannot be written; the one before is left as it was.
    """
    text = report_html(state)
    write_atomically(path, text.encode())


def report_html(state: SweepState) -> str:
    """The page, with plotly inside of it once."""
    from plotly.offline import get_plotlyjs

    results = results_of(state.trials, state.args["sweep"]["goal"])
    confirmed = confirmed_trials(results, state.confirmations)
    title = f"Sweep of {escaped(state.env_name)}"
    parts = [
        f"<h1>{title}</h1>",
        _facts(state, results),
        _winner(state, results),
        *_plots(state, results),
        _trial_table("Best trials", results.complete[:_BEST], confirmed),
        _trial_table("Front: what no other trial beats at its cost", results.front, confirmed),
        _confirmation_table(state.confirmations),
        _ended_table("Failed trials", results.failed),
        _ended_table("Trials that were stopped early", results.stopped),
    ]
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style><script>{get_plotlyjs()}</script>'
    body = "\n".join(filter(None, parts))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _facts(state: SweepState, results: Results) -> str:
    sweep = state.args["sweep"]
    facts = {
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
    spans = "".join(f"<span><b>{escaped(name)}</b> {escaped(value)}</span>" for name, value in facts.items())
    return f'<p class="facts">{spans}</p>'


def _winner(state: SweepState, results: Results) -> str:
    best = winner(results, state.confirmations)
    if best is None:
        return "<p>No trial ran to its end.</p>"
    rows = [[name, figures.full_text(value)] for name, value in best.trial.settings.items()]
    settings = table(["setting", "value"], rows, text_columns=(0,))
    return f"<h2>Winner</h2><p>{escaped(winner_text(best))}</p>{settings}"


def _plots(state: SweepState, results: Results) -> Iterable[str]:
    """Those for which there is anything to show."""
    if not results.complete:
        return
    best = winner(results, state.confirmations)
    yield _plot("Score against cost", "front", figures.front_figure(results, state.metric, best and best.trial))
    yield _plot("History", "history", figures.history_figure(results, state.trials, state.metric))
    shares = importance(state.study)
    if shares:
        yield _plot("Which settings matter", "importance", figures.importance_figure(shares))
    distributions = {name: each for trial in state.trials for name, each in trial.distributions.items()}
    if distributions:
        yield _plot("Score against every setting", "slices", figures.slice_figure(state.study, state.metric))
        yield _plot(
            "Settings that go together", "parallel", figures.parallel_figure(results, state.metric, distributions)
        )
    drawn = [trial for trial in results.complete if trial.curve][: figures.CURVE_TRIALS]
    if drawn:
        yield _plot("Learning curves of the best", "curves", figures.curves_figure(drawn, state.metric))


def _plot(title: str, name: str, figure: Figure) -> str:
    config = {"displaylogo": False, "responsive": True}
    drawn = figure.to_html(config, full_html=False, include_plotlyjs=False, div_id=name)
    return f'<h2>{title}</h2><div class="wide">{drawn}</div>'


def _trial_table(title: str, trials: Sequence[FoundTrial], confirmed: Sequence[ConfirmedTrial]) -> str:
    if not trials:
        return ""
    again = {each.trial.number: each.text for each in confirmed}
    names = short_names(list(trials[0].settings))
    header = ["trial", "score", "episodes", "cost", *(["confirmed"] if again else []), *names.values()]
    rows = [
        [
            *(trial.number, number_text(trial.score), trial.episodes_text, cost_text(trial.cost)),
            *([again.get(trial.number, "")] if again else []),
            *(figures.full_text(trial.settings.get(name, "-")) for name in names),
        ]
        for trial in trials
    ]
    return f"<h2>{title}</h2>{table(header, rows)}"


def _confirmation_table(known: Sequence[Confirmation]) -> str:
    if not known:
        return ""
    rows = [
        [run.trial, run.seed, "-" if run.score is None else number_text(run.score), cost_text(run.cost), _place(run)]
        for run in sorted(known, key=lambda run: (run.trial, run.seed))
    ]
    header = ["trial", "seed", "score", "cost", "run"]
    return f"<h2>The best again on fresh seeds</h2>{table(header, rows, text_columns=(4,))}"


def _place(run: Confirmation) -> str:
    return run.error or run.run_folder


def _ended_table(title: str, ended: Sequence[EndedEarly]) -> str:
    if not ended:
        return ""
    rows = [[each.number, each.reason] for each in ended]
    return f"<h2>{title}</h2>{table(['trial', 'why'], rows, text_columns=(1,))}"
