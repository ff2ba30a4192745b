"""Points around others and from anywhere."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.sweep.proposal import perturbed, sample_normal, sample_uniform
from pufferlib.sweep.space import Categorical, Dimension, SearchSpace

RATE = Dimension("train.learning_rate", "log_normal", 1e-4, 0.3)
SIZE = Dimension("env.size", "int_uniform", 3, 12)
POWER = Dimension("train.minibatch_size", "uniform_pow2", 256, 65536)
GAMMA = Dimension("train.gamma", "logit_normal", 0.5, 0.9999, mean=0.99, scale=0.1)
OPTIMIZER = Categorical("train.optimizer", ("adam", "muon", "sgd"))
ONLY = Categorical("train.only", (None,))
SPACE = SearchSpace((RATE, SIZE, POWER, GAMMA, OPTIMIZER))
PLANE = SearchSpace((Dimension("x", "uniform", 0.0, 1.0), Dimension("y", "uniform", 0.0, 1.0)))

SPACES = st.lists(
    st.sampled_from([RATE, SIZE, POWER, GAMMA, OPTIMIZER, ONLY]),
    min_size=1,
    max_size=6,
    unique_by=lambda each: each.name,
).map(lambda dimensions: SearchSpace(tuple(dimensions)))
SEEDS = st.integers(0, 2**32).map(np.random.default_rng)


def assert_within(space, points):
    is_choice = space.choices > 0
    assert ((points[:, ~is_choice] >= 0) & (points[:, ~is_choice] <= 1)).all()
    assert np.isin(points[:, is_choice], np.arange(3)).all()
    assert (points[:, is_choice] < space.choices[is_choice]).all()
    for point in points:  # what is tried is what the models were asked about
        np.testing.assert_allclose(space.point(space.values(point)), point, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(SPACES, SEEDS, st.integers(1, 5), st.integers(1, 40), st.floats(0.003, 0.5))
def test_all_points_are_values_of_the_space(space, generator, num_parents, count, largest):
    parents = sample_uniform(space, num_parents, generator)
    assert parents.shape == (num_parents, len(space.dimensions))
    before, points = parents.copy(), perturbed(space, parents, count, generator, largest)
    assert points.shape == (count, len(space.dimensions))
    np.testing.assert_array_equal(parents, before)
    assert_within(space, parents)
    assert_within(space, points)
    assert_within(space, sample_normal(space, generator)[None])


def test_the_neighbourhood_of_every_parent_is_reached():
    parents = np.array([[0.1, 0.1], [0.5, 0.9], [0.9, 0.3], [0.2, 0.7]])
    points = perturbed(PLANE, parents, 400, np.random.default_rng(0))
    distances = np.linalg.norm(points[:, None] - parents, axis=2)
    assert ((distances < 0.05).sum(axis=0) > 20).all()
    assert (distances.min(axis=0) > 0).all()  # none is a parent again


def test_steps_are_small_and_large_and_as_large_as_is_allowed():
    parents = np.full((1, 2), 0.5)
    wide = np.abs(perturbed(PLANE, parents, 2_000, np.random.default_rng(0)) - 0.5).max(axis=1)
    assert np.quantile(wide, 0.1) < 0.01 and np.quantile(wide, 0.9) > 0.2
    near = np.abs(perturbed(PLANE, parents, 2_000, np.random.default_rng(0), 0.005) - 0.5).max(axis=1)
    assert near.max() < 5 * 0.005


def test_some_coordinates_stay_as_they_are_and_never_all():
    parents = np.full((1, 5), 0.5)
    cube = SearchSpace(tuple(Dimension(f"x{index}", "uniform", 0.0, 1.0) for index in range(5)))
    changed = (perturbed(cube, parents, 2_000, np.random.default_rng(0)) != 0.5).sum(axis=1)
    assert set(changed) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_at_an_edge_points_are_mirrored_and_do_not_gather_on_it(edge):
    points = perturbed(PLANE, np.full((1, 2), edge), 2_000, np.random.default_rng(0))
    moved = points[points != edge]
    assert len(moved) > 2_000 and ((moved > 0) & (moved < 1)).all()


def test_integers_and_choices_change_too():
    generator = np.random.default_rng(0)
    parents = SPACE.snapped(SPACE.centre[None])
    points = perturbed(SPACE, parents, 2_000, generator)
    for column, values in ((1, 10), (2, 9), (4, 3)):
        assert len(np.unique(points[:, column])) == values
    near = perturbed(SPACE, parents, 2_000, generator, 0.005)
    assert len(np.unique(near[:, 4])) == 3, "a choice has no small steps, and still others are tried"
    assert 0.5 < (near[:, 4] == parents[0, 4]).mean() < 1.0


def test_anywhere_is_everywhere():
    points = sample_uniform(SPACE, 4_000, np.random.default_rng(0))
    np.testing.assert_allclose(points[:, :4].mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(np.quantile(points[:, 0], [0.1, 0.9]), [0.1, 0.9], atol=0.03)
    np.testing.assert_allclose(np.bincount(points[:, 4].astype(int)) / 4_000, 1 / 3, atol=0.03)


def test_the_first_points_lie_around_the_centre_by_the_scale():
    generator = np.random.default_rng(0)
    points = np.array([sample_normal(SPACE, generator) for _ in range(1_000)])
    assert 0.6 < np.mean(np.abs(points[:, 3] - GAMMA.centre) < GAMMA.scale) < 0.76
    assert 0.55 < np.mean(np.abs(points[:, 0] - 0.5) < RATE.scale) < 0.76
    assert np.mean(points[:, 0] == 0) + np.mean(points[:, 0] == 1) < 0.01
    np.testing.assert_allclose(np.bincount(points[:, 4].astype(int)) / 1_000, 1 / 3, atol=0.06)
