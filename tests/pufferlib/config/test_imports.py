"""The files of the configuration build on each other in one direction, which no import inside a function hides."""

import ast
from pathlib import Path

import pytest

import pufferlib

FOLDER = Path(pufferlib.__file__).parent
FILES = [path for room in ("config", "settings") for path in sorted((FOLDER / room).glob("*.py"))]


def pufferlib_imports(node):
    for each in ast.walk(node):
        if isinstance(each, ast.ImportFrom) and each.module.startswith("pufferlib"):
            yield each.module
        elif isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names if alias.name.startswith("pufferlib"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_import_is_at_the_top(path):
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [name for function in functions for name in pufferlib_imports(function)] == []


def test_no_file_imports_one_that_imports_it():
    graph = {
        f"pufferlib.{path.parent.name}.{path.stem}": set(pufferlib_imports(ast.parse(path.read_text())))
        for path in FILES
    }
    assert not any("pufferlib.config" in imported for imported in graph.values()), "the package, which imports them all"
    ready: set[str] = set()
    while graph.keys() - ready:
        found = {name for name in graph.keys() - ready if not graph[name] & graph.keys() - ready}
        assert found, f"a circle among {sorted(graph.keys() - ready)}"
        ready |= found


def test_settings_know_nothing_of_the_configuration():
    for path in FILES:
        if path.parent.name == "settings":
            imported = set(pufferlib_imports(ast.parse(path.read_text())))
            assert imported <= {"pufferlib.errors", "pufferlib.settings", "pufferlib.settings.values"}
