"""The search of bots, and the moves of games that have one, called from Python: tests/c/search_probe.c."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class Searcher:
    """A game's positions, moves and values, as its header has them.

    Attributes:
        library: the compiled functions.
    """

    def __init__(self, header: Path, position: type[ctypes.Structure], move: type, folder: Path):
        """Compiles the game's header with the probe, in a folder; skips the test where there is no compiler."""
        if shutil.which("cc") is None:
            pytest.skip(f"needs a C compiler, cc, to build {header.name}")
        path = folder / "search.so"
        flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror"]
        source = [f"-I{ROOT / 'ocean/include'}", "-include", str(header), str(ROOT / "tests/c/search_probe.c")]
        subprocess.run(["cc", *flags, "-shared", "-fPIC", *source, "-o", str(path), "-lm"], check=True)
        self.library = ctypes.CDLL(str(path))
        self._position, self._move = position, move
        assert self.library.position_size() == ctypes.sizeof(position)
        self.library.perft.restype, self.library.best.restype = ctypes.c_uint64, move

    def moves(self, position: ctypes.Structure) -> list[int]:
        """All moves, in the game's order."""
        found = (self._move * self.library.most_moves())()
        return list(found[: self.library.list_moves(ctypes.byref(position), found)])

    def play(self, position: ctypes.Structure, move: int) -> Any:
        """The position after a move."""
        following = self._position()
        self.library.play(ctypes.byref(position), self._move(move), ctypes.byref(following))
        return following

    def perft(self, position: ctypes.Structure, turns: int) -> int:
        """The number of ways to play so many turns."""
        return int(self.library.perft(ctypes.byref(position), turns))

    def value(self, position: ctypes.Structure, depth: int) -> int:
        """The value for the player to move, that many turns ahead."""
        return int(self.library.value(ctypes.byref(position), depth))

    def best(self, position: ctypes.Structure, depth: int, seed: int) -> int:
        """The move of the bot."""
        return int(self.library.best(ctypes.byref(position), depth, ctypes.c_uint64(seed)))
