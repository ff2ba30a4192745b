"""A checkpoint in one file of the user's choice: what a trainer has learnt, without its environments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib import checkpoint
from pufferlib.errors import APIUsageError, CheckpointError

KEYS = {"policy", "parts", "optimizer", "progress", "metadata"}
"""What a file holds."""


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


def save(
    path: str | Path,
    policy: nn.Module,
    parts: Mapping[str, Any],
    optimizer: str,
    progress: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> str:
    """Writes the file, whole or not at all; its folders are made.

    Args:
        path: such as `checkpoint.pt`.
        policy: its weights are kept.
        parts: whatever else learns, by name: each has `state_dict` and `load_state_dict`.
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
        "policy": policy.state_dict(),
        "parts": {name: part.state_dict() for name, part in parts.items()},
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
    if not isinstance(found, dict) or found.keys() != KEYS:
        raise CheckpointError(_describe_other(path, found))
    return found


def restore(path: Path, found: Mapping[str, Any], policy: nn.Module, parts: Mapping[str, Any], optimizer: str) -> None:
    """Puts what was read from a path back into a policy and parts like those that were saved.

    Raises:
        CheckpointError: if they were of another policy or optimizer; the policy is then as before.
    """
    checkpoint.check_policy_weights(policy, found["policy"], path)
    if found["optimizer"] != optimizer:
        raise CheckpointError(
            f"{path} was saved with the optimizer {found['optimizer']}, this trainer has {optimizer}; "
            f"make it with optimizer={found['optimizer']!r}"
        )
    if found["parts"].keys() != parts.keys():
        raise CheckpointError(
            f"{path} was saved by a trainer with {', '.join(found['parts'])}, this one has {', '.join(parts)}; "
            "make it with the same normalize_rewards"
        )
    try:
        for name, part in parts.items():
            part.load_state_dict(found["parts"][name])
    except (KeyError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path} was saved with other settings than these ({error})") from error
    policy.load_state_dict(found["policy"])


def _describe_other(path: Path, found: Any) -> str:
    if isinstance(found, dict) and all(isinstance(value, torch.Tensor) for value in found.values()):
        return f"{path} holds weights alone; load them by policy.load_state_dict or [base] load_model_path"
    if path.name == checkpoint.TRAINER_STATE:
        return f"{path} is a part of a run; pass its folder {path.parent}"
    return f"{path} holds no checkpoint of a trainer; pass a file of save_checkpoint(path), or a run folder"
