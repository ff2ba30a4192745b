"""The arrangement of pictures of one size on a screen."""

from __future__ import annotations

import math
from dataclasses import dataclass

GAP = 12  # pixels between pictures and around them


@dataclass(frozen=True)
class Tiling:
    """Pictures of one size in rows and columns, each with room for a line below it; measures are in pixels."""

    columns: int
    picture: tuple[float, float]  # width and height of one
    scale: float
    line: int  # below each picture
    gap: int
    size: tuple[int, int]  # of all together

    def place(self, index: int) -> tuple[float, float]:
        """Returns the pixels from the left top corner of all to that of a picture."""
        row, column = divmod(index, self.columns)
        width, height = self.picture
        return self.gap + column * (width + self.gap), self.gap + row * (height + self.line + self.gap)


def tiled(count: int, size: tuple[int, int], limit: tuple[int, int], line: int = 0) -> Tiling:
    """Returns the arrangement with the largest pictures, and of several such the one with the fewest empty places.

    Args:
        count: of the pictures, at least 1.
        size: width and height of each at scale 1, which none is enlarged beyond.
        limit: width and height that all together may have.
        line: pixels below each.
    """
    gap = GAP if count > 1 else 0

    def arranged(columns: int) -> Tiling:
        rows = math.ceil(count / columns)
        widest, highest = (limit[0] - gap) / columns - gap, (limit[1] - gap) / rows - gap - line
        scale = max(1e-2, min(1.0, widest / size[0], highest / size[1]))
        width, height = scale * size[0], scale * size[1]
        whole = math.ceil(columns * (width + gap) + gap), math.ceil(rows * (height + line + gap) + gap)
        return Tiling(columns, (width, height), scale, line, gap, whole)

    def rank(one: Tiling) -> tuple[float, int, float]:
        places = one.columns * math.ceil(count / one.columns)
        return round(one.scale, 3), -places, -abs(one.size[0] / one.size[1] - 16 / 9)

    return max(map(arranged, range(1, count + 1)), key=rank)
