"""A checkpoint in one file of the user's choice: what a trainer has learnt, without its environments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError
from pufferlib.runs import checkpoint
from pufferlib.runs.checkpoint_pattern import Mismatch, Pattern, check, count, describe, number, seconds
from pufferlib.runs.metadata import check_metadata
from pufferlib.runs.state_patterns import learning_pattern
from pufferlib.runs.trainer_state import Loaded, Progress, TrainerParts, learning_state, load_learning_state

KEYS = {"format", "policy", "parts", "optimizer", "progress", "metadata"}
"""What a file holds at least; those of before have no description."""

PROGRESS: Pattern = {"epoch": count, "global_step": count, "uptime": seconds, "learning_rate": number()}
"""How far a trainer was."""


def save(
    path: str | Path,
    parts: TrainerParts,
    progress: Progress,
    metadata: Mapping[str, Any],
    description: Mapping[str, Any],
) -> str:
    """Writes the file, whole or not at all; its folders are made.

    Args:
        path: such as `checkpoint.pt`.
        parts: of the trainer; what learns among them is kept.
        progress: of which the steps that nobody learned from yet do not count here.
        metadata: from `plain_metadata`.
        description: of the run, as its `config.json` has it, by which an agent is made of the file.

    Returns:
        The path as text.

    Raises:
        CheckpointError: if the path is a folder.
        StorageError: if it cannot be written.
    """
    if Path(path).is_dir():
        raise CheckpointError(f"a checkpoint must be a file, and {path} is a folder; name one in it")
    content = {
        "format": checkpoint.FORMAT,
        "policy": parts.policy.state_dict(),
        "parts": learning_state(parts),
        "optimizer": parts.learner.config.optimizer,
        "progress": {
            "epoch": progress.epoch,
            "global_step": progress.global_step - progress.untrained_steps,
            "uptime": progress.uptime,
            "learning_rate": float(progress.learning_rate),
        },
        "metadata": dict(metadata),
        "description": json.loads(json.dumps(description, default=str)),
    }
    checkpoint.save(Path(path), content)
    return str(path)


def load(path: Path, parts: TrainerParts, ranks: Ranks) -> Loaded:
    """Puts back what learns, as `save` wrote it; the environments stay as they are, and what was measured is ended.

    Args:
        path: of the file, which the first process reads for all.
        parts: of the trainer that is to go on.
        ranks: this process among all.

    Raises:
        CheckpointError: if there is no such file, or it is damaged, no checkpoint of a trainer, or of a trainer of
            other parts; then all is as it was.
    """
    found = ranks.from_first(lambda: _read(path, lambda content: _check_content(path, content, parts)))
    _check_content(path, found, parts)
    load_learning_state(parts, found["parts"])
    parts.policy.load_state_dict(found["policy"])
    parts.report.end_interval()
    epoch, step = found["progress"]["epoch"], found["progress"]["global_step"]
    progress = Progress(**found["progress"], untrained_steps=0, logged_epoch=epoch, logged_step=step, losses={})
    return Loaded(progress, None, found["metadata"])


def _read(path: Path, accept: Callable[[Any], None]) -> dict[str, Any]:
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint {path}; pass a file of save_checkpoint(path), or a run folder")
    accept(checkpoint.read_outline(path))
    return checkpoint.load(path)


def _check_content(path: Path, found: Any, parts: TrainerParts) -> None:
    if not isinstance(found, dict) or not found.keys() >= KEYS - {"format"}:
        raise CheckpointError(_describe_other(path, found))
    checkpoint.require_format(path, found)
    checkpoint.check_policy_weights(parts.policy, found["policy"], path)
    saved, optimizer = describe(found["optimizer"]), parts.learner.config.optimizer
    if saved != repr(optimizer):
        raise CheckpointError(
            f"{path} was saved with the optimizer {saved}, this trainer has {optimizer!r}; make it with "
            f"optimizer={saved}"
        )
    pattern = learning_pattern(parts)
    if isinstance(found["parts"], dict) and found["parts"].keys() != pattern.keys():
        raise CheckpointError(
            f"{path} was saved by a trainer with {', '.join(map(str, found['parts']))}, this one has "
            f"{', '.join(pattern)}; make it with the same normalize_rewards"
        )
    try:
        check(found["parts"], pattern, "parts")
        check(found["progress"], PROGRESS, "progress")
        check_metadata(found["metadata"], "metadata")
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; make the trainer as it was then"
        ) from error


def _describe_other(path: Path, found: Any) -> str:
    if isinstance(found, dict) and all(isinstance(value, torch.Tensor) for value in found.values()):
        return f"{path} holds weights alone; load them by policy.load_state_dict or [base] load_model_path"
    if path.name == checkpoint.TRAINER_STATE:
        return f"{path} is a part of a run; pass its folder {path.parent}"
    return f"{path} holds no checkpoint of a trainer; pass a file of save_checkpoint(path), or a run folder"
