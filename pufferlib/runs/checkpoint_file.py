"""A checkpoint in one file of the user's choice: what a trainer has learnt, without its environments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib.errors import APIUsageError, CheckpointError
from pufferlib.runs import checkpoint
from pufferlib.runs.checkpoint_pattern import Mismatch, Pattern, check, count, demand, describe, number, seconds

KEYS = {"format", "policy", "parts", "optimizer", "progress", "metadata"}
"""What a file holds."""

PROGRESS: Pattern = {"epoch": count, "global_step": count, "uptime": seconds, "learning_rate": number()}
"""How far a trainer was."""


def plain_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The user's notes as a checkpoint holds them: None, bools, numbers, text, lists and dicts of them.

    NumPy scalars become Python's.

    Raises:
        APIUsageError: naming the first key with something else in it.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise APIUsageError(f"metadata must be a dict, got {type(metadata).__name__}")
    return _plain(metadata, "metadata")


def _plain(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise APIUsageError(f"the keys of {place} must be text, got {key!r}; use str({key!r})")
        return {str(key): _plain(entry, f"{place}[{key!r}]") for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry, f"{place}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    for kind in (bool, int, float, str):  # subclasses too, which a checkpoint could not hold as they are
        if isinstance(value, kind):
            return kind(value)
    raise APIUsageError(
        f"{place} must be a number, text, None, or a list or dict of them, got {type(value).__name__}; "
        "convert it first, as with .item() or .tolist()"
    )


def check_metadata(found: Any, place: str) -> None:
    """Compares what was loaded with what `plain_metadata` returns; see `checkpoint_pattern`."""
    demand(type(found) is dict, place, "a dict", found)
    try:
        plain_metadata(found)
    except (APIUsageError, RecursionError) as error:
        raise Mismatch(f"{place} must be plain numbers, text, lists and dicts ({error})") from error


def save(
    path: str | Path,
    weights: dict[str, torch.Tensor],
    parts: dict[str, Any],
    optimizer: str,
    progress: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> str:
    """Writes the file, whole or not at all; its folders are made.

    Args:
        path: such as `checkpoint.pt`.
        weights: of the policy.
        parts: the state of whatever else learns, by name.
        optimizer: its name, which is checked before its state is loaded.
        progress: numbers for the trainer.
        metadata: from `plain_metadata`.

    Returns:
        The path as text.

    Raises:
        CheckpointError: if the path is a folder.
    """
    if Path(path).is_dir():
        raise CheckpointError(f"a checkpoint must be a file, and {path} is a folder; name one in it")
    content = {
        "format": checkpoint.FORMAT,
        "policy": weights,
        "parts": parts,
        "optimizer": optimizer,
        "progress": dict(progress),
        "metadata": dict(metadata),
    }
    checkpoint.save(Path(path), content)
    return str(path)


def read(path: str | Path) -> dict[str, Any]:
    """What `save` wrote.

    Raises:
        CheckpointError: if there is no such file, or it is damaged or no checkpoint of a trainer.
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint {path}; pass a file of save_checkpoint(path), or a run folder")
    found = checkpoint.load(path)
    if not isinstance(found, dict) or not found.keys() >= KEYS - {"format"}:
        raise CheckpointError(_describe_other(path, found))
    checkpoint.require_format(path, found)
    return found


def check_content(
    path: Path, found: Mapping[str, Any], policy: nn.Module, parts: Mapping[str, Pattern], optimizer: str
) -> None:
    """Compares what was read from a path with what a trainer would have saved.

    Args:
        path: what messages call it.
        found: from `read`.
        policy: that the weights are for.
        parts: what the state of everything else that learns must look like, by name; see `checkpoint_pattern`.
        optimizer: its name.

    Raises:
        CheckpointError: if it is of another policy or optimizer, or the file is damaged.
    """
    checkpoint.check_policy_weights(policy, found["policy"], path)
    saved = describe(found["optimizer"])
    if saved != repr(optimizer):
        raise CheckpointError(
            f"{path} was saved with the optimizer {saved}, this trainer has {optimizer!r}; make it with "
            f"optimizer={saved}"
        )
    if isinstance(found["parts"], dict) and found["parts"].keys() != parts.keys():
        raise CheckpointError(
            f"{path} was saved by a trainer with {', '.join(map(str, found['parts']))}, this one has "
            f"{', '.join(parts)}; make it with the same normalize_rewards"
        )
    try:
        check(found["parts"], dict(parts), "parts")
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
