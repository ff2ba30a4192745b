"""The picture as a whole: the environments side by side, a line below each, the panel."""

from __future__ import annotations

from collections.abc import Sequence

from pufferlib.watch.brush import Brush
from pufferlib.watch.palette import GREY, SHADE, WHITE
from pufferlib.watch.side_panel import PANEL_MIN_HEIGHT, PANEL_WIDTH, SidePanel
from pufferlib.watch.thought import PolicyTrace
from pufferlib.watch.tiling import tiled
from pufferlib.watch.watched_play import Place

LIMIT = (1920, 1080)
"""Pixels that everything may cover together, however large a display is."""

_CAPTION_HEIGHT, _CAPTION_TEXT = 28, 18


class Stage:
    """Lays everything out, and draws it.

    Attributes:
        panel: None where it is hidden.
    """

    def __init__(self, picture: tuple[int, int], count: int, panel: SidePanel | None, limit: tuple[int, int]):
        beside = 0 if panel is None else PANEL_WIDTH
        self._tiling = tiled(count, picture, (limit[0] - beside, limit[1]), _CAPTION_HEIGHT if count > 1 else 0)
        self.panel = panel

    @property
    def width(self) -> int:
        """Pixels of the environments, without the panel at their right."""
        return self._tiling.size[0]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of everything, in pixels."""
        width, height = self._tiling.size
        return (width, height) if self.panel is None else (width + PANEL_WIDTH, max(height, PANEL_MIN_HEIGHT))

    def draw(self, brush: Brush, places: Sequence[Place], traces: Sequence[PolicyTrace], progress: float) -> None:
        """Draws everything, between `begin` and `end`."""
        _, height = self.size
        upper = (height - self._tiling.size[1]) // 2
        for index, place in enumerate(places):
            x, y = self._tiling.place(index)
            place.scene.draw(x, upper + y, self._tiling.scale, progress if place.is_playing else 1.0)
            if self._tiling.line:
                self._draw_line(brush, place, x, upper + y)
        if self.panel is not None and traces:
            self.panel.draw(brush, self._tiling.size[0], height, traces, progress)

    def _draw_line(self, brush: Brush, place: Place, x: float, y: float) -> None:
        width, height = self._tiling.picture
        below = y + height + (_CAPTION_HEIGHT - _CAPTION_TEXT) / 2
        if place.is_playing:
            brush.text(f"return {place.running:.5g}", x, below, _CAPTION_TEXT, WHITE)
        else:
            brush.box(x, y, width, height, SHADE)
        if place.last is not None:
            last = f"last {place.last:.5g}"
            brush.text_before(last, x + width, below, _CAPTION_TEXT, GREY if place.is_playing else WHITE)
