"""The page of a run: one HTML file with everything in it, which asks no network for anything."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pufferlib.metrics.dashboard import count_text, number_text
from pufferlib.reports.differences import flat_settings
from pufferlib.reports.html_text import escaped, table
from pufferlib.reports.page_style import STYLE
from pufferlib.reports.recorded_run import RecordedRun
from pufferlib.reports.texts import cost_text
from pufferlib.runs.files import CONFIG_FILE
from pufferlib.settings.values import format_value


@dataclass(frozen=True)
class Evaluation:
    """What weights of a run scored.

    Attributes:
        weights: which: `last` or `best`.
        scores: the mean, its standard error and the number of episodes, by statistic.
    """

    weights: str
    scores: Mapping[str, tuple[float, float, int]]


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Attributes:
        run: it is of.
        plots: `<svg>` elements by their titles.
        defaults: the settings that its environment has by default, by their whole names; None where nobody knows.
        evaluations: of its weights.
        video: of its newest weights, a file's content and type such as `video/mp4`; None for none.
        notes: what is missing on the page, and why.
    """

    run: RecordedRun
    plots: Mapping[str, str]
    defaults: Mapping[str, Any] | None = None
    evaluations: Sequence[Evaluation] = ()
    video: tuple[bytes, str] | None = None
    notes: Sequence[str] = field(default_factory=list)


def page(content: Content) -> str:
    """The whole page."""
    title = escaped(content.run.env_name or content.run.name)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{title} {escaped(content.run.run_id)}</title><style>{STYLE}</style>'
    )
    body = "\n".join(filter(None, _sections(content)))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _sections(content: Content) -> Iterator[str]:
    run = content.run
    yield f'<header><h1>{escaped(run.env_name or run.name)}</h1><p class="id">{escaped(run.run_id)}</p></header>'
    yield _facts(run)
    shown = "".join(filter(None, (_video(content), _evaluations(content.evaluations))))
    if shown:
        yield f'<div class="beside">{shown}</div>'
    yield "".join(f'<p class="note">{escaped(note)}</p>' for note in content.notes)
    if content.plots:
        plots = "".join(_plot(title, svg) for title, svg in content.plots.items())
        yield f'<section><h2>Curves</h2><div class="plots">{plots}</div></section>'
    yield f'<div class="beside">{_changed(content)}{_origin(run)}</div>'
    yield _again(run)
    yield _settings(run)


def _facts(run: RecordedRun) -> str:
    facts = {
        "state": run.state,
        "begun": "-" if run.begun is None else f"{run.begun:%Y-%m-%d %H:%M}",
        f"last {run.score_name}": "-" if run.score is None else number_text(run.score),
        "of episodes": "-" if run.score_episodes is None else f"{run.score_episodes:,}",
        "agent steps": count_text(run.steps),
        "trained for": cost_text(run.seconds),
        "steps a second": count_text(run.steps / run.seconds) if run.seconds > 0 else "-",
        "seed": run.config.get("seed", "-"),
    }
    items = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _video(content: Content) -> str:
    if content.video is None:
        return ""
    data, kind = content.video
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    if kind.startswith("video/"):
        shown = f'<video src="{source}" controls loop muted autoplay playsinline></video>'
    else:
        shown = f'<img src="{source}" alt="the policy playing">'
    return f"<section><h2>Playing</h2>{shown}</section>"


def _evaluations(evaluations: Sequence[Evaluation]) -> str:
    if not evaluations:
        return ""
    names = dict.fromkeys(name for each in evaluations for name in each.scores)
    rows = [[name, *(_score_text(each.scores.get(name)) for each in evaluations)] for name in names]
    episodes = max((score[2] for each in evaluations for score in each.scores.values()), default=0)
    header = ["statistic", *(f"{each.weights} weights" for each in evaluations)]
    told = f"Means over {episodes:,} episodes of the likeliest actions, ± their standard errors."
    return f"<section><h2>Evaluation</h2>{table(header, rows, text_columns=(0,))}<p>{told}</p></section>"


def _score_text(score: tuple[float, float, int] | None) -> str:
    if score is None:
        return "-"
    mean, error, _ = score
    if not math.isfinite(error):  # of one episode nobody knows it
        return number_text(mean)
    return f"{number_text(mean)} ± {float(f'{error:.2g}'):g}"


def _plot(title: str, svg: str) -> str:
    return f'<figure role="img" aria-label="{escaped(title)}">{svg}</figure>'


def _changed(content: Content) -> str:
    if content.defaults is None:
        return ""
    settings = flat_settings(content.run.settings)
    rows = [
        [name, format_value(value), format_value(content.defaults.get(name, "-"))]
        for name, value in settings.items()
        if name in content.defaults and content.defaults[name] != value
    ]
    told = table(["setting", "here", "default"], rows, text_columns=(0,)) if rows else "<p>All are the defaults.</p>"
    return f"<section><h2>Settings that differ from the defaults</h2>{told}</section>"


def _again(run: RecordedRun) -> str:
    if run.env_name is None:
        return ""
    commands = (
        ["puffer", "train", run.env_name, "--config", str(run.folder / CONFIG_FILE)],
        ["puffer", "eval", run.env_name, "--load-model-path", str(run.folder / "last.pt")],
    )
    lines = "".join(f"<pre>{escaped(shlex.join(command))}</pre>" for command in commands)
    return f"<section><h2>Again</h2>{lines}</section>"


def _origin(run: RecordedRun) -> str:
    versions = run.config.get("versions") or {}
    computation = run.config.get("computation") or {}
    rows = [[name, version] for name, version in versions.items()]
    rows += [["git commit", run.config["git_commit"]]] if run.config.get("git_commit") else []
    rows += [["computed by", computation["by"]]] if computation.get("by") else []
    rows += [["because", computation["because"]]] if computation.get("because") else []
    rows += [["policy", run.config["policy_class"]]] if run.config.get("policy_class") else []
    told = table([], rows, text_columns=(0, 1))
    return f"<section><h2>Versions</h2>{told}</section>" if rows else ""


def _settings(run: RecordedRun) -> str:
    top = {name: value for name, value in run.settings.items() if not isinstance(value, Mapping)}
    sections = {"base": top, **{name: value for name, value in run.settings.items() if isinstance(value, Mapping)}}
    tables = "".join(
        f"<div class='settings'><h3>[{escaped(name)}]</h3>"
        + table([], [[key, format_value(value)] for key, value in values.items()], text_columns=(0, 1))
        + "</div>"
        for name, values in sections.items()
        if values and name != "sweep"  # what a search would vary is nothing that this run did
    )
    return f'<section><h2>All settings</h2><div class="columns">{tables}</div></section>' if tables else ""
