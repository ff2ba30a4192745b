"""What the files in the folder of a run are called, and the notes among them; it needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pufferlib.reading import read_json

CONFIG_FILE = "config.json"
LOCK_FILE = ".lock"
TRAINER_STATE = "trainer_state.pt"

NAMED = ("best", "last")
"""Weights that have names of their own, `best.pt` with a note `best.json`: see `checkpoint.save_named`."""


def read_note(folder: Path, name: str) -> dict[str, Any]:
    """The facts that were saved with weights of that name; empty where there are none, or none that can be read."""
    try:
        note = read_json(folder / f"{name}.json")
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
