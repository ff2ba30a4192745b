"""Early stopping by learning curves, on curves that were made up: what it saves, and whom it must not stop."""

import numpy as np
import pytest

from pufferlib.sweep.driver import hopeless_reason

PROGRESS = np.arange(1, 11) / 10


def curve(scores, seconds=100.0):
    return np.stack([PROGRESS, PROGRESS * seconds, scores], 1).tolist()


def rise(final, onset=0.3, start=0.0):
    return start + (final - start) / (1 + np.exp(-(PROGRESS - onset) / 0.06))


def test_nothing_is_known_before_five_trials_nor_of_the_beginning_nor_of_runs_that_are_like_no_other():
    bad, good = curve(rise(0.1)), [curve(rise(1.0, onset=0.1)) for _ in range(5)]
    worse = [curve(rise(final)) for final in (0.0, 0.05, 0.1)]
    assert hopeless_reason(bad[:8], [*worse, *good][:4], "maximize") is None
    assert hopeless_reason(bad[:2], [*worse, *good], "maximize") is None
    assert hopeless_reason(bad[:9], [*worse, *good], "maximize") is None  # it may as well end
    assert hopeless_reason([], [*worse, *good], "maximize") is None
    assert hopeless_reason(bad[:8], [*worse[:2], *good], "maximize") is None
    assert hopeless_reason(bad[:5], [*worse, *good], "maximize") == (
        "at 50% it scored 0.09656; of 3 trials that were there, none came to more than 0.1, where 1 is usual for that "
        "cost"
    )


def test_lower_is_better_where_the_goal_says_so():
    found = [curve(-rise(final)) for final in (0.0, 0.05, 0.1, *[1.0] * 5)]
    reason = hopeless_reason(curve(-rise(0.1))[:5], found, "minimize")
    assert reason == (
        "at 50% it scored -0.09656; of 3 trials that were there, none came to less than -0.1, where -1 is usual for "
        "that cost"
    )
    assert hopeless_reason(curve(-rise(2.0))[:5], found, "minimize") is None


def test_where_learning_begins_late_nothing_is_stopped_early():
    late = [curve(rise(final, onset=0.7)) for final in np.linspace(0.5, 1.0, 6)]
    slow = curve(rise(0.75, onset=0.7))
    assert all(hopeless_reason(slow[:rows], late, "maximize") is None for rows in range(1, 11))


def test_a_short_run_is_compared_at_its_cost():
    long = [curve(rise(1.0, onset=0.3), seconds=1000.0) for _ in range(6)]
    short = curve(rise(0.4, onset=0.3), seconds=100.0)  # what the long ones reach in as many seconds is less
    assert all(hopeless_reason(short[:rows], long, "maximize") is None for rows in range(1, 11))


def test_scores_that_are_all_the_same_stop_nobody():
    same = [curve(np.ones(10)) for _ in range(8)]
    assert hopeless_reason(same[0][:6], same, "maximize") is None


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_a_sweep_is_cheaper_and_keeps_its_winner(noise):
    saved = spent = wrong = 0.0
    for seed in range(6):
        random = np.random.default_rng(seed)
        complete, trials = [], []
        for _ in range(60):
            seconds = float(np.exp(random.uniform(np.log(10), np.log(300))))
            final = (0.03 if random.random() < 0.35 else random.beta(2, 1.2)) * (seconds / 300) ** 0.15
            onset = float(np.clip(0.75 - 0.6 * final + random.normal(0, 0.1), 0.02, 0.9))
            found = curve(rise(final, onset) + random.normal(0, noise, 10), seconds)
            ended = next((row for row in range(1, 10) if hopeless_reason(found[:row], complete, "maximize")), 10)
            if ended == 10:
                complete.append(found)
            saved, spent = saved + seconds * (1 - ended / 10), spent + seconds
            trials.append((final, ended))
        wrong += max(trials)[1] < 10
    assert wrong == 0
    assert saved / spent > 0.18
