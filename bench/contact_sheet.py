"""One picture of every game on one sheet, for a person to look at and for README.

    python bench/contact_sheet.py                                  writes docs/ocean.png
    python bench/contact_sheet.py puffer_pong --output /tmp/pong.png --pictures /tmp

Each environment is played by the trained agent that comes with it, by drawn actions where there is none, and is shown
in the middle of its first episode, or at step 300 where that is longer. Unless environments are named, these are the
games: all but the diagnostics and the template. One that is named and has no picture gets a card with its spaces.
`--pictures` writes the single pictures too, at their own size. Look at the sheet before it is committed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pufferlib import load_agent, ocean
from pufferlib.environment import PufferEnv
from pufferlib.errors import CheckpointError, MissingExtraError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.screen import BACKGROUND, FONT, PANEL, WHITE, Screen
from pufferlib.play.environments import space_text, what_it_is

ROOT = Path(__file__).parents[1]
MOST_STEPS = 300
SEED = 7
COLUMNS, CELL, CAPTION, GAP = 5, (384, 288), 36, 12  # pixels
COLORS = 255  # of the file, which makes it a third as large
DIAGNOSTIC = "; a test "  # in what every diagnostic is
TEMPLATE = "puffer_template"

Play = Callable[[np.ndarray], np.ndarray]


def games() -> list[str]:
    """What is there to be played, by name."""
    return [name for name in ocean.names() if name != TEMPLATE and DIAGNOSTIC not in what_it_is(name)]


def player(name: str, env: PufferEnv) -> Play:
    """Who acts: from the observations of all agents to their actions."""
    try:
        agent = load_agent(name, seed=SEED)
    except CheckpointError:  # no trained agent comes with it
        env.single_action_space.seed(SEED)
        return lambda observations: np.array([draw(env, row) for row in range(len(observations))])

    def play(observations: np.ndarray) -> np.ndarray:
        has_ended = (env.terminals | env.truncations).astype(bool)
        if has_ended.any():  # what it remembers is of the episodes before
            agent.reset(has_ended)
        return agent.act(observations, sample=True, action_masks=env.action_masks)

    return play


def draw(env: PufferEnv, row: int) -> np.ndarray:
    """An action of one agent by chance, a legal one where the environment says which are."""
    mask = None if env.action_masks is None else env.action_masks[row].astype(np.int8)
    return env.single_action_space.sample(mask)


def middle_of_an_episode(name: str, env: PufferEnv) -> int:
    """Steps from the reset to the moment that is shown."""
    play = player(name, env)
    env.reset(SEED)
    for step in range(1, 2 * MOST_STEPS + 1):
        _, _, terminals, truncations, _ = env.step(play(env.observations).reshape(env.actions.shape))
        if env.num_agents == 1 and (terminals.any() or truncations.any()):
            return step // 2
    return MOST_STEPS


def picture(name: str, scale: float | None = None) -> Image.Image | None:
    """The environment in play; None where it cannot be drawn.

    Args:
        name: of the environment.
        scale: of its own size; None fits it into a cell.
    """
    pictures = film(name, lambda middle, _: [middle], scale)
    return pictures and pictures[0][0]


def film(
    name: str, moments: Callable[[int, float], Sequence[int]], scale: float | None = None
) -> tuple[list[Image.Image], float] | None:
    """Pictures of the environment in play, one for each of some moments; None where it cannot be drawn.

    Args:
        name: of the environment.
        moments: from the steps to the middle of an episode, and the steps of a second that look natural, to the steps
            to show, in rising order.
        scale: of its own size; None fits it into a cell.

    Returns:
        The pictures, and the steps of a second.
    """
    env = ocean.env_class(name)(num_envs=1)
    try:
        if not isinstance(env, OceanEnv):
            return None
        middle, play = middle_of_an_episode(name, env), player(name, env)
        env.reset(SEED)
        drawing = env.drawing()
        width, height = drawing.size
        scale = scale or min(CELL[0] / width, CELL[1] / height)
        wanted, frames = set(moments(middle, drawing.steps_per_second)), []
        screen = Screen(round(scale * width), round(scale * height), drawing.title, is_visible=False)
        for step in range(max(wanted) + 1):
            if step:
                drawing.remember()
                env.step(play(env.observations).reshape(env.actions.shape))
            screen.begin()
            drawing.draw(scale=scale)  # every step: tails come of it
            if step in wanted:
                frames.append(Image.fromarray(screen.frame()))
            screen.end()
        screen.close()
        return frames, drawing.steps_per_second
    except MissingExtraError:  # it was built without a picture
        return None
    finally:
        env.close()


def card(name: str) -> Image.Image:
    """What stands in for the picture of an environment that has none."""
    env = ocean.env_class(name)(num_envs=1)
    image = Image.new("RGB", CELL, PANEL)
    lines = [space_text(env.single_observation_space), space_text(env.single_action_space)]
    text = ImageDraw.Draw(image)
    for line, word in enumerate(lines):
        text.text((CELL[0] / 2, CELL[1] / 2 + 30 * (line - 0.5)), word, WHITE, font(18), anchor="mm")
    env.close()
    return image


def font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONT, size)


def sheet(pictures: dict[str, Image.Image]) -> Image.Image:
    """All pictures in rows, each above its name."""
    columns = min(COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    pitch = CELL[0] + GAP, CELL[1] + CAPTION + GAP
    whole = Image.new("RGB", (GAP + columns * pitch[0], GAP + rows * pitch[1]), BACKGROUND)
    text = ImageDraw.Draw(whole)
    for index, (name, image) in enumerate(pictures.items()):
        left, top = GAP + index % columns * pitch[0], GAP + index // columns * pitch[1]
        whole.paste(image, (left + (CELL[0] - image.width) // 2, top + (CELL[1] - image.height) // 2))
        middle = left + CELL[0] / 2, top + CELL[1] + CAPTION / 2
        text.text(middle, name.removeprefix(ocean.PREFIX), WHITE, font(20), anchor="mm")
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", default=games(), metavar="ENV")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "ocean.png")
    parser.add_argument("--pictures", type=Path, help="a folder for a picture of each, at its own size")
    options = parser.parse_args()
    pictures = {name: picture(name) or card(name) for name in options.environments}
    whole = sheet(pictures).quantize(COLORS, dither=Image.Dither.NONE)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    whole.save(options.output, optimize=True)
    print(f"{options.output}: {len(pictures)} environments, {options.output.stat().st_size:,} bytes")
    for name in options.environments if options.pictures else ():
        alone = picture(name, scale=1.0)
        if alone is not None:
            options.pictures.mkdir(parents=True, exist_ok=True)
            alone.save(options.pictures / f"{name.removeprefix(ocean.PREFIX)}.png", optimize=True)


if __name__ == "__main__":
    main()
