"""The page of a run: one HTML file with everything in it, which asks no network for anything."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from pufferlib.metrics.dashboard import count_text, number_text
from pufferlib.metrics.output import printable_lines
from pufferlib.reports.differences import flat_settings
from pufferlib.reports.palette import BACKGROUND, CYAN, GRID, MUTED, RED, SURFACE, WHITE
from pufferlib.reports.recorded_run import RecordedRun
from pufferlib.reports.texts import cost_text
from pufferlib.runs.files import CONFIG_FILE
from pufferlib.settings.values import format_value

_PALETTE = {"cyan": CYAN, "red": RED, "white": WHITE, "background": BACKGROUND, "surface": SURFACE} | {
    "grid": GRID,
    "muted": MUTED,
}


@dataclass(frozen=True)
class Evaluation:
    """The scores of weights of a run.

    Attributes:
        weights: `last` or `best`.
        scores: the mean, its standard error and the number of episodes, by statistic.
    """

    weights: str
    scores: Mapping[str, tuple[float, float, int]]


@dataclass(frozen=True)
class Content:
    """Everything that a page shows.

    Attributes:
        run: the run.
        plots: `<svg>` elements by their titles.
        defaults: the settings of its environment by default, by their whole names; None where they are not known.
        evaluations: of its weights.
        video: of its newest weights, a file's content and type such as `video/mp4`; None for none.
        notes: sentences on what is missing, and why.
    """

    run: RecordedRun
    plots: Mapping[str, str]
    defaults: Mapping[str, Any] | None = None
    evaluations: Sequence[Evaluation] = ()
    video: tuple[bytes, str] | None = None
    notes: Sequence[str] = field(default_factory=list)


def page(content: Content) -> str:
    """Returns the whole page."""
    environment = Environment(
        loader=PackageLoader("pufferlib.reports", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable_lines(str(value)),
    )
    run, each = content.run, content.evaluations
    statistics = dict.fromkeys(name for one in each for name in one.scores)
    scores = [score for one in each for score in one.scores.values()]
    return environment.get_template("page.html").render(
        palette=_PALETTE,
        run=run,
        title=run.env_name or run.name,
        facts=_facts(run),
        video=content.video and f"data:{content.video[1]};base64,{base64.b64encode(content.video[0]).decode()}",
        evaluation_header=["statistic", *(f"{one.weights} weights" for one in each)],
        evaluations=[[name, *(_score_text(one.scores.get(name)) for one in each)] for name in statistics],
        episodes=f"{max((episodes for _, _, episodes in scores), default=0):,}",
        notes=content.notes,
        plots={title: Markup(svg) for title, svg in content.plots.items()},
        changed=_changed(content),
        origin=_origin(run.config),
        commands=_commands(run),
        sections=_sections(run.settings),
    )


def _facts(run: RecordedRun) -> dict[str, str]:
    return {
        "state": run.state,
        "begun": "-" if run.begun is None else f"{run.begun:%Y-%m-%d %H:%M}",
        f"last {run.score_name}": "-" if run.score is None else number_text(run.score),
        "of episodes": "-" if run.score_episodes is None else f"{run.score_episodes:,}",
        "agent steps": count_text(run.steps),
        "trained for": cost_text(run.seconds),
        "steps a second": count_text(run.steps / run.seconds) if run.seconds > 0 else "-",
        "seed": str(run.config.get("seed", "-")),
    }


def _score_text(score: tuple[float, float, int] | None) -> str:
    if score is None:
        return "-"
    mean, error, _ = score
    return f"{number_text(mean)} ± {float(f'{error:.2g}'):g}" if math.isfinite(error) else number_text(mean)


def _changed(content: Content) -> list[list[str]] | None:
    if content.defaults is None:
        return None
    return [
        [name, format_value(value), format_value(content.defaults[name])]
        for name, value in flat_settings(content.run.settings).items()
        if name in content.defaults and content.defaults[name] != value
    ]


def _origin(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    computation = config.get("computation") or {}
    others = {
        "git commit": config.get("git_commit"),
        "computed by": computation.get("by"),
        "because": computation.get("because"),
        "policy": config.get("policy_class"),
    }
    versions = config.get("versions") or {}
    return [*versions.items(), *((name, value) for name, value in others.items() if value)]


def _commands(run: RecordedRun) -> list[str]:
    if run.env_name is None:
        return []
    return [
        shlex.join(["puffer", "train", run.env_name, "--config", str(run.folder / CONFIG_FILE)]),
        shlex.join(["puffer", "eval", run.env_name, "--load-model-path", str(run.folder / "last.pt")]),
    ]


def _sections(settings: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    top = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    sections = {"base": top, **{name: value for name, value in settings.items() if isinstance(value, Mapping)}}
    return {
        name: [(key, format_value(value)) for key, value in values.items()]
        for name, values in sections.items()
        if values and name != "sweep"  # settings of a search, which this run is not
    }
