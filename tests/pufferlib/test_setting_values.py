import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.errors import ConfigError
from pufferlib.setting import Setting, convert, describe, fits, format_value, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("-3", -3),
        ("1e6", 1_000_000),
        ("1_000_000", 1_000_000),
        ("1e-3", 0.001),
        ("1.0", 1.0),
        ("inf", math.inf),
        ("True", True),
        ("false", False),
        ("None", None),
        ("none", None),
        ("auto", "auto"),
        ("cuda:1", "cuda:1"),
        ("'7'", "7"),
        ("[64, 64]", [64, 64]),
        ("(1, 2", "(1, 2"),
        ("", ""),
    ],
)
def test_text_becomes_the_python_value_it_looks_like(text, value):
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_what_an_ini_holds_is_read_back_the_same(value):
    assert parse_value(format_value(value)) == value


@pytest.mark.parametrize(
    ("value", "kind", "converted"),
    [
        (1e6, int, 1_000_000),
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        (1, float, 1.0),
        ("auto", int | Literal["auto"], "auto"),
        ("AUTO", int | Literal["auto"], "auto"),
        ("serial", Literal["auto", "Serial"], "Serial"),
        (None, int | None, None),
        ([64, 64.0], list[int], [64, 64]),
        ((1, 2), tuple[float, ...], (1.0, 2.0)),
    ],
)
def test_a_value_takes_the_declared_type(value, kind, converted):
    result = convert(value, kind)
    assert result == converted and type(result) is type(converted)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int),
        (1, bool),
        (1, Literal[True]),
        (1.5, int),
        (math.inf, int),
        (math.nan, int),
        ("1", int),
        (None, float),
        (3, str),
        ("fast", int | Literal["auto"]),
        ([1, "a"], list[int]),
        (3, list[int]),
    ],
)
def test_a_value_of_another_type_does_not_fit(value, kind):
    assert not fits(value, kind)


def test_a_text_setting_takes_text_that_looks_like_a_number():
    assert Setting("log", "name", str, None).parse("2024") == "2024"
    assert Setting("log", "name", int, None).parse("2024") == 2024


@pytest.mark.parametrize("kind", [str, str | None, object])
def test_a_path_in_the_home_folder_is_one_there(monkeypatch, kind):
    monkeypatch.setenv("HOME", "/home/puffer")
    setting = Setting("train", "data_dir", kind, None)
    assert setting.parse("~/runs") == "/home/puffer/runs"
    assert [setting.parse(text) for text in ("~", "a~/b", "~x")] == ["~", "a~/b", "~x"]


def test_items_of_a_tuple_may_have_types_of_their_own():
    setting = Setting("env", "door", tuple[int, str | None, float], None)
    assert setting.parse("(2, 'red', 1)") == (2, "red", 1.0)
    for text in ("('red', 2, 1)", "(2, 'red')", "(2, 'red', 1, 1)"):
        with pytest.raises(ConfigError, match="a tuple of 3 items, an integer, text or None, a number"):
            setting.parse(text)
    assert convert((1, 2, 3), tuple[int]) == convert([1, 2, 3], tuple[int, int]) == (1, 2, 3)


@pytest.mark.parametrize("value", [1, 1.0, True, "1", None])
def test_a_union_keeps_a_value_of_one_of_its_types(value):
    for kind in (int | float | bool | str | None, None | str | bool | float | int):
        assert type(convert(value, kind)) is type(value)


def test_bounds_stand_beside_the_numbers_they_bound():
    assert describe(int | Literal["auto"] | None, " in [1, 9]") == "an integer in [1, 9], 'auto' or None"
