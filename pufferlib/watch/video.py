"""Video files: frames go in one by one, and a file comes out whole."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import numpy as np
from typing_extensions import Self

from pufferlib.errors import APIUsageError, StorageError
from pufferlib.extras import require_extra
from pufferlib.watch.gif import GifEncoder
from pufferlib.watch.mp4 import Mp4Encoder

SUFFIXES = (".mp4", ".gif")

MAX_DENOMINATOR = 10_000
"""Of the frame rate as a fraction: exact for 60 / 7 and 30,000 / 1,001 frames a second."""


class VideoWriter:
    """Writes one video, of any length.

    Frames go to a hidden file beside the one that is asked for, which takes its name in `close`: that one, or an older
    of its name, is whole at any time. Used in a `with`, leaving it closes the video, and where that is by an exception,
    such as Ctrl-C, it holds what was recorded until then.
    """

    def __init__(self, path: str | os.PathLike[str], size: tuple[int, int], fps: float):
        """Begins a video; every mistake that can be known is found here, before anything is recorded.

        Args:
            path: the file, which ends in `.mp4` (H.264) or `.gif` (256 colours, at most 50 frames a second: others are
                left out). Its folder must exist.
            size: width and height of the frames, in pixels, 1 to 16,384 (65,535 for a gif).
            fps: frames a second, above 0 and at most 1,000; it need not be whole.

        Raises:
            APIUsageError: if the name ends in something else, or size or fps is out of range.
            MissingExtraError: for an mp4, if the extra `video` is not installed.
            StorageError: if the file cannot be written there.
        """
        self.path = Path(path)
        self.size = _checked_size(size, self.path)
        self.fps = _checked_rate(fps)
        self.frames = 0
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        _require_place(self.path, self._temporary)
        try:
            self._encoder: Mp4Encoder | GifEncoder = (
                GifEncoder(self._temporary, self.fps)
                if self.path.suffix.lower() == ".gif"
                else Mp4Encoder(self._temporary, self.size, self.fps)
            )
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise
        self._is_open = True

    def add(self, frame: np.ndarray) -> None:
        """Adds one frame, which is shown for 1 / fps seconds.

        Args:
            frame: `(height, width, 3)` uint8 RGB; copied or encoded before this returns.

        Raises:
            APIUsageError: if it has another shape or dtype, or the video is closed.
            StorageError: if it cannot be written, as on a full disk; the video is given up.
        """
        if not self._is_open:
            raise APIUsageError(f"a frame came after {self.path} was closed; make another VideoWriter")
        width, height = self.size
        if frame.shape != (height, width, 3) or frame.dtype != np.uint8:
            raise APIUsageError(
                f"frames of {self.path.name} must be uint8 of shape {(height, width, 3)}, "
                f"got {frame.dtype} of shape {frame.shape}; a video has frames of one size"
            )
        try:
            self._encoder.add(frame)
        except OSError as error:
            self._give_up()
            raise _unwritable(self.path, error) from error
        self.frames += 1

    def close(self) -> Path:
        """Finishes the video and gives the file its name; doing it again is harmless.

        Returns:
            The path. There is no file where no frame was added.

        Raises:
            StorageError: if it cannot be written; the video is given up.
        """
        if not self._is_open:
            return self.path
        if self.frames == 0:
            self._give_up()
            return self.path
        try:
            self._encoder.close()
            os.replace(self._temporary, self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        finally:
            self._give_up()
        return self.path

    def _give_up(self) -> None:
        self._is_open = False
        self._encoder.abandon()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def require_video(path: str | os.PathLike[str]) -> None:
    """Checks that a video can be written, before its size and rate are known; writes nothing.

    Raises:
        APIUsageError: if the name does not end in `.mp4` or `.gif`.
        MissingExtraError: for an mp4, if the extra `video` is not installed.
        StorageError: if the file cannot be written there.
    """
    path = Path(path)
    suffix = _checked_suffix(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _require_place(path, temporary)
    temporary.unlink()
    if suffix == ".mp4":
        require_extra("imageio_ffmpeg", "video")


def _checked_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise APIUsageError(f"a video's name must end in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    return suffix


def _checked_size(size: tuple[int, int], path: Path) -> tuple[int, int]:
    most = 65_535 if _checked_suffix(path) == ".gif" else 16_384
    width, height = size
    if not (1 <= width <= most and 1 <= height <= most):
        raise APIUsageError(f"a {path.suffix} must be 1 to {most:,} pixels wide and high, got {width} x {height}")
    return int(width), int(height)


def _checked_rate(fps: float) -> Fraction:
    if not (math.isfinite(fps) and 1 / MAX_DENOMINATOR <= fps <= 1000):
        raise APIUsageError(f"fps must be above 0 and at most 1000, got {fps}")
    return Fraction(fps).limit_denominator(MAX_DENOMINATOR)


def _require_place(path: Path, temporary: Path) -> None:
    # The empty temporary file shows that there can be one.
    if path.is_dir():
        raise StorageError(f"{path} cannot be written (it is a folder); name a file")
    try:
        temporary.touch()
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StorageError:
    if isinstance(error, StorageError):
        return error
    missing = "" if path.parent.is_dir() else f"; make the folder {path.parent} first"
    return StorageError(f"{path} cannot be written ({error.strerror or error}){missing}")
