"""The page of the contract in C has what stands in the headers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from docs.pages import c_contract

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    (source / "reference").mkdir()
    shutil.copy(ROOT / "docs" / c_contract.PAGE, source / c_contract.PAGE)
    c_contract.write(source)
    return (source / c_contract.PAGE).read_text()


def test_the_header_stands_on_the_page_as_it_is(page):
    text = (ROOT / "ocean" / "include" / "puffer_env.h").read_text()
    assert text[text.index("#pragma once") :].strip() in page
    assert "An environment header is C11 that also compiles as C++17 and as CUDA device code" in page
    assert "c_reset(Env*)          begins an episode and writes the first observation\n" in page


def test_code_in_a_comment_becomes_a_block_and_signs_stay_signs():
    text = c_contract.first_comment("puffer_render.h")
    assert "```text\nPong moment = *before;" in text
    assert "`<name>_render.h`" in text


def test_every_function_of_an_environments_module_is_told(page):
    from pufferlib.ocean.template import binding

    names = [name for name in vars(binding) if not name.startswith("_")]
    assert len(names) > 10
    assert all(re.search(rf"^{name}\(", page, re.MULTILINE) for name in names)


def test_helpers_are_told_by_their_first_comment_and_functions(page):
    assert "Grid grid_of(int width, int height, int border);" in page
    assert "int kwarg_bool(PyObject* kwargs, const char* name, bool* result);" in page
    assert "void puffer_disc(" in page
    assert "### puffer_paths.h\n\nShortest paths by breadth-first search" in page
    assert "puffer_chords" not in page  # which only other shapes call


def test_colours_and_alignments_are_listed(page):
    assert "static const Color PUFFER_CYAN = {0, 187, 187, 255};\n" in page
    assert "PUFFER_MUTED = {124, 140, 140, 255};  // labels" in page
    assert "typedef enum { PUFFER_LEFT, PUFFER_CENTER, PUFFER_RIGHT } PufferAlign;" in page


def test_a_header_without_a_first_comment_is_refused(tmp_path, monkeypatch):
    (tmp_path / "silent.h").write_text("#pragma once\n")
    monkeypatch.setattr(c_contract, "INCLUDE", tmp_path)
    with pytest.raises(ValueError, match="expected a comment that says what it is for, found"):
        c_contract.first_comment("silent.h")
