import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.metrics.episodes import EpisodeTotals, EpisodeTracker


def handed_over(tracker):
    totals = EpisodeTotals()
    tracker.hand_over(totals)
    return totals


def totals_of(*episodes):
    """Of episodes given as return and length."""
    totals = EpisodeTotals()
    if episodes:
        totals.add(*map(np.array, zip(*episodes, strict=True)))
    return totals


def step(tracker, rewards, ended, masks=None, rows=None):
    """One step of some agents, without further notice of all."""
    masks = np.ones(len(rewards), bool) if masks is None else np.array(masks, bool)
    rows = slice(0, len(rewards)) if rows is None else rows
    tracker.step(rows, np.array(rewards, np.float32), np.array(ended, bool), masks)


# --- the tracker


class PlainTracker:
    """The same, one agent after the other."""

    def __init__(self, num_agents):
        self.running = [[] for _ in range(num_agents)]
        self.has_acted = [True] * num_agents
        self.episodes = []

    def step(self, agent, reward, ended, is_present):
        if self.has_acted[agent]:
            self.running[agent].append(float(reward))
        self.has_acted[agent] = is_present
        if ended and self.running[agent]:
            self.episodes.append((sum(self.running[agent]), len(self.running[agent])))
            self.running[agent] = []


@given(
    seed=st.integers(0, 2**32 - 1),
    batches=st.sampled_from([[range(0, 6)], [range(0, 2), range(2, 6)], [[4, 0, 5], [1, 3, 2]]]),
    absent=st.sampled_from([0.0, 0.3]),
)
@settings(deadline=None, max_examples=60)
def test_every_episode_is_followed_whatever_comes_together(seed, batches, absent):
    random = np.random.default_rng(seed)
    tracker, plain, totals = EpisodeTracker(6), PlainTracker(6), EpisodeTotals()
    for time in range(20):
        for agents in batches:
            rewards = random.integers(-8, 9, len(agents)).astype(np.float32) / 4
            ended, masks = random.random(len(agents)) < 0.2, random.random(len(agents)) >= absent
            rows = slice(agents.start, agents.stop) if isinstance(agents, range) else np.array(agents)
            tracker.step(rows, rewards, ended, masks)
            for numbers in zip(agents, rewards, ended, masks, strict=True):
                plain.step(*numbers)
        if time % 7 == 0:
            tracker.hand_over(totals)
    tracker.hand_over(totals)
    assert totals == totals_of(*plain.episodes)


def test_the_last_reward_belongs_to_the_episode_that_ends_with_it():
    tracker = EpisodeTracker(2)
    step(tracker, [1, 10], [False, False])
    step(tracker, [2, 20], [True, False])
    step(tracker, [4, 40], [True, True])
    assert handed_over(tracker).metrics() == {
        **{"return_mean": pytest.approx(77 / 3), "return_min": 3.0, "return_max": 70.0},
        **{"length_mean": 2.0, "count": 3},
    }


def test_steps_of_absent_agents_do_not_count():
    tracker = EpisodeTracker(2)
    step(tracker, [1, 1], [False, False], masks=[True, False])
    step(tracker, [1, 100], [False, False], masks=[False, True])
    step(tracker, [100, 1], [True, True])
    assert handed_over(tracker) == totals_of((2.0, 2), (2.0, 2))


def test_the_reward_that_comes_with_an_absence_is_the_last_one():
    tracker = EpisodeTracker(2)
    step(tracker, [1, 1], [False, False])
    step(tracker, [8, 1], [True, False], masks=[False, True])
    step(tracker, [100, 1], [False, False], masks=[False, True])
    step(tracker, [100, 1], [False, True])
    step(tracker, [2, 2], [True, True])
    assert handed_over(tracker) == totals_of((9.0, 2), (4.0, 4), (2.0, 1), (2.0, 1))


def test_an_end_while_an_agent_is_absent_ends_what_it_had_begun():
    tracker = EpisodeTracker(2)
    step(tracker, [1, 100], [False, True], masks=[False, False])
    step(tracker, [100, 100], [True, True])
    step(tracker, [7, 7], [True, True])
    assert handed_over(tracker) == totals_of((100.0, 1), (1.0, 1), (7.0, 1), (7.0, 1))


def test_what_was_handed_over_is_not_again():
    tracker = EpisodeTracker(1)
    step(tracker, [1], [True])
    assert handed_over(tracker).count == 1 and handed_over(tracker).count == 0


def test_a_restart_forgets_the_running_episodes():
    tracker = EpisodeTracker(2)
    step(tracker, [5, 5], [False, True])
    tracker.restart()
    step(tracker, [1, 2], [True, True])
    assert handed_over(tracker) == totals_of((1.0, 1), (2.0, 1))


def test_small_rewards_of_long_episodes_are_not_lost():
    tracker = EpisodeTracker(1)
    step(tracker, [2.0**24], [False])
    for _ in range(100):
        step(tracker, [0.25], [False])
    step(tracker, [0], [True])
    assert handed_over(tracker).metrics()["return_mean"] == 2**24 + 25


def test_a_restored_tracker_goes_on():
    tracker, restored = EpisodeTracker(2), EpisodeTracker(2)
    step(tracker, [1, 2], [False, False])
    restored.load_state_dict(tracker.state_dict())
    step(tracker, [100, 100], [False, False])  # the state is a copy
    step(restored, [1, 1], [True, True])
    assert handed_over(restored) == totals_of((2.0, 2), (3.0, 2))


def test_what_was_taken_names_the_agents_and_is_not_taken_again():
    tracker = EpisodeTracker(4)
    step(tracker, [1, 2], [True, False], rows=slice(2, 4))
    step(tracker, [3, 4], [True, True], rows=np.array([3, 0]))
    agents, returns, lengths = tracker.take()
    assert (agents.tolist(), returns.tolist(), lengths.tolist()) == ([2, 3, 0], [1, 5, 4], [1, 2, 1])
    assert [len(part) for part in tracker.take()] == [0, 0, 0]


def test_running_episodes_are_known_as_far_as_they_went():
    tracker = EpisodeTracker(2)
    step(tracker, [1, 2], [False, True])
    step(tracker, [1, 2], [False, False])
    returns, lengths = tracker.running()
    step(tracker, [1, 2], [False, False])  # they are copies
    assert (returns.tolist(), lengths.tolist()) == ([2, 2], [2, 1])


# --- totals

EPISODES = st.lists(st.tuples(st.integers(-1000, 1000).map(float), st.integers(1, 1000)), max_size=6)


@given(parts=st.lists(EPISODES, max_size=4))
@settings(deadline=None, max_examples=60)
def test_totals_of_parts_are_those_of_the_whole(parts):
    merged = EpisodeTotals()
    for part in parts:
        sent = EpisodeTotals()
        sent.load_state_dict(totals_of(*part).state_dict())
        merged.merge(sent)
    assert merged == totals_of(*(episode for part in parts for episode in part))


def test_no_episodes_have_no_metrics():
    totals = totals_of((1.0, 2))
    totals.clear()
    assert totals.metrics() == EpisodeTotals().metrics() == {}


def test_a_state_is_plain_numbers():
    assert {type(value) for value in totals_of((1.5, 2), (2.5, 3)).state_dict().values()} == {int, float}
