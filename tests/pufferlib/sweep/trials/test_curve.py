"""Learning curves in a few windows."""

import pytest

from pufferlib.sweep.trial_process import LearningCurve


def logged(*rows):
    curve = LearningCurve()
    for row in rows:
        curve.add(*row)
    return curve


def test_a_window_is_the_mean_over_its_episodes_at_its_last_log():
    curve = logged((0.04, 1.0, 10.0, 1.0), (0.1, 2.0, 20.0, 3.0), (0.25, 5.0, 40.0, 2.0), (1.0, 9.0, 7.0, 1.0))
    assert curve.rows() == [[0.1, 2.0, 17.5], [0.25, 5.0, 40.0], [1.0, 9.0, 7.0]]


def test_the_score_is_that_of_the_last_tenth():
    steps = [(step / 100, step, step, 1.0) for step in range(1, 101)]
    assert logged(*steps).final_score == pytest.approx(95.5)
    assert len(logged(*steps).rows()) == 10
    assert logged(*steps[:55]).final_score == pytest.approx(53.0)
    assert logged().final_score is None


def test_only_windows_that_are_behind_are_full():
    curve = logged((0.05, 1.0, 1.0), (0.12, 2.0, 2.0), (0.19, 3.0, 4.0), (0.25, 4.0, 8.0))
    assert curve.full_windows(0.25) == {1: 1.0, 2: 3.0}
    assert curve.full_windows(0.3) == {1: 1.0, 2: 3.0, 3: 8.0}


def test_scores_that_are_no_numbers_are_seen():
    assert logged((0.1, 1.0, 1.0)).is_finite
    assert not logged((0.1, 1.0, 1.0), (0.2, 2.0, float("nan")), (0.3, 3.0, 1.0)).is_finite
