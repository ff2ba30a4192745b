"""Frames as an animated GIF, by Pillow, one after the other: memory does not grow with them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops
from PIL.GifImagePlugin import getdata, getheader

SHORTEST = 2  # centiseconds of a frame: players show one of less for 10
LONGEST = 60_000  # centiseconds of a frame: the format has 16 bits
COMMON = 32  # colours that a palette has exactly, however many there are
MANY = 1 << 16  # colours of a picture beyond which choosing takes long


class GifEncoder:
    """Writes of every frame the part that changed.

    A part has a palette of its own, exact up to 256 colours. Times are whole centiseconds: a frame begins at the one
    nearest to its time, so that roundings do not add up, and one that begins less
    than 2 after the frame before is left out.
    """

    def __init__(self, path: Path, fps: Fraction):
        self._file = path.open("wb")
        self._fps = fps  # frames a second
        self._count = 0  # frames added
        self._newest = -SHORTEST  # when the newest frame that is not left out begins, in centiseconds
        self._shown: Image.Image | None = None
        self._begin = 0  # of what is shown, in centiseconds
        self._pending: tuple[Image.Image, tuple[int, int]] | None = None  # what of it is not written yet, and where

    def add(self, frame: np.ndarray) -> None:
        """Takes one frame, `(height, width, 3)` uint8; raises OSError if the file cannot be written."""
        begin = self._time(self._count)
        self._count += 1
        if begin < self._newest + SHORTEST:
            return
        self._newest = begin
        image = Image.fromarray(frame)  # a copy
        box = (0, 0, *image.size) if self._shown is None else ImageChops.difference(image, self._shown).getbbox()
        if box is None and begin < self._begin + LONGEST:
            return
        box = box or (0, 0, 1, 1)
        self._write_pending(begin)
        self._pending = _in_256_colours(image.crop(box)), box[:2]
        self._shown, self._begin = image, begin

    def close(self) -> None:
        """Finishes the file; raises OSError if it cannot be written."""
        with self._file:
            self._write_pending(max(self._time(self._count), self._begin + SHORTEST))
            self._file.write(b";")

    def abandon(self) -> None:
        """Closes the file as it is."""
        self._file.close()

    def _time(self, index: int) -> int:
        return int(100 * index / self._fps + Fraction(1, 2))

    def _write_pending(self, end: int) -> None:
        if self._pending is None:
            return
        image, corner = self._pending
        if self._file.tell() == 0:
            header, _ = getheader(image.copy(), info={"loop": 0, "optimize": False})
            self._file.writelines(header)
        milliseconds = 10 * (end - self._begin)
        self._file.writelines(getdata(image, corner, duration=milliseconds, include_color_table=True))
        self._pending = None


def _in_256_colours(part: Image.Image) -> Image.Image:
    counted = part.getcolors(MANY)
    if counted is None:
        return part.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    colours = np.array([colour for _, colour in sorted(counted, reverse=True)], np.uint8)
    chosen = colours[:256] if len(colours) <= 256 else colours[:COMMON]
    levels = chosen.ravel().tolist()
    if len(colours) > 256:  # a rare colour, as in a glow or at an edge, needs one near it too
        rest = Image.fromarray(colours[None, COMMON:])
        levels += rest.quantize(256 - COMMON, method=Image.Quantize.FASTOCTREE).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette(levels[: 3 * 256])
    return part.quantize(palette=palette, dither=Image.Dither.NONE)
