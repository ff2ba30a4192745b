"""Values and the coordinates that stand for them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pufferlib.errors import ConfigError
from pufferlib.sweep.space import Categorical, Dimension, SearchSpace

DIMENSIONS = {
    "uniform": Dimension("env.speed", "uniform", -2.0, 3.0),
    "int_uniform": Dimension("env.size", "int_uniform", 3, 12),
    "uniform_pow2": Dimension("train.minibatch_size", "uniform_pow2", 256, 65536),
    "log_normal": Dimension("train.learning_rate", "log_normal", 1e-4, 0.3),
    "logit_normal": Dimension("train.gamma", "logit_normal", 0.5, 0.9999),
    "steps": Dimension("train.total_timesteps", "log_normal", 1e5, 1e8, is_integer=True),
}


@pytest.mark.parametrize("dimension", DIMENSIONS.values(), ids=DIMENSIONS)
@given(coordinate=st.floats(0, 1))
def test_a_value_lies_in_the_range_and_leads_back_to_its_coordinate(dimension, coordinate):
    value = dimension.value(coordinate)
    assert dimension.min <= value <= dimension.max
    assert isinstance(value, int) == dimension.is_integer
    again = dimension.value(dimension.coordinate(value))
    assert again == value if dimension.is_integer else again == pytest.approx(value, rel=2e-9, abs=1e-12)
    if not dimension.is_integer:
        assert dimension.coordinate(value) == pytest.approx(coordinate, abs=1e-6)


def test_coordinates_are_those_of_the_distribution():
    assert DIMENSIONS["uniform"].value(0.5) == 0.5
    assert DIMENSIONS["log_normal"].value(0.5) == pytest.approx((1e-4 * 0.3) ** 0.5)
    assert DIMENSIONS["uniform_pow2"].value(0.5) == 4096
    odds = (1 * 9999) ** 0.5
    assert DIMENSIONS["logit_normal"].value(0.5) == pytest.approx(odds / (1 + odds))
    assert DIMENSIONS["uniform"].coordinate(17.0) == 1.0


@pytest.mark.parametrize("value", [0.01, 0.003, 0.1])
def test_a_value_that_somebody_wrote_comes_back_as_it_was(value):
    dimension = DIMENSIONS["log_normal"]
    assert dimension.value(dimension.coordinate(value)) == value


def test_the_search_starts_at_the_mean_or_in_the_middle():
    assert Dimension("a", "log_normal", 1e-4, 1e-2, mean=1e-3).centre == pytest.approx(0.5)
    assert Dimension("a", "uniform", 0, 10, mean=2).centre == pytest.approx(0.2)
    assert DIMENSIONS["int_uniform"].centre == 0.5
    assert Categorical("train.optimizer", ("adam", "muon", "sgd")).value(1) == "muon"


def test_a_point_stands_for_values_of_every_dimension():
    space = SearchSpace(
        (DIMENSIONS["int_uniform"], Categorical("train.optimizer", ("adam", "muon")), DIMENSIONS["uniform"])
    )
    values = {"env.size": 7, "train.optimizer": "muon", "env.speed": 0.5}
    point = space.point(values)
    assert space.values(point) == values
    np.testing.assert_allclose(space.features(point[None]), [[4 / 9, 0, 1, 0.5]])
    np.testing.assert_allclose(space.snapped(np.array([[0.46, 1, 0.1]])), [[4 / 9, 1, 0.1]])
    assert space.choices.tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lognormal", 1, 2), "'lognormal', which does not exist; did you mean 'log_normal'"),
        (("uniform", 2, 1), "min below max, got 2 and 1"),
        (("log_normal", 0, 1), "above 0, got 0"),
        (("logit_normal", 0.5, 1.0), "within (0, 1), got 0.5 and 1.0"),
        (("uniform_pow2", 100, 4096), "powers of two, 1 or more, got 100"),
        (("uniform_pow2", 0.5, 64), "powers of two, 1 or more, got 0.5"),
        (("int_uniform", 1.2, 1.8), "two whole numbers in its range, got 1.2 to 1.8"),
        (("uniform", 0, float("inf")), "a finite range, got 0 to inf"),
        (("uniform", 0, 1, 2), "a mean within [0, 1], got 2"),
        (("uniform", 0, 1, 0.5, 0), "a scale in (0, 1], a part of the range, got 0"),
    ],
)
def test_a_range_that_cannot_be_is_refused(arguments, said):
    with pytest.raises(ConfigError, match=r"\[sweep.train.gamma\] ") as error:
        Dimension("train.gamma", *arguments)
    assert said in str(error.value)


@pytest.mark.parametrize("choices", [(), (1, 1), (True, 1), ([32, 32], [64])])  # of equal ones a study has the first
def test_choices_are_different_and_what_a_study_keeps(choices):
    with pytest.raises(ConfigError, match="train.optimizer needs a list of different"):
        Categorical("train.optimizer", choices)
    Categorical("train.clip_vloss", (True, "True"))
