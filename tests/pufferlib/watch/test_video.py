"""Videos are read back: their size, their frames and how long they last."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pufferlib.errors import APIUsageError, MissingExtraError, StorageError
from pufferlib.watch.video import VideoWriter, require_video

BACKGROUND, BALL = (6, 24, 24), (187, 0, 0)
HAS_FFMPEG = True
try:
    import imageio_ffmpeg
except ImportError:
    HAS_FFMPEG = False

needs_ffmpeg = pytest.mark.skipif(not HAS_FFMPEG, reason="imageio-ffmpeg is not installed")
SUFFIXES = [pytest.param(".mp4", marks=needs_ffmpeg), ".gif"]


def picture(index, size=(64, 48)):
    """A ball on its way, 8 pixels wide."""
    frame = np.full((size[1], size[0], 3), BACKGROUND, np.uint8)
    left = 2 * index % (size[0] - 8)
    frame[20:28, left : left + 8] = BALL
    return frame


def read(path):
    """All frames as RGB, and the seconds that the file lasts."""
    if path.suffix == ".mp4":
        count, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
        with tempfile.TemporaryDirectory() as folder:
            program = imageio_ffmpeg.get_ffmpeg_exe()
            command = [program, "-loglevel", "error", "-i", path, "-fps_mode", "passthrough", f"{folder}/%05d.ppm"]
            subprocess.run(command, check=True)
            frames = [np.asarray(Image.open(each)) for each in sorted(Path(folder).iterdir())]
        assert len(frames) == count
        return frames, seconds
    frames, seconds = [], 0.0
    with Image.open(path) as image:
        for index in range(image.n_frames):
            image.seek(index)
            frames.append(np.asarray(image.convert("RGB")))
            seconds += image.info["duration"] / 1000
    return frames, seconds


def record(path, fps, pictures):
    with VideoWriter(path, pictures[0].shape[1::-1], fps) as video:
        for frame in pictures:
            video.add(frame)
    return read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("fps", [15, 60 / 7])
def test_what_goes_in_comes_out(tmp_path, suffix, fps):
    pictures = [picture(index) for index in range(30)]
    frames, seconds = record(tmp_path / f"ball{suffix}", fps, pictures)
    assert len(frames) == 30
    assert seconds == pytest.approx(30 / fps, abs=0.011)
    for expected, found in zip(pictures, frames, strict=True):
        assert np.abs(expected.astype(int) - found).mean() < (0.5 if suffix == ".gif" else 4)
    assert [path.name for path in tmp_path.iterdir()] == [f"ball{suffix}"]


@needs_ffmpeg
def test_odd_sizes_are_padded_and_not_scaled(tmp_path):
    pictures = [picture(index, (63, 47)) for index in range(5)]
    frames, _ = record(tmp_path / "odd.mp4", 10, pictures)
    assert frames[0].shape == (48, 64, 3)
    assert np.abs(frames[0][:47, :63].astype(int) - pictures[0]).mean() < 4
    assert np.abs(frames[0][47, :].astype(int) - BACKGROUND).max() < 12  # what the picture has at its edge


def test_a_gif_of_odd_size_keeps_it(tmp_path):
    frames, _ = record(tmp_path / "odd.gif", 10, [picture(index, (63, 47)) for index in range(5)])
    assert frames[0].shape == (47, 63, 3)


@pytest.mark.parametrize("fps", [7, 24, 30, 45, 49.9, 60, 144])
def test_a_gif_keeps_time_however_fast(tmp_path, fps):
    path = tmp_path / "fast.gif"
    frames, seconds = record(path, fps, [picture(index) for index in range(100)])
    assert seconds == pytest.approx(100 / fps, abs=0.021)
    assert len(frames) == 100 if fps <= 50 else len(frames) <= 50 * 100 / fps + 1
    with Image.open(path) as image:
        durations = []
        for index in range(image.n_frames):
            image.seek(index)
            durations.append(image.info["duration"])
    assert min(durations) >= 20
    assert max(durations) - min(durations) <= 10


def test_a_gif_begins_new_colours_where_the_old_do_not_fit(tmp_path):
    """The first frame has no blue; what comes later has to be seen all the same, and must not change what came."""
    shades = np.zeros((32, 256, 3), np.uint8)
    shades[..., 0] = np.arange(256)
    blue = np.zeros_like(shades)
    blue[..., 2] = np.arange(256)
    spot = shades.copy()
    spot[:4, :4] = (0, 255, 0)
    pictures = [shades, shades[:, ::-1].copy(), blue, blue[:, ::-1].copy(), shades, spot]
    frames, _ = record(tmp_path / "colours.gif", 10, pictures)
    for expected, found in zip(pictures, frames, strict=True):
        assert np.abs(expected.astype(int) - found).mean() < 3
    assert np.abs(frames[5][0, 0].astype(int) - (0, 255, 0)).max() < 24


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_frame_is_a_video(tmp_path, suffix):
    frames, seconds = record(tmp_path / f"one{suffix}", 4, [picture(3)])
    assert len(frames) == 1
    assert seconds == pytest.approx(0.25, abs=0.011)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_frame_is_no_file(tmp_path, suffix):
    path = tmp_path / f"none{suffix}"
    path.write_text("an older one")
    with VideoWriter(path, (64, 48), 30) as video:
        pass
    assert video.frames == 0 and path.read_text() == "an older one"
    assert len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_older_file_is_whole_until_the_new_one_is(tmp_path, suffix):
    path = tmp_path / f"video{suffix}"
    path.write_text("an older one")
    with VideoWriter(path, (64, 48), 30) as video:
        for index in range(10):
            video.add(picture(index))
            assert path.read_text() == "an older one"
    assert len(read(path)[0]) == 10


@pytest.mark.quick(".gif")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ctrl_c_leaves_what_was_recorded(tmp_path, suffix):
    """The whole group of processes gets the signal, as from a terminal; the encoder must go on."""
    path = tmp_path / f"cut{suffix}"
    code = f"""
        import signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_video import Path, VideoWriter, picture
        with VideoWriter(Path({str(path)!r}), (64, 48), 20) as video:
            for index in range(40):
                video.add(picture(index))
            print("recorded", flush=True)
            while True:
                time.sleep(0.01)  # a signal that comes just before a long sleep does not end it
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "recorded\n"
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    process.stdout.close()
    frames, seconds = read(path)
    assert (len(frames), seconds) == (40, pytest.approx(2, abs=0.011))
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("a.avi", APIUsageError, "must end in .mp4 or .gif, got"),
        ("a", APIUsageError, "must end in .mp4 or .gif, got"),
        ("no/a.gif", StorageError, "make the folder .*no first"),
        ("folder.gif", StorageError, "it is a folder"),
    ],
)
def test_mistakes_are_found_before_anything_is_recorded(tmp_path, name, kind, message):
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(kind, match=message):
        VideoWriter(tmp_path / name, (64, 48), 30)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.gif"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(StorageError, match="Permission denied"):
        require_video(tmp_path / "a.gif")


def test_mp4_says_which_extra_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("pufferlib.errors.is_installed", lambda package: False)
    for attempt in (lambda path: VideoWriter(path, (64, 48), 30), require_video):
        with pytest.raises(MissingExtraError, match=r"pip install 'pufferlib\[video\]'"):
            attempt(tmp_path / "a.mp4")
    assert not [*tmp_path.iterdir()]


@needs_ffmpeg
def test_what_the_encoder_complains_of_is_told(tmp_path, monkeypatch):
    """An encoder that gives up, as on a full disk."""
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\necho 'No space left on device' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", lambda: str(program))
    with pytest.raises(StorageError, match="No space left"), VideoWriter(tmp_path / "a.mp4", (64, 48), 30) as video:
        for index in range(1000):
            video.add(picture(index))
    assert [path.name for path in tmp_path.iterdir()] == ["ffmpeg"]


def test_a_gif_that_a_disk_has_no_room_for_leaves_nothing(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with VideoWriter(tmp_path / "a.gif", (64, 48), 10) as video:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(StorageError, match="make room"):
                for shift in range(100):
                    video.add(np.roll(noise, shift, axis=0))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*tmp_path.iterdir()]


@needs_ffmpeg
def test_a_frame_that_was_cut_off_is_left_out(tmp_path):
    """As Ctrl-C may do it in the middle of a write."""
    with VideoWriter(tmp_path / "cut.mp4", (64, 48), 10) as video:
        for index in range(10):
            video.add(picture(index))
        video._encoder._process.stdin.write(picture(10).tobytes()[:5000])
    frames, _ = read(video.path)
    assert len(frames) == 10


@pytest.mark.parametrize("fps", [Fraction(60, 7), Fraction(30_000, 1001), Fraction(60)])
def test_rates_are_exact(tmp_path, fps):  # what floats round
    with VideoWriter(tmp_path / "a.gif", (64, 48), float(fps)) as video:
        assert video.fps == fps
