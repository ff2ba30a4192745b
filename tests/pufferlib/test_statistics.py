import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.statistics import EpisodeStatistics

REPORTS = st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), max_size=8)


def reported(*infos):
    statistics = EpisodeStatistics()
    statistics.add(infos)
    return statistics


@given(reports=REPORTS, split=st.integers(0, 8))
@settings(deadline=None, max_examples=60)
def test_every_episode_weighs_the_same_however_it_was_reported(reports, split):
    infos = [{"score": float(np.mean(episodes)), "n": len(episodes)} for episodes in reports]
    statistics, later = reported(*infos[:split]), reported(*infos[split:])
    statistics.merge(later)
    episodes = [episode for report in reports for episode in report]
    if not episodes:
        assert statistics.means() == {}
        return
    assert statistics.means() == {"score": pytest.approx(np.mean(episodes), rel=1e-6, abs=1e-3), "n": len(episodes)}


def test_an_info_without_a_count_speaks_of_one_episode():
    assert reported({"score": 1.0}, {"score": 4.0, "n": 2}).means() == {"score": 3.0, "n": 3}


def test_a_value_that_few_report_is_the_mean_of_those():
    means = reported({"score": 1.0, "goals": 5.0, "n": 1}, {"score": 3.0, "n": 3}).means()
    assert means == {"score": 2.5, "goals": 5.0, "n": 4}


def test_taking_starts_over_and_looking_does_not():
    statistics = reported({"score": 2.0})
    assert statistics.means() == statistics.means() == statistics.take() == {"score": 2.0, "n": 1}
    assert statistics.take() == {}


@pytest.mark.parametrize("number", [2, 2.0, True, np.float32(2), np.int64(2), np.array(2.0), torch.tensor(2.0)])
def test_numbers_of_every_kind_are_taken(number):
    assert reported({"score": number}).means() == {"score": float(number), "n": 1}


@pytest.mark.parametrize(
    "value", ["won", b"won", None, [1, 2], np.array([1.0, 2.0]), np.array([1.0]), torch.ones(3), {"x": 1}, np.str_("1")]
)
def test_what_is_no_number_is_ignored(value):
    assert reported({"score": 1.0, "extra": value}).means() == {"score": 1.0, "n": 1}


def test_a_report_of_no_episodes_changes_nothing():
    assert reported({"score": 7.0, "n": 0}).means() == {}
    assert reported({"score": 7.0, "n": 0}, {"score": 1.0, "n": 2}).means() == {"score": 1.0, "n": 2}


def test_a_saved_state_goes_on():
    statistics = reported({"score": 1.0, "n": 3})
    restored = EpisodeStatistics()
    restored.load_state_dict(statistics.state_dict())
    statistics.add([{"score": 5.0}])
    assert restored.means() == {"score": 1.0, "n": 3}  # and is a copy
