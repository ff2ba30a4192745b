import os

import pytest

from pufferlib.reading import MAX_LEVELS, UnreadableFile, lines, open_regular, parse_json, read_bytes, read_json


def test_a_link_to_a_regular_file_is_read(tmp_path):
    (tmp_path / "file").write_text('{"a": [1, "é"]}')
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == {"a": [1, "é"]}


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (os.mkfifo, "a FIFO"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("/dev/tty"), "a device"),
    ],
    ids=["FIFO", "folder", "zeros", "terminal"],
)
def test_what_is_no_file_is_not_opened(tmp_path, make, found):
    make(tmp_path / "strange")
    with pytest.raises(UnreadableFile) as raised:
        open_regular(tmp_path / "strange")
    assert raised.value.strerror == f"it must be a regular file, found {found}"


@pytest.mark.parametrize("name", ["missing", "zero\0byte", "missing/below"])
def test_what_is_not_there(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / name)


def test_more_than_a_file_may_hold(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"12345")
    monkeypatch.setattr("pufferlib.reading.MAX_JSON_BYTES", 5)
    assert read_bytes(tmp_path / "file") == b"12345"
    monkeypatch.setattr("pufferlib.reading.MAX_JSON_BYTES", 4)
    with pytest.raises(UnreadableFile) as raised:
        read_bytes(tmp_path / "file")
    assert raised.value.strerror == "it must have at most 4 bytes, found more"


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_json_of_too_many_levels(levels, begin, end):
    text = f"{begin * levels}1{end * levels}".encode()
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(text)


def test_json_of_many_lists_on_few_levels():
    assert parse_json(b"[" + b"[], " * 1000 + b"[]]") == [[]] * 1001
    assert parse_json(b"[" * MAX_LEVELS + b"]" * MAX_LEVELS)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"nothing", b"1" * 5000])
def test_other_text_than_json(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_long_and_torn_lines_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("pufferlib.reading.MAX_LINE_BYTES", 10)
    (tmp_path / "file").write_bytes(
        b"one\n" + b"long" * 20 + b"\ntwo\n" + b"9 letters\n" + b"x" * 10 + b"\nthree\ntorn"
    )
    with open_regular(tmp_path / "file") as file:
        assert list(lines(file)) == [b"one", b"two", b"9 letters", b"three"]
