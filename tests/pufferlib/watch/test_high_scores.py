"""High scores: their order, what is kept apart, and files that were damaged."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pufferlib.errors import StorageError
from pufferlib.watch.playing import KEPT, HighScores, shown_score


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where they lie, in a data folder of our own."""
    monkeypatch.setattr("platformdirs.user_data_path", lambda name, appauthor: tmp_path / name)
    folder = tmp_path / "pufferlib" / "high_scores"
    folder.mkdir(parents=True)
    return folder


def scores_of(**settings):
    return HighScores("puffer_breakout", settings)


def test_the_best_are_kept_in_their_order():
    table = scores_of()
    assert table.best() == []
    assert [table.add(score) for score in (5, 7.5, 5, -1, 6)] == [1, 1, 3, 4, 2]
    assert table.best() == [7.5, 6, 5, 5, -1]
    assert [table.add(10 + score) for score in range(KEPT)] == [1] * KEPT
    assert table.best() == [9 + KEPT - place for place in range(KEPT)]
    assert table.add(3) is None
    assert table.add(10) is None  # as good as the last, which was there before
    assert table.add(float("nan")) is None and table.add(float("inf")) is None
    assert scores_of().best() == table.best()


def test_settings_and_environments_are_kept_apart():
    for settings, score in (({}, 1), ({"frameskip": 1}, 2), ({"frameskip": 1, "path": Path("a")}, 3)):
        assert scores_of(**settings).add(score) == 1
    assert scores_of(frameskip=1).best() == [2]
    assert scores_of(path=Path("a"), frameskip=1).best() == [3]
    assert HighScores("ALE/Pong-v5", {}).best() == []


def test_they_lie_in_the_data_folder_of_the_person(folder):
    for name in ("puffer_pong", "ALE/Pong-v5"):
        HighScores(name, {}).add(21)
    assert sorted(path.name for path in folder.iterdir()) == ["ALE_Pong-v5.json", "puffer_pong.json"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[{", b"[3]", b'{"{}": 3}', b'{"{}": ["nine"]}'])
def test_a_damaged_file_is_one_sentence(content):
    table = scores_of()
    table.path.write_bytes(content)
    for call in (table.best, lambda: table.add(4)):
        with pytest.raises(StorageError, match="must hold high scores, found something else; remove it"):
            call()
    assert table.path.read_bytes() == content


def test_more_than_is_kept_or_out_of_order_is_read():
    """As a person who edits the file may leave it."""
    table = scores_of()
    table.path.write_text(json.dumps({"{}": [*range(30)]}))
    assert table.best() == [29 - place for place in range(KEPT)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_sentence(folder):
    folder.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        scores_of().add(1)


def test_writing_is_whole_for_those_who_read_meanwhile():
    table = scores_of()
    table.add(0)

    def read(_):
        return len(scores_of().best())

    with ThreadPoolExecutor(2) as pool:
        lengths = pool.map(read, range(60))
        for score in range(1, 5):
            table.add(score)
        assert min(lengths) >= 1


@pytest.mark.parametrize(
    ("score", "text"), [(3, "3"), (-21.0, "-21"), (12345.0, "12,345"), (0.9, "0.90"), (-0.126, "-0.13")]
)
def test_scores_are_short(score, text):
    assert shown_score(score) == text
