"""A checkpoint in one file of the user's choice: everything that learns, without the environments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError
from pufferlib.runs.checkpoint import FORMAT, check_policy_weights, load, require_format, save
from pufferlib.runs.checkpoint_pattern import Mismatch, compare, describe, finite
from pufferlib.runs.files import TRAINER_STATE
from pufferlib.runs.metadata import check_metadata
from pufferlib.runs.state_patterns import expected_learning
from pufferlib.runs.trainer_state import Progress, TrainerParts, learning_state, load_learning_state

_PROGRESS = {"epoch": int, "global_step": int, "uptime": finite(0.0, 1e10), "learning_rate": float}


def save_checkpoint_file(
    path: str | Path,
    parts: TrainerParts,
    progress: Progress,
    metadata: Mapping[str, Any],
    description: Mapping[str, Any],
) -> str:
    """Writes the file, whole or not at all, and returns its path; its folders are made.

    Untrained steps do not count. An agent can be made from the description, which is that of `config.json`.

    Raises:
        CheckpointError: if the path is a folder.
        StorageError: if it cannot be written.
    """
    if Path(path).is_dir():
        raise CheckpointError(f"a checkpoint must be a file, and {path} is a folder; name one in it")
    content = {
        "format": FORMAT,
        "policy": parts.policy.state_dict(),
        "parts": learning_state(parts),
        "optimizer": parts.learner.config.optimizer,
        "progress": {
            "epoch": progress.epoch,
            "global_step": progress.global_step - progress.untrained_steps,
            "uptime": progress.uptime,
            "learning_rate": progress.learning_rate,
        },
        "metadata": dict(metadata),
        "description": json.loads(json.dumps(description, default=str)),
    }
    save(Path(path), content)
    return str(path)


def load_checkpoint_file(path: Path, parts: TrainerParts, ranks: Ranks) -> tuple[Progress, dict[str, Any]]:
    """Restores what `save_checkpoint_file` wrote, and ends the report's interval; environments stay as they are.

    Returns:
        The progress and the metadata.

    Raises:
        CheckpointError: if there is no such file, it is damaged, or of other parts; then nothing changed.
    """

    def read() -> Any:
        if not path.exists():
            raise CheckpointError(
                f"there is no checkpoint {path}; pass a file of save_checkpoint(path), or a run folder"
            )
        return load(path)

    found = ranks.from_first(read)
    _check_content(path, found, parts)
    load_learning_state(parts, found["parts"])
    parts.policy.load_state_dict(found["policy"])
    parts.report.end_interval()
    logged = [found["progress"]["epoch"], found["progress"]["global_step"]]
    return Progress(**found["progress"], untrained_steps=0, logged=logged, losses={}), found["metadata"]


def _check_content(path: Path, found: Any, parts: TrainerParts) -> None:
    if not isinstance(found, dict) or not found.keys() >= {"policy", "parts", "optimizer", "progress", "metadata"}:
        raise CheckpointError(_describe_other(path, found))
    require_format(path, found)
    check_policy_weights(parts.policy, found["policy"], path)
    saved, optimizer = describe(found["optimizer"]), parts.learner.config.optimizer
    if saved != repr(optimizer):
        raise CheckpointError(
            f"{path} was saved with the optimizer {saved}, this trainer has {optimizer!r}; make it with "
            f"optimizer={saved}"
        )
    expected = expected_learning(parts)
    if isinstance(found["parts"], dict) and found["parts"].keys() != expected.keys():
        raise CheckpointError(
            f"{path} was saved by a trainer with {', '.join(map(str, found['parts']))}, this one has "
            f"{', '.join(expected)}; make it with the same normalize_rewards"
        )
    try:
        compare(found["parts"], expected, "parts")
        compare(found["progress"], _PROGRESS, "progress")
        check_metadata(found["metadata"], "metadata")
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; make the trainer as it was then"
        ) from error


def _describe_other(path: Path, found: Any) -> str:
    if isinstance(found, dict) and all(isinstance(value, Tensor) for value in found.values()):
        return f"{path} holds weights alone; load them by policy.load_state_dict or [base] load_model_path"
    if path.name == TRAINER_STATE:
        return f"{path} is a part of a run; pass its folder {path.parent}"
    return f"{path} holds no checkpoint of a trainer; pass a file of save_checkpoint(path), or a run folder"
