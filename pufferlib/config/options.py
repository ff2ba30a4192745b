"""The options that single commands take besides the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pufferlib.settings.setting import Section, setting


@dataclass(frozen=True)
class TrainOptions(Section):
    """`puffer train` is configured by settings alone."""


@dataclass(frozen=True)
class EvalOptions(Section):
    """How `puffer eval` plays."""

    episodes: int = setting(100, "Episodes to play before it ends by itself.", "[1, inf)")
    sample: bool = setting(False, "Draw actions from the policy instead of taking the likeliest.")
    headless: bool = setting(False, "Play without a window.")
    max_steps: int = setting(20_000, "Steps in each environment after which running episodes are given up.", "[1, inf)")


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

    format: Literal["onnx", "torchscript"] = setting("onnx", "The kind of file.")
    output: str | None = setting(None, "The file, or the folder for it; None is one named for the environment, here.")
