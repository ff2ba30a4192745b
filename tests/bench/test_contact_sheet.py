import sys
from pathlib import Path

import pytest
from PIL import Image

from pufferlib import ocean

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def contact_sheet(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import contact_sheet

    return contact_sheet


@pytest.mark.slow
def test_a_sheet_has_a_cell_for_each_environment(contact_sheet, tmp_path, monkeypatch):
    pytest.importorskip("raylib", reason="pictures need raylib")
    output, pictures = tmp_path / "docs" / "sheet.png", tmp_path / "pictures"
    names = ["puffer_squared", "puffer_template"]
    monkeypatch.setattr(sys, "argv", ["", *names, "--output", str(output), "--pictures", str(pictures)])
    contact_sheet.main()
    image = Image.open(output).convert("RGB")
    cell, gap = contact_sheet.CELL, contact_sheet.GAP
    assert image.size == (gap + 2 * (cell[0] + gap), gap + cell[1] + contact_sheet.CAPTION + gap)
    for index in range(2):
        left = gap + index * (cell[0] + gap)
        assert len(image.crop((left, gap, left + cell[0], gap + cell[1])).getcolors(10**6)) > 20
    assert sorted(path.name for path in pictures.iterdir()) == ["squared.png", "template.png"]


def test_the_sheet_is_of_games_alone(contact_sheet):
    games = contact_sheet.games()
    assert {"puffer_breakout", "puffer_tetris", "puffer_squared"} < set(games)
    assert not {"puffer_template", "puffer_spaces", "puffer_memory", "puffer_bandit"} & set(games)


def test_an_environment_without_a_picture_gets_a_card(contact_sheet, monkeypatch):
    def no_picture(*arguments, **settings):
        raise contact_sheet.MissingExtraError("there is no render module")

    monkeypatch.setattr(contact_sheet, "Screen", no_picture)
    assert contact_sheet.picture("puffer_squared") is None
    assert contact_sheet.card("puffer_squared").size == contact_sheet.CELL


def test_without_a_trained_agent_actions_are_drawn(contact_sheet, monkeypatch):
    def no_agent(name, **kwargs):
        raise contact_sheet.CheckpointError("no trained agent comes with it")

    monkeypatch.setattr(contact_sheet, "load_agent", no_agent)
    env = ocean.env_class("puffer_squared")(num_envs=3)
    play = contact_sheet.player("puffer_squared", env)
    env.reset(0)
    assert {int(action) for _ in range(30) for action in play(env.observations)} == set(range(5))
    env.close()


def test_an_agent_forgets_where_an_episode_ends(contact_sheet):
    env = ocean.env_class("puffer_memory")(num_envs=64)
    play = contact_sheet.player("puffer_memory", env)
    env.reset(0)
    for _ in range(200):
        env.step(play(env.observations).reshape(env.actions.shape))
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] > 0.97
    env.close()
