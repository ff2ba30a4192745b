"""The page of a run: one HTML file with everything in it, which asks no network for anything."""

from __future__ import annotations

import base64
import contextlib
import io
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pufferlib.config import load_config
from pufferlib.config.flags import EvalOptions, ReportOptions
from pufferlib.dashboard.output import page_template, printable, say
from pufferlib.dashboard.panel import BACKGROUND, CYAN, RED, WHITE, cost_text, count_text, number_text
from pufferlib.dashboard.score import Score, error_text
from pufferlib.errors import CheckpointError, PufferError, is_installed
from pufferlib.families.catalog import find_recorded, needs_module
from pufferlib.reports.figures import GRID, MUTED, SURFACE, panel_svg
from pufferlib.reports.recorded_run import RecordedRun, find_run, flat_settings, panels
from pufferlib.runs.folder import CONFIG_FILE, NAMED, write_atomically
from pufferlib.setting import format_value

FILE_NAME = "report.html"
_VIDEO_STEPS = 500  # of the environment: at most 10 to 40 seconds
_GIF_PICTURES = 20.0  # a second
_PALETTE = {
    **{"cyan": CYAN, "red": RED, "white": WHITE, "background": BACKGROUND, "surface": SURFACE},
    **{"grid": GRID, "muted": MUTED},
}


@dataclass(frozen=True)
class Content:
    """Everything that a page shows."""

    run: RecordedRun
    plots: Mapping[str, str]  # `<svg>` elements by their titles
    defaults: Mapping[str, Any] | None = None  # settings of its environment by whole names; None where not known
    evaluations: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)  # scores of `last` and `best` weights
    video: tuple[bytes, str] | None = None  # of its newest weights, and its type such as `video/mp4`; None for none
    notes: Sequence[str] = ()  # sentences on what is missing, and why


def report_command(word: str, options: ReportOptions) -> None:
    """Writes the page of the run that a word means, see `find_run`; it may still be running."""
    run = find_run(word, options.data_dir)
    path = run.folder / FILE_NAME if options.output is None else Path(options.output)
    write_atomically(path, page(gather(run, options.episodes, options.video)).encode())
    print(printable(f"reported {run.name} in {path}"))


def page(content: Content) -> str:
    """Returns the whole page."""
    run, scores = content.run, content.evaluations
    statistics = dict.fromkeys(name for each in scores.values() for name in each)
    episodes = max((score.episodes for each in scores.values() for score in each.values()), default=0)
    top = {name: value for name, value in run.settings.items() if not isinstance(value, Mapping)}
    changed: list[list[str]] | None = None
    if content.defaults is not None:
        changed = [
            [name, format_value(value), format_value(content.defaults[name])]
            for name, value in flat_settings(run.settings).items()
            if name in content.defaults and content.defaults[name] != value
        ]
    commands: list[str] = []
    if run.env_name is not None:
        commands = [
            shlex.join(["puffer", "train", run.env_name, "--config", str(run.folder / CONFIG_FILE)]),
            shlex.join(["puffer", "eval", run.env_name, "--load-model-path", str(run.folder / "last.pt")]),
        ]
    return page_template("pufferlib.reports", "page.html").render(
        palette=_PALETTE,
        run=run,
        title=run.env_name or run.name,
        facts=_facts(run),
        video=content.video and f"data:{content.video[1]};base64,{base64.b64encode(content.video[0]).decode()}",
        evaluation_header=["statistic", *(f"{weights} weights" for weights in scores)],
        evaluations=[
            [name, *(error_text(each[name]) if name in each else "-" for each in scores.values())]
            for name in statistics
        ],
        episodes=f"{episodes:,}",
        notes=content.notes,
        plots={title: Markup(svg) for title, svg in content.plots.items()},
        changed=changed,
        origin=_origin(run.config),
        commands=commands,
        sections={
            name: [(key, format_value(value)) for key, value in values.items()]
            for name, values in {"base": top, **run.settings}.items()
            if values and isinstance(values, Mapping) and name != "sweep"  # settings of a search, which this run is not
        },
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


def _origin(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    computation = config.get("computation") or {}
    others = {
        "git commit": config.get("git_commit"),
        "computed by": computation.get("by"),
        "because": computation.get("because"),
        "policy": config.get("policy_class"),
    }
    return [*(config.get("versions") or {}).items(), *((name, value) for name, value in others.items() if value)]


def gather(run: RecordedRun, episodes: int, video: bool) -> Content:
    """Collects the content of a run's page; what is missing becomes a note on it, with the reason."""
    notes: list[str] = []
    plots = _noting(notes, "no curves", lambda: dict(_plots(run))) or {}
    saved = [name for name in reversed(NAMED) if (run.folder / f"{name}.pt").exists()]  # the newest first
    if not saved and (episodes > 0 or video):
        notes.append("Nothing was played: the run has saved no weights yet.")
    evaluations = {}
    for weights in saved if episodes > 0 else []:
        missing = f"the {weights} weights are not evaluated"
        scores = _noting(notes, missing, partial(_evaluate, run, weights, episodes))
        if scores:
            evaluations[weights] = scores
    shown = _noting(notes, "no video", partial(_record, run, saved[0], notes)) if saved and video else None
    return Content(run, plots, _defaults(run), evaluations, shown, notes)


def _plots(run: RecordedRun) -> Iterator[tuple[str, str]]:
    for panel in panels([run]):
        last = f", in the end {panel.curves[0].ys[-1]:.4g}" if not panel.is_stacked else ""
        yield f"{panel.title} over agent steps{last}", panel_svg(panel)


def _evaluate(run: RecordedRun, weights: str, episodes: int) -> dict[str, Score]:
    from pufferlib.play.scores import evaluate_model  # it imports torch

    args = _args(run, weights)
    say(f"playing {episodes} episodes with the {weights} weights")
    return evaluate_model(run.env_name, args, episodes)


def _record(run: RecordedRun, weights: str, notes: list[str]) -> tuple[bytes, str] | None:
    from pufferlib.watch.evaluating import evaluate_command

    args = _args(run, weights)
    say(f"recording an episode with the {weights} weights")
    is_gif = not is_installed("imageio_ffmpeg")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "episode.gif" if is_gif else "episode.mp4")
        fps = _GIF_PICTURES if is_gif else None
        options = EvalOptions(video=str(path), episodes=1, max_steps=_VIDEO_STEPS, fps=fps)
        with contextlib.redirect_stdout(io.StringIO()):
            evaluate_command(run.env_name, args, options)
        if not path.exists():
            notes.append("No video: there was nothing to show.")
            return None
        if is_gif:
            notes.append("The video is a gif; `pip install 'pufferlib[video]'` makes it smaller and smoother.")
        return path.read_bytes(), "image/gif" if is_gif else "video/mp4"


def _args(run: RecordedRun, weights: str) -> dict[str, Any]:
    from pufferlib.runs.description import model_settings

    if run.env_name is None:
        raise CheckpointError(f"{run.folder} does not name its environment")
    find_recorded(run.env_name)
    args = load_config(run.env_name)
    args["load_model_path"] = str(run.folder / f"{weights}.pt")
    return model_settings(run.env_name, args, is_policy_named=False)


def _defaults(run: RecordedRun) -> dict[str, Any] | None:
    try:
        if run.env_name is None or needs_module(run.env_name):
            return None
        return flat_settings(load_config(run.env_name))
    except PufferError:
        return None


def _noting(notes: list[str], missing: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except PufferError as error:
        notes.append(f"{missing[0].upper()}{missing[1:]}: {error}")
        return None
