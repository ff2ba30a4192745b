import numpy as np
from hypothesis import given, settings, strategies as st

from pufferlib.metrics.measures import EpisodeTotals


def totals_of(*episodes):
    """Of episodes given as return and length."""
    totals = EpisodeTotals()
    totals.add(np.array([total for total, _ in episodes]), np.array([length for _, length in episodes], int))
    return totals


EPISODES = st.lists(st.tuples(st.integers(-1000, 1000).map(float), st.integers(1, 1000)), max_size=6)


@given(parts=st.lists(EPISODES, max_size=4))
@settings(deadline=None, max_examples=60)
def test_totals_of_parts_are_those_of_the_whole(parts):
    merged = EpisodeTotals()
    for part in parts:
        merged.merge(totals_of(*part))
    assert merged == totals_of(*(episode for part in parts for episode in part))


def test_no_episodes_have_no_metrics():
    assert EpisodeTotals().metrics() == totals_of().metrics() == {}


def test_a_state_is_plain_numbers():
    assert {type(value) for value in vars(totals_of((1.5, 2), (2.5, 3))).values()} == {int, float}


def test_the_metrics_of_some_episodes():
    assert totals_of((3.0, 2), (70.0, 3), (4.0, 1)).metrics() == {
        **{"return_mean": 77 / 3, "return_min": 3.0, "return_max": 70.0, "length_mean": 2.0, "count": 3},
    }
