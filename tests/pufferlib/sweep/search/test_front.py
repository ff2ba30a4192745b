"""The Pareto front of costs and scores."""

import numpy as np
from hypothesis import given, strategies as st

from pufferlib.sweep.results import best_within, pareto_front

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.one_of(st.integers(0, 6), st.just(np.nan))), max_size=12)


@given(PAIRS)
def test_the_front_is_what_nobody_beats(pairs):
    costs, scores = np.array(pairs, dtype=float).reshape(-1, 2).T
    front = pareto_front(costs, scores)

    def is_beaten(i):
        others = [j for j in range(len(pairs)) if j != i and not np.isnan(scores[j])]
        return any(
            costs[j] <= costs[i]
            and scores[j] >= scores[i]
            and (costs[j] < costs[i] or scores[j] > scores[i] or j < i)  # of equal ones the first stays
            for j in others
        )

    assert sorted(front) == [i for i in range(len(pairs)) if not np.isnan(scores[i]) and not is_beaten(i)]
    assert (np.diff(costs[front]) > 0).all() and (np.diff(scores[front]) > 0).all()


def test_the_best_for_a_limit():
    costs, scores = np.array([3.0, 1.0, 2.0]), np.array([0.9, 0.2, 0.1])
    assert [best_within(costs, scores, limit) for limit in (0.5, 1, 2, 5)] == [0.1, 0.2, 0.2, 0.9]
