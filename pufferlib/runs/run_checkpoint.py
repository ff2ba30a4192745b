"""The checkpoint in the folder of a run: the weights, and beside them everything else that a resume needs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError
from pufferlib.families.catalog import slug
from pufferlib.runs.checkpoint import (
    FORMAT,
    check_policy_weights,
    link_last,
    load,
    read_outline,
    require_format,
    save,
)
from pufferlib.runs.checkpoint_pattern import describe
from pufferlib.runs.files import TRAINER_STATE
from pufferlib.runs.state_patterns import check_trainer_state
from pufferlib.runs.trainer_state import Progress, TrainerParts, learning_state


def model_path(folder: Path, env_name: str, epoch: int) -> Path:
    """Returns the path of the weights after a number of epochs."""
    return folder / f"model_{slug(env_name)}_{epoch:06d}.pt"


def note(env_name: str, progress: Progress) -> dict[str, Any]:
    """Returns the note beside weights that have a name of their own; see `save_named`."""
    return {"env": env_name, "agent_steps": progress.global_step, "epoch": progress.epoch}


def save_checkpoint_folder(
    folder: Path,
    env_name: str,
    parts: TrainerParts,
    progress: Progress,
    ranks: list[dict[str, Any]],
    metadata: Mapping[str, Any],
) -> None:
    """Writes the weights to `model_path`, then the rest; a kill leaves the checkpoint before it whole.

    Raises:
        StorageError: if it cannot be written.
    """
    model = model_path(folder, env_name, progress.epoch)
    save(model, parts.policy.state_dict())
    state = {
        **{"format": FORMAT, "env": env_name, "model": model.name},
        **asdict(progress),
        **{"learning": learning_state(parts), "ranks": ranks, "metadata": metadata},
    }
    save(folder / TRAINER_STATE, state)
    link_last(model, note(env_name, progress))


def read_checkpoint_folder(
    folder: Path, env_name: str, parts: TrainerParts, ranks: Ranks
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads the weights and the state in a folder, and checks them; the first process reads for all.

    Raises:
        CheckpointError: if there is no checkpoint, it is damaged, or does not fit the environment or the parts.
    """
    path, model = folder / TRAINER_STATE, ranks.from_first(lambda: find_weights(folder, env_name))

    weights, state = ranks.from_first(lambda: (_read(model, env_name, load), _read(path, env_name, load)))
    check_policy_weights(parts.policy, weights, model)
    check_trainer_state(path, state, parts, ranks.world_size)
    return weights, state


def find_weights(folder: Path, env_name: str) -> Path:
    """Returns the file with the weights of the checkpoint in a folder, which is not read.

    Raises:
        CheckpointError: if there is no checkpoint, it is damaged, or of another environment or version.
    """
    path = folder / TRAINER_STATE
    state = _read(path, env_name, read_outline)
    require_format(path, state)
    saved_env, name = describe(state.get("env")).strip("'"), state.get("model")
    if saved_env != env_name:
        raise CheckpointError(f"{path} must be of a run of {env_name}, got one of {saved_env}")
    if type(name) is not str or Path(name).name != name:  # a path would lead out of the folder
        raise CheckpointError(f"{path} must name the weights beside it, got {describe(name)}; use another checkpoint")
    return folder / name


def _read(path: Path, env_name: str, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except CheckpointError as error:
        whole = _newest_whole(path, env_name) if path.exists() else None
        if whole is None:
            raise
        raise CheckpointError(
            f"{error}, such as {whole}, from whose weights --load-model-path begins a new run"
        ) from error


def _newest_whole(damaged: Path, env_name: str) -> Path | None:  # weights beside a damaged file
    for path in sorted(damaged.parent.glob(f"model_{slug(env_name)}_*.pt"), reverse=True):
        with contextlib.suppress(CheckpointError):
            load(path)
            return path
    return None
