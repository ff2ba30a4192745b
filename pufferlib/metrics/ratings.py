"""Ratings of players by the games between them: Elo's scale, by the model of Bradley and Terry (1952)."""

from __future__ import annotations

import numpy as np

_SCALE = 400.0 / np.log(10.0)  # points of rating for odds of e
NORMAL_95 = 1.96
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""


def rate(points: np.ndarray, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Finds the likeliest ratings: a player is expected to score 1 / (1 + 10^((other - own) / 400) of a game.

    A draw more than was played counts for each pair that met, so that who won every game has a rating too.

    Args:
        points: `(players, players)`, what the row's player scored against the column's: 1 for a win, 0.5 for a draw.
        known: `(players,)` ratings that stay as they are, NaN for those to find; without any the mean is 0.

    Returns:
        `(players,)` ratings, and half the width of their 95 % confidence intervals, by the Fisher information: 0 for
        those that were known, infinite for players without games.
    """
    games = points + points.T
    games, points = games + (games > 0), points + 0.5 * (games > 0)
    known = np.full(len(points), np.nan) if known is None else known
    is_free, is_idle = np.isnan(known), games.sum(1) == 0
    strengths = np.where(is_free, 0.0, known) / _SCALE
    inverse = np.zeros_like(games)
    for _ in range(100):  # Newton's steps; a few do
        # LaTeX: p_{ij} = \frac{1}{1 + e^{s_j - s_i}} ; p = expected, s = strengths
        expected = 1.0 / (1.0 + np.exp(strengths[None] - strengths[:, None]))
        # LaTeX: I_{ij} = -n_{ij}\, p_{ij} (1 - p_{ij}), \quad I_{ii} = -\sum_{j \ne i} I_{ij} ; n = games
        information = -games * expected * (1.0 - expected)
        np.fill_diagonal(information, 0.0)
        np.fill_diagonal(information, -information.sum(1))
        inverse = np.linalg.pinv(information[np.ix_(is_free, is_free)], hermitian=True)
        step = inverse @ (points - games * expected).sum(1)[is_free]
        strengths[is_free] += np.clip(step, -1.0, 1.0)
        if not len(step) or np.abs(step).max() < 1e-9:
            break
    strengths -= strengths.mean() if is_free.all() else 0.0
    widths = np.zeros(len(points))
    widths[is_free] = NORMAL_95 * _SCALE * np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return strengths * _SCALE, np.where(is_free & is_idle, np.inf, widths)
