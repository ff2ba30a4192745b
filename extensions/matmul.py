"""The padding that matmul.h needs of matrices."""

from __future__ import annotations

from pufferlib.extensions.cpu_library import CONSTANTS

LANES = CONSTANTS["MATMUL_LANES"]


def padded(columns: int) -> int:
    """Columns up to a whole number of registers."""
    return -(-columns // LANES) * LANES
