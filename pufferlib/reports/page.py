"""The page of a run: one HTML file with everything in it, which asks no network for anything."""

from __future__ import annotations

import base64
import contextlib
import io
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pufferlib.config import load_config
from pufferlib.config.flags import EvalOptions, ReportOptions
from pufferlib.dashboard.output import page_template, printable, say
from pufferlib.dashboard.panel import BACKGROUND, CYAN, RED, WHITE, cost_text, count_text, number_text
from pufferlib.dashboard.score import Score, error_text
from pufferlib.errors import CheckpointError, ConfigError, PufferError, is_installed
from pufferlib.families.catalog import needs_module
from pufferlib.reports.figures import GRID, MUTED, SURFACE, panel_svg, panels
from pufferlib.reports.recorded_run import RecordedRun, find_run, flat_settings
from pufferlib.runs.folder import CONFIG_FILE, NAMED, write_atomically
from pufferlib.setting import format_value

FILE_NAME = "report.html"
_VIDEO_STEPS = 500  # of the environment: at most 10 to 40 seconds
_GIF_PICTURES = 20.0  # a second
_PALETTE = {
    **{"cyan": CYAN, "red": RED, "white": WHITE, "background": BACKGROUND, "surface": SURFACE},
    **{"grid": GRID, "muted": MUTED},
}


def report_command(word: str, options: ReportOptions) -> None:
    """Writes the page of the run that a word means, see `find_run`; it may still be running."""
    run = find_run(word, options.data_dir)
    path = run.folder / FILE_NAME if options.output is None else Path(options.output)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"the output must end in .html, got {str(path)!r}")
    write_atomically(path, page(run, options.episodes, options.video, word == run.env_name).encode())
    print(printable(f"reported {run.name} in {path}"))


def page(run: RecordedRun, episodes: int, video: bool, is_env_named: bool = False) -> str:
    """Returns the page of a run; what is missing becomes a note on it, with the reason.

    The last and the best weights are evaluated over `episodes`, 0 for none; the video is of an episode of the newest.
    A module with the environment is imported where the user named that, not because a file does.
    """
    notes: list[str] = []
    plots: dict[str, Markup] = {}
    scores: dict[str, Mapping[str, Score]] = {}
    source = None
    with _noting(notes, "No curves"):
        for panel in panels([run]):
            last = "" if panel.is_stacked else f", in the end {panel.curves[0].ys[-1]:.4g}"
            plots[f"{panel.title} over agent steps{last}"] = Markup(panel_svg(panel))
    saved = [name for name in reversed(NAMED) if (run.folder / f"{name}.pt").exists()]  # the newest first
    if not saved and (episodes > 0 or video):
        notes.append("Nothing was played: the run has saved no weights yet.")
    if not is_env_named and needs_module(run.env_name or "") and (episodes > 0 or video):
        remedy = f"`puffer report {run.env_name}` is of its newest run and plays"
        notes.append(f"Nothing was played: the module of {run.env_name} is imported only where you name it; {remedy}.")
        saved = []
    for weights in saved if episodes > 0 else []:
        with _noting(notes, f"The {weights} weights are not evaluated"):
            scores[weights] = _evaluate(run, weights, episodes)
    if saved and video:
        with _noting(notes, "No video"):
            source = _record(run, saved[0], notes)
    return _rendered(run, plots, scores, source, notes)


def _rendered(
    run: RecordedRun,
    plots: Mapping[str, Markup],
    scores: Mapping[str, Mapping[str, Score]],
    source: str | None,
    notes: list[str],
) -> str:
    statistics = dict.fromkeys(name for each in scores.values() for name in each)
    top = {name: value for name, value in run.settings.items() if not isinstance(value, Mapping)}
    return page_template("pufferlib.reports", "page.html").render(
        palette=_PALETTE,
        run=run,
        title=run.env_name or run.name,
        facts=_facts(run),
        video=source,
        evaluation_header=["statistic", *(f"{weights} weights" for weights in scores)],
        evaluations=[
            [name, *(error_text(each[name]) if name in each else "-" for each in scores.values())]
            for name in statistics
        ],
        episodes=f"{max((score.episodes for each in scores.values() for score in each.values()), default=0):,}",
        notes=notes,
        plots=plots,
        changed=_changed(run),
        origin=_origin(run.config),
        commands=_commands(run),
        sections={
            name: [(key, format_value(value)) for key, value in values.items()]
            for name, values in {"base": top, **run.settings}.items()
            if values and isinstance(values, Mapping) and name != "sweep"  # settings of a search, which this run is not
        },
    )


@contextlib.contextmanager
def _noting(notes: list[str], missing: str) -> Iterator[None]:
    try:
        yield
    except PufferError as error:
        notes.append(f"{missing}: {error}")
    except Exception as error:  # the environment may raise anything
        notes.append(f"{missing}: {type(error).__name__}: {error}")


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
    computation, versions = (
        found if isinstance(found := config.get(name), Mapping) else {} for name in ("computation", "versions")
    )
    others = {
        "git commit": config.get("git_commit"),
        "computed by": computation.get("by"),
        "because": computation.get("because"),
        "policy": config.get("policy_class"),
    }
    return [*versions.items(), *((name, value) for name, value in others.items() if value)]


def _commands(run: RecordedRun) -> list[str]:
    if run.env_name is None:
        return []
    begun, policy = run.settings.get("load_model_path"), str(run.settings.get("policy_name"))
    flags = [] if begun is None else ["--load-model-path", str(begun)]
    flags += ["--policy-name", policy] if ":" in policy else []  # which `--config` imports only where it is typed
    return [
        shlex.join(["puffer", "train", run.env_name, "--config", str(run.folder / CONFIG_FILE), *flags]),
        shlex.join(["puffer", "eval", run.env_name, "--load-model-path", str(run.folder / "last.pt")]),
    ]


def _evaluate(run: RecordedRun, weights: str, episodes: int) -> dict[str, Score]:
    from pufferlib.play.scores import evaluate_model  # it imports torch

    args = _args(run, weights)
    say(f"playing {episodes} episodes with the {weights} weights")
    return evaluate_model(run.env_name, args, episodes)


def _record(run: RecordedRun, weights: str, notes: list[str]) -> str | None:
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
        kind = "image/gif" if is_gif else "video/mp4"
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _args(run: RecordedRun, weights: str) -> dict[str, Any]:
    from pufferlib.runs.description import model_settings

    if run.env_name is None:
        raise CheckpointError(f"{run.folder} does not name its environment")
    args = load_config(run.env_name)
    args["load_model_path"] = str(run.folder / f"{weights}.pt")
    return model_settings(run.env_name, args, is_policy_named=False)


def _changed(run: RecordedRun) -> list[list[str]] | None:
    # The settings that differ from the defaults; None where these are not known.
    try:
        if run.env_name is None or needs_module(run.env_name):
            return None
        defaults = flat_settings(load_config(run.env_name))
    except PufferError:
        return None
    return [
        [name, format_value(value), format_value(defaults[name]) if name in defaults else "-"]
        for name, value in flat_settings(run.settings).items()
        if defaults.get(name) != value
    ]
