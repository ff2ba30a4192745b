"""Learning curves in a few windows."""

import pytest

from pufferlib.sweep.curve import LoggedPoint, final_score, full_windows, is_finite, window_rows


def logged(*rows):
    return [LoggedPoint(*row) for row in rows]


def test_a_window_is_the_mean_over_its_episodes_at_its_last_log():
    points = logged((0.04, 1.0, 10.0, 1.0), (0.1, 2.0, 20.0, 3.0), (0.25, 5.0, 40.0, 2.0), (1.0, 9.0, 7.0, 1.0))
    assert window_rows(points) == [[0.1, 2.0, 17.5], [0.25, 5.0, 40.0], [1.0, 9.0, 7.0]]


def test_the_score_is_that_of_the_last_tenth():
    rising = logged(*((step / 100, step, step, 1.0) for step in range(1, 101)))
    assert final_score(rising) == pytest.approx(95.5)
    assert len(window_rows(rising)) == 10
    assert final_score(rising[:55]) == pytest.approx(53.0)
    assert final_score([]) is None


def test_only_windows_that_are_behind_are_full():
    points = logged((0.05, 1.0, 1.0), (0.12, 2.0, 2.0), (0.19, 3.0, 4.0), (0.25, 4.0, 8.0))
    assert full_windows(points, 0.25) == {1: 1.0, 2: 3.0}
    assert full_windows(points, 0.3) == {1: 1.0, 2: 3.0, 3: 8.0}


def test_scores_that_are_no_numbers_are_seen():
    assert is_finite(logged((0.1, 1.0, 1.0)))
    assert not is_finite(logged((0.1, 1.0, 1.0), (0.2, 2.0, float("nan"))))
