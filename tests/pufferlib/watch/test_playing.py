"""`puffer play`: a game off-screen with keys of a script, and in a real window where there can be one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import command
import pytest

from pufferlib.cli import main
from pufferlib.errors import is_installed

PRELUDE = '''
import faulthandler
faulthandler.enable()
import os
import sys
import numpy as np
import pufferlib
from pufferlib.ocean.screen import Screen, raylib
from pufferlib.watch.playing import HumanEpisodes
from pufferlib.watch.controls import KeyState
from pufferlib.watch.playing import HighScores
from pufferlib.watch.controls import keyboard_for
from pufferlib.watch.playing import Game, GamePhase

class Keys:
    """raylib's keyboard, as a script says it: names of keys in small letters."""
    def __init__(self):
        self.down, self.queue, self.repeated = set(), [], set()
        for name in dir(raylib()):
            if name.startswith("KEY_"):
                setattr(self, name, name[4:].lower())
    def IsKeyDown(self, code):
        return code in self.down
    def IsKeyPressedRepeat(self, code):
        return code in self.repeated
    def GetKeyPressed(self):
        return self.queue.pop(0) if self.queue else 0
    def GetCharPressed(self):
        return 0

class Play:
    """A game that passes as the script says; the last picture of each part is drawn."""
    def __init__(self, env, speed=1.0):
        self.env, self.keys = env, Keys()
        self.keyboard = keyboard_for(env)
        self.episodes = HumanEpisodes(env, self.keyboard, 3)
        os.environ["XDG_DATA_HOME"] = sys.argv[1]
        self.scores = HighScores("test", {})
        self.game = Game(self.episodes, self.scores, speed)
        self.keystate = KeyState(self.keyboard, self.keys)
        self.screen = Screen(*self.game.size, "test", False)
    def pass_(self, seconds, until=None):
        for _ in range(round(60 * seconds)):
            self.keystate.poll()
            self.game.advance(1 / 60, self.keystate)
            if self.game.phase is until:
                break
        self.screen.begin()
        self.game.draw(self.screen)
        self.picture = self.screen.frame()
        self.screen.end()
    def press(self, *names, seconds=1 / 60):
        self.keys.queue += names
        self.pass_(seconds)
'''


def run(code, folder):
    """Runs a script with no display; fails unless it ends well and prints nothing."""
    exit_code, output, errors = command.run_code(folder, PRELUDE + textwrap.dedent(code), folder)
    errors = [line for line in errors.splitlines() if "XDG_RUNTIME_DIR" not in line]  # of pygame's SDL
    assert (exit_code, errors, output) == (0, [], "")


needs_raylib = pytest.mark.skipif(not is_installed("raylib"), reason="raylib is not installed")


@needs_raylib
def test_a_game_in_real_time(tmp_path):
    run(
        """
        play = Play(pufferlib.make("puffer_cartpole", num_envs=1))
        game, episodes = play.game, play.episodes
        play.pass_(1)
        assert (game.phase, episodes.steps) == (GamePhase.PAUSED, 0)
        waiting = play.picture
        play.press("other")
        assert game.phase is GamePhase.PLAYING
        play.pass_(0.1)
        assert not np.array_equal(play.picture, waiting)
        assert 4 <= episodes.steps <= 7, episodes.steps  # 50 in a second
        play.press("p")
        steps = episodes.steps
        play.pass_(1)
        assert (game.phase, episodes.steps) == (GamePhase.PAUSED, steps)
        play.press("left")
        assert game.phase is GamePhase.PLAYING
        play.keys.down = {"right"}
        play.pass_(3, until=GamePhase.OVER)
        assert game.phase is GamePhase.OVER and episodes.is_over
        assert game.finished == [episodes.score] == play.scores.best()
        first = episodes.score
        play.press("left", "p", "other", seconds=0.5)
        assert game.phase is GamePhase.OVER
        play.press("enter")
        assert (game.phase, episodes.steps) == (GamePhase.PLAYING, 1)
        play.pass_(0.1)
        assert episodes.steps > 1
        for keys in ("r", "pr"):
            for key in keys:
                play.press(key)
            assert (game.phase, episodes.steps) == (GamePhase.PLAYING, 1)
        play.pass_(5, until=GamePhase.OVER)
        assert game.finished == [first, episodes.score]
        assert len(play.scores.best()) == 2
        play.screen.close()
        """,
        tmp_path,
    )


@needs_raylib
def test_a_touch_between_two_steps_counts(tmp_path):
    run(
        """
        env = pufferlib.make("puffer_pong", num_envs=1, frameskip=8)  # 7.5 steps a second
        play = Play(env)
        play.press("other")
        play.pass_(1)
        height = env.observations[0, 1].item()
        play.keys.down = {"down"}
        play.keys.queue = ["down"]
        play.pass_(1 / 60)
        play.keys.down = set()
        play.pass_(0.3)
        assert env.observations[0, 1].item() > height
        lower = env.observations[0, 1].item()
        play.pass_(0.5)
        assert env.observations[0, 1].item() == lower  # and once
        """,
        tmp_path,
    )


@needs_raylib
def test_a_game_of_turns_goes_by_the_keys(tmp_path):
    run(
        """
        env = pufferlib.make("puffer_squared", num_envs=1, size=9)
        play = Play(env)
        game, episodes = play.game, play.episodes
        play.press("left", seconds=1)
        assert (game.phase, episodes.steps) == (GamePhase.PLAYING, 0)  # that key began it
        play.pass_(5)
        assert episodes.steps == 0
        def agent():
            return divmod(int((env.observations[0] == 1).argmax()), 9)
        assert agent() == (4, 4)
        play.press("up", seconds=2)
        assert (agent(), episodes.steps) == ((3, 4), 1)
        play.press("left", "x", "d", "a", seconds=4)
        assert (agent(), episodes.steps) == ((3, 3), 4)
        play.press("p", seconds=1)
        assert game.phase is GamePhase.PLAYING  # it waits anyway
        play.keys.repeated = {"up"}
        play.pass_(0.1)
        play.keys.repeated = set()
        play.pass_(5, until=GamePhase.OVER)
        assert game.phase is GamePhase.OVER and len(game.finished) == 1
        """,
        tmp_path,
    )


@needs_raylib
def test_a_turn_may_take_a_key_that_is_pressed_while_another_is_held(tmp_path):
    run(
        """
        env = pufferlib.make("puffer_go", num_envs=1, strength=0)
        play = Play(env)
        play.press("space", seconds=1)
        def stones():
            return env.observations[0, :49].sum()
        play.keys.down = {"c"}
        play.press("c", seconds=1)
        assert play.episodes.steps == 0  # a column alone is no point
        play.keys.down = {"c", "four"}
        play.press("four", seconds=1)
        assert (play.episodes.steps, stones(), env.observations[0, 3 * 7 + 2]) == (1, 1, 1)
        play.keys.repeated = {"c", "four"}
        play.pass_(1)
        assert (play.episodes.steps, stones()) == (1, 1)  # it does not come again and again
        """,
        tmp_path,
    )


@needs_raylib
def test_speed_is_of_the_game_and_not_of_the_pictures(tmp_path):
    run(
        """
        play = Play(pufferlib.make("puffer_pong", num_envs=1, frameskip=2), speed=0.5)  # 30 steps a second, by half
        play.press("other")
        play.pass_(2)
        assert 29 <= play.episodes.steps <= 31, play.episodes.steps
        """,
        tmp_path,
    )


@needs_raylib
def test_what_cannot_be_kept_does_not_stop_the_game(tmp_path):
    run(
        """
        play = Play(pufferlib.make("puffer_cartpole", num_envs=1))
        play.scores.path.mkdir(parents=True)
        play.press("other")
        play.keys.down = {"left"}
        play.pass_(9, until=GamePhase.OVER)
        assert len(play.game.finished) == 1
        assert "found something else; remove it" in play.game.trouble
        play.pass_(0.1)
        """,
        tmp_path,
    )


@needs_raylib
@pytest.mark.skipif(not is_installed("pygame"), reason="pygame is not installed")
def test_an_environment_of_gymnasium_is_played(tmp_path):
    run(
        """
        env = pufferlib.make("FrozenLake-v1", render_mode="rgb_array", is_slippery=False)
        env.reset(seed=1)
        play = Play(env)
        play.press("other")
        for key in ("down", "down", "right", "right", "down", "right"):
            play.press(key, seconds=1)
        play.pass_(5, until=GamePhase.OVER)
        assert play.game.finished == [1.0]
        env.close()
        """,
        tmp_path,
    )


# ------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["puffer_breakout"], "needs a window, and there is no display"),
        (["puffer_breakout", "--speed", "0"], "--speed must be a number in"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message, monkeypatch, capsys):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main(["play", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error or message.replace("--speed", "speed") in error


@needs_raylib
@pytest.mark.skipif(sys.platform != "linux", reason="there is always a display")
@pytest.mark.parametrize("verb", ["play", "eval"])
def test_a_display_that_does_not_answer_is_one_sentence(verb, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":12345")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("SDL_VIDEO_DRIVER", raising=False)
    assert main([verb, "puffer_cartpole", *(["--pretrained"] if verb == "eval" else [])]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "no display answers at DISPLAY=:12345" in error
    assert ("unset it, or pass --headless or --video" if verb == "eval" else "puffer eval puffer_cartpole") in error


@needs_raylib
def test_a_window_keeps_its_proportions_where_the_display_is_small(tmp_path):
    run(
        """
        game = Play(pufferlib.make("puffer_breakout", num_envs=1)).game
        large = game.lay_out((1600, 960))
        assert large == (1184, 776 + 44)
        small = game.lay_out((784, 540))
        assert small[0] <= 784 and small[1] <= 540
        assert abs((small[1] - 44) / small[0] - 776 / 1184) < 0.01
        """,
        tmp_path,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["puffer_squared", "--opponent", "random"], "--opponent"),
        (["puffer_connect4", "--opponent", "bot", "--side", "second"], "--side"),
        pytest.param(
            ["HalfCheetah-v5"],
            "cannot be played: it does not say which keys mean which action",
            marks=pytest.mark.skipif(not is_installed("mujoco"), reason="mujoco is not installed"),
        ),
        pytest.param(
            ["pettingzoo:butterfly/pistonball_v6"],
            "cannot be played: it has 20 agents that act at a time",
            marks=pytest.mark.skipif(not is_installed("pettingzoo"), reason="pettingzoo is not installed"),
        ),
    ],
)
def test_what_nobody_can_play(arguments, message, monkeypatch, capsys):
    monkeypatch.setenv("DISPLAY", ":none")
    monkeypatch.delenv("SDL_VIDEO_DRIVER", raising=False)
    assert main(["play", *arguments]) == 2
    assert message in capsys.readouterr().err


PROGRAMS = ("Xvfb", "xdotool")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]


@pytest.fixture
def display(request):
    """An X server of our own, of 1400 x 1000 pixels or those of a parameter; its number is chosen by it."""
    read, write = os.pipe()
    screen = f"{getattr(request, 'param', '1400x1000')}x24"
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", screen], pass_fds=[write], stderr=subprocess.DEVNULL
    )
    os.close(write)
    with os.fdopen(read) as number:
        yield f":{number.readline().strip()}"
    server.terminate()
    server.wait()


@needs_raylib
@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_a_real_window(tmp_path, display):
    variables = {**os.environ, "DISPLAY": display, "XDG_DATA_HOME": str(tmp_path)}
    variables.pop("SDL_VIDEO_DRIVER", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "pufferlib", "play", "puffer_cartpole", "--seed", "1"],
        env=variables,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def press(key):
        subprocess.run(["xdotool", "key", key], env=variables, check=True, capture_output=True)

    try:
        assert "playing puffer_cartpole by left, right" in process.stdout.readline()
        path = tmp_path / "pufferlib" / "high_scores" / "puffer_cartpole.json"
        deadline = time.monotonic() + 600
        while not path.exists() and time.monotonic() < deadline:
            press("Left")  # begins the game once the window is there, and loses it
            time.sleep(0.1)
        (scores,) = json.loads(path.read_text()).values()
        assert len(scores) == 1 and scores[0] > 5
        press("Escape")
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")
    assert output.splitlines() == [f"score {scores[0]:g}"]
    assert not [*Path(tmp_path).glob("experiments*")]


SHOW_BREAKOUT = """
import pufferlib
env = pufferlib.make("puffer_breakout", num_envs=1)
env.reset(0)
while True:
    env.render()
"""


@needs_raylib
@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
@pytest.mark.parametrize("display", ["800x600"], indirect=True)
@pytest.mark.parametrize(
    ("command", "size"),
    [(["-m", "pufferlib", "play", "puffer_breakout"], "757x540"), (["-c", SHOW_BREAKOUT], "784x514")],
)
def test_a_window_fits_a_small_display(command, size, tmp_path, display):
    variables = {**os.environ, "DISPLAY": display, "XDG_DATA_HOME": str(tmp_path)}
    variables.pop("SDL_VIDEO_DRIVER", None)

    def ask(*arguments):
        return subprocess.run(["xdotool", *arguments], env=variables, capture_output=True, text=True).stdout

    process = subprocess.Popen([sys.executable, *command], env=variables, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        shown, deadline = "", time.monotonic() + 600
        while f"Geometry: {size}" not in shown and time.monotonic() < deadline:  # the first window is too large
            pointed_at = re.search(r"WINDOW=(\d+)", ask("mousemove", "400", "300", "getmouselocation", "--shell"))
            shown = ask("getwindowgeometry", pointed_at[1]) if pointed_at else ""  # the display may not answer yet
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    assert f"Geometry: {size}" in shown
