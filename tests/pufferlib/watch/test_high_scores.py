"""High scores: their order, what is kept apart, and files that were damaged."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pufferlib.errors import StorageError
from pufferlib.watch.playing import KEPT, HighScores, shown_score


def scores_of(folder, **settings):
    return HighScores("puffer_breakout", settings, folder)


def test_the_best_are_kept_in_their_order(tmp_path):
    table = scores_of(tmp_path)
    assert table.best() == []
    assert [table.add(score) for score in (5, 7.5, 5, -1, 6)] == [1, 1, 3, 4, 2]
    assert table.best() == [7.5, 6, 5, 5, -1]
    assert [table.add(10 + score) for score in range(KEPT)] == [1] * KEPT
    assert table.best() == [9 + KEPT - place for place in range(KEPT)]
    assert table.add(3) is None
    assert table.add(10) is None  # as good as the last, which was there before
    assert table.add(float("nan")) is None and table.add(float("inf")) is None
    assert scores_of(tmp_path).best() == table.best()


def test_settings_and_environments_are_kept_apart(tmp_path):
    for settings, score in (({}, 1), ({"frameskip": 1}, 2), ({"frameskip": 1, "path": Path("a")}, 3)):
        assert scores_of(tmp_path, **settings).add(score) == 1
    assert scores_of(tmp_path, frameskip=1).best() == [2]
    assert scores_of(tmp_path, path=Path("a"), frameskip=1).best() == [3]
    assert HighScores("ALE/Pong-v5", {}, tmp_path).best() == []
    assert HighScores("ALE/Pong-v5", {}, tmp_path).path.parent == tmp_path


def test_they_lie_in_the_data_folder_of_the_person(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_data_path", lambda name, appauthor: tmp_path / name)
    HighScores("puffer_pong", {}).add(21)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == [
        "pufferlib/high_scores/puffer_pong.json"
    ]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[{", b"[3]", b'{"{}": 3}', b'{"{}": ["nine"]}'])
def test_a_damaged_file_is_one_sentence(tmp_path, content):
    table = scores_of(tmp_path)
    table.path.write_bytes(content)
    for call in (table.best, lambda: table.add(4)):
        with pytest.raises(StorageError, match="must hold high scores, found something else; remove it"):
            call()
    assert table.path.read_bytes() == content


def test_more_than_is_kept_or_out_of_order_is_read(tmp_path):
    """As a person who edits the file may leave it."""
    table = scores_of(tmp_path)
    table.path.write_text(json.dumps({"{}": [*range(30)]}))
    assert table.best() == [29 - place for place in range(KEPT)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        scores_of(tmp_path).add(1)


def test_writing_is_whole_for_those_who_read_meanwhile(tmp_path):
    table = scores_of(tmp_path)
    table.add(0)

    def read(_):
        return len(scores_of(tmp_path).best())

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
