"""A checkpoint in the folder of a run: the weights, and beside them everything else that a resume needs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError
from pufferlib.families.catalog import slug
from pufferlib.runs import checkpoint
from pufferlib.runs.checkpoint_pattern import describe
from pufferlib.runs.state_patterns import check_trainer_state
from pufferlib.runs.trainer_state import Progress, TrainerParts, shared_state


def model_path(folder: Path, env_name: str, epoch: int) -> Path:
    """Where the weights after so many epochs of training in an environment lie."""
    return folder / f"model_{slug(env_name)}_{epoch:06d}.pt"


def note(env_name: str, progress: Progress) -> dict[str, Any]:
    """What is noted beside weights that have a name of their own; see `checkpoint.save_named`."""
    return {"env": env_name, "agent_steps": progress.global_step, "epoch": progress.epoch}


def save(
    folder: Path,
    env_name: str,
    parts: TrainerParts,
    progress: Progress,
    ranks: list[dict[str, Any]],
    metadata: Mapping[str, Any],
) -> None:
    """Writes the weights to `model_path`, then the rest; a kill leaves the checkpoint before it whole.

    Args:
        folder: of the run, which this process writes to alone.
        env_name: of the run.
        parts: of this process.
        progress: of the trainer.
        ranks: the `rank_state` of every process.
        metadata: from `plain_metadata`.

    Raises:
        StorageError: if it cannot be written.
    """
    model = model_path(folder, env_name, progress.epoch)
    checkpoint.save(model, parts.policy.state_dict())
    state = {
        "format": checkpoint.FORMAT,
        "env": env_name,
        "model": model.name,
        **shared_state(parts, progress),
        "ranks": ranks,
        "metadata": metadata,
    }
    checkpoint.save(folder / checkpoint.TRAINER_STATE, state)
    checkpoint.name_last(model, note(env_name, progress))


def read(folder: Path, env_name: str, parts: TrainerParts, ranks: Ranks) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads the weights and the state that `save` wrote; the first process does so for all.

    Args:
        folder: of the run.
        env_name: of the run that is to go on.
        parts: that all of it has to fit; they stay as they are.
        ranks: this process among all.

    Raises:
        CheckpointError: if there is no checkpoint, it is damaged, or of another environment, other settings or an older
            version.
    """
    path, model = folder / checkpoint.TRAINER_STATE, ranks.from_first(lambda: find_weights(folder, env_name))

    def check_weights(found: Any) -> None:
        checkpoint.check_policy_weights(parts.policy, found, model)

    def check_state(found: Any) -> None:
        check_trainer_state(path, found, parts, ranks.world_size)

    def read_both() -> tuple[Any, Any]:
        check_weights(_read(model, env_name, checkpoint.read_outline))
        check_state(_read(path, env_name, checkpoint.read_outline))
        return _read(model, env_name, checkpoint.load), _read(path, env_name, checkpoint.load)

    weights, state = ranks.from_first(read_both)
    check_weights(weights)
    check_state(state)
    return weights, state


def find_weights(folder: Path, env_name: str) -> Path:
    """The file with the weights of the checkpoint in a folder, which is not read.

    Raises:
        CheckpointError: if there is no checkpoint, or it is damaged, or of another environment or an older version.
    """
    path = folder / checkpoint.TRAINER_STATE
    state = _read(path, env_name, checkpoint.read_outline)
    checkpoint.require_format(path, state)
    saved_env = describe(state.get("env")).strip("'")
    if saved_env != env_name:
        raise CheckpointError(f"{path} must be of a run of {env_name}, got one of {saved_env}")
    return folder / _file_name(state.get("model"), path)


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


def _newest_whole(damaged: Path, env_name: str) -> Path | None:
    for path in sorted(damaged.parent.glob(f"model_{slug(env_name)}_*.pt"), reverse=True):
        with contextlib.suppress(CheckpointError):
            checkpoint.load(path)
            return path
    return None


def _file_name(name: Any, path: Path) -> str:
    if type(name) is not str or Path(name).name != name:
        raise CheckpointError(f"{path} must name the weights beside it, got {describe(name)}; use another checkpoint")
    return name
