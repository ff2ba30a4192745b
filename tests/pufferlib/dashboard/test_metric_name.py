"""Which metric of a log is meant."""

import pytest

from pufferlib.dashboard.score import episode_count, find_metric

LOG = {
    **{"agent_steps": 10, "losses/entropy": 1.0, "episode/return_mean": 2.0, "episode/count": 7.0},
    **{"environment/perf": 0.5, "environment/score": 3.0, "environment/n": 6.0},
}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("perf", "environment/perf"),
        ("environment/perf", "environment/perf"),
        ("return_mean", "episode/return_mean"),
        ("mean_reward", "episode/return_mean"),
        ("episode_return", "episode/return_mean"),
        ("losses/entropy", "losses/entropy"),
        ("agent_steps", "agent_steps"),
        ("prf", None),
    ],
)
def test_names_within_their_group_and_those_of_other_libraries_are_found(wanted, found):
    assert find_metric(wanted, LOG) == found


def test_an_environment_that_reports_returns_itself_goes_before_the_trainer():
    assert find_metric("episode_return", {**LOG, "environment/episode_return": 1.0}) == "environment/episode_return"


def test_means_weigh_by_their_episodes():
    assert [episode_count(name, LOG) for name in ("environment/perf", "episode/return_mean", "agent_steps")] == [
        *(6.0, 7.0, 1.0)
    ]
