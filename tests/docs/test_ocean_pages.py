"""The chapter of Ocean: a page for every environment, that tells what is true of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pufferlib import ocean as environments
from pufferlib.config import env_settings, load_config

pytest.importorskip("matplotlib", reason="pages need pip install -e '.[plot]'")
every_name = pytest.mark.parametrize("name", environments.names())

from code_blocks import blocks_of  # noqa: E402

from docs.pages import manual, ocean, rows  # noqa: E402

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://example.com/repository"


@pytest.fixture(scope="module")
def chapter(tmp_path_factory) -> Path:
    """The folder of the chapter, written without pictures."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "docs" / "ocean", source / "ocean")
    ocean.write(source, has_pictures=False, repository=REPOSITORY)
    return source / "ocean"


def table_under(page: str, heading: str) -> dict[str, list[str]]:
    """The first table below a heading: what stands beside the first cell of each row."""
    part = page.partition(f"## {heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", part, re.MULTILINE)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return {first.strip("`"): others for first, *others in cells}


@pytest.mark.slow
@every_name
def test_every_environment_has_a_page_of_true_facts(chapter, name):
    page = (chapter / f"{name.removeprefix('puffer_')}.md").read_text()
    config = load_config(name)
    with_one = {**config["env"], "num_envs": 1}
    env = environments.env_class(name)(**with_one)
    spaces = table_under(page, "What it sees and does")
    assert spaces["agents in one environment"] == [str(env.num_agents)]
    assert spaces["observation"][0].startswith(f"`{env.single_observation_space.dtype}[")
    assert f"puffer train {name}" in page
    assert (f"puffer eval {name} --pretrained" in page) == (ocean.pretrained_file(name) is not None)
    assert (f"puffer play {name}" in page) == (getattr(env, "keys", None) is not None)
    if hasattr(env, "binding"):
        assert [*table_under(page, "What it logs"), "n"] == list(env.binding.vec_log(env.handle))
    env.close()

    arguments = table_under(page, "Arguments")
    assert list(arguments) == list(env_settings(name))
    for argument, (values, _) in arguments.items():
        default = config["env"].get(argument, env_settings(name)[argument].default)
        assert values.startswith(f"`{ocean.format_value(default)}`; ")
        bounds = re.search(r"; (-?\d+) to (-?\d+)$", values)
        for value in map(int, bounds.groups() if bounds else ()):
            environments.env_class(name)(**{**with_one, argument: value}).close()

    for setting, (here, default) in table_under(page, "Settings of its own").items():
        section, key = re.fullmatch(r"\[(\w+)\] (\w+)", setting).groups()
        value = config[key] if section == "base" else config[section][key]
        assert here == f"`{ocean.format_value(value)}`" != default


@pytest.mark.slow
@every_name
def test_figures_are_those_of_the_rows(chapter, name):
    page = (chapter / f"{name.removeprefix('puffer_')}.md").read_text()
    for row in ocean.steps_rows(name).values():
        assert f"| {ocean.count(row.value)} |" in page
    found = ocean.solve_rows(name)
    seeds, solved = {row.seed for row in found}, {row.seed for row in found if ": solved" in row.case}
    assert (f"from {len(solved)} of {len(seeds)}" if found else "No row says yet") in page
    assert all(row.command in page for row in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["puffer_breakout", "puffer_squared"])
def test_what_was_recorded_of_a_training_is_a_curve(chapter, name):
    folder = name.removeprefix("puffer_")
    found = ocean.curve_rows(name)
    page, plot = (chapter / f"{folder}.md").read_text(), chapter / "plots" / f"{folder}-curve-light.svg"
    assert bool(found) == plot.exists() == (f"plots/{folder}-curve-light.svg" in page)
    assert all(row.command in page for row in found)


@pytest.mark.slow
def test_the_first_page_leads_to_all_others(chapter):
    index = (chapter / "index.md").read_text()
    for name in environments.names():
        folder = name.removeprefix("puffer_")
        assert f":link: {folder}\n" in index and f"[{folder}]({folder}.md)" in index
    diagnostics = index.partition("## The six diagnostics")[2].partition("\n## ")[0]
    linked = set(re.findall(r":link: (\w+)", diagnostics))
    assert linked == set(re.findall(r"^\| `puffer_(\w+)`", diagnostics, re.MULTILINE)) and len(linked) == 6


def test_a_first_page_without_a_place_for_the_cards_is_refused():
    with pytest.raises(ValueError, match="expected the marked places"):
        ocean.with_gallery("# Ocean", [ocean.facts("puffer_squared")], has_pictures=False)


HEADER = """// thing.h - a thing.
//
// Observation uint8[1]: nothing. Action: 0 or 1. Reward: none. Terminal at once.
//
// - one
//   thing
// THING_SIZE of 2 * 3, [0, 1], `code_here`.
#pragma once
enum { THING_SIZE = 7 };
"""


@pytest.fixture
def header(tmp_path) -> Path:
    path = tmp_path / "thing" / "thing.h"
    path.parent.mkdir()
    path.write_text(HEADER)
    return path


def test_a_manual_becomes_markdown(header):
    title, text = manual.of_header(header)
    assert title == "A thing."
    assert "**Observation** uint8\\[1\\]: nothing.\n\n**Action**: 0 or 1.\n\n**Reward**: none.\n" in text
    assert "- one\n  thing" in text and "`THING_SIZE` (7) of 2 \\* 3, \\[0, 1\\], `code_here`." in text


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            HEADER.partition("#")[0],
            "",
            "expected a manual, a first comment that begins `// thing.h - `, found no comment",
        ),
        ("thing.h - ", "", "expected a manual, .* found 'a thing.'"),
        ("Observation", "It shows", "expected the manual to say what is observed"),
        ("Action", "Move", "expected the manual to say what one may do"),
        ("Reward", "Points", "expected the manual to say what is rewarded"),
        ("Terminal at once", "Endless", "expected the manual to say when an episode ends"),
    ],
)
def test_a_header_without_a_manual_or_a_part_of_it_fails_with_one_sentence(header, old, new, sentence):
    header.write_text(HEADER.replace(old, new))
    with pytest.raises(ValueError, match=sentence) as raised:
        manual.of_header(header)
    assert "thing/thing.h: " in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.slow
def test_every_constant_that_a_manual_names_has_its_value(chapter):
    for page in chapter.glob("*.md"):
        text = page.read_text()
        others = {"PASSWORD_KEYS", "PUFFER_FLAGS", "PUFFER_BOT_MOVES"}
        named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`(?! \()", text)) - others
        assert not named, f"{page.name}: {named}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squared", "target", "bandit", "spaces"])
def test_the_commands_of_a_page_run(chapter, name, in_tmp_path):
    for block in blocks_of(chapter / f"{name}.md"):
        block.evaluate()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["puffer_breakout", "puffer_spaces"])
def test_a_clip_moves_and_is_drawn_once(name, tmp_path, monkeypatch):
    pytest.importorskip("raylib", reason="pictures need raylib")
    image = pytest.importorskip("PIL.Image")
    from docs.pages import clips

    monkeypatch.setattr(clips, "KEPT", tmp_path)
    found = clips.clip(name)
    with image.open(found.moving) as moving, image.open(found.still) as still:
        frames = set()
        for index in range(moving.n_frames):
            moving.seek(index)
            frames.add(moving.tobytes())
        assert len(frames) > 3 and len(still.convert("RGB").getcolors(10**6)) > 20
    before = found.still.stat().st_mtime_ns
    assert clips.clip(name).still.stat().st_mtime_ns == before


def test_the_newest_commit_is_what_history_says():
    """A commit counts as newer where its first row came later; here against git, where it knows them."""
    dates = {row.commit.rstrip("+"): rows.age(row.commit) for row in rows.read("solve") + rows.read("train")}
    for name in ("puffer_breakout", "puffer_pong"):
        commits = sorted({row.commit.rstrip("+") for row in rows.read("solve") if row.case.startswith(name)})
        newest = ocean.solve_rows(name)[0].commit.rstrip("+")
        for commit in commits:
            older = subprocess.run(
                ["git", "merge-base", "--is-ancestor", newest, commit], cwd=ROOT, capture_output=True, check=False
            )
            if older.returncode > 1:
                pytest.skip("git does not know the commits of the rows")
            assert commit == newest or older.returncode == 1, f"{commit} is newer than {newest}: {dates}"


def test_pages_import_nothing_that_draws_until_they_are_to(tmp_path):
    code = "import sys; sys.path.insert(0, 'docs'); from pages import ocean; assert 'contact_sheet' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
