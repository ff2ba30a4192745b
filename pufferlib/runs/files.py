"""The names of the files in the folder of a run, and the notes among them; it needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pufferlib.errors import CheckpointError
from pufferlib.reading import read_json

CONFIG_FILE = "config.json"
LOCK_FILE = ".lock"
TRAINER_STATE = "trainer_state.pt"

NAMED = ("best", "last")  # weights with names of their own, `best.pt` with a note `best.json`


def read_note(folder: Path, name: str) -> dict[str, Any]:
    """Returns the facts that were saved with weights of that name; empty where none can be read."""
    try:
        note = read_json(folder / f"{name}.json")
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def find_by_ending(word: str, folders: Iterable[Path], kind: str) -> Path | None:
    """Returns the folder whose run id ends with a word; None if there is none.

    Raises:
        CheckpointError: if there are several; it calls them `kind`.
    """
    ending = sorted(folder for folder in folders if folder.name.endswith(f"_{word}"))
    if len(ending) > 1:
        names = " and ".join(folder.name for folder in ending[:3])
        raise CheckpointError(f"{len(ending)} {kind} end with {word!r}, such as {names}; write more of it")
    return ending[0] if ending else None
