"""What the page reference/c_contract.md takes from the headers: their first comments, and the declarations in them."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from .filling import fill

PAGE = Path("reference/c_contract.md")
INCLUDE = Path(__file__).parents[2] / "ocean" / "include"
HELPERS = (
    "puffer_window.h",
    "puffer_paths.h",
    "puffer_alphabeta.h",
    "puffer_turns.h",
    "puffer_bot.h",
    "puffer_bits.h",
    "puffer_lights.h",
)
DRAWING = ("puffer_render.h", "puffer_shapes.h")
COLOURS = ("puffer_raylib.h", "puffer_render.h")
_FUNCTION = re.compile(r"^(?:PUFFER_FN|static inline) (?P<head>[^;{]+?\))\s*\{", re.MULTILINE)
_COLOUR = re.compile(r"^static const Color \w+ = \{[\d, ]+\};.*$", re.MULTILINE)
_ALIGNMENTS = re.compile(r"^typedef enum \{[^}]*\} PufferAlign;.*$", re.MULTILINE)
_METHOD = re.compile(r'"(\w+\([^"]*)"\}')


def write(source: Path) -> None:
    """Fills the page in `source`, the folder that Sphinx reads."""
    page = source / PAGE
    fill(page, "the contract", f"{first_comment('puffer_env.h')}\n\n{block(parts('puffer_env.h')[1], 'c')}")
    fill(page, "keyword arguments", header_text("puffer_kwargs.h", lambda function: function.startswith("kwarg_")))
    fill(page, "binding", first_comment("puffer_binding.h"))
    fill(page, "functions of a module", methods())
    fill(page, "helpers", "\n\n".join(header_text(name) for name in HELPERS))
    fill(page, "colours", constants())
    fill(page, "drawing", "\n\n".join(header_text(name, drawn_with().__contains__) for name in DRAWING))


def block(text: str, language: str) -> str:
    """A block of code for eyes."""
    return f"```{language}\n{text.strip()}\n```"


def parts(name: str) -> tuple[list[str], str]:
    """The lines of the comment that a header of ocean/include begins with, without their slashes, and what follows.

    Raises:
        ValueError: if it begins with none.
    """
    lines = (INCLUDE / name).read_text().splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    if not count:
        raise ValueError(f"{name}: expected a comment that says what it is for, found {lines[:1]}; begin it with one")
    return [line.removeprefix("//").removeprefix(" ") for line in lines[:count]], "\n".join(lines[count:])


def first_comment(name: str) -> str:
    """The comment that a header begins with, as paragraphs, and as blocks where it is indented.

    Raises:
        ValueError: if it begins with none.
    """
    lines, _ = parts(name)
    lines[0] = lines[0].removeprefix(f"{name} - ")
    lines[0] = lines[0][:1].upper() + lines[0][1:]
    groups = [(is_code, [*group]) for is_code, group in itertools.groupby(_kinds(lines), key=lambda pair: pair[0])]
    return "\n".join(
        f"\n{block(textwrap.dedent(text), 'text')}\n" if is_code else _escaped(text)
        for is_code, text in ((is_code, "\n".join(line for _, line in group)) for is_code, group in groups)
    ).strip()


def _kinds(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it is code: indented, or empty among such."""
    is_code = False
    for line in lines:
        is_code = line.startswith("    ") or (is_code and not line)
        yield is_code, line


def _escaped(text: str) -> str:
    """Text in which no sign means something to Markdown, but for what stands between backquotes."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([*<>_])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def declarations(name: str) -> dict[str, str]:
    """The functions that a header defines by their names, without what they do."""
    text = (INCLUDE / name).read_text()
    heads = [" ".join(match["head"].split()) for match in _FUNCTION.finditer(text)]
    return {re.findall(r"(\w+)\(", head)[0]: f"{head};" for head in heads}


def wrapped(declaration: str) -> str:
    """A declaration in lines that fit the page."""
    return "\n".join(textwrap.wrap(declaration, 78, subsequent_indent=" " * 4))


def drawn_with() -> set[str]:
    """The words in the pictures of all environments."""
    headers = INCLUDE.parent.glob("*/*_render.h")
    return {word for header in headers for word in re.findall(r"\w+", header.read_text())}


def constants() -> str:
    """The colours, red, green, blue and alpha of 0 to 255, and the alignments that pictures name."""
    colours = [line for name in COLOURS for line in _COLOUR.findall((INCLUDE / name).read_text())]
    alignments = _ALIGNMENTS.findall((INCLUDE / "puffer_shapes.h").read_text())
    return block("\n".join([*colours, *alignments]), "c")


def header_text(name: str, is_shown: Callable[[str], bool] = lambda function: True) -> str:
    """A header under its name: first comment, and those of its functions that are to be shown."""
    found = [declaration for function, declaration in declarations(name).items() if is_shown(function)]
    return "\n\n".join(
        [f"### {name}", first_comment(name), block("\n".join(map(wrapped, found)), "c") if found else ""]
    ).strip()


def methods() -> str:
    """What the Python module of an environment has, as its own table of methods says."""
    text = (INCLUDE / "puffer_binding.h").read_text()
    usages = _METHOD.findall(text[text.index("METHODS[] = {") :])
    return block("\n".join(map(wrapped, usages)), "text")
