"""The blocks of code on a page: found by Sybil, each with what is done with it.

- `python` runs in one namespace for the whole page; `bash` in a shell that stops at the first error; both in a folder
  of the page's own, in order. No run is longer than STEPS: PUFFER_FLAGS makes those of commands short, and
  `learn(2_000_000)` becomes `learn(200000)`.
- A block with a caption, "```{code-block} c" and ":caption: my_game/my_game.h", becomes the file of that name there.
- `ini` without a caption is read as settings; `text` and `mermaid` are for eyes.
- `<!-- not run: why -->` in the line above says of a block why it cannot be run by a test.
- `<!-- in a checkout -->` anywhere on a page makes its folder a copy of this checkout, for what makes environments.
  On other pages `puffer` is forked from a server that has imported torch, which takes it seconds.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import command
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

STEPS = 200_000  # of a run, at most
SHORT = f"--train.total-timesteps {STEPS}"
SECONDS = 1200  # for one block: compilers and first starts on a busy machine
INFO = re.compile(r"(?P<info>[^\n]*)\n(?P<options>(?:[ \t]*:[\w-]+:[^\n]*\n)*)")
OF_ANOTHER_KIND = re.compile(r"\{(?!code-block\})")  # directives that are no code: notes, tables of contents
LEARN = re.compile(r"(?<=\blearn\()(\s*(?:total_timesteps=)?)(\d[\d_]*)")
CAPTION = re.compile(r"^[ \t]*:caption:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*$")
FOR_EYES = ("text", "mermaid")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        language: as the page names it, in lower case; empty where it does not.
        text: the code.
        file: the caption, which is the file that the block becomes; None for one that runs.
        reason: why it is not run; None for most.
    """

    language: str
    text: str
    file: str | None
    reason: str | None


def find(document: Document) -> Iterable[Region]:
    """A parser for Sybil."""
    for region in RawFencedCodeBlockLexer(INFO)(document):
        info, options = region.lexemes["info"].strip(), region.lexemes["options"]
        if OF_ANOTHER_KIND.match(info):
            continue
        caption = CAPTION.search(options)
        reason = NOT_RUN.search(document.text[: region.start])
        yield Region(
            region.start,
            region.end,
            Block(
                language=info.removeprefix("{code-block}").strip().lower(),
                text=str(region.lexemes["source"]),
                file=caption and caption[1],
                reason=reason and reason[1],
            ),
            evaluate,
        )


def blocks_of(page: Path) -> Iterator[Example]:
    return iter(Sybil(parsers=[find], pattern="*.md").parse(page).examples())


def evaluate(example: Example) -> None:
    """Does what the page says, in the current folder."""
    block = example.parsed
    where = f"{example.path}:{example.line}"
    if block.reason is not None or block.language in FOR_EYES:
        return
    if block.file is not None:
        Path(block.file).parent.mkdir(parents=True, exist_ok=True)
        Path(block.file).write_text(shortened(block.text))
    elif block.language == "python":
        exec(compile("\n" * example.line + shortened(block.text), example.path, "exec"), example.namespace)
    elif block.language == "bash":
        run(block.text, where)
    elif block.language == "ini":
        parser = configparser.ConfigParser(inline_comment_prefixes="#")
        parser.read_string(block.text)
        assert parser.sections(), f"{where}: no settings"
    else:
        expected = "expected python, bash, ini, a caption or one of text and mermaid"
        raise AssertionError(f"{where}: {expected}, found {block.language or 'no language'}")


def shortened(code: str) -> str:
    return LEARN.sub(lambda found: f"{found[1]}{min(int(found[2]), STEPS)}", code)


def run(script: str, where: str) -> None:
    is_checkout = Path("setup.py").exists()
    places = [command.program().name, str(Path(sys.executable).parent), os.environ["PATH"]][is_checkout:]
    variables = {"PATH": os.pathsep.join(places), "PUFFER_FLAGS": SHORT, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        **dict(env=os.environ | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS),
    )
    assert done.returncode == 0, f"{where}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
