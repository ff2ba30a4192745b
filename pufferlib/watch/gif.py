"""Frames as an animated GIF, with nothing but Pillow."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops
from PIL.GifImagePlugin import getdata, getheader

SHORTEST = 2
"""Centiseconds that a frame is shown at least: players take less for a mistake and show it for 10."""

STRAY, STRAY_SHARE = 48, 1e-4
"""A palette does not fit a frame any more where more than this share of its pixels, beyond those of the frame that it
was made of, have a colour so far, of 255, from what they should be: a ball of 8 x 8 pixels in half a million."""

DRIFT = 2.0
"""Nor does it where colours are off by so much more on average."""

PREVIEW, PREVIEW_STEP = 16, 5
"""Frames that are waited for before the first palette is made, of every fifth."""

COMMON = 32
"""Colours that are taken as they are; the others are chosen so that a colour which is rare, as in a glow or at an edge,
has one near it too: how often each is there counts for nothing."""

MANY = 1 << 16
"""Colours of a picture beyond which that would take long."""

LONGEST = 60_000
"""Centiseconds after which a frame is written again though nothing moved: 65,535 is what the format can say."""


class GifEncoder:
    """Writes every frame as what changed since the one before, so that memory does not grow with the frames.

    The format has 256 colours. They are chosen from the first few frames and kept, so that nothing flickers, until a
    frame comes that they do not fit; from then on every frame carries colours of its own. Times are whole centiseconds:
    each frame begins at the one nearest to its time, so that roundings do not add up, and of frames that begin less
    than 2 after the one before none is shown.
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: Fraction):
        """Opens the file.

        Args:
            path: the file to write, whatever its name ends with.
            size: width and height of the frames, in pixels.
            fps: frames a second.

        Raises:
            OSError: if it cannot be written.
        """
        del size  # the first frame tells it
        self._file = path.open("wb")
        self._fps = fps
        self._count = 0  # frames added
        self._newest = -SHORTEST  # when the newest that is shown begins, in centiseconds
        self._preview: list[tuple[Image.Image, int]] = []  # frames that wait for the palette, and when they begin
        self._palette: Image.Image | None = None
        self._palettes = 0  # so far
        self._misfit = 0.0, 0.0  # of the newest, with what it was made of
        self._shown: Image.Image | None = None  # the newest frame that is in the file, or pending
        self._begin = 0  # when it begins
        self._pending: tuple[Image.Image, tuple[int, int]] | None = None  # what of it is not written yet, and where

    def add(self, frame: np.ndarray) -> None:
        """Takes one frame, `(height, width, 3)` uint8.

        Raises:
            OSError: if the file cannot be written.
        """
        begin = self._time(self._count)
        self._count += 1
        if begin < self._newest + SHORTEST:
            return
        self._newest = begin
        image = Image.fromarray(frame)  # a copy
        if self._palette is not None:
            self._take(image, begin)
            return
        self._preview.append((image, begin))
        if len(self._preview) == PREVIEW:
            self._end_preview()

    def _end_preview(self) -> None:
        pictures = [np.asarray(image) for image, _ in self._preview[::PREVIEW_STEP]]
        self._make_palette(Image.fromarray(np.concatenate(pictures)))
        for image, begin in self._preview:
            self._take(image, begin)
        self._preview.clear()

    def _take(self, image: Image.Image, begin: int) -> None:
        whole = (0, 0, *image.size)
        box = whole if self._shown is None else ImageChops.difference(image, self._shown).getbbox()
        if box is None and begin < self._begin + LONGEST:
            return  # nothing moved: what is shown stays
        box = box or (0, 0, 1, 1)
        changed = self._in_palette(image, box)
        self._write_pending(begin)
        if changed is None:  # the palette does not fit any more
            self._make_palette(image)
            box, changed = whole, image.quantize(palette=self._palette, dither=Image.Dither.NONE)
        self._pending = changed, box[:2]
        self._shown, self._begin = image, begin

    def close(self) -> None:
        """Finishes the file.

        Raises:
            OSError: if it cannot be written.
        """
        with self._file:
            if self._preview:
                self._end_preview()
            self._write_pending(max(self._time(self._count), self._begin + SHORTEST))
            self._file.write(b";")

    def abandon(self) -> None:
        """Closes the file, whatever becomes of it; after `close` it does nothing."""
        self._file.close()

    def _time(self, index: int) -> int:
        return int(100 * index / self._fps + Fraction(1, 2))

    def _in_palette(self, image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image | None:
        part = image.crop(box)
        indexed = part.quantize(palette=self._palette, dither=Image.Dither.NONE)
        drift, share = _misfit(part, indexed, image.width * image.height)
        fits = drift <= self._misfit[0] + DRIFT and share <= self._misfit[1] + STRAY_SHARE
        return indexed if fits else None

    def _make_palette(self, image: Image.Image) -> None:
        self._palette = _palette_of(image)
        self._palettes += 1
        indexed = image.quantize(palette=self._palette, dither=Image.Dither.NONE)
        self._misfit = _misfit(image, indexed, image.width * image.height)

    def _write_pending(self, end: int) -> None:
        if self._pending is None:
            return
        image, corner = self._pending
        if self._file.tell() == 0:
            header, _ = getheader(image.copy(), info={"loop": 0, "optimize": False})
            self._file.writelines(header)
        milliseconds = 10 * (end - self._begin)
        is_own = self._palettes > 1  # the palette of the header is the first
        self._file.writelines(getdata(image, corner, duration=milliseconds, include_color_table=is_own))
        self._pending = None


def _palette_of(image: Image.Image) -> Image.Image:
    counted = image.getcolors(MANY)
    if counted is None:
        return image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    colours = np.array([colour for _, colour in sorted(counted, reverse=True)], np.uint8)
    chosen = colours[:COMMON].ravel().tolist()
    if len(colours) > COMMON:
        rest = Image.fromarray(colours[None, COMMON:])
        chosen += rest.quantize(256 - COMMON, method=Image.Quantize.MAXCOVERAGE).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette(chosen[: 3 * 256])
    return palette


def _misfit(part: Image.Image, indexed: Image.Image, pixels: int) -> tuple[float, float]:
    error = np.asarray(ImageChops.difference(part, indexed.convert("RGB")))
    return float(error.sum(dtype=np.int64)) / (3 * pixels), float((error > STRAY).any(axis=2).sum()) / pixels
