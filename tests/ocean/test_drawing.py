"""One environment drawn anywhere on a screen, at any moment of a step."""

import gc
import re

import numpy as np
import pytest
from checked_headers import quick_params
from contract import assert_same, random_actions
from test_forged_snapshots import content_of, sealed

from pufferlib import ocean
from pufferlib.errors import APIUsageError
from pufferlib.ocean.rendering import Drawing
from pufferlib.ocean.screen import BACKGROUND, Screen

pytest.importorskip("raylib", reason="raylib is not installed")

DRAWN = [name for name in ocean.names() if [*ocean.config_path(name).parent.glob("*_render.h")]]
every_drawn = pytest.mark.parametrize("name", quick_params(DRAWN))
SHOWN_BY_FRAMES = ["puffer_breakout", "puffer_pong"]  # their steps are played again
SIZE = (1200, 820)  # of the screen: larger than any picture


@pytest.fixture(scope="module")
def screen():
    opened = Screen(*SIZE, "test", is_visible=False)
    yield opened
    opened.close()


def make(name, **kwargs):
    env = ocean.env_class(name)(num_envs=3, **kwargs)
    env.reset(seed=1)
    env.single_action_space.seed(0)
    return env


def step(env, count=1):
    for _ in range(count):
        actions = [env.single_action_space.sample() for _ in range(env.num_agents)]
        env.step(np.asarray(actions).reshape(env.actions.shape))


def shot(screen, drawing, x=0.0, y=0.0, scale=1.0, progress=1.0):
    """The screen with the picture, and the picture cut out of it."""
    screen.begin()
    drawing.draw(x, y, scale, progress)
    frame = screen.frame()
    screen.end()
    return frame


def cut(frame, drawing):
    width, height = drawing.size
    return frame[:height, :width]


def is_plain(frame):
    return (frame == BACKGROUND).all()


def fresh(env, drawing):
    """A drawing of the same step that has drawn nothing yet: no tail, no flashes."""
    moment = env.drawing()
    moment._before = drawing._before
    return moment


def stepped(screen, name, **kwargs):
    """An environment after a step that is no episode's last and changes the picture, and its drawing from before."""
    env = make(name, **kwargs)
    drawing = env.drawing()
    for _ in range(100):
        drawing.remember()
        step(env)
        if env.terminals[0] or env.truncations[0]:
            continue
        if not np.array_equal(shot(screen, drawing, progress=0.0), shot(screen, drawing)):
            return env, drawing
    raise AssertionError(
        "the picture must follow progress: in 100 steps that ended no episode those at 0 and at 1 were alike; "
        "draw `before` at 0, `now` at 1"
    )


@every_drawn
def test_a_drawing_says_what_it_wants(name):
    env = make(name)
    drawing = env.drawing(1)
    is_fitting = all(100 <= side <= limit for side, limit in zip(drawing.size, SIZE, strict=True))
    assert is_fitting, f"a picture must be 100 x 100 to {SIZE[0]} x {SIZE[1]} pixels, found {drawing.size}"
    rate = drawing.steps_per_second
    assert 1 <= rate <= 120, f"steps_per_second must be 1 to 120, found {rate}"
    expected = "PufferLib and the game in small letters, digits and spaces, such as 'PufferLib my game'"
    assert re.fullmatch(r"PufferLib [a-z0-9 ]+", drawing.title), f"a title must be {expected}, found {drawing.title!r}"


@every_drawn
def test_a_picture_moves_from_one_step_to_the_next(screen, name):
    env, drawing = stepped(screen, name)
    before, between, now = (cut(shot(screen, drawing, progress=progress), drawing) for progress in (0.0, 0.5, 1.0))
    for end, value in ((before, 0), (now, 1)):
        is_between = not np.array_equal(between, end)
        assert is_between, (
            f"the picture must follow progress: that at 0.5 is the one at {value}; draw what lies between"
        )
    moment = fresh(env, drawing)
    assert_same(
        shot(screen, moment), shot(screen, env.drawing()), "at progress 1 the picture must be that of `now` alone"
    )


@every_drawn
def test_progress_beyond_the_step_is_its_beginning_or_end(screen, name):
    _, drawing = stepped(screen, name)
    for beyond, end in ((-3.0, 0.0), (-1e30, 0.0), (1.5, 1.0), (1e30, 1.0), (float("inf"), 1.0)):
        rule = f"progress {beyond:g} must be drawn as {end:g}"
        assert_same(shot(screen, drawing, progress=beyond), shot(screen, drawing, progress=end), rule)


@pytest.mark.quick("puffer_pong")
@pytest.mark.parametrize("name", SHOWN_BY_FRAMES)
def test_the_frames_within_a_step_are_those_that_were_played(screen, name):
    """Beside it the same game with steps of one frame: bounces included."""
    frameskip = 4
    whole, parts = (ocean.env_class(name)(num_envs=1, frameskip=count) for count in (frameskip, 1))
    generator = np.random.default_rng(0)
    whole.reset(seed=5)
    parts.reset(seed=5)
    turns = 0  # of the ball, seen in the velocity
    for _ in range(60):
        action = generator.integers(3, size=1)
        drawing, velocity = whole.drawing(), whole.observations[0, 4:6].copy()
        drawing.remember()
        whole.step(action)
        turns += not np.array_equal(velocity, whole.observations[0, 4:6])
        for frame in range(1, frameskip):
            parts.step(action)
            moment = shot(screen, fresh(whole, drawing), scale=0.25, progress=frame / frameskip)[:200, :300]
            beside = shot(screen, parts.drawing(), scale=0.25)[:200, :300]
            assert np.abs(moment.astype(int) - beside).mean() < 0.02
        parts.step(action)
    assert turns > 2


def begin_another_episode(env):
    """Puts another first state in place of the one that the last step led to, whose rewards and flags stay."""
    after = env.snapshot()
    env.reset(seed=99)
    before, kept = content_of(env.snapshot()), content_of(after)
    masks = env.action_masks.nbytes if env.has_action_masks else 0
    end = len(kept) - masks - env.has_turns * env.masks.nbytes  # a snapshot of one ends with its masks
    begin = end - (4 + 1 + 1) * env.num_agents  # before which stand the rewards and both flags
    env.restore(sealed(after, before[:begin] + kept[begin:end] + before[end:]))


@every_drawn
def test_an_episode_that_ended_is_shown_to_its_end(screen, name):
    """Until the step is over nothing of the next episode is seen: with another one the picture is the same."""
    env = ocean.env_class(name)(num_envs=1)
    env.reset(seed=1)
    drawing, ends = env.drawing(), 0
    for actions in random_actions(env, 20_000 // env.num_agents):
        drawing.remember()
        env.step(actions)
        if not np.all(env.terminals | env.truncations):
            continue
        after, shown = env.snapshot(), shot(screen, fresh(env, drawing), progress=0.999)
        begin_another_episode(env)
        again = shot(screen, fresh(env, drawing), progress=0.999)
        rule = "where a flag of `now` is set all must be drawn from `before` until progress is 1, as an episode ended"
        assert_same(again, shown, rule)
        env.restore(after)
        ends += 1
        if ends == 3:
            return
    assert env.num_agents > 1, "no episode ended"  # agents that end one by one begin anew among the others


@every_drawn
def test_a_picture_stays_in_its_place(screen, name):
    env = make(name)
    step(env, 3)
    drawing = env.drawing()
    x, y = 33, 47
    for scale in (0.1, 0.37, 1.0, 1.4):
        width, height = (int(np.ceil(scale * side)) for side in drawing.size)
        frame = shot(screen, drawing, x, y, scale)
        assert not is_plain(frame[y : y + height, x : x + width]), "nothing is drawn"
        frame[y : y + height, x : x + width] = BACKGROUND
        assert is_plain(frame), "nothing must be drawn beyond the width and height that c_open_client asked for"


@every_drawn
def test_pictures_side_by_side_are_those_drawn_alone(screen, name):
    env = make(name)
    step(env, 5)
    drawings = [env.drawing(index) for index in range(3)]
    scale = 300 / max(drawings[0].size)
    alone = [shot(screen, drawing, 310 * i, 5, scale) for i, drawing in enumerate(drawings)]
    screen.begin()
    for i, drawing in enumerate(drawings):
        drawing.draw(310 * i, 5, scale)
    frame = screen.frame()
    screen.end()
    for i in range(3):
        rule = "a picture must not depend on those drawn beside it"
        assert_same(frame[:, 310 * i : 310 * (i + 1)], alone[i][:, 310 * i : 310 * (i + 1)], rule)


@pytest.mark.quick("puffer_target", "puffer_breakout")
@every_drawn
def test_drawing_changes_nothing(screen, name):
    def rollout(is_drawn):
        env = make(name)
        drawing, written = env.drawing(), []
        for _ in range(30):
            drawing.remember()
            step(env)
            if is_drawn:
                for progress in (0.0, 0.3, 0.9, 1.0):
                    shot(screen, drawing, 0, 0, 0.1, progress)
            written.append(env.observations.tobytes() + env.rewards.tobytes() + env.terminals.tobytes())
        return written, env.snapshot()

    assert rollout(is_drawn=True) == rollout(is_drawn=False), "drawing must not change the game"


@every_drawn
def test_a_drawing_goes_on_on_another_screen(screen, name):
    env = make(name)
    step(env, 3)
    drawing = env.drawing()
    frame = shot(screen, drawing)
    screen.close()
    with pytest.raises(APIUsageError, match="there is no screen"):
        drawing.draw()
    again = Screen(*SIZE, "test", is_visible=False)
    try:
        assert_same(shot(again, drawing), frame, "a picture must be the same on another screen: load what was unloaded")
        drawing.close()
        drawing.close()
        assert_same(shot(again, drawing), frame, "a picture must be the same on another screen: load what was unloaded")
    finally:
        again.close()
        screen.__init__(*SIZE, "test", is_visible=False)


def test_what_cannot_be_drawn_is_told_so(screen):
    env = make("puffer_squared")
    drawing = env.drawing()
    with pytest.raises(APIUsageError, match=r"call begin\(\) first"):
        drawing.draw()
    nan, infinity = float("nan"), float("inf")
    screen.begin()
    for x, y, scale in [(nan, 0, 1), (0, nan, 1), (0, 0, nan), (infinity, 0, 1), (0, 1e9, 1), (0, 0, 0), (0, 0, -1)]:
        with pytest.raises(APIUsageError, match="a picture cannot be drawn there"):
            drawing.draw(x, y, scale)
    for odd in (-1e5, 1e5):
        drawing.draw(odd, odd, 1.0)  # where nobody sees it
    drawing.draw(0, 0, 1000.0)
    drawing.draw(0, 0, 0.001)
    drawing.draw(progress=nan)
    screen.end()
    with pytest.raises(IndexError):
        env.drawing(3)
    with pytest.raises(TypeError, match="expected an environment handle"):
        Drawing("squared", env.handle)


def test_a_closed_environment_is_not_drawn(screen):
    env = make("puffer_squared")
    drawing = env.drawing()
    env.close()
    with pytest.raises(ValueError, match="closed"):
        drawing.remember()
    screen.begin()
    with pytest.raises(ValueError, match="closed"):
        drawing.draw()
    screen.end()
    never_reset = ocean.env_class("puffer_squared")(num_envs=1)
    with pytest.raises(RuntimeError, match="never reset"):
        never_reset.drawing()


def test_an_environment_lives_while_it_is_drawn(screen):
    env = make("puffer_squared")
    drawing, frame = env.drawing(), shot(screen, env.drawing())
    del env
    gc.collect()
    assert_same(shot(screen, drawing), frame, "what could not be drawn must leave the picture as it was")


def test_the_render_module_takes_nothing_that_is_not_its_own():
    env, other = make("puffer_squared"), make("puffer_pong")
    drawing, stranger = env.drawing(), other.drawing()
    module, fonts = drawing._module, ocean.screen._native().fonts
    state, picture = drawing._before, drawing._picture
    for wrong in (None, 5, stranger._before, picture):
        with pytest.raises(TypeError, match="expected a state"):
            module.open(wrong)
        with pytest.raises(TypeError):
            module.draw(picture, fonts, state, wrong, 0, 0, 1, 1)
    for wrong in (None, state, stranger._picture):
        for call in (module.describe, module.close):
            with pytest.raises(TypeError, match="expected a picture"):
                call(wrong)
    with pytest.raises(TypeError, match="expected the fonts"):
        module.draw(picture, state, state, state, 0, 0, 1, 1)


@pytest.mark.quick("2", "128")
@pytest.mark.parametrize("size", [2, 3, 40, 128])
def test_grids_of_any_size_are_drawn(screen, size):
    env = make("puffer_squared", size=size)
    drawing = env.drawing()
    for _ in range(5):
        drawing.remember()
        step(env)
        for progress in (0.0, 0.5, 1.0):
            assert not is_plain(shot(screen, drawing, progress=progress))
