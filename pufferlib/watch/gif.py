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

LONGEST = 60_000
"""Centiseconds after which a frame is written again though nothing moved: 65,535 is what the format can say."""


class GifEncoder:
    """Writes every frame as what changed since the one before, so that memory does not grow with the frames.

    The format has 256 colours. They are chosen from the first frame and kept, so that nothing flickers, until a frame
    comes that they do not fit; from then on every frame carries colours of its own. Times are whole centiseconds: each
    frame begins at the one nearest to its time, so that roundings do not add up, and of frames that begin less than 2
    after the one before none is shown.
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
        self._shown: Image.Image | None = None  # the newest that counts, in colours of the palette
        self._palette: Image.Image | None = None
        self._begin = 0  # when it is shown, in centiseconds
        self._pending: tuple[Image.Image, tuple[int, int]] | None = None  # what of it is not written yet, and where
        self._palettes = 0  # so far
        self._misfit = 0.0, 0.0  # of the newest, with the frame that it was made of

    def add(self, frame: np.ndarray) -> None:
        """Takes one frame, `(height, width, 3)` uint8.

        Raises:
            OSError: if the file cannot be written.
        """
        begin = self._time(self._count)
        self._count += 1
        if self._shown is not None and begin < self._begin + SHORTEST:
            return
        image = Image.fromarray(frame)
        indexed = self._in_palette(image)
        if indexed is not None:
            box = ImageChops.difference(indexed, self._shown).getbbox()
            if box is None and begin < self._begin + LONGEST:
                return  # nothing moved: what is shown stays
            self._write_pending(begin)
        else:
            self._write_pending(begin)  # in the colours that it has
            indexed, box = self._in_new_palette(image), (0, 0, *image.size)
        box = box or (0, 0, 1, 1)
        self._pending = indexed.crop(box), box[:2]
        self._shown, self._begin = indexed, begin

    def close(self) -> None:
        """Finishes the file.

        Raises:
            OSError: if it cannot be written.
        """
        with self._file:
            self._write_pending(max(self._time(self._count), self._begin + SHORTEST))
            self._file.write(b";")

    def abandon(self) -> None:
        """Closes the file, whatever becomes of it; after `close` it does nothing."""
        self._file.close()

    def _time(self, index: int) -> int:
        """When a frame begins, in centiseconds."""
        return int(100 * index / self._fps + Fraction(1, 2))

    def _in_palette(self, image: Image.Image) -> Image.Image | None:
        """The frame in the colours of the palette; None where they do not fit, or there is none yet."""
        if self._palette is None:
            return None
        indexed = image.quantize(palette=self._palette, dither=Image.Dither.NONE)
        drift, share = _misfit(image, indexed)
        fits = drift <= self._misfit[0] + DRIFT and share <= self._misfit[1] + STRAY_SHARE
        return indexed if fits else None

    def _in_new_palette(self, image: Image.Image) -> Image.Image:
        # Of Pillow's methods the fastest by far, and on the pictures of games as good as the others.
        self._palette = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        self._palettes += 1
        indexed = image.quantize(palette=self._palette, dither=Image.Dither.NONE)
        self._misfit = _misfit(image, indexed)
        return indexed

    def _write_pending(self, end: int) -> None:
        """Writes what is shown until a time, in centiseconds."""
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


def _misfit(image: Image.Image, indexed: Image.Image) -> tuple[float, float]:
    """How far the colours of a frame are from what they should be, on average, and the share of those far off."""
    error = np.asarray(ImageChops.difference(image, indexed.convert("RGB")))
    return float(error.mean()), float((error > STRAY).any(axis=2).mean())
