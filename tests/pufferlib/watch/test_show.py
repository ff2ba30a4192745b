"""The loop in a window that nobody sees, which keys are pressed in by a script."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pufferlib.config import load_config
from pufferlib.config.flags import EvalOptions
from pufferlib.ocean import screen
from pufferlib.play.scores import player_in, split_evenly
from pufferlib.runs.loaders import load_policy
from pufferlib.watch import show as show_module
from pufferlib.watch.controls import KeyState, ViewerCommand
from pufferlib.watch.show import Show, WatchedPlay, action_names


class Scripted(KeyState):
    """Gives the commands of one picture after the other, and keeps how things are by then."""

    def __init__(self, script):
        self.script = [*script]
        self.seen = []
        self.look = lambda: None
        self.held_in_game, self.has_shift = set(), False

    def of(self, keyboard, library):
        super().__init__(keyboard, library)
        return self

    def poll(self):
        super().poll()
        self.seen.append(self.look())
        given = self.script.pop(0) if self.script else None
        if callable(given):
            given(self)
            given = None
        self.commands, self.held, self.is_shift_held = given or [], self.held_in_game, self.has_shift


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """Shows an environment to somebody who presses keys, and closes the window when the script is over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEO_DRIVER", "dummy")
    monkeypatch.setattr(screen, "display_room", lambda: (1900, 1000))

    def run(script, env_name="puffer_cartpole", episodes=50, grid=1, video=None, panel=False):
        controls = Scripted(script)
        monkeypatch.setattr(show_module, "KeyState", controls.of)
        monkeypatch.setattr(screen.Screen, "is_closing", lambda self: not controls.script)
        args = load_config(env_name)
        args["train"]["device"] = "cpu"
        make_policy = partial(load_policy, args, env_name=env_name)
        with player_in(env_name, make_policy, episodes, 3, is_sampled=False, is_shown=True) as player:
            play = WatchedPlay(player, split_evenly(episodes, episodes), 10_000, 3, grid)
            show = Show(play, EvalOptions(video=video, panel=panel, fps=240.0), True, "cartpole")
            controls.look = lambda: (
                show._playback.is_paused,
                show._playback.position,
                show._playback.speed,
                show._screen.size,
                show._is_helping,
            )
            show.run()
        assert screen.open_screen() is None and not play.places
        return show, play, controls.seen

    return run


def test_it_runs_by_itself_until_the_window_is_closed(shown):
    show, play, seen = shown([[]] * 30)
    positions = [position for _, position, *_ in seen]
    assert positions == sorted(positions) and positions[-1] > 3 and show.is_left
    assert play.steps == np.ceil(show._playback.position)


def test_a_pause_holds_and_single_steps_end_one_each(shown):
    pause, step, wait = [ViewerCommand.PAUSE], [ViewerCommand.STEP], [[]] * 20
    _, _, seen = shown([[], pause, *wait, step, *wait, [*step, *step], *wait, *wait])
    stood = [position for is_paused, position, *_ in seen if is_paused]
    first = stood[0]
    assert seen[-1][1] == np.floor(first) + 3
    assert {*stood} == {first, *(np.floor(first) + np.array([1.0, 3.0]))}


def test_speed_changes_how_fast_it_goes(shown):
    faster = [ViewerCommand.FASTER] * 3
    _, _, seen = shown(
        [[]] * 20 + [faster] + [[]] * 20 + [[ViewerCommand.SLOWER] * 2] + [[]] + [[ViewerCommand.NORMAL_SPEED], [], []],
        episodes=200,
    )
    assert [speed for _, _, speed, *_ in seen][-5:-2] == [8.0, 2.0, 2.0] and seen[-1][2] == 1.0
    slow, fast = seen[19][1] - seen[1][1], seen[40][1] - seen[21][1]
    assert fast > 3 * slow


def test_a_restart_plays_the_same_again(shown):
    show, play, seen = shown([[]] * 20 + [[ViewerCommand.RESTART], [], []])
    positions = [position for _, position, *_ in seen]
    assert positions[20] > positions[-1] > 0 and not play.sheet.scores()
    assert play.steps == np.ceil(show._playback.position)


def test_the_panel_makes_the_window_wider_and_the_keys_are_told(shown):
    _, _, seen = shown(
        [[], [ViewerCommand.PANEL], [ViewerCommand.HELP], [], [ViewerCommand.PANEL], [ViewerCommand.HELP], [], []]
    )
    sizes = [size for *_, size, _ in seen]
    assert sizes[2][0] == sizes[1][0] + 300 and sizes[-1] == sizes[0]
    assert [is_helping for *_, is_helping in seen] == [False, False, False, True, True, True, False, False]


def test_pictures_are_saved_under_names_that_are_free(shown, tmp_path):
    (tmp_path / "cartpole_1.png").write_text("mine")
    shown([[], [ViewerCommand.SCREENSHOT], [ViewerCommand.PANEL], [], [ViewerCommand.SCREENSHOT], [], []])
    assert (tmp_path / "cartpole_1.png").read_text() == "mine"
    sizes = []
    for number in (2, 3):
        with Image.open(f"cartpole_{number}.png") as picture:
            sizes.append(picture.size)
    assert sizes[1][0] == sizes[0][0] + 300 and len([*tmp_path.glob("*.png")]) == 3


def test_a_picture_that_cannot_be_saved_is_told_and_the_play_goes_on(shown, monkeypatch):
    def fail(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    show, _, _ = shown([[], [ViewerCommand.SCREENSHOT], [], []])
    assert show._notice == "cartpole_1.png cannot be written (No space left on device)"


def test_a_person_takes_over_while_shift_is_held(shown):
    def hold(keys):
        keys.held_in_game, keys.has_shift = {"left"}, True

    show, play, _ = shown([[], hold, *[[]] * 40])
    assert play.is_helped and {int(trace.action[0]) for trace in [*play.traces][-3:]} == {0}
    assert show._badge().endswith("you play")


def test_a_game_of_turns_waits_for_the_person(shown):
    def hold(keys):
        keys.has_shift = True

    _, _, seen = shown([[], [], hold, *[[]] * 20], "puffer_squared")
    assert len({position for _, position, *_ in seen[4:]}) == 1


def test_a_window_and_a_video_show_the_same(shown, tmp_path):
    path = "a.gif"
    pause = [ViewerCommand.PAUSE]
    show, _, seen = shown([[], *[[]] * 20, pause, *[[]] * 20, pause, [ViewerCommand.PANEL], *[[]] * 20], video=path)
    assert show.video.frames == pytest.approx(len(seen) - 21, abs=2)  # none while it stood
    assert show.video.size == seen[0][3] == seen[-1][3] and Path(path).exists()
    assert show._playback.seconds == pytest.approx((show.video.frames - 1) / 240, abs=2 / 240)


def test_many_share_the_window_and_free_places_are_taken(shown):
    show, play, _ = shown([[], [ViewerCommand.FASTER] * 6, *[[]] * 60], episodes=8, grid=3)
    assert play.sheet.scores()["episode_return"].episodes >= 3
    assert show._playback.is_over or len({place.rows.start for place in play.places}) in (0, 3)


def test_choices_are_called_by_their_keys():
    class Env:
        keys = None

    assert action_names(Env()) == {}
    from pufferlib.environment import Keys

    Env.keys = Keys({"left": 1, "up+left": 4, "right": 2}, idle=0)
    assert action_names(Env()) == {0: "none", 1: "left", 2: "right", 4: "up+left"}
