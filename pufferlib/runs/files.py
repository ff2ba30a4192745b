"""What the files in the folder of a run are called, and the notes among them; it needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG_FILE = "config.json"
LOCK_FILE = ".lock"
TRAINER_STATE = "trainer_state.pt"

NAMED = ("best", "last")
"""Weights that have names of their own, `best.pt` with a note `best.json`: see `checkpoint.save_named`."""


def read_note(folder: Path, name: str) -> dict[str, Any]:
    """The facts that were saved with weights of that name; empty where there are none, or none that can be read."""
    try:
        note = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
