"""The pages of the Python interface have every public name, and none that does not exist."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import pufferlib
from pufferlib import pufferl, vector

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "api"
DOCUMENTED = sorted(
    {
        name
        for page in FOLDER.glob("*.md")
        for name in re.findall(r"^\.\. auto(?:function|class|exception):: (\S+)$", page.read_text(), re.MULTILINE)
    }
)
EXAMPLES = Path(__file__).parents[2] / "examples"


def find(path: str) -> object:
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for name in parts[count:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"no module of {path}")


def is_documented(value: object) -> bool:
    return any(find(path) is value for path in DOCUMENTED)


@pytest.mark.parametrize("name", sorted({*pufferlib.__all__} - {"__version__"}))
def test_a_public_name_is_on_a_page_and_in_the_list_of_names(name):
    assert is_documented(getattr(pufferlib, name))
    assert f"`{name}`" in (FOLDER / "index.md").read_text()


@pytest.mark.parametrize("module", [pufferl, vector], ids=lambda module: module.__name__)
def test_what_a_module_exports_is_on_a_page(module):
    inside = {"BACKENDS", "State", "adopt", "as_puffer_env", "GymnasiumVectorPufferEnv"}  # for rooms of the library
    assert all(is_documented(getattr(module, name)) for name in {*module.__all__} - inside)


@pytest.mark.parametrize(
    "module",
    ["pufferlib.callbacks", "pufferlib.wrappers", "pufferlib.models", "pufferlib.errors", "pufferlib.ppo.losses"],
)
def test_the_classes_and_functions_of_a_module_for_users_are_on_a_page(module):
    own = [
        value
        for name, value in vars(importlib.import_module(module)).items()
        if getattr(value, "__module__", None) == module and not name.startswith("_")
    ]
    functions_for_ourselves = {
        *("nearest", "with_colon", "describe_lack", "kind_of", "require_results"),
        *("is_installed", "require_extra", "import_named", "import_quietly", "default_environment"),
    }
    assert own
    assert not [one.__name__ for one in own if not is_documented(one) and one.__name__ not in functions_for_ourselves]


@pytest.mark.parametrize("path", DOCUMENTED)
def test_a_documented_name_exists_and_says_what_it_is_in_a_form_that_the_pages_read(path):
    value = find(path)
    assert inspect.getdoc(value)
    members = [value, *(vars(value).values() if isinstance(value, type) else ())]
    for member in members:
        if callable(member) or isinstance(member, property):
            text = inspect.getdoc(member) or ""
            is_property = isinstance(member, property)
            lines = [*text.splitlines()[:1]] if is_property else re.findall(r"^Returns:\n    (.*)$", text, re.MULTILINE)
            for line in lines:  # what comes before a colon there would be shown as a type
                assert not re.search(r":\s+\S", re.sub("`[^`]*`", "", line)), line


def test_what_examples_import_for_users_is_documented():
    taken = {
        name
        for example in EXAMPLES.glob("*.py")
        for names in re.findall(r"^from pufferlib import ([\w, ]+)$", example.read_text(), re.MULTILINE)
        for name in names.split(", ")
    }
    assert taken
    assert not [
        name
        for name in taken
        if inspect.isclass(getattr(pufferlib, name, None)) and not is_documented(find(f"pufferlib.{name}"))
    ]
