"""What is kept so that nobody waits for it, and for how long."""

import os

import pytest

from pufferlib.completion import candidates as module
from pufferlib.completion.candidates import remembered


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pufferlib" / "completion"


def test_it_is_found_once(cache):
    assert remembered("my words", lambda: ["a", "b c"]) == ["a", "b c"]
    assert remembered("my words", lambda: pytest.fail("it is known")) == ["a", "b c"]
    assert remembered("others", lambda: ["d"]) == ["d"]
    assert sorted(path.name for path in cache.iterdir()) == ["my_words.json", "others.json"]


def test_it_is_found_anew_where_something_changed(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PACKAGE", tmp_path / "package")
    setting = tmp_path / "package" / "ocean" / "game" / "game.ini"
    setting.parent.mkdir(parents=True)
    setting.touch()
    assert remembered("words", lambda: ["a"]) == ["a"]
    os.utime(setting, ns=(2**62, 2**62))
    assert remembered("words", lambda: ["b"]) == ["b"]


@pytest.mark.parametrize("damaged", ["", "[", "{}", '{"stamp": 3, "words": 4}', "\x00"])
def test_a_damaged_file_is_replaced(cache, damaged):
    remembered("words", lambda: ["a"])
    (cache / "words.json").write_text(damaged)
    assert remembered("words", lambda: ["b"]) == ["b"]
    assert remembered("words", lambda: pytest.fail("it is known")) == ["b"]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert remembered("words", lambda: ["a"]) == ["a"]
