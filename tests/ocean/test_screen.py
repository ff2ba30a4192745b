"""The screen, off-screen: the order of its calls, what is drawn on it, what comes back as a frame."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest

from pufferlib.errors import APIUsageError
from pufferlib.ocean import screen as screens
from pufferlib.ocean.screen import BACKGROUND, CYAN, RED, WHITE, Screen, raylib

pytest.importorskip("raylib", reason="raylib is not installed")


@pytest.fixture
def screen():
    opened = Screen(120, 80, "test", is_visible=False)
    yield opened
    opened.close()


def picture(screen, draw):
    screen.begin()
    draw()
    frame = screen.frame()
    screen.end()
    return frame


def near(pixel, color, tolerance=1):
    return np.abs(pixel.astype(int) - np.array(color)).max() <= tolerance


def test_a_process_has_one_screen(screen):
    with pytest.raises(APIUsageError, match="a screen is open already"):
        Screen(50, 50, "second", is_visible=False)
    screen.close()
    screen.close()
    second = Screen(50, 60, "second", is_visible=False)
    assert screens.open_screen() is second and second.size == (50, 60)
    screen.close()  # the first one again: it must not take the second with it
    assert picture(second, lambda: None).shape == (60, 50, 3)
    second.close()
    assert screens.open_screen() is None


def test_a_screen_for_single_pictures_gives_way_between_them():
    modest = Screen(50, 50, "modest", is_visible=False, gives_way=True)
    modest.begin()
    with pytest.raises(APIUsageError, match="a screen is open already"):
        Screen(60, 50, "second", is_visible=False)
    modest.end()
    second = Screen(60, 50, "second", is_visible=False)
    assert screens.open_screen() is second
    with pytest.raises(APIUsageError, match="closed"):
        modest.begin()
    second.close()


@pytest.mark.parametrize("size", [(0, 10), (10, -1), (20_000, 10)])
def test_a_size_that_cannot_be_is_refused(size):
    with pytest.raises(APIUsageError, match="1 to 16384 pixels"):
        Screen(*size, "test", is_visible=False)
    assert screens.open_screen() is None


def test_calls_out_of_order_are_told_so(screen):
    points = np.zeros((2, 2))
    for call in (
        screen.end,
        screen.frame,
        lambda: screen.text("a", 0, 0, 10, CYAN),
        lambda: screen.rectangle(0, 0, 1, 1, CYAN),
        lambda: screen.line(points, CYAN),
    ):
        with pytest.raises(APIUsageError, match=r"call begin\(\) first"):
            call()
    screen.begin()
    with pytest.raises(APIUsageError, match=r"call end\(\)"):
        screen.begin()
    screen.close()  # in the middle of a picture
    for call in (screen.begin, screen.frame, lambda: screen.text_width("a", 10)):
        with pytest.raises(APIUsageError, match="the screen is closed"):
            call()
    assert not screen.is_closing()


def test_a_picture_begins_empty_and_is_red_green_blue_from_the_left_top(screen):
    assert (picture(screen, lambda: screen.rectangle(0, 0, 120, 80, RED)) == RED).all()
    frame = picture(screen, lambda: screen.rectangle(3, 5, 10, 2, (200, 100, 50)))
    expected = np.full((80, 120, 3), BACKGROUND, np.uint8)
    expected[5:7, 3:13] = (200, 100, 50)
    np.testing.assert_array_equal(frame, expected)


def test_a_frame_is_the_callers(screen):
    first = picture(screen, lambda: screen.rectangle(0, 0, 120, 80, RED))
    picture(screen, lambda: screen.rectangle(0, 0, 120, 80, CYAN))
    assert first.flags.owndata and first.flags.writeable and (first == RED).all()


def test_edges_cover_parts_of_pixels(screen):
    def draw():
        screen.rectangle(10.5, 10, 4, 4, WHITE)
        screen.rectangle(30.25, 20.25, 0.5, 0.5, WHITE)

    frame = picture(screen, draw)
    half, quarter = [(np.array(BACKGROUND) * (1 - share) + np.array(WHITE) * share) for share in (0.5, 0.25)]
    assert near(frame[12, 10], half, 3) and near(frame[12, 14], half, 3) and near(frame[12, 12], WHITE)
    assert near(frame[20, 30], quarter, 3)


def test_shapes_have_soft_edges(screen):
    frame = picture(screen, lambda: screen.rectangle(20, 10, 60, 60, WHITE, radius=30)).astype(int)
    assert near(frame[40, 50], WHITE) and near(frame[12, 22], BACKGROUND)
    shades = np.unique(frame[:, :, 0])
    assert len(shades) > 20 and shades.min() == BACKGROUND[0] and shades.max() == WHITE[0]
    covered = ((frame[:, :, 0] - BACKGROUND[0]) / (WHITE[0] - BACKGROUND[0])).sum()
    assert covered == pytest.approx(np.pi * 30**2, rel=0.015)


def test_what_is_see_through_lets_through(screen):
    frame = picture(screen, lambda: screen.rectangle(0, 0, 120, 80, (*WHITE, 128)))
    assert near(frame[40, 60], (np.array(BACKGROUND) + np.array(WHITE)) / 2, 2)


def test_a_line_goes_where_it_is_told(screen):
    frame = picture(screen, lambda: screen.line(np.array([[10, 10], [60, 60], [110, 10]]), CYAN, 6.0))
    assert near(frame[35, 35], CYAN) and near(frame[59, 60], CYAN) and near(frame[20, 60], BACKGROUND)
    empty = picture(screen, lambda: [screen.line(np.zeros((count, 2)), CYAN) for count in (0, 1)])
    assert near(empty[0, 0], BACKGROUND)


def test_what_is_no_colour_and_no_points_is_refused(screen):
    screen.begin()
    for color in ((1, 2), (1, 2, 3, 4, 5), (0, 0, 256), (-1, 0, 0)):
        with pytest.raises(APIUsageError, match="three or four numbers from 0 to 255"):
            screen.text("a", 0, 0, 20, color)
    for shape in ((4,), (2, 3), (1, 2, 2)):
        with pytest.raises(APIUsageError, match=r"shape \(count, 2\)"):
            screen.line(np.zeros(shape), CYAN)


def test_text_is_as_wide_as_it_says(screen):
    frame = picture(screen, lambda: screen.text("Score 42", 10, 20, 20, WHITE))
    columns = np.flatnonzero((frame != BACKGROUND).any(axis=(0, 2)))
    rows = np.flatnonzero((frame != BACKGROUND).any(axis=(1, 2)))
    width = screen.text_width("Score 42", 20)
    assert 10 <= columns[0] < 13 and 10 + width - 4 < columns[-1] <= 10 + width
    assert rows[0] >= 20 and rows[-1] < 40
    assert len(np.unique(frame)) > 20  # soft edges
    assert screen.text_width("", 20) == 0 and screen.text_width("mm", 40) > screen.text_width("mm", 20)


def test_text_of_any_kind_and_size_is_written(screen):
    def draw():
        for size in (-5, 0, 1, 10_000, *range(4, 60)):  # more than are kept at once
            screen.text("sizes", 0, 0, size, WHITE)
        for string in ("", "°±×·–…", "漢字 \N{PILE OF POO}", "\n\t", "%s%n%d"):
            screen.text(string, 5, 5, 16, WHITE)

    assert (picture(screen, draw) != BACKGROUND).any()
    screen.begin()
    with pytest.raises(ValueError, match="null"):
        screen.text("a\0b", 0, 0, 20, WHITE)


def test_shapes_out_of_sight_are_no_matter(screen):
    def draw():
        for far in (-1e30, -1e9, -200, 200, 1e9, 1e30, float("inf"), float("nan")):
            screen.rectangle(far, far, 10, 10, RED)
            screen.rectangle(far, 5, 10, 10, RED, radius=4)
            screen.rectangle(-5, -5, -abs(far), 3, RED, radius=2)
            screen.line(np.array([[far, 0], [far, far]]), RED)
            screen.text("far", np.clip(far, -1e9, 1e9), 0, 20, RED)

    assert picture(screen, draw).shape == (80, 120, 3)


def test_raylib_is_the_library_that_is_drawn_with(screen, caplog):
    module = raylib()
    assert module is raylib()
    assert (module.GetScreenWidth(), module.GetScreenHeight()) == screen.size
    frame = picture(screen, lambda: module.DrawRectangle(10, 10, 5, 5, (*CYAN, 255)))
    assert near(frame[12, 12], CYAN)
    assert not caplog.records and not logging.getLogger("raylib").disabled


def test_the_environment_stays_as_it_was(monkeypatch):
    monkeypatch.setenv("SDL_VIDEO_DRIVER", "offscreen")
    before = dict(os.environ)
    Screen(10, 10, "test", is_visible=False).close()
    assert dict(os.environ) == before
    assert not screens.has_display()


@pytest.mark.skipif(sys.platform != "linux", reason="there is always a display")
@pytest.mark.parametrize(
    ("display", "reason"), [("", "there is no display"), (":12345", "no display answers at DISPLAY=:12345")]
)
def test_a_window_without_a_display_is_an_error(display, reason):
    """In a process of its own: raylib by itself would end it."""
    code = """
from pufferlib.errors import DisplayError
from pufferlib.ocean.screen import Screen
for attempt in range(2):
    try:
        Screen(100, 80, "test", is_visible=True)
    except DisplayError as error:
        print(error)
screen = Screen(100, 80, "test", is_visible=False)
screen.begin()
assert screen.frame().shape == (80, 100, 3)
"""
    chosen = {key: value for key, value in os.environ.items() if key not in ("WAYLAND_DISPLAY", "SDL_VIDEO_DRIVER")}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, env=chosen | {"DISPLAY": display}
    )
    remedy = "without DISPLAY and WAYLAND_DISPLAY everything is drawn off-screen"
    sentence = f"no window can be opened, as {reason}; {remedy}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, 2 * sentence, "")
