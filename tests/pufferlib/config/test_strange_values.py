import contextlib
import math

import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.config import (
    TrainConfig,
    VecConfig,
    load_config,
)
from pufferlib.config.sections import SECTIONS
from pufferlib.errors import ConfigError
from pufferlib.setting import is_within

SQUARED = "puffer_squared"


EVERY_SETTING = [one for config in SECTIONS.values() for one in config.settings().values()]


STRANGE_NUMBERS = st.sampled_from(
    ["nan", "inf", "-inf", "1e30", "1e400", "-1e400", "9" * 400, "-" + "9" * 400, "9" * 5000]
)


STRANGE_TEXTS = st.one_of(
    STRANGE_NUMBERS,
    STRANGE_NUMBERS.map("[{}]".format),
    st.sampled_from(["[" * 300, "(" * 9000, "[{[]: 1}]", "'", "[1, 2", "\0", "1_", "0x1", "--", "None", ""]),
    st.text(max_size=8),
    st.floats().map(str),
    st.integers().map(str),
)


def assert_is_usable(one, value):
    """Whether a checked value is what the setting promises: in its bounds, and of a size that C and torch take."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        assert is_within(value, one.within) and (isinstance(value, float) or value.bit_length() < 64)


@pytest.mark.slow
@given(one=st.sampled_from(EVERY_SETTING), text=STRANGE_TEXTS)
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_value_or_one_sentence(one, text):
    try:
        assert_is_usable(one, one.parse(text))
    except ConfigError as error:
        assert str(error).startswith(f"{one.label} must be ") and len(str(error)) < 700


@given(
    one=st.sampled_from(EVERY_SETTING),
    value=st.one_of(
        st.sampled_from([10**400, -(10**400), 10**5000, 2**63, -(2**63) - 1, math.nan, math.inf, -math.inf]),
        st.integers(),
        st.floats(),
        st.fractions(),
        st.lists(st.integers(), max_size=2),
        st.none(),
        st.binary(max_size=3),
    ),
)
@settings(max_examples=300, deadline=None)
def test_any_value_is_taken_or_one_sentence(one, value):
    try:
        assert_is_usable(one, one.check(value))
    except ConfigError as error:
        assert str(error).startswith(f"{one.label} must be ") and len(str(error)) < 700


@pytest.mark.slow
@given(
    tokens=st.lists(
        st.one_of(
            st.sampled_from(["--train.seed", "--vec.num-envs", "--rnn-name", "--env.size=", "--policy.x", "--", "="]),
            STRANGE_TEXTS,
        ),
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_flags_are_a_configuration_or_one_sentence(tokens):
    with contextlib.suppress(ConfigError):
        load_config(SQUARED, argv=tokens)


@pytest.mark.parametrize(
    ("setting", "text", "message"),
    [
        ("seed", "1e30", r"\[train\] seed must be an integer in \[0, inf\), and of at most 63 bits, got 1e\+30"),
        ("seed", "nan", r"\[train\] seed must be an integer in \[0, inf\), got nan"),
        ("gamma", "9" * 400, r"\[train\] gamma must be a number in \[0, 1\], got 9{100}\.\.\.9{20}$"),
    ],
)
def test_a_number_that_is_too_large_says_so(setting, text, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.settings()[setting].parse(text)
    with pytest.raises(ConfigError, match=r"\[vec\] num_envs must be an integer in \[1, 1e6\] or 'auto', got 1e\+20"):
        VecConfig.settings()["num_envs"].parse("1e20")
