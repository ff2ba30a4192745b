"""The arrangement of pictures of one size on a screen."""

from __future__ import annotations

import math
from dataclasses import dataclass

GAP = 12  # pixels between pictures and around them


@dataclass(frozen=True)
class Tiling:
    """Pictures of one size in rows and columns, each with room for a line below it.

    Attributes:
        count: pictures.
        columns: of them.
        picture: width and height of one, in pixels of the screen.
        scale: pixels of the screen for one of a picture.
        line: pixels below each picture.
    """

    count: int
    columns: int
    picture: tuple[float, float]
    scale: float
    line: int

    @property
    def rows(self) -> int:
        """Rows of pictures; the last may be shorter."""
        return math.ceil(self.count / self.columns)

    @property
    def gap(self) -> int:
        """Pixels between pictures and around them; one that is alone has none."""
        return GAP if self.count > 1 else 0

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of all together, in whole pixels."""
        width, height = self.picture
        return (
            math.ceil(self.columns * (width + self.gap) + self.gap),
            math.ceil(self.rows * (height + self.line + self.gap) + self.gap),
        )

    def place(self, index: int) -> tuple[float, float]:
        """Pixels from the left top corner of all to that of a picture."""
        row, column = divmod(index, self.columns)
        width, height = self.picture
        return self.gap + column * (width + self.gap), self.gap + row * (height + self.line + self.gap)


def tiled(count: int, size: tuple[int, int], limit: tuple[int, int], line: int = 0) -> Tiling:
    """The arrangement that shows pictures the largest, and of several such the one with the fewest empty places.

    Args:
        count: of the pictures, at least 1.
        size: width and height of each at scale 1, which none is enlarged beyond.
        limit: width and height that all together may have.
        line: pixels below each.
    """
    options = [_tiling(count, columns, size, limit, line) for columns in range(1, count + 1)]
    return max(options, key=lambda one: (round(one.scale, 3), -one.columns * one.rows, -abs(_ratio(one) - 16 / 9)))


def _ratio(tiling: Tiling) -> float:
    width, height = tiling.size
    return width / height


def _tiling(count: int, columns: int, size: tuple[int, int], limit: tuple[int, int], line: int) -> Tiling:
    rows, gap = math.ceil(count / columns), GAP if count > 1 else 0
    widest = (limit[0] - gap) / columns - gap
    highest = (limit[1] - gap) / rows - gap - line
    scale = max(1e-2, min(1.0, widest / size[0], highest / size[1]))
    return Tiling(count, columns, (scale * size[0], scale * size[1]), scale, line)
