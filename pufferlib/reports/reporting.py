"""`puffer report`: collects the content of a run's page, and writes it."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pufferlib.config import load_config
from pufferlib.config.options import EvalOptions
from pufferlib.errors import CheckpointError, PufferError
from pufferlib.extras import is_installed
from pufferlib.families.catalog import find_recorded, needs_module
from pufferlib.metrics.output import printable, say
from pufferlib.reports.curves import Panel, panels
from pufferlib.reports.differences import flat_settings
from pufferlib.reports.figures import panel_svg
from pufferlib.reports.finding import find_run
from pufferlib.reports.page import Content, Evaluation, page
from pufferlib.reports.recorded_run import RecordedRun
from pufferlib.runs.files import NAMED
from pufferlib.runs.whole_files import write_atomically

FILE_NAME = "report.html"
_VIDEO_STEPS = 500  # of the environment: at most 10 to 40 seconds
_GIF_PICTURES = 20.0  # a second


def report_command(
    word: str,
    output: str | None = None,
    episodes: int = 100,
    video: bool = True,
    data_dir: str = "experiments",
) -> None:
    """Writes the page of the run that a word means, see `find_run`; it may still be running."""
    run = find_run(word, data_dir)
    path = Path(output) if output is not None else run.folder / FILE_NAME
    text = page(gather(run, episodes, video))
    write_atomically(path, text.encode())
    print(printable(f"reported {run.name} in {path}"))


def gather(run: RecordedRun, episodes: int, video: bool) -> Content:
    """Collects the content of a run's page; what is missing becomes a note on it, with the reason."""
    notes: list[str] = []
    plots = _noting(notes, "no curves", lambda: dict(_plots(run))) or {}
    saved = [name for name in reversed(NAMED) if (run.folder / f"{name}.pt").exists()]  # the newest first
    if not saved and (episodes > 0 or video):
        notes.append("Nothing was played: the run has saved no weights yet.")
    evaluations = []
    for weights in saved if episodes > 0 else []:
        missing = f"the {weights} weights are not evaluated"
        scores = _noting(notes, missing, partial(_evaluate, run, weights, episodes))
        if scores:
            evaluations.append(Evaluation(weights, scores))
    shown = _noting(notes, "no video", partial(_record, run, saved[0], notes)) if saved and video else None
    return Content(run, plots, _defaults(run), evaluations, shown, notes)


def _plots(run: RecordedRun) -> Iterator[tuple[str, str]]:
    for panel in panels([run]):
        last = f", in the end {panel.curves[0].ys[-1]:.4g}" if isinstance(panel, Panel) and not panel.is_stacked else ""
        yield f"{panel.title} over agent steps{last}", panel_svg(panel)


def _evaluate(run: RecordedRun, weights: str, episodes: int) -> dict[str, tuple[float, float, int]]:
    from pufferlib.play.evaluation import evaluate_model  # it imports torch

    args = _args(run, weights)
    say(f"playing {episodes} episodes with the {weights} weights")
    scores = evaluate_model(run.env_name, args, episodes)
    return {name: (score.mean, score.standard_error, score.episodes) for name, score in scores.items()}


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
    from pufferlib.runs.recorded_settings import model_settings

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
