"""Every block of code on every page does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from code_blocks import blocks_of
from copied_checkout import copy_checkout

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

# Those of the longest pages, whose commands and classes other tests run as well.
WEEKLY = [
    *("docs/migration/cleanrl.md", "docs/tutorials/curriculum_and_shaping.md", "docs/tutorials/many_processes.md"),
    *("docs/tutorials/opponents.md", "docs/tutorials/other_libraries.md", "docs/tutorials/sweeps.md"),
]
IN_A_CHECKOUT = "<!-- in a checkout -->"  # on a page whose folder is to be one, for what makes environments


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def case_of(page: Path):
    return pytest.param(page, marks=pytest.mark.weekly if name_of(page) in WEEKLY else (), id=name_of(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", [case_of(page) for page in PAGES if any(blocks_of(page))])
def test_the_blocks_of_a_page_run_in_order(page, in_tmp_path, monkeypatch):
    if IN_A_CHECKOUT in page.read_text():
        copy_checkout(Path.cwd())
        monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    for block in blocks_of(page):
        block.evaluate()


@pytest.mark.slow
def test_what_the_readme_trains_learns_before_the_readers_eyes(in_tmp_path, capsys):
    block = next(block for block in blocks_of(ROOT / "README.md") if "(gymnasium.Env)" in block.parsed.text)
    block.evaluate()
    lines = capsys.readouterr().out.splitlines()
    score = re.fullmatch(r"return of 50 steps: ([\d.]+) \+- .*", lines[-1])
    assert float(score[1]) > 40.0
    first = next(line for line in lines if "epoch 1 " in line)
    assert float(first.rpartition("return ")[2]) < 10.0


@pytest.mark.slow
def test_commands_have_the_folder_the_variables_and_the_streams_of_their_shell(in_tmp_path):
    Path("page.md").write_text("""```bash
mkdir a && printf '[train]\\nnothing = 1' > a/own.ini
! (cd a && puffer train puffer_squared --config own.ini) 2> file
! PUFFER_FLAGS='--log.nothing 1' puffer train puffer_squared 2> variable
grep 'own.ini: .*nothing' file && grep log.nothing variable && puffer --version | grep 5
```
```bash
puffer train puffer_squared --vec.nothing 1
```""")
    shown, failing = blocks_of(Path("page.md"))
    shown.evaluate()
    with pytest.raises(AssertionError, match="puffer: .*vec.nothing"):
        failing.evaluate()


def test_what_is_on_no_page_is_noticed(in_tmp_path):
    page = Path("page.md")

    def evaluate(text: str) -> None:
        page.write_text(text)
        for block in blocks_of(page):
            block.evaluate()

    evaluate("```{code-block} python\n:caption: a/b.py\nvalue = 3\n```\n```bash\ngrep 'value = 3' a/b.py\n```")
    evaluate("```python\nvalue = 3\n```\n\n```python\nassert value == 3\n```\n```bash\ntest -f page.md\n```")
    evaluate("<!-- not run: needs a GPU -->\n```bash\nexit 1\n```\n```{note}\nassert False\n```")
    evaluate("```{code-block} python\n:caption: b.py\nt.learn(3_000_000)\nt.learn(\n    total_timesteps=9_000)\n```")
    assert Path("b.py").read_text() == "t.learn(200000)\nt.learn(\n    total_timesteps=9000)\n"
    with pytest.raises(AssertionError, match=r"page.md:1"):
        evaluate("```bash\nfalse\ntrue\n```")
    with pytest.raises(ZeroDivisionError):
        evaluate("```python\n1 / 0\n```")
    with pytest.raises(AssertionError, match="found no language"):
        evaluate("```\nls\n```")
