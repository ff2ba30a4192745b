"""The options that single commands take besides the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pufferlib.settings.setting import Section, setting

PRETRAINED = "Take the trained agent that comes with the package."


@dataclass(frozen=True)
class TrainOptions(Section):
    """`puffer train` is configured by settings alone."""


@dataclass(frozen=True)
class EvalOptions(Section):
    """How `puffer eval` plays."""

    pretrained: bool = setting(False, PRETRAINED)
    episodes: int = setting(
        100,
        "Games to play before it ends by itself; of several agents each adds to the scores. In snake, where they begin "
        "and end apart, an agent's episode is a game.",
        "[1, inf)",
    )
    deterministic: bool | None = setting(
        None, "True takes the policy's likeliest actions, as where nothing is said; False draws them, as --sample does."
    )
    sample: bool = setting(False, "Draw actions from the policy instead of taking the likeliest.")
    max_steps: int = setting(20_000, "Steps in each environment after which running episodes are given up.", "[1, inf)")
    seed: int | None = setting(None, "Of the environments and of drawn actions; None is that of [train].", "[0, inf)")
    headless: bool = setting(False, "Play without a window.")
    video: str | None = setting(None, "A file to show it in, .mp4 or .gif, in place of the window; needs no display.")
    window: bool = setting(False, "Show a window while a video is written too.")
    grid: int = setting(1, "Environments in one picture, side by side.", "[1, 64]")
    panel: bool = setting(False, "Show what the agent sees and thinks beside the picture; in a window TAB does.")
    speed: float = setting(1.0, "Seconds of the game in one second, of a window or a video.", "[0.125, 64]")
    fps: float | None = setting(
        None,
        "Pictures a second; None is 60, or for environments that draw only their steps as many as those.",
        "[1, 240]",
    )

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest actions are taken; else they are drawn."""
        return not self.sample if self.deterministic is None else self.deterministic


@dataclass(frozen=True)
class PlayOptions(Section):
    """How a person plays."""

    speed: float = setting(1.0, "Seconds of the game in one second; each speed has scores of its own.", "[0.1, 10]")
    seed: int | None = setting(None, "Of the first game; None is another one every time.", "[0, inf)")


@dataclass(frozen=True)
class SweepOptions(Section):
    """Short names of what `puffer sweep` takes from [sweep]; None is what that says."""

    storage: str | None = setting(None, "Where studies are kept; short for --sweep.storage.")
    study: str | None = setting(None, "The study's name; short for --sweep.study.")
    workers: int | None = setting(None, "Trials side by side; short for --sweep.workers.", "[1, 1024]")


@dataclass(frozen=True)
class BenchOptions(Section):
    """How `puffer bench` measures."""

    seconds: float = setting(2.0, "How long to time each row of the table.", "(0, inf)")


@dataclass(frozen=True)
class ExportOptions(Section):
    """What `puffer export` writes."""

    pretrained: bool = setting(False, PRETRAINED)
    format: Literal["onnx", "torchscript", "c"] = setting("onnx", "A file for ONNX or TorchScript, or a folder of C.")
    output: str | None = setting(None, "The file, or the folder; None is one named for the environment, here.")


@dataclass(frozen=True)
class RunsOptions(Section):
    """How `puffer runs` lists.

    A score is the mean over the episodes of the last log, and its name says of what: the statistic by which the
    environment counts as solved, such as perf, or else the return. Runs that differ in settings from others of their
    environment say in which. The first column is a run's name for `puffer plot RUN...` and `puffer report RUN`.

    A run is running while a process writes to its folder, finished when it took all its steps, stopped when it ended
    early and what it learned was saved, and failed when it ended without saving that.
    """

    data_dir: str = setting("experiments", "The folder of the runs.")
    env: str | None = setting(None, "List the runs of this environment alone.")
    sort: Literal["date", "score", "steps", "time"] = setting(
        "date", "What comes first: the newest, the best of each environment, the one with most steps, or the longest."
    )
    limit: int | None = setting(None, "How many to list at most.", "[1, inf)")


@dataclass(frozen=True)
class PlotOptions(Section):
    """How `puffer plot` draws.

    RUN is a path to the run's folder, its name, its id or the end of that as `puffer runs` shows it, `latest`, an
    environment for its latest run, or a pattern such as 'puffer_pong_*' for several.
    """

    metric: str | None = setting(
        None,
        "Names or patterns with commas between, such as environment/score,'losses/*'; performance is the time split. "
        "None takes score, returns, speed, losses and the time split.",
    )
    x: Literal["agent_steps", "uptime"] = setting("agent_steps", "What the curves are drawn over.")
    output: str | None = setting(
        None, "The picture, a .png, .svg or .pdf; None is one here, named for the run. Needs the extra plot."
    )
    terminal: bool = setting(False, "Draw on the terminal instead, which needs no extra.")
    data_dir: str = setting("experiments", "The folder of the runs.")


@dataclass(frozen=True)
class ProfileOptions(Section):
    """How `puffer profile` measures."""

    seconds: float = setting(10.0, "How long to measure, after a warm-up; the profiler comes after that.", "(0, inf)")
    output: str | None = setting(None, "The trace, a .json; None is one here, named for the environment.")


@dataclass(frozen=True)
class ReportOptions(Section):
    """What `puffer report` puts on the page, which is one file that asks no network for anything.

    RUN is a path to the run's folder, its name, its id or the end of that as `puffer runs` shows it, `latest`, or an
    environment for its latest run. Curves need the extra plot, a video in mp4 the extra video.
    """

    output: str | None = setting(None, "The page, an .html; None is report.html in the run's folder.")
    episodes: int = setting(100, "Episodes to evaluate the newest and the best weights over; 0 for none.", "[0, inf)")
    video: bool = setting(True, "Show an episode; --no-video leaves it out.")
    data_dir: str = setting("experiments", "The folder of the runs.")


@dataclass(frozen=True)
class NewOptions(Section):
    """What `puffer new` does besides copying ocean/template under another name, in the checkout that it runs from.

    NAME is lower-case letters, digits and underscores, such as my_game: the environment is puffer_my_game then.
    """

    build: bool = setting(True, "Compile it; --no-build leaves that to you.")
