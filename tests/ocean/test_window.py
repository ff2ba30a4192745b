"""Windows of grids against a slow version in Python, at every cell of grids of every shape."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
WALL = 9


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler, cc")
    path = tmp_path_factory.mktemp("window") / "window.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        ["cc", *flags, f"-I{ROOT / 'ocean/include'}", str(ROOT / "tests/c/window.c"), "-o", str(path)], check=True
    )
    loaded = ctypes.CDLL(str(path))
    loaded.has.restype = loaded.is_framed.restype = ctypes.c_bool
    return loaded


def address(array):
    return ctypes.c_void_p(array.ctypes.data)


def shape_of(width, height, border):
    return (ctypes.c_int * 3)(width, height, border)


def bordered(inside, border):
    return np.pad(inside, border, constant_values=WALL)


def seen(inside, column, row, rows, columns):
    """What is within reach of a place, walls where there is nothing."""
    height, width = inside.shape
    view = np.full((rows, columns), WALL, np.uint8)
    for down in range(rows):
        for right in range(columns):
            y, x = row - rows // 2 + down, column - columns // 2 + right
            if 0 <= y < height and 0 <= x < width:
                view[down, right] = inside[y, x]
    return view


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 7), (13, 11), (30, 3)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (11, 11), (5, 9), (9, 1)])
def test_a_window_is_what_a_slow_search_sees_from_every_cell(library, width, height, rows, columns):
    border = max(rows, columns) // 2
    inside = np.random.default_rng(0).integers(0, WALL, (height, width)).astype(np.uint8)
    cells = bordered(inside, border)
    for row in range(height):
        for column in range(width):
            guarded = np.full(rows * columns + 2, 77, np.uint8)
            view = guarded[1:-1]
            library.window(address(view), address(cells), shape_of(width, height, border), column, row, rows, columns)
            np.testing.assert_array_equal(view.reshape(rows, columns), seen(inside, column, row, rows, columns))
            assert guarded[0] == guarded[-1] == 77


@pytest.mark.parametrize(("width", "height", "border"), [(1, 1, 0), (4, 3, 1), (6, 2, 5)])
def test_a_filled_grid_has_the_inside_within_the_border(library, width, height, border):
    cells = np.zeros(library.capacity(width, height, border), np.uint8)
    library.fill(address(cells), width, height, border, 3, WALL)
    np.testing.assert_array_equal(
        cells.reshape(height + 2 * border, -1), bordered(np.full((height, width), 3, np.uint8), border)
    )


def test_a_cell_is_inside_or_is_not(library):
    shape = shape_of(4, 3, 2)
    inside = {number for number in range(-50, 200) if library.has(shape, number)}
    assert inside == {row * 8 + column for row in range(2, 5) for column in range(2, 6)}
    assert not library.has(shape, -(2**31)) and not library.has(shape, 2**31 - 1)


def test_a_hole_in_the_border_or_too_large_a_number_inside_is_found(library):
    shape, whole = shape_of(4, 3, 2), bordered(np.full((3, 4), 5, np.uint8), 2)
    assert library.is_framed(address(whole), shape, 5, WALL)
    assert not library.is_framed(address(whole), shape, 4, WALL)
    for row in range(7):
        for column in range(8):
            cells = whole.copy()
            cells[row, column] = 6
            assert not library.is_framed(address(cells), shape, 5, WALL)
