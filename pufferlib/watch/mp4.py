"""Frames as an MP4 file that every player opens."""

from __future__ import annotations

import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

from pufferlib.errors import StorageError
from pufferlib.extras import require_extra

ENCODING = (
    *("-c:v", "libx264", "-preset", "veryfast", "-crf", "16", "-tune", "animation"),  # flat colours, letters stay sharp
    *("-vf", "scale=in_range=pc:out_range=tv:out_color_matrix=bt709", "-pix_fmt", "yuv420p"),
    # Without these a player guesses the colours by the size of the picture.
    *("-color_range", "tv", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"),
    *("-movflags", "+faststart"),  # its table of contents first: it plays while it is still being loaded
)


class Mp4Encoder:
    """H.264 by the ffmpeg that imageio-ffmpeg brings, which reads frames from a pipe: memory does not grow with them.

    The process is our own rather than that package's `write_frames`, which rounds rates, scales odd sizes, and lets
    Ctrl-C end the encoder in the middle of a frame.
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: Fraction):
        require_extra("imageio_ffmpeg", "video")
        from imageio_ffmpeg import get_ffmpeg_exe  # looks for the program, which takes a while

        width, height = size
        self._padding = ((0, height % 2), (0, width % 2), (0, 0))  # the format needs even sizes: the edge comes twice
        self._is_even = not any(sum(self._padding, ()))
        frames = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width + width % 2}x{height + height % 2}")
        command = (get_ffmpeg_exe(), "-loglevel", "error", "-y", *frames, "-r", str(fps), "-i", "pipe:0", "-an")
        self._path = path
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would fill up
        self._process = subprocess.Popen(
            (*command, *ENCODING, "-f", "mp4", str(path)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for us: what was recorded is still to be finished
        )

    def add(self, frame: np.ndarray) -> None:
        """Encodes one frame, `(height, width, 3)` uint8.

        Raises:
            StorageError: if the encoder gave up, as on a full disk.
        """
        if not self._is_even:
            frame = np.pad(frame, self._padding, mode="edge")
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).data)
        except BrokenPipeError as error:
            raise self._failure() from error

    def close(self) -> None:
        """Finishes the file.

        Raises:
            StorageError: as `add` does.
        """
        try:
            self._process.stdin.close()
        except BrokenPipeError as error:
            raise self._failure() from error
        if self._process.wait():
            raise self._failure()
        self._errors.close()

    def abandon(self) -> None:
        """Ends the encoder, whatever becomes of the file; after `close` it does nothing."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._errors.close()

    def _failure(self) -> StorageError:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        told = next((line.strip() for line in reversed(lines) if line.strip()), f"it ended with code {code}")
        return StorageError(f"{self._path.parent} got no video, as ffmpeg failed ({told}); make room and try again")
