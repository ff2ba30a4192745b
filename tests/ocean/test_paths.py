"""Breadth-first search against a slow one in Python, on grids by chance and on a board of knight's moves."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
UNREACHED = 65535
WAYS = ((-1, 0), (0, -1), (1, 0), (0, 1))  # up, left, down, right as (rows, columns)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler, cc")
    path = tmp_path_factory.mktemp("paths") / "paths.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        ["cc", *flags, f"-I{ROOT / 'ocean/include'}", str(ROOT / "tests/c/paths.c"), "-o", str(path)], check=True
    )
    return ctypes.CDLL(str(path))


def address(array):
    return ctypes.c_void_p(array.ctypes.data)


def search(library, walls, start, is_torus):
    height, width = walls.shape
    distances, directions = np.zeros(walls.shape, np.uint16), np.zeros(walls.shape, np.int32)
    library.search(address(walls), width, height, int(is_torus), start, address(distances), address(directions))
    return distances, directions


def beside(cell, way, shape, is_torus):
    moved = cell[0] + way[0], cell[1] + way[1]
    if is_torus:
        return moved[0] % shape[0], moved[1] % shape[1]
    return moved if 0 <= moved[0] < shape[0] and 0 <= moved[1] < shape[1] else None


def slow_distances(walls, start, is_torus):
    """One more step at a time: what is beside a cell of that distance and was not reached before."""
    distances = np.full(walls.shape, UNREACHED)
    distances[start] = 0
    for distance in range(walls.size):
        for cell in zip(*np.nonzero(distances == distance), strict=True):
            for way in WAYS:
                found = beside(cell, way, walls.shape, is_torus)
                if found is not None and not walls[found] and distances[found] == UNREACHED:
                    distances[found] = distance + 1
    return distances


@pytest.mark.parametrize("is_torus", [False, True])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 9), (2, 2), (7, 13), (32, 32)])
def test_distances_and_directions_are_those_of_a_slow_search(library, width, height, is_torus):
    generator = np.random.default_rng(width)
    for share in (0.0, 0.2, 0.35, 0.5):
        walls = (generator.random((height, width)) < share).astype(np.uint8) * 255
        start = int(generator.integers(walls.size))
        walls.flat[start] = 0
        expected = slow_distances(walls, divmod(start, width), is_torus)
        distances, directions = search(library, walls, start, is_torus)
        np.testing.assert_array_equal(distances, expected)
        for cell in np.ndindex(walls.shape):
            nearer = [
                direction
                for direction, way in enumerate(WAYS)
                if (found := beside(cell, way, walls.shape, is_torus)) is not None
                and not walls[cell]
                and expected[found] < expected[cell]
            ]
            assert directions[cell] == (nearer[0] if nearer else -1)


def test_a_corridor_is_as_long_as_it_is(library):
    """A serpentine that fills the largest grid: every cell is one step farther than the last."""
    walls = np.ones((31, 33), np.uint8)
    walls[1::2, 1:-1] = 0
    for row in range(2, 30, 2):
        walls[row, 1 if row % 4 == 0 else 31] = 0
    distances, _ = search(library, walls, 33 + 1, False)
    assert distances[29, 31] == np.count_nonzero(walls == 0) - 1 == 15 * 31 + 14 - 1


def test_any_graph_and_several_starts_may_be_searched(library):
    distances = np.zeros(64, np.uint16)
    library.ride(0, 0, address(distances))
    assert distances.reshape(8, 8)[:3, :3].tolist() == [[0, 3, 2], [3, 4, 1], [2, 1, 4]]  # known of the corner
    assert distances.max() == 6
    alone = distances.copy()
    library.ride(0, 63, address(distances))
    np.testing.assert_array_equal(distances, np.minimum(alone, alone[::-1]))
