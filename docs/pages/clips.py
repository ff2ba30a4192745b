"""Pictures and short clips of the trained agents, kept from one build to the next while nothing changes in them.

What is drawn, and how, is bench/contact_sheet.py's: each environment in the middle of an episode.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from pufferlib import load_agent, ocean

ROOT = Path(__file__).parents[2]
if str(ROOT / "bench") not in sys.path:
    sys.path.append(str(ROOT / "bench"))

import contact_sheet  # noqa: E402

KEPT = ROOT / "build" / "docs" / "pictures"
SECONDS = 6  # of a clip
MOST_PICTURES_A_SECOND = 10
QUALITY = 80  # of WebP


@dataclass(frozen=True)
class Clip:
    """Two files."""

    still: Path
    moving: Path


def clip(name: str) -> Clip:
    """The files of an environment, drawn if they are not there yet.

    Raises:
        RuntimeError: if it cannot be drawn.
    """
    mark = fingerprint(name)
    found = Clip(KEPT / f"{name}-{mark}.webp", KEPT / f"{name}-{mark}-moving.webp")
    if not (found.still.exists() and found.moving.exists()):
        drawn = contact_sheet.film(name, moments) or film_of_python(name)
        if drawn is None:
            raise RuntimeError(f"{name} has no picture; install raylib and compile it, or build with --no-pictures")
        KEPT.mkdir(parents=True, exist_ok=True)
        pictures, steps_per_second = drawn
        on_a_card(pictures[len(pictures) // 2]).save(found.still, quality=QUALITY)
        pause = 1000 / min(steps_per_second, MOST_PICTURES_A_SECOND)
        pictures[0].save(
            found.moving, save_all=True, append_images=pictures[1:], duration=round(pause), loop=0, quality=QUALITY
        )
    return found


def on_a_card(picture: Image.Image) -> Image.Image:
    """The picture in the middle of a cell, so that those of all environments are of one size."""
    width, height = contact_sheet.CELL
    card = Image.new("RGB", (width, height), contact_sheet.BACKGROUND)
    picture = ImageOps.contain(picture, (width, height))
    card.paste(picture, ((width - picture.width) // 2, (height - picture.height) // 2))
    return card


def fingerprint(name: str) -> str:
    """What the pictures depend on: the agent, the game, its drawing, and how they are made."""
    folder = ROOT / "ocean" / name.removeprefix(ocean.PREFIX)
    files = [*folder.glob("*.h"), *folder.glob("*.py"), *folder.glob("pretrained.*")]
    sources = [Path(__file__), Path(contact_sheet.__file__)]
    found = hashlib.sha256()
    for path in [*sorted(files), *sources]:
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def moments(middle: int, steps_per_second: float) -> Sequence[int]:
    """The steps that a clip shows, around the middle of an episode."""
    every = max(1, round(steps_per_second / MOST_PICTURES_A_SECOND))
    count = max(2, round(SECONDS * min(steps_per_second, MOST_PICTURES_A_SECOND)))
    begin = max(1, middle - every * (count // 2))
    return range(begin, begin + every * count, every)


def film_of_python(name: str) -> tuple[list[Image.Image], float] | None:
    """Pictures of an environment around one of Gymnasium's vectors, which draws itself; None of another one."""
    env = ocean.env_class(name)(num_envs=1)
    inner = getattr(env, "env", None)  # what is emulated
    try:
        if inner is None:
            return None
        agent, frames = load_agent(name, seed=contact_sheet.SEED), []
        steps_per_second = float(inner.metadata["render_fps"])
        observations, _ = inner.reset(seed=contact_sheet.SEED)
        for _ in range(round(SECONDS * steps_per_second)):
            observations, *_ = inner.step(agent.act(observations, sample=True))
            frames.append(Image.fromarray(inner.render()[0]))
        return frames, steps_per_second
    finally:
        env.close()
