"""A picture in memory, drawn at any size on the open screen."""

from __future__ import annotations

from typing import Any

import numpy as np

from pufferlib.ocean.screen import Screen, raylib


class Texture:
    """Holds one picture on the screen's side; a screen that closes takes it away, and the next `draw` puts it back."""

    def __init__(self) -> None:
        self._texture: Any = None
        self._size = (0, 0)

    def draw(self, screen: Screen, picture: np.ndarray, x: float, y: float, width: float, height: float) -> None:
        """Draws a picture, pixel by pixel where it is enlarged; between `begin` and `end`."""
        library = raylib()
        screen.welcome(self)
        picture = np.ascontiguousarray(picture)
        rows, columns, _ = picture.shape
        data = library.ffi.from_buffer(picture)
        if self._texture is None or self._size != (columns, rows):
            self.leave()
            image = (data, columns, rows, 1, library.PIXELFORMAT_UNCOMPRESSED_R8G8B8)
            self._texture, self._size = library.LoadTextureFromImage(image), (columns, rows)
        else:
            library.UpdateTexture(self._texture, data)
        whole, place = (0, 0, columns, rows), (x, y, width, height)
        library.DrawTexturePro(self._texture, whole, place, (0, 0), 0.0, (255, 255, 255, 255))

    def leave(self) -> None:
        """Unloads the texture."""
        if self._texture is not None:
            raylib().UnloadTexture(self._texture)
            self._texture = None
