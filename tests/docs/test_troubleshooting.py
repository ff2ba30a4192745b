"""The sentences that docs/troubleshooting.md quotes are those of the source: each literal part still stands there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("pufferlib", "vector", "extensions", "ocean")
PAGE = ROOT / "docs" / "troubleshooting.md"
HOLE = "\0"
DIFFERS = "…"
LEAST_LETTERS = 7  # of the longest part of a message, in one of which the message is recognised


def messages(page: str) -> list[str]:
    """What the page quotes: the paragraphs of its blocks of text, each a message."""
    blocks = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [" ".join(message.split()) for block in blocks for message in block.split("\n\n")]


def parts(message: str) -> list[str]:
    """Its literal parts, but for what they begin and end with beside words."""
    found = (part.strip(" ();") for part in message.split(DIFFERS))
    return [part for part in found if re.search(r"\w", part)]


def template(node: ast.expr, constants: dict[str, str]) -> str:
    """The text of a literal, with a hole for each thing that is put into it, but for the module's own constants."""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(value, constants) for value in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        return constants.get(node.value.id, HOLE)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return HOLE


def literals(tree: ast.Module) -> list[str]:
    """Those of a file; docstrings quote messages as well, and do not count."""
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(value) for value in statements if isinstance(value, ast.Constant)}
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    kinds = ast.JoinedStr, ast.Constant
    nodes = (node for node in ast.walk(tree) if isinstance(node, kinds) and id(node) not in docstrings)
    return [template(node, constants) for node in nodes]


@functools.cache
def source() -> str:
    """All literals of the package, apart from each other."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return HOLE.join(text for path in paths for text in literals(ast.parse(path.read_text())))


def missing(message: str, text: str) -> list[str]:
    """The parts that stand nowhere in the text."""
    return [part for part in parts(message) if part not in text]


@pytest.mark.parametrize("message", messages(PAGE.read_text()), ids=lambda message: message[:50])
def test_a_quoted_message_stands_in_the_source(message):
    assert not missing(message, source())
    assert max(len(part) for part in parts(message)) >= LEAST_LETTERS


def test_a_message_that_was_changed_is_noticed():
    text = HOLE.join(("the seed must be ", HOLE, ", got ", HOLE, "; change it"))
    assert not missing("the seed must be …, got …; change it", text)
    assert missing("the seeds must be …, got …; change it", text) == ["the seeds must be"]
    assert missing("the seed must be 3, got …", text) == ["the seed must be 3, got"]
    tree = ast.parse('MORE = "or two"\nraise ValueError(f"one {MORE}, got {x}")\n"the docstring"')
    assert f"one or two, got {HOLE}" in literals(tree)
    assert "the docstring" not in literals(tree)
    page = "text\n\n```text\none message\nof `two` lines\n\nanother\n```\n```bash\nls\n```\n```text\nthird\n```\n"
    assert messages(page) == ["one message of `two` lines", "another", "third"]


def test_the_page_quotes_messages():
    assert len(messages(PAGE.read_text())) > 40
