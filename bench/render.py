"""Pictures a second that the environments are drawn at, off-screen, and what reading them back leaves of it.

    python bench/render.py

Each environment is drawn at its own size, at moments between two steps of random actions: 400 pictures that are only
drawn, and 400 of which each is also read as a frame, as a video needs it. The rate is that of the median picture, in
processor time. Rows go to bench/results/render.csv.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from calibrate import calibration
from record import tell

from pufferlib import ocean
from pufferlib.errors import MissingExtraError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.rendering import Drawing
from pufferlib.ocean.screen import Screen

PICTURES, PICTURES_PER_STEP = 400, 4


def seconds_of(screen: Screen, drawing: Drawing, progress: float, is_read: bool) -> float:
    start = time.process_time()
    screen.begin()
    drawing.draw(progress=progress)
    if is_read:
        screen.frame()
    screen.end()
    return time.process_time() - start


def pictures_per_second(env, is_read: bool) -> float:
    env.reset(seed=0)
    env.single_action_space.seed(0)
    drawing = env.drawing()
    screen = Screen(*drawing.size, drawing.title, is_visible=False)
    seconds = []
    for _ in range(PICTURES // PICTURES_PER_STEP):
        drawing.remember()
        actions = [env.single_action_space.sample() for _ in range(env.num_agents)]
        env.step(np.asarray(actions).reshape(env.actions.shape))
        for part in range(1, PICTURES_PER_STEP + 1):
            seconds.append(seconds_of(screen, drawing, part / PICTURES_PER_STEP, is_read))
    screen.close()
    return 1.0 / float(np.median(seconds))


def measure() -> list[tuple[str, float, str]]:
    results = []
    for name in ocean.names():
        if not issubclass(ocean.env_class(name), OceanEnv):  # it has no picture
            continue
        env = ocean.env_class(name)(num_envs=1)
        try:
            for is_read in (False, True):
                case = f"{name.removeprefix(ocean.PREFIX)}, {'read' if is_read else 'drawn'}"
                results.append((case, pictures_per_second(env, is_read), "pictures/s"))
        except MissingExtraError:  # its module was built without raylib
            continue
        finally:
            env.close()
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    before = calibration()
    tell("render", measure(), before, not options.no_record)
