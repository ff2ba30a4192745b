import enum
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from pufferlib.errors import APIUsageError
from pufferlib.metrics.measures import FinishedEpisodes

REPORTS = st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), max_size=8)


def reported(*infos):
    statistics = FinishedEpisodes()
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


def test_nan_is_no_number_and_a_count_of_nan_no_count():
    means = reported({"score": 1.0, "goal": np.float32("nan")}, {"score": 3.0, "goal": 2.0}).means()
    assert means == {"score": 2.0, "goal": 2.0, "n": 2}
    assert reported({"score": 1.0, "n": float("nan")}).means() == {}


@pytest.mark.parametrize("count", ["two", None, np.zeros(3)])
def test_a_count_that_is_no_number_is_told(count):
    with pytest.raises(APIUsageError, match="the n of an info must be the number of episodes"):
        reported({"score": 1.0, "n": count})


class Names(str, enum.Enum):  # noqa: UP042 - as users with Python 3.10 write it
    SCORE = "score"


@pytest.mark.parametrize("name", ["score", np.str_("score"), Names.SCORE, 7])
def test_names_are_kept_as_plain_text(name):
    (found,) = reported({name: 1.0}).means().keys() - {"n"}
    assert type(found) is str and found == ("7" if name == 7 else "score")


@pytest.mark.parametrize(
    "value", ["won", b"won", None, [1, 2], np.array([1.0, 2.0]), np.array([1.0]), torch.ones(3), {"x": 1}, np.str_("1")]
)
def test_what_is_no_number_is_ignored(value):
    assert reported({"score": 1.0, "extra": value}).means() == {"score": 1.0, "n": 1}


@pytest.mark.parametrize(
    "value", [np.datetime64("2020"), np.array(None), np.array("won"), np.complex64(1j), 1j, float], ids=str
)
def test_single_values_that_are_no_real_numbers_are_ignored(value):
    assert reported({"score": 1.0, "extra": value}).means() == {"score": 1.0, "n": 1}


def test_a_report_of_no_episodes_changes_nothing():
    assert reported({"score": 7.0, "n": 0}).means() == {}
    assert reported({"score": 7.0, "n": 0}, {"score": 1.0, "n": 2}).means() == {"score": 1.0, "n": 2}


def test_a_saved_state_goes_on():
    statistics = reported({"score": 1.0, "n": 3})
    restored = FinishedEpisodes.merged([statistics.state_dict()])
    statistics.add([{"score": 5.0}])
    assert restored.means() == {"score": 1.0, "n": 3}  # and is a copy


# --- with what was tracked


def with_episodes(infos, returns, lengths):
    statistics = reported(*infos)
    if returns:
        statistics.episodes.add(np.array(returns), np.array(lengths))
    return statistics


def test_reports_of_different_numbers_of_episodes_weigh_by_them():
    assert reported({"score": 10.0, "n": 1}, {"score": 0.0, "n": 99}).means() == {"score": 0.1, "n": 100}


def parts():
    return [
        with_episodes([{"score": 1.0, "n": 1}], [5.0, -2.0], [10, 20]),
        with_episodes([], [], []),
        with_episodes([{"score": 4.0, "n": 2}, {"bonus": 7.0}], [], []),
        with_episodes([], [100.0], [1]),
    ]


MERGED = {
    **{"environment/score": 3.0, "environment/bonus": 7.0, "environment/n": 3},
    **{"episode/return_mean": 103 / 3, "episode/return_min": -2.0, "episode/return_max": 100.0},
    **{"episode/length_mean": 31 / 3, "episode/count": 3},
}


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_intervals_and_processes_merge_into_the_statistics_of_all_their_episodes(order):
    sent = [json.loads(json.dumps(parts()[index].state_dict())) for index in order]  # as a process sends the state
    assert FinishedEpisodes.merged(sent).metrics() == pytest.approx(MERGED)


def test_merging_leaves_the_other_as_it_was():
    total, part = FinishedEpisodes(), parts()[0]
    total.merge(part)
    total.merge(part)
    assert part.metrics() == parts()[0].metrics()
    assert total.metrics()["episode/count"] == 4


def test_taking_gives_both_kinds_and_starts_over():
    statistics = parts()[0]
    assert statistics.take() == {
        **{"score": 1.0, "n": 1, "episode/return_mean": 1.5, "episode/return_min": -2.0, "episode/return_max": 5.0},
        **{"episode/length_mean": 15.0, "episode/count": 2},
    }
    assert statistics.take() == statistics.metrics() == {}
