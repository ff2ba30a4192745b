"""Rectangles and text on the open screen."""

from __future__ import annotations

from pufferlib.ocean.screen import Screen

Color = tuple[int, ...]  # red, green, blue and, if it is not opaque, alpha


class Brush:
    """Draws on one screen, between its `begin` and `end`; all measures are pixels from the left top corner."""

    def __init__(self, screen: Screen):
        self.screen = screen

    def box(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """Fills a rectangle of whole pixels, so that boxes beside each other show no seam."""
        left, top = round(x), round(y)
        right, bottom = round(x + max(width, 0.0)), round(y + max(height, 0.0))
        self.screen.rectangle(left, top, right - left, bottom - top, color)

    def text(self, string: str, x: float, y: float, size: int, color: Color) -> None:
        """Writes a line that begins at x."""
        self.screen.text(string, round(x), round(y), size, color)

    def text_before(self, string: str, right: float, y: float, size: int, color: Color) -> None:
        """Writes a line that ends at `right`."""
        self.text(string, right - self.screen.text_width(string, size), y, size, color)
