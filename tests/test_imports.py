"""Who may know whom: the rooms of the package stand one above the other, and no files import each other in a circle.

Imports inside functions count, and so do those for type checkers: they only hide that two files know each other.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAPPED = ("ocean", "vector", "extensions")  # they lie beside pufferlib/ and are imported from it

# A room is a folder of pufferlib/ or a file at its top; it imports rooms of earlier lines, none of its own or a later.
# The folders in ocean/ are a room of their own, `games`: nobody imports them but by name.
ORDER = (
    *("errors reading seeding", "extensions loggers machine setting spaces"),
    *("environment", "distributed metrics", "dashboard emulation ocean policy wrappers", "games models vector"),
    *("families", "config interop", "ppo", "pytorch", "fast", "runs", "play scaffold", "export pufferl watch"),
    *("callbacks reports sweep", "completion", "cli", "__main__"),
)
HEIGHT = {room: height for height, rooms in enumerate(ORDER) for room in rooms.split()}

# Imports that are wrong and on their way out.
EXCEPTIONS = {}


def sources(root: Path) -> dict[str, Path]:
    """Every file of the package by its name below pufferlib, such as `vector.base`; that of the package is empty."""
    found = {}
    for folder in ("pufferlib", *MAPPED):
        for path in sorted([*(root / folder).rglob("*.py"), *(root / folder).rglob("*.pyx")]):
            place = path.relative_to(root)
            if any((root / parent).is_symlink() for parent in place.parents):
                continue  # an editable install links the mapped folders into pufferlib/
            parts = place.with_suffix("").parts[folder == "pufferlib" :]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(name: str) -> str:
    """The room of a file."""
    first, *below = name.split(".")
    return "games" if first == "ocean" and len(below) > 1 else first


@functools.cache
def tree(path: Path) -> ast.Module:
    """A file as it is parsed, once for all that look at it."""
    return ast.parse(path.read_text())


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The files of the package that a file imports, wherever in it."""
    for name in itertools.chain.from_iterable(map(_names, ast.walk(tree(path)))):
        package, _, below = name.partition(".")
        if package != "pufferlib":
            continue
        while below not in known:  # a class or function of a file, or a module that was compiled from C
            below = below.rpartition(".")[0]
        yield below


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"line {node.lineno} imports from a relative place; write pufferlib."
        return [f"{node.module}.{alias.name}" for alias in node.names]
    is_call = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
    is_literal = is_call and bool(node.args) and isinstance(node.args[0], ast.Constant)
    return [node.args[0].value] if is_literal else []


@functools.cache
def graph(root: Path) -> dict[str, set[str]]:
    """What every file imports; Cython is not read, nor the package's own file, which only shows names of others."""
    files = sources(root)
    edges: dict[str, set[str]] = {name: set() for name in files if name}
    for name in edges:
        if files[name].suffix == ".py":
            edges[name] = {other for other in imported(files[name], files) if other != name}
    return edges


def climbs(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that lead up, sideways, or to the package's own file, as files."""
    rooms = {name: room(name) for name in ("", *edges)}
    height = {name: HEIGHT.get(rooms[name], -1) for name in rooms}
    pairs = [(name, other) for name, others in sorted(edges.items()) for other in sorted(others)]
    return [
        (name, other)
        for name, other in pairs
        if rooms[name] != rooms[other] and (not other or height[other] >= height[name])
    ]


def shown(pairs: list[tuple[str, str]]) -> str:
    files = sources(ROOT)
    return "".join(f"\n  {files[name].relative_to(ROOT)} -> {files[other].relative_to(ROOT)}" for name, other in pairs)


def test_every_room_has_its_place():
    rooms = {room(name) for name in graph(ROOT)}
    new, gone = rooms - HEIGHT.keys(), HEIGHT.keys() - rooms
    assert not new, "give it a place in ORDER, above what it imports"
    assert not gone, "take it out of ORDER"


def test_imports_lead_down():
    wrong = [pair for pair in climbs(graph(ROOT)) if pair not in EXCEPTIONS]
    assert not wrong, f"these imports lead up; move what both need below the two:{shown(wrong)}"


def test_no_files_import_each_other_in_a_circle():
    edges = {
        name: {other for other in others if (name, other) not in EXCEPTIONS} for name, others in graph(ROOT).items()
    }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]  # the sorter tells it from what is imported to who imports
        pairs = list(zip(circle, circle[1:], strict=False))
        raise AssertionError(f"these files import each other; move what both need below them:{shown(pairs)}") from None


def hidden_circles(files: dict[str, Path]) -> list[str]:
    """The parameters that hide by `Any` what calls back: a trainer or a vector has a class or a Protocol."""
    found = []
    for name, path in files.items():
        for node in ast.walk(tree(path)) if path.suffix == ".py" else ():
            if isinstance(node, ast.arg) and node.arg in ("trainer", "vecenv", "make_trainer") and node.annotation:
                words = ast.unparse(node.annotation)
                if words == "Any" or words.endswith(", Any]"):
                    found.append(f"{name}:{node.lineno} {node.arg}: {words}")
    return found


def test_no_circle_is_hidden_by_any():
    rooms = ("ppo", "fast", "runs", "pufferl")
    files = {name: path for name, path in sources(ROOT).items() if name.split(".")[0] in rooms}
    assert not hidden_circles(files), "give it the class, or a Protocol of what is used"


def test_a_circle_that_any_hides_is_seen(tmp_path):
    path = tmp_path / "loop.py"
    path.write_text("from typing import Any\ndef run(trainer: Any, count: Any): trainer.train()")
    assert hidden_circles({"runs.loop": path}) == ["runs.loop:2 trainer: Any"]


def test_no_two_classes_have_the_same_name():
    trees = {name: tree(path) for name, path in sources(ROOT).items() if path.suffix == ".py"}
    classes = [
        (node.name, name) for name, tree in trees.items() for node in tree.body if isinstance(node, ast.ClassDef)
    ]
    counts = Counter(each for each, _ in classes if not each.startswith("_"))
    assert not [pair for pair in classes if counts[pair[0]] > 1], "give each the word that tells them apart"


def test_imports_that_hide_are_seen(tmp_path):
    hidden = {
        "pufferlib/errors.py": "def late():\n    from pufferlib.vector.base import Vector",
        "pufferlib/spaces.py": "if TYPE_CHECKING:\n    from pufferlib import vector",
        "pufferlib/output.py": "import importlib\nimportlib.import_module('pufferlib.vector.base')",
        "pufferlib/seeding.py": "import pufferlib.vector.base as base",
        "pufferlib/layout.py": "from pufferlib import PufferEnv",
        "pufferlib/cli.py": "from pufferlib.vector import base\nimport numpy",
        "pufferlib/__init__.py": "",
        "vector/__init__.py": "from pufferlib.vector.base import Vector",
        "vector/base.py": "class Vector: pass",
    }
    for name, source in hidden.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    assert climbs(graph(tmp_path)) == [
        ("errors", "vector.base"),
        ("layout", ""),
        ("output", "vector.base"),
        ("seeding", "vector.base"),
        ("spaces", "vector"),
    ]
