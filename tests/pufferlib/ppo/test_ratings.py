"""Ratings against closed forms, and against the results that they were drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from pufferlib.ppo.opponents import rate

SCALE = 400 / np.log(10)


@pytest.mark.parametrize(("won", "lost"), [(30, 10), (10, 30), (7.5, 7.5), (5, 0)])
def test_two_players_are_rated_by_the_odds_of_their_points_and_a_draw(won, lost):
    elos, widths = rate(np.array([[0, won], [lost, 0]]))
    own, other = won + 0.5, lost + 0.5
    assert elos[0] - elos[1] == pytest.approx(400 * np.log10(own / other))
    assert elos.sum() == pytest.approx(0)
    # Of the difference the variance is 1 / (n p (1 - p)); each of two ratings of mean 0 is half of it.
    variance = 1 / ((own + other) * (own / (own + other)) * (other / (own + other)))
    assert widths == pytest.approx([1.96 * SCALE * np.sqrt(variance) / 2] * 2)


def test_against_a_known_player_the_interval_is_that_of_the_difference():
    elos, widths = rate(np.array([[0, 10], [30, 0]]), np.array([100.0, np.nan]))
    p = 30.5 / 41
    assert elos == pytest.approx([100, 100 + 400 * np.log10(p / (1 - p))])
    assert widths == pytest.approx([0, 1.96 * SCALE / np.sqrt(41 * p * (1 - p))])


def test_many_players_get_the_ratings_that_their_games_were_drawn_by():
    truth = np.array([-300.0, -50.0, 0.0, 120.0, 230.0])
    expected = 1 / (1 + 10 ** ((truth[None] - truth[:, None]) / 400))
    elos, widths = rate(100_000 * expected * (1 - np.eye(5)))
    assert elos == pytest.approx(truth, abs=0.1)
    wins = np.triu(np.random.default_rng(0).binomial(200, expected), 1)
    elos, widths = rate(wins + np.triu(200 - wins, 1).T)
    assert (np.abs(elos - truth) < 1.5 * widths).all() and (widths < 40).all()


def test_a_player_without_games_has_no_interval():
    elos, widths = rate(np.array([[0, 3, 0], [1, 0, 0], [0, 0, 0]]))
    assert widths[2] == np.inf and np.isfinite(elos).all() and np.isfinite(widths[:2]).all()
