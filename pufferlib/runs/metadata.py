"""The user's metadata in a checkpoint: plain numbers, text, lists and dicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pufferlib.errors import APIUsageError
from pufferlib.runs.checkpoint_pattern import Mismatch, require

MAX_METADATA = 2**20  # letters as JSON; `archive` refuses a file with many more


def plain_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the metadata as a checkpoint holds it, with Python's numbers in place of NumPy's.

    Raises:
        APIUsageError: if a value is no number, text, None, list or dict, naming its key, or if there are too many.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise APIUsageError(f"metadata must be a dict, got {type(metadata).__name__}")
    found = _plain(metadata, "metadata")
    size = len(json.dumps(found))
    if size > MAX_METADATA:
        raise APIUsageError(
            f"metadata must have at most {MAX_METADATA:,} letters as JSON, got {size:,}; keep it in another file"
        )
    return found


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
    """Raises Mismatch for metadata that `plain_metadata` would not return."""
    require(type(found) is dict, place, "a dict", found)
    try:
        plain_metadata(found)
    except (APIUsageError, RecursionError) as error:
        raise Mismatch(f"{place} must be plain numbers, text, lists and dicts ({error})") from error
