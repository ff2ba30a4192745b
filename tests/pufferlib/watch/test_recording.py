"""Videos of a policy, as a user's own script asks for them."""

import functools
from pathlib import Path

import gymnasium
import pytest
from PIL import Image

import pufferlib
from pufferlib import APIUsageError
from pufferlib.models import Default
from pufferlib.ocean import env_class
from pufferlib.ocean.screen import open_screen

pytest.importorskip("raylib", reason="raylib draws the frames")
pytestmark = pytest.mark.usefixtures("in_tmp_path")
Squared = env_class("puffer_squared")


@pytest.fixture
def policy():
    env = Squared(num_envs=1)
    yield Default(env, hidden_size=8)
    env.close()


@functools.cache
def cartpole_policy():
    return Default(pufferlib.make("CartPole-v1"), hidden_size=8)


def frames(path):
    """Size and number of the frames of a gif, and how many differ from the one before."""
    with Image.open(path) as image:
        seen = []
        for index in range(image.n_frames):
            image.seek(index)
            seen.append(image.convert("RGB").tobytes())
        moved = sum(first != second for first, second in zip(seen, seen[1:], strict=False))
        return image.size, len(seen), moved


def test_a_video_by_an_environments_name(policy):
    path = pufferlib.record(policy, "puffer_squared", "squared.gif", max_steps=4)
    assert path == Path("squared.gif")
    env = Squared(num_envs=1)
    env.reset(seed=0)
    size, count, moved = frames(path)
    assert size == env.drawing().size
    assert count > 10 and moved > 3  # it is drawn between the steps
    env.close()
    assert open_screen() is None


@pytest.mark.quick("trainer")
@pytest.mark.parametrize("wanted", ["class", "environment", "trainer"])
def test_another_environment_like_it_is_made(policy, wanted):
    trainer = pufferlib.PuffeRL("puffer_squared", policy, num_envs=4, batch_size=64)
    env = {"class": Squared, "environment": pufferlib.make("puffer_squared", num_envs=3), "trainer": trainer.vecenv}
    assert pufferlib.record(policy, env[wanted], "squared.gif", max_steps=2).exists()
    trainer.evaluate()  # goes on as if nothing had been
    trainer.train()
    trainer.release()


def test_a_longer_play_is_a_longer_video(policy):
    lengths = [
        frames(pufferlib.record(policy, "puffer_squared", "squared.gif", episodes=9, max_steps=steps))[1]
        for steps in (2, 6)
    ]
    assert lengths[0] < lengths[1]


@pytest.mark.slow
def test_environments_of_gymnasium_draw_themselves():
    policy, ready = cartpole_policy(), gymnasium.make("CartPole-v1", render_mode="rgb_array")
    named = frames(pufferlib.record(policy, "CartPole-v1", "named.gif"))
    assert named == frames(pufferlib.record(policy, ready, "ready.gif"))
    assert named[0] == (600, 400)
    ready.reset()  # it was left open
    ready.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("puffer_squared", "squared.avi"), "squared.avi"),
        (("puffer_squared", "squared.gif", 0), "episodes must be a whole number, 1 or more, got 0"),
        (("puffer_cartpole", "cartpole.gif"), "CartPole|observation|fit"),
        ((gymnasium.make("CartPole-v1"), "cartpole.gif"), "render_mode='rgb_array'|fit|observation"),
    ],
)
def test_mistakes_leave_no_file_behind(policy, arguments, message):
    with pytest.raises(APIUsageError, match=message):
        pufferlib.record(policy, *arguments)
    assert not list(Path().iterdir())
    assert open_screen() is None


def test_a_ready_vector_that_nothing_was_named_by_is_refused(policy):
    trainer = pufferlib.PuffeRL(Squared(num_envs=4), policy, batch_size=64)
    with pytest.raises(APIUsageError, match="no environment for a video can be made from the ready vector of Squared"):
        pufferlib.record(policy, trainer.vecenv, "squared.gif")
    trainer.release()
