"""Environments that are played in place: pages of `puffer export --format web`, kept from one build to the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pufferlib import ocean

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "docs" / "games"


def place(name: str, source: Path, up: str) -> str:
    """Lays the page of an environment with its agent into the site; the HTML that shows it, loaded when it is opened.

    Args:
        name: of the environment; one that is not written in C, or has no trained agent,
            has no page, and the HTML is empty then.
        source: the copy of docs/ that is built.
        up: the way from the page that shows it to the root of the site, such as `../`.
    """
    folder = name.removeprefix(ocean.PREFIX)
    if not can_be_played(name):
        return ""
    target = source / "extra" / "play" / f"{folder}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(game(name), target)
    address = f"{up}play/{folder}.html"
    return (
        f'<details class="game"><summary>Play it here, or watch its agent</summary>\n'
        f'<iframe src="{address}" loading="lazy" title="{folder}, played in this page"></iframe>\n'
        f'<a href="{address}">alone on a page</a>\n</details>\n'
    )


def can_be_played(name: str) -> bool:
    """Whether an environment is written in C, has a picture, and comes with an agent."""
    folder = name.removeprefix(ocean.PREFIX)
    return all((ROOT / "ocean" / folder / file).exists() for file in (f"{folder}_render.h", "pretrained.pt"))


def make_all(names: Iterable[str]) -> None:
    """Makes the pages of all that can be played, as many at once as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(game, filter(can_be_played, names)))


def game(name: str) -> Path:
    """The page, made if it is not there yet.

    Raises:
        RuntimeError: if it cannot be made; the sentence is on stderr.
    """
    kept = KEPT / f"{name}-{fingerprint(name)}.html"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        words = ["export", name, "--pretrained", "--format", "web", "--output", str(kept)]
        command = [sys.executable, "-m", "pufferlib.pufferl", *words]
        if subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode != 0:
            raise RuntimeError(f"{name} has no page; `pip install -e '.[docs]'`, or build with --no-pictures")
    return kept


def fingerprint(name: str) -> str:
    """What a page depends on: the agent, the game, its drawing, and how pages are made."""
    folders = (ROOT / "ocean" / name.removeprefix(ocean.PREFIX), ROOT / "ocean" / "include")
    files = [
        path for folder in folders for path in folder.iterdir() if path.suffix in (".h", ".c", ".py", ".ini", ".pt")
    ]
    files += [*(ROOT / "pufferlib" / "export").rglob("*.*"), ROOT / "extensions" / "puffernet.h"]
    found = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix != ".pyc"):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]
