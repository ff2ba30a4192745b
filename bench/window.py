"""Windows of 11 x 11 of a grid: `python -m pytest -q -n0 bench/window.py --benchmark-enable`.

`bordered` is puffer_window.h, `clipped` asks for every cell whether it is inside. A round is 4,096 windows of one grid
of 256 x 144, as a crowd would see it; `steps` are windows.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT, VIEW, WINDOWS, REPEATS = 256, 144, 11, 4096, 16
BORDER = VIEW // 2


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("window") / "window.so"
    flags = ["-std=c11", "-O3", "-march=native", "-shared", "-fPIC", f"-I{ROOT / 'ocean/include'}"]
    subprocess.run(["cc", *flags, str(ROOT / "tests/c/window.c"), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


def address(array):
    return ctypes.c_void_p(array.ctypes.data)


def crowd():
    """A grid, and where those stand who look: columns and rows."""
    generator = np.random.default_rng(0)
    cells = generator.integers(0, 5, (HEIGHT, WIDTH)).astype(np.uint8)
    return cells, generator.integers(0, WIDTH, WINDOWS), generator.integers(0, HEIGHT, WINDOWS)


def time_windows(benchmark, look):
    def run():
        for _ in range(REPEATS):
            look()

    benchmark.extra_info["steps"] = WINDOWS * REPEATS
    benchmark.pedantic(run, rounds=41, warmup_rounds=3)


def test_bordered(benchmark, library):
    inside, columns, rows = crowd()
    cells, stride = np.pad(inside, BORDER), WIDTH + 2 * BORDER
    middles = ((rows + BORDER) * stride + columns + BORDER).astype(np.int32)
    views = np.zeros((WINDOWS, VIEW, VIEW), np.uint8)
    time_windows(benchmark, lambda: library.windows(address(views), address(cells), stride, address(middles), WINDOWS))


def test_clipped(benchmark, library):
    cells, columns, rows = crowd()
    middles = (rows * WIDTH + columns).astype(np.int32)
    views = np.zeros((WINDOWS, VIEW, VIEW), np.uint8)
    time_windows(
        benchmark,
        lambda: library.clipped_windows(address(views), address(cells), WIDTH, HEIGHT, address(middles), WINDOWS),
    )
