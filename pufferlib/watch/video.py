"""Videos: MP4 by ffmpeg, GIF by Pillow."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops
from PIL.GifImagePlugin import getdata, getheader
from typing_extensions import Self

from pufferlib.errors import APIUsageError, StorageError, require_extra
from pufferlib.runs.folder import storing

ENCODING = (
    *("-c:v", "libx264", "-preset", "veryfast", "-crf", "16", "-tune", "animation"),  # flat colours, letters stay sharp
    *("-vf", "scale=in_range=pc:out_range=tv:out_color_matrix=bt709", "-pix_fmt", "yuv420p"),
    # Without these a player guesses the colours by the size of the picture.
    *("-color_range", "tv", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"),
    *("-movflags", "+faststart"),  # its table of contents first: it plays while it is still being loaded
)


class _Mp4Encoder:
    # H.264 by the ffmpeg of imageio-ffmpeg, which reads frames from a pipe: memory does not grow with them. The
    # process is our own rather than that package's write_frames, which rounds rates, scales odd sizes, and lets Ctrl-C
    # end it in the middle of a frame. `add` and `close` raise StorageError if it gave up, as on a full disk.
    def __init__(self, path: Path, size: tuple[int, int], fps: Fraction):
        from imageio_ffmpeg import get_ffmpeg_exe  # looks for the program, which takes a while

        width, height = size
        self._padding = ((0, height % 2), (0, width % 2), (0, 0))  # the format needs even sizes: the edge comes twice
        self._is_even = not any(sum(self._padding, ()))
        frames = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width + width % 2}x{height + height % 2}")
        command = (get_ffmpeg_exe(), "-loglevel", "error", "-y", *frames, "-r", str(fps), "-i", "pipe:0", "-an")
        self._path = path
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that is not read would fill up
        self._process = subprocess.Popen(
            (*command, *ENCODING, "-f", "mp4", str(path)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for us: what was recorded is still to be finished
        )

    def add(self, frame: np.ndarray) -> None:
        if not self._is_even:
            frame = np.pad(frame, self._padding, mode="edge")
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).data)
        except BrokenPipeError as error:
            raise self._failure() from error

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, by an error
            self._process.stdin.close()
        if self._process.wait():
            raise self._failure()
        self._errors.close()

    def abandon(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._errors.close()

    def _failure(self) -> StorageError:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        reason = next((line.strip() for line in reversed(lines) if line.strip()), f"it ended with code {code}")
        return StorageError(f"{self._path.parent} got no video, as ffmpeg failed ({reason}); make room and try again")


SHORTEST = 2  # centiseconds of a frame: players show one of less for 10
MANY = 1 << 16  # colours of a picture


class _GifEncoder:
    # Writes of every frame the part that changed, with a palette of its own, exact up to 256 colours. Times are whole
    # centiseconds: a frame begins at the one nearest to its time, so that roundings do not add up, and one that begins
    # less than 2 after the frame before is left out. Raises OSError where the file cannot be written.
    def __init__(self, path: Path, size: tuple[int, int], fps: Fraction):
        self._file = path.open("wb")
        self._fps = fps  # frames a second
        self._count = 0  # frames added
        self._end = 0  # of the frame that is shown, in centiseconds
        self._shown: Image.Image | None = None

    def add(self, frame: np.ndarray) -> None:
        begin = self._time(self._count)
        self._count += 1
        if begin < self._end:
            return
        self._end = next(end for end in map(self._time, itertools.count(self._count)) if end >= begin + SHORTEST)
        image = Image.fromarray(frame)  # a copy
        box = (0, 0, *image.size)
        if self._shown is not None:
            box = ImageChops.difference(image, self._shown).getbbox() or (0, 0, 1, 1)
        part = image.crop(box)
        # Median cut keeps up to 256 colours exactly, and takes seconds where there are many.
        method = Image.Quantize.FASTOCTREE if part.getcolors(MANY) is None else Image.Quantize.MEDIANCUT
        part = part.quantize(256, method=method, dither=Image.Dither.NONE)
        if self._shown is None:
            header, _ = getheader(part.copy(), info={"loop": 0, "optimize": False})
            self._file.writelines(header)
        milliseconds = 10 * (self._end - begin)
        self._file.writelines(getdata(part, box[:2], duration=milliseconds, include_color_table=True))
        self._shown = image

    def close(self) -> None:
        with self._file:
            self._file.write(b";")

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # it writes what is buffered
            self._file.close()

    def _time(self, index: int) -> int:
        return int(100 * index / self._fps + Fraction(1, 2))


SUFFIXES = (".mp4", ".gif")


class VideoWriter:
    """Writes one video, of any length, inside a `with` statement.

    Frames go to a hidden file beside the one that is asked for, which takes its name in the end: that one, or an older
    of its name, is whole at any time. An exception, such as Ctrl-C, leaves a video of what was recorded until then.

    It is in H.264 where the path ends in `.mp4`, and in `.gif` of 256 colours, where at most 50 frames a second are
    shown and others left out. The folder must exist. Raises what `require_video` does.
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: float):
        require_video(path)
        self.path, self.size = path, size  # width and height of the frames, in pixels
        self.fps = Fraction(fps).limit_denominator(10_000)  # exact for 60 / 7 and 30,000 / 1,001
        self.frames = 0  # added so far
        self._temporary = _temporary(path)
        make = _GifEncoder if path.suffix.lower() == ".gif" else _Mp4Encoder
        self._encoder = make(self._temporary, size, self.fps)

    def add(self, frame: np.ndarray) -> None:
        """Adds one frame, `(height, width, 3)` uint8 RGB, which is shown for 1 / fps seconds.

        It is copied or encoded before this returns. A StorageError says that it cannot be written, as on a full disk;
        the video is given up then.
        """
        try:
            with storing(self.path):
                self._encoder.add(frame)
        except StorageError:
            self.frames = 0  # as none can be used any more
            raise
        self.frames += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.frames:
                with storing(self.path):
                    self._encoder.close()
                    os.replace(self._temporary, self.path)
        finally:
            self._encoder.abandon()
            self._temporary.unlink(missing_ok=True)


def require_video(path: Path) -> None:
    """Checks that a video can be written, before its size and rate are known.

    Raises APIUsageError if the name ends in something else than `.mp4` or `.gif`, StorageError if the file cannot be
    written, and MissingExtraError for an mp4 without the extra `video`.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise APIUsageError(f"a video's name must end in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if path.is_dir():
        raise StorageError(f"{path} cannot be written (it is a folder); name a file")
    temporary = _temporary(path)
    with storing(path):
        temporary.touch()
    temporary.unlink()
    if suffix == ".mp4":
        require_extra("imageio_ffmpeg", "video")


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")
