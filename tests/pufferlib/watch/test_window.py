"""`puffer eval` in a window of a real X server, with keys that are really pressed."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

PROGRAMS = ("Xvfb", "xdotool", "ffmpeg")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a window of X"),
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed"),
]

SECONDS_TO_START = 60  # of a machine that does other things too
SECONDS_TO_END = 60.0  # where nothing else runs it takes half a second; a loaded machine takes its time
SIZE = (1600, 1000)


@pytest.fixture
def display():
    """The name of a display of its own."""
    read, write = os.pipe()
    screen = f"{SIZE[0]}x{SIZE[1]}x24"
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", screen, "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as told:
        name = f":{told.readline().strip()}"
    yield name
    server.send_signal(signal.SIGTERM)
    server.wait(timeout=120)


class ClientMessage(ctypes.Structure):
    """What one program tells another's window, as Xlib lays it out."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("serial", ctypes.c_ulong),
        ("is_sent", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong),
        ("message", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5),
        ("padding", ctypes.c_long * 24),  # Xlib copies the largest event that there is
    ]


class Window:
    """`puffer eval` as a person meets it."""

    def __init__(self, display, folder, *flags):
        self.environment = {**os.environ, "DISPLAY": display}
        self.folder = folder
        command = [sys.executable, "-m", "pufferlib", "eval", "puffer_cartpole", "--pretrained", *flags]
        self.process = subprocess.Popen(
            command, cwd=folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def meet(self):
        """Waits until it is there."""
        self.xdotool("mousemove", SIZE[0] // 2, SIZE[1] // 2)  # keys go to the window below
        self.wait_for(lambda: self.picture().max() > 100)
        self.number = int(re.search(r"WINDOW=(\d+)", self.xdotool("getmouselocation", "--shell"))[1])

    def wait_for(self, condition, seconds=SECONDS_TO_START):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.communicate()
            if found := condition():
                return found
            time.sleep(0.1)
        raise AssertionError("it did not happen in time")

    def xdotool(self, *words, check=True):
        done = subprocess.run(
            ["xdotool", *map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
        )
        return done.stdout

    def picture(self):
        """What is on the display, `(height, width, 3)`."""
        size = f"{SIZE[0]}x{SIZE[1]}"
        command = ["ffmpeg", "-loglevel", "error", "-f", "x11grab", "-video_size", size, "-draw_mouse", "0", "-i"]
        command += [self.environment["DISPLAY"], "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        pixels = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
        return np.frombuffer(pixels, np.uint8).reshape(SIZE[1], SIZE[0], 3).astype(int)

    def width(self):
        found = (self.picture().sum(2) > 0).any(0).nonzero()[0]
        return int(found[-1] - found[0] + 1) if len(found) else 0

    def is_moving(self):
        first = self.picture()
        time.sleep(0.4)
        return abs(self.picture() - first).max() > 30

    def press(self, key):
        self.xdotool("key", key)

    def press_close(self):
        """Asks the window to close, as its button would if there were somebody to draw one."""
        x11 = ctypes.CDLL("libX11.so.6")
        x11.XOpenDisplay.restype = ctypes.c_void_p
        x11.XInternAtom.restype = ctypes.c_ulong
        display = ctypes.c_void_p(x11.XOpenDisplay(self.environment["DISPLAY"].encode()))
        protocols, delete = (x11.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
        event = ClientMessage(33, 0, 1, display, self.number, protocols, 32, (delete, 0, 0, 0, 0))
        assert x11.XSendEvent(display, ctypes.c_ulong(self.number), 0, ctypes.c_long(0), ctypes.byref(event))
        x11.XCloseDisplay(display)

    def end(self):
        """What it printed, its exit code, and how long it took."""
        begin = time.monotonic()
        out, err = self.process.communicate(timeout=60)
        return out, err, self.process.returncode, time.monotonic() - begin


@pytest.fixture
def window(display, tmp_path):
    opened = []

    def open_window(*flags):
        opened.append(Window(display, tmp_path, *flags))
        opened[-1].meet()
        return opened[-1]

    yield open_window
    for each in opened:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def test_keys_act_and_escape_ends(window, tmp_path):
    shown = window()
    assert shown.is_moving()
    shown.press("space")
    shown.wait_for(lambda: not shown.is_moving(), 120)
    before = shown.picture()
    shown.press("F1")
    shown.wait_for(lambda: abs(shown.picture() - before).max() > 100, 120)
    shown.press("F1")
    shown.press("period")
    width = shown.width()
    shown.press("Tab")
    shown.wait_for(lambda: shown.width() == width + 300, 120)
    shown.press("F12")
    shown.wait_for(lambda: (tmp_path / "puffer_cartpole_1.png").exists(), 120)
    shown.press("plus")
    shown.press("space")
    shown.wait_for(shown.is_moving, 120)
    shown.xdotool("keydown", "shift", "keydown", "Right")  # the cart soon falls over
    time.sleep(3)
    shown.xdotool("keyup", "Right", "keyup", "shift")
    shown.press("Escape")
    out, err, code, seconds = shown.end()
    assert (code, err) == (0, "") and seconds < SECONDS_TO_END
    assert "100 episodes had not ended when the window was closed" in out and "a person took part" in out
    with Image.open(tmp_path / "puffer_cartpole_1.png") as picture:
        assert picture.size[0] == width + 300


def test_the_close_button_ends(window):
    shown = window("--episodes", "3")
    shown.press_close()
    out, err, code, seconds = shown.end()
    assert (code, err) == (0, "") and seconds < SECONDS_TO_END
    assert re.search(r"^\d of 3 episodes had not ended when the window was closed$", out, re.MULTILINE)


def test_many_fit_the_display(window):
    shown = window("--grid", "9")
    assert SIZE[0] / 3 < shown.width() <= SIZE[0]
    shown.press("Escape")
    assert shown.end()[2] == 0
