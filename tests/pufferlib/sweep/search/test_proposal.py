"""What is proposed after trials of functions that one knows."""

from types import SimpleNamespace

import numpy as np
import pytest

from pufferlib.sweep.proposal import Proposal, Surrogate
from pufferlib.sweep.space import Categorical, Dimension, SearchSpace

PLANE = SearchSpace((Dimension("x", "uniform", 0.0, 1.0), Dimension("y", "uniform", 0.0, 1.0)))
SEEDS = range(8)


def cost_of(points):
    """From 1 to 100 as x grows."""
    return 100.0 ** points[:, 0]


def score_of(points):
    """Better the dearer, and best at y = 0.4."""
    return points[:, 0] - 2 * (points[:, 1] - 0.4) ** 2


def seen(count=20, score=score_of, cost=cost_of, low=0.0, high=1.0):
    """A history of whole runs at random x between two ends."""
    points = np.random.default_rng(7).random((count, 2))
    points[:, 0] = low + (high - low) * points[:, 0]
    return history(points, score(points), cost(points))


def history(points, scores, costs, progress=None, pending=(), stopped=()):
    progress = np.ones(len(points)) if progress is None else progress
    pending, stopped = (np.array(each, dtype=float).reshape(-1, points.shape[1]) for each in (pending, stopped))
    return SimpleNamespace(
        points=points,
        progress=progress,
        costs=costs,
        scores=scores,
        open_ends=np.concatenate([stopped, pending]),
        is_final=(progress >= 1.0) & ~np.isnan(scores),
    )


def proposals(past, max_cost=np.inf, space=PLANE, seeds=SEEDS):
    return np.array([Proposal(space, past, max_cost, np.random.default_rng(seed)).point() for seed in seeds])


@pytest.mark.slow
def test_it_aims_at_costs_along_the_front_and_a_little_beyond():
    costs = cost_of(proposals(seen(high=0.7), seeds=range(16)))  # the dearest took 25
    assert (costs < 8).sum() >= 2
    assert (costs > 15).sum() >= 5
    assert costs.max() > 25, "or nothing dearer than the first trials would ever be tried"
    assert np.median(costs) < 60


@pytest.mark.slow
def test_for_what_it_costs_it_is_good():
    points = proposals(seen(40))
    assert np.median(np.abs(points[:, 1] - 0.4)) < 0.05


@pytest.mark.quick("2.0")
@pytest.mark.parametrize("max_cost", [2.0, 10.0])
def test_nothing_is_proposed_that_is_expected_to_cost_too_much(max_cost):
    costs = cost_of(proposals(seen(30), max_cost))
    assert costs.max() <= max_cost * 1.05
    assert costs.max() > max_cost * 0.5


@pytest.mark.slow
def test_what_costs_too_much_is_worse_than_what_is_known_to_be_hopeless():
    line = SearchSpace((Dimension("x", "uniform", 0.0, 1.0),))
    points = np.linspace(0, 1, 40)[:, None]
    past = history(points, 10 * points[:, 0], cost_of(points))  # at most 5, all that is allowed is known exactly
    assert cost_of(proposals(past, 5.0, line)).max() <= 5.0 * 1.05


def test_where_everything_costs_too_much_something_is_proposed():
    past = seen(cost=lambda points: 100 + points[:, 0])
    points = proposals(past, 5.0, seeds=range(3))
    assert ((points >= 0) & (points <= 1)).all()


@pytest.mark.quick("1.0")
@pytest.mark.parametrize("max_cost", [1.0, np.inf])
def test_costs_that_are_all_the_same_do_not_matter(max_cost):
    points = proposals(seen(30, cost=lambda points: np.ones(len(points))), max_cost)
    assert np.median(points[:, 0]) > 0.9
    assert np.median(np.abs(points[:, 1] - 0.4)) < 0.1


@pytest.mark.slow
def test_without_noise_the_best_rated_one_is_taken_and_with_noise_what_a_draw_says(monkeypatch):
    draws = []
    draw = Surrogate.draw
    monkeypatch.setattr(Surrogate, "draw", lambda *given: (draws.append(1), draw(*given))[1])
    proposals(seen(30), seeds=range(14))
    assert len(draws) <= 4
    draws.clear()
    noise = np.random.default_rng(0).normal(0, 0.2, 30)
    proposals(seen(30, lambda points: score_of(points) + noise), seeds=range(14))
    assert 5 <= len(draws) <= 13


def test_where_trials_fail_few_are_tried():
    points = proposals(seen(24, lambda points: np.where(points[:, 0] > 0.5, np.nan, score_of(points))))
    assert (points[:, 0] > 0.6).sum() <= 1


@pytest.mark.slow
def test_failures_that_cost_nothing_do_not_make_their_neighbours_cheap():
    failing = seen(24, lambda points: np.where(points[:, 1] < 0.5, np.nan, score_of(points)))
    free = np.where(np.isnan(failing.scores), 1e-3, failing.costs)
    points = proposals(history(failing.points, failing.scores, free), max_cost=10.0)
    assert cost_of(points).max() <= 10.0 * 1.3


@pytest.mark.parametrize("how", ["pending", "stopped"])
def test_trials_that_run_or_were_stopped_are_not_tried_again(how):
    past = seen(20, cost=lambda points: np.ones(len(points)))
    first = proposals(past, seeds=range(1))[0]
    again = proposals(past, seeds=range(1))[0]
    np.testing.assert_array_equal(first, again)
    known = history(past.points, past.scores, past.costs, **{how: [first]})
    assert np.abs(proposals(known, seeds=range(1))[0] - first).max() > 1e-3


def curves(scores_at, points, progress):
    """A point of a learning curve for each of several parts of the runs, the costs being in proportion."""
    every = np.repeat(points, len(progress), axis=0)
    done = np.tile(progress, len(points))
    return every, scores_at(every, done), cost_of(every) * done, done


@pytest.mark.slow
def test_a_part_of_a_run_is_not_taken_for_a_cheap_one():
    points = np.random.default_rng(0).random((20, 2))
    whole = curves(lambda every, done: score_of(every) * done, points[:8], np.array([0.2, 0.5, 1.0]))
    stopped = curves(lambda every, done: score_of(every) * done, points[8:], np.array([0.1, 0.2]))
    past = history(*(np.concatenate(parts) for parts in zip(whole, stopped, strict=True)))
    assert cost_of(proposals(past, max_cost=5.0)).max() <= 5.0 * 1.3


@pytest.mark.slow
def test_what_counts_is_the_end_of_a_curve():
    def early_or_late(every, done):
        return np.where(done < 0.5, 1 - every[:, 0], every[:, 0])  # who learns fast stays behind in the end

    points = np.random.default_rng(0).random((16, 2))
    points, scores, _, progress = curves(early_or_late, points, np.array([0.2, 0.4, 0.7, 1.0]))
    past = history(points, scores, progress, progress)
    assert np.median(proposals(past)[:, 0]) > 0.9


def test_choices_are_learnt():
    space = SearchSpace((Dimension("x", "uniform", 0.0, 1.0), Categorical("kind", ("a", "b", "c"))))
    points = np.column_stack([np.random.default_rng(0).random(24), np.arange(24) % 3])
    scores = -((points[:, 0] - 0.3) ** 2) - (points[:, 1] != 1)
    found = proposals(history(points, scores, np.ones(24)), space=space)
    assert (found[:, 1] == 1).sum() >= 7
