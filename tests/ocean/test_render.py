"""Drawing, off-screen; each case in a process of its own, because raylib has one window per process."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checked_headers import QUICK
from contract import COMPILED

from pufferlib import ocean

DRAWN = [
    name for name in ocean.names() if [*ocean.config_path(name).parent.glob("*_render.h")]
]  # what should be drawable, whether its module was built or not

pytestmark = pytest.mark.skipif(importlib.util.find_spec("raylib") is None, reason="raylib is not installed")

PRELUDE = """
import faulthandler, sys
faulthandler.enable()
from pathlib import Path
import numpy as np
from pufferlib import ocean
from pufferlib.errors import APIUsageError
from pufferlib.ocean import rendering

def make(name, **kwargs):
    env = ocean.env_class(name)(num_envs=4, **kwargs)
    env.reset(seed=1)
    env.single_action_space.seed(0)
    return env

def step(env, count=1):
    for _ in range(count):
        actions = [env.single_action_space.sample() for _ in range(env.num_agents)]
        env.step(np.asarray(actions).reshape(env.actions.shape))
"""


def run(code, *arguments, **environment):
    """Runs code after the prelude with no display; fails unless it ends well and prints nothing."""
    variables = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PRELUDE + code, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env=variables | environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("names", [[*QUICK], pytest.param(DRAWN, marks=pytest.mark.slow)], ids=["some", "all"])
def test_environments_are_drawn_without_being_changed(names):
    """One process for all of them: starting it is what takes the time."""
    output = run(
        """
def rollout(name, is_drawn):
    env, frames, written = make(name), [], []
    for _ in range(4):
        frames += [env.render()] if is_drawn else []
        step(env)
        written.append(env.observations.tobytes() + env.rewards.tobytes())
    snapshot = env.snapshot()
    env.close()
    return frames, written, snapshot

def check(name):
    frames, *drawn = rollout(name, True)
    assert drawn == list(rollout(name, False)[1:])
    first = frames[0]
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3 and first.flags.owndata
    assert len(np.unique(first @ np.array([1, 256, 65536]))) > 2, "colours"
    assert (first == np.array([6, 24, 24], np.uint8)).all(axis=2).mean() > 0.01, "background"
    assert any(not np.array_equal(frame, first) for frame in frames)

    rendering.close()  # twice is harmless: the environment closed it
    again = make(name)
    assert np.array_equal(again.render(), first)
    rendering.close()
    assert np.array_equal(again.render(), first)
    again.close()
    again.close()

for name in sys.argv[1:]:
    try:
        check(name)
    except Exception as error:
        raise AssertionError(name) from error
""",
        *names,
    )
    assert output == ""


def test_each_environment_is_drawn_as_if_it_were_alone():
    """A client made for one environment must not draw another one, of another size or at the same address."""
    output = run(
        """
def frame(size):
    env = make("puffer_squared", size=size)
    picture = env.render()
    env.close()
    return picture

alone = {size: frame(size) for size in (3, 11, 40)}
envs = {size: make("puffer_squared", size=size) for size in alone}
for size in (3, 11, 3, 40, 11, 40, 3):
    assert np.array_equal(envs[size].render(), alone[size]), size
for size in (3, 11, 40):  # freed and made again, perhaps in the same memory
    envs.pop(size)
    envs[size] = make("puffer_squared", size=size)
    assert np.array_equal(envs[size].render(), alone[size]), size
"""
    )
    assert output == ""


def test_the_environments_of_a_vec_are_drawn_apart():
    output = run(
        """
env = make("puffer_squared")
frames = [env.render(index) for index in range(4)]
assert not all(np.array_equal(frame, frames[0]) for frame in frames)
assert all(np.array_equal(env.render(index), frames[index]) for index in (2, 0, 3))
"""
    )
    assert output == ""


@pytest.mark.skipif(len(DRAWN) < 2, reason="there is only one environment that can be drawn")
def test_two_kinds_of_environment_take_turns_off_screen():
    output = run(
        """
first, second = make(sys.argv[1]), make(sys.argv[2])
pictures = [env.render() for env in (first, second, first, second)]
assert (pictures[0] == pictures[2]).all() and (pictures[1] == pictures[3]).all()
assert pictures[0].shape != pictures[1].shape or (pictures[0] != pictures[1]).any()
first.close()
second.render()
""",
        *DRAWN[:2],
    )
    assert output == ""


def test_what_cannot_be_drawn_raises():
    output = run(
        """
from pufferlib.errors import MissingExtraError
env = make("puffer_squared")
for arguments, exception, words in [
    (("squared", 5), TypeError, "expected an environment handle from squared.env_init, got int"),
    (("squared", env.handle), TypeError, "expected an environment handle from squared.env_init, got pufferlib.vec"),
    (("nonsense", None), MissingExtraError, "without the render module of nonsense"),
]:
    try:
        rendering.render(*arguments)
    except exception as error:
        assert words in str(error), error
    else:
        raise AssertionError(arguments)
env.close()
try:
    env.render()
except ValueError as error:
    assert "closed" in str(error)
else:
    raise AssertionError("drew a closed environment")
"""
    )
    assert output == ""


def test_standard_output_belongs_to_the_program():
    output = run(
        """
import os
print("before")
env = make("puffer_squared")
env.render()
print("between")
env.close()
os.write(1, b"")
print("after")
"""
    )
    assert output == "before\nbetween\nafter\n"


def test_drawing_works_without_standard_output():
    run(
        """
import os
os.close(1)
env = make("puffer_squared")
env.render()
env.close()
sys.stdout = None
os._exit(0)
"""
    )


def test_training_never_loads_raylib():
    output = run(
        """
for name in sys.argv[1:]:
    env = make(name)
    step(env, 3)
    env.close()
print(sys.platform == "linux" and "raylib" in Path("/proc/self/maps").read_text())
""",
        *COMPILED,
    )
    assert output == "False\n"


def test_a_missing_display_library_says_what_to_install(tmp_path):
    (tmp_path / "raylib").mkdir()
    (tmp_path / "raylib" / "__init__.py").touch()
    output = run(
        """
from pufferlib.errors import MissingExtraError
try:
    make("puffer_squared").render()
except MissingExtraError as error:
    print(error)
""",
        PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]),
    )
    assert output == "drawing needs raylib; install raylib-software (Linux) or raylib (macOS)\n"


def test_every_render_module_of_the_tree_was_built():
    folder = Path(ocean.__file__).parent
    assert DRAWN
    for name in DRAWN:
        short = name.removeprefix(ocean.PREFIX)
        assert list((folder / short).glob("render.*.so")), f"the render module of {short} was not built"
