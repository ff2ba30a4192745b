"""`export_policy`, for all formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, ExportError, nearest
from pufferlib.export.c_format import c_files, write_folder
from pufferlib.export.one_step import OneStep, space_text
from pufferlib.export.onnx_format import onnx_bytes
from pufferlib.export.torchscript_format import torchscript_bytes
from pufferlib.runs.making import environment_name
from pufferlib.runs.whole_files import write_atomically
from pufferlib.vector import Vector

ENDINGS = {"onnx": ".onnx", "torchscript": ".pt", "c": "_c"}
FORMATS = tuple(ENDINGS)


def export_policy(
    policy: nn.Module,
    env: PufferEnv | Vector,
    path: str | Path,
    format: str = "onnx",
    notes: Mapping[str, str] | None = None,
    observations: np.ndarray | None = None,
) -> Path:
    """Writes a policy for programs without this package, after running the export and comparing its results.

    Args:
        policy: as pufferlib.models describes, of any device; it stays unchanged.
        env: the environment or vector that it plays, for the spaces; it is not stepped.
        path: of the file, or of the folder for C; an earlier export is replaced.
        format: `onnx`, `torchscript` or `c`.
        notes: further notes for the file, such as the run of the weights.
        observations: of real play, to compare on besides random ones; `(steps, rows, *observation_shape)`.

    Returns:
        The path.

    Raises:
        APIUsageError: if there is no such format, or the folder has other things in it.
        ExportError: if the format cannot express the policy; the message says why, and which one can.
        MissingExtraError: if the format needs packages that are not installed.
        StorageError: if it cannot be written.
    """
    if format not in FORMATS:
        raise APIUsageError(f"format must be {', '.join(FORMATS)}, got {format!r}{nearest(format, FORMATS)}")
    path, env_name = Path(path), environment_name(env)
    driver = getattr(env, "driver_env", env)
    _check_observations(driver)
    step = OneStep(policy, driver)
    notes = _notes(env_name, driver, notes or {})
    if format == "c":
        write_folder(path, c_files(step, policy, driver, c_name(env_name), notes, observations))
    else:
        written = {"onnx": onnx_bytes, "torchscript": torchscript_bytes}[format](step, notes, observations)
        write_atomically(path, written)
    return path


def _check_observations(env: PufferEnv) -> None:
    layout = getattr(env, "emulated", None)
    if layout is not None and layout.is_bytes:
        raise ExportError(
            "no format can express observations whose parts have different types, which lie in rows of bytes; give all "
            f"parts one type, such as float32, got {layout.parts_text()}"
        )


def c_name(env_name: str) -> str:
    """An environment's name in C: `puffer_breakout` -> `breakout`, `CartPole-v1` -> `cartpole_v1`."""
    short = re.sub(r"\W+", "_", env_name.removeprefix("puffer_"), flags=re.ASCII).strip("_").lower()
    return short if short[:1].isalpha() else f"env_{short}"


def file_name(env_name: str, format: str) -> str:
    """The default name of an export."""
    return f"{c_name(env_name)}{ENDINGS[format]}"


def _notes(env_name: str, driver: PufferEnv, more: Mapping[str, str]) -> dict[str, str]:
    return {
        "environment": env_name,
        "observation_space": space_text(driver.single_observation_space),
        "action_space": space_text(driver.single_action_space),
        "pufferlib": metadata.version("pufferlib"),
        "torch": torch.__version__,
        **more,
    }
