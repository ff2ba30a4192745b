import math
from typing import Any, Literal

import pytest

from pufferlib import ocean
from pufferlib.errors import ConfigError
from pufferlib.setting import Setting, class_settings, is_within

SQUARED = "puffer_squared"


class Encoder:
    """A policy.

    Args:
        hidden_size: units of
            each layer.
    """

    def __init__(self, env, hidden_size: int = 128, num_layers: int = 1, activation: Literal["relu", "tanh"] = "relu"):
        pass


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("[0, 1)", (0, 0.5), (1, -0.1)), ("(0, inf]", (1e-9, math.inf), (0,)), ("(-inf, inf)", (-5,), (math.inf,))],
)
def test_intervals_read_as_in_mathematics(text, inside, outside):
    assert all(is_within(value, text) for value in inside)
    assert not any(is_within(value, text) for value in (*outside, math.nan))


def test_arguments_that_a_class_hands_on_are_settings_too():
    known = class_settings("env", ocean.env_class(SQUARED))
    assert {"num_envs", "size", "report_interval"} <= known.keys()
    assert not {"buf", "seed", "arguments", "kwargs"} & known.keys()
    assert known["size"].kind is int and "2 to 128" in known["size"].meaning


def test_the_help_of_an_argument_is_its_docstring():
    assert class_settings("policy", Encoder)["hidden_size"].meaning == "Units of each layer."


def test_arguments_of_a_class_are_checked_by_their_annotations():
    known = class_settings("policy", Encoder)
    assert known["hidden_size"].check(64.0) == 64
    with pytest.raises(ConfigError, match=r"\[policy\] activation must be 'relu' or 'tanh', got 'tan'"):
        known["activation"].check("tan")


@pytest.mark.parametrize("value", ["128,128", "128, 64", 128])
def test_a_list_without_brackets_is_shown_with_them(value):
    setting = Setting("policy", "sizes", list[int], [64])
    with pytest.raises(ConfigError, match=rf"sizes must be a list .* got {value!r}; write '\[{value}\]'"):
        setting.check(value)


@pytest.mark.parametrize("kind", [float, Any])
@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_number_without_bounds_must_be_finite_and_is_told_so(kind, text):
    with pytest.raises(ConfigError, match=rf"^\[env\] speed must be finite, got {text}$"):
        Setting("env", "speed", kind, 1.0).parse(text)


class Corridor:
    def __init__(self, farthest=math.inf, nearest=0.0):
        pass


def test_a_number_that_is_infinite_by_default_may_be():
    known = class_settings("env", Corridor)
    assert known["farthest"].parse("inf") == math.inf and known["farthest"].parse("8") == 8
    for name, text in (("farthest", "nan"), ("nearest", "inf")):
        with pytest.raises(ConfigError, match=f"{name} must be "):
            known[name].parse(text)


class Lake:
    def __init__(self, slippery=True, level="1_1"):
        pass


def test_a_word_is_no_flag_where_the_default_is_one():
    known = class_settings("env", Lake)
    with pytest.raises(ConfigError, match=r"slippery must be True or False, got 'no'"):
        known["slippery"].parse("no")
    assert [known["slippery"].parse(text) for text in ("false", "True", "1", "None")] == [False, True, 1, None]
    assert known["level"].parse("easy") == "easy"
