"""Environments that are played in place: pages of `puffer export --format web`, kept from one build to the next."""

from __future__ import annotations

import functools
import hashlib
import shutil
from pathlib import Path

from pufferlib import cli, ocean

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "docs" / "games"


def place(name: str, source: Path, up: str) -> str:
    """Lays the page of an environment with its agent into the site; the HTML that shows it, loaded when it is opened.

    Args:
        name: of the environment; one that is not written in C has no page, and the HTML is empty then.
        source: the copy of docs/ that is built.
        up: the way from the page that shows it to the root of the site, such as `../`.
    """
    folder = name.removeprefix(ocean.PREFIX)
    if not (ROOT / "ocean" / folder / f"{folder}_render.h").exists():
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


@functools.cache
def game(name: str) -> Path:
    """The page, made if it is not there yet.

    Raises:
        RuntimeError: if it cannot be made; the sentence is on stderr.
    """
    kept = KEPT / f"{name}-{fingerprint(name)}.html"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        words = ["export", name, "--pretrained", "--format", "web", "--output", str(kept)]
        if cli.main(words) != 0:
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
