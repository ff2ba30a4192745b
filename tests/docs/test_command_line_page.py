"""The page of the command line: every command, option, exit code and environment variable is on it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from docs.pages import command_line
from pufferlib import cli
from pufferlib.cli import VERBS
from pufferlib.config.flags import options_of

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()["'](\w+)["']""")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    (source / "reference").mkdir()
    shutil.copy(ROOT / "docs" / command_line.PAGE, source / command_line.PAGE)
    command_line.write(source)
    return (source / command_line.PAGE).read_text()


@pytest.mark.parametrize("name", VERBS)
def test_a_command_has_the_usage_and_the_options_of_its_help(page, name, capsys):
    assert cli.main([name, "--help"]) == cli.OK
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"usage: {command_line.usage(name, VERBS[name])}"
    part = page.partition(f"### puffer {name}\n")[2].partition("\n### ")[0]
    assert VERBS[name].summary[1:] in part
    for option in options_of(name).settings().values():
        assert f"`{option.flag} " in part


def test_all_exit_codes_of_the_program_are_told(page):
    codes = {cli.OK, cli.MISTAKE, cli.INTERRUPTED, cli.PIPE_CLOSED}
    assert codes | {1} == {*command_line.EXIT_CODES}
    assert all(f"\n`{number}`\n: " in page for number in codes)


def test_all_environment_variables_that_are_read_are_told(page):
    told = {
        word
        for names in (*command_line.OF_USERS, *command_line.OF_THE_BUILD, *command_line.OF_OTHERS)
        for word in names.split(", ")
    }
    folders = ("pufferlib", "ocean", "vector", "extensions")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    read = {name for path in (*sources, ROOT / "setup.py") for name in VARIABLE.findall(path.read_text())}
    of_torchrun = {name for name in read if name.startswith("TORCHELASTIC")}
    assert {"PUFFER_FLAGS", "PUFFER_PORTABLE", "PUFFER_SANITIZE"} <= read
    assert read - of_torchrun <= told
    assert {name for name in told if name.startswith("PUFFER_")} <= read
    assert all(f"`{name}`" in page for name in told)
