import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.environment import EpisodeTracker


def begun(num_agents, masks=None):
    """A tracker whose agents have had what a reset gives."""
    tracker = EpisodeTracker(num_agents)
    step(tracker, [100] * num_agents, [False] * num_agents, masks)
    return tracker


def taken(tracker):
    """The episodes that ended, as return and length."""
    _, returns, lengths = tracker.take()
    return list(zip(returns.tolist(), lengths.tolist(), strict=True))


def step(tracker, rewards, ended, masks=None, rows=None):
    """One step of some agents, without further notice of all."""
    masks = np.ones(len(rewards), bool) if masks is None else np.array(masks, bool)
    rows = slice(0, len(rewards)) if rows is None else rows
    return tracker.step(rows, np.array(rewards, np.float32), np.array(ended, bool), masks)


# --- what a step counts for


class PlainTracker:
    """The same, one agent after the other."""

    def __init__(self, num_agents):
        self.running = [[] for _ in range(num_agents)]
        self.has_acted = [True] * num_agents
        self.episodes = []

    def step(self, agent, reward, ended, is_present):
        if self.has_acted[agent]:
            self.running[agent].append(float(reward))
        elif self.running[agent]:  # of an agent that waits
            self.running[agent][-1] += float(reward)
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
    tracker, plain, found = begun(6), PlainTracker(6), []
    for time in range(20):
        for agents in batches:
            rewards = random.integers(-8, 9, len(agents)).astype(np.float32) / 4
            ended, masks = random.random(len(agents)) < 0.2, random.random(len(agents)) >= absent
            rows = slice(agents.start, agents.stop) if isinstance(agents, range) else np.array(agents)
            tracker.step(rows, rewards, ended, masks)
            for numbers in zip(agents, rewards, ended, masks, strict=True):
                plain.step(*numbers)
        if time % 7 == 0:
            found += taken(tracker)
    found += taken(tracker)
    assert sorted(found) == sorted(plain.episodes)


def test_the_last_reward_belongs_to_the_episode_that_ends_with_it():
    tracker = begun(2)
    step(tracker, [1, 10], [False, False])
    step(tracker, [2, 20], [True, False])
    step(tracker, [4, 40], [True, True])
    assert taken(tracker) == [(3.0, 2), (4.0, 1), (70.0, 3)]


def test_steps_of_absent_agents_do_not_count_and_their_rewards_belong_to_the_last_own_step():
    tracker = begun(2)
    step(tracker, [1, 1], [False, False], masks=[True, False])
    step(tracker, [1, 100], [False, False], masks=[False, True])
    step(tracker, [100, 1], [True, True])
    assert taken(tracker) == [(102.0, 2), (102.0, 2)]


def test_what_an_agent_gets_before_its_first_step_counts_for_nothing():
    tracker = begun(1, masks=[False])
    step(tracker, [100], [False], masks=[True])
    step(tracker, [1], [True])
    assert taken(tracker) == [(1.0, 1)]


def test_after_an_end_an_absent_agent_gets_nothing_more():
    tracker = begun(2)
    step(tracker, [1, 1], [False, False])
    step(tracker, [8, 1], [True, False], masks=[False, True])
    step(tracker, [100, 1], [False, False], masks=[False, True])
    step(tracker, [100, 1], [False, True])
    step(tracker, [2, 2], [True, True])
    assert taken(tracker) == [(9.0, 2), (4.0, 4), (2.0, 1), (2.0, 1)]


def test_an_end_while_an_agent_is_absent_ends_what_it_had_begun():
    tracker = begun(2)
    step(tracker, [1, 100], [False, True], masks=[False, False])
    step(tracker, [100, 100], [True, True])
    step(tracker, [7, 7], [True, True])
    assert taken(tracker) == [(100.0, 1), (101.0, 1), (7.0, 1), (7.0, 1)]


def test_a_restart_forgets_all_episodes():
    tracker = begun(2)
    step(tracker, [5, 5], [False, True])
    tracker.restart()
    step(tracker, [100, 100], [False, False])
    step(tracker, [1, 2], [True, True])
    assert taken(tracker) == [(1.0, 1), (2.0, 1)]


def test_small_rewards_of_long_episodes_are_not_lost():
    tracker = begun(1)
    step(tracker, [2.0**24], [False])
    for _ in range(100):
        step(tracker, [0.25], [False])
    step(tracker, [0], [True])
    assert taken(tracker) == [(2**24 + 25, 102)]


def test_a_restored_tracker_goes_on():
    tracker, restored = begun(2), EpisodeTracker(2)
    step(tracker, [1, 2], [False, False])
    restored.load_state_dict(tracker.state_dict())
    step(tracker, [100, 100], [False, False])  # the state is a copy
    step(restored, [1, 1], [True, True])
    assert taken(restored) == [(2.0, 2), (3.0, 2)]


def test_what_was_taken_names_the_agents_and_is_not_taken_again():
    tracker = begun(4)
    step(tracker, [1, 2], [True, False], rows=slice(2, 4))
    step(tracker, [3, 4], [True, True], rows=np.array([3, 0]))
    agents, returns, lengths = tracker.take()
    assert (agents.tolist(), returns.tolist(), lengths.tolist()) == ([2, 3, 0], [1, 5, 4], [1, 2, 1])
    assert [len(part) for part in tracker.take()] == [0, 0, 0]


def test_running_episodes_are_known_as_far_as_they_went():
    tracker = begun(2)
    step(tracker, [1, 2], [False, True])
    step(tracker, [1, 2], [False, False])
    assert (tracker.returns.tolist(), tracker.lengths.tolist()) == ([2, 2], [2, 1])


def test_what_a_reset_gives_is_no_step():
    tracker = EpisodeTracker(2)
    step(tracker, [5, 5], [False, True], masks=[True, False])
    step(tracker, [1, 1], [True, True])
    assert taken(tracker) == [(1.0, 1)]  # the second agent was not there from the start


def test_a_game_gives_an_episode_to_each_of_its_agents():
    tracker = EpisodeTracker(4, seats=2)
    step(tracker, [9] * 4, [True] * 4, masks=[True, False, False, False])  # by a reset: no step
    step(tracker, [1, 2, 9, 9], [True, False, True, True], masks=[False, False, True, True])
    step(tracker, [0, 3, 4, 5], [False, True, False, False])  # the first game ends for the second agent, too
    assert taken(tracker) == [(1.0, 1), (5.0, 0)]
    step(tracker, [-1, 1, 6, 7], [True, True, True, True])
    assert taken(tracker) == [(-1.0, 1), (1.0, 1), (10.0, 2), (12.0, 2)]
    step(tracker, [8, 8], [True, False], rows=np.array([2, 3]))
    tracker.restart()
    step(tracker, [0] * 4, [False] * 4)
    step(tracker, [1, 2], [False, True], rows=np.array([2, 3]))
    assert taken(tracker) == []


# --- where episodes begin


def test_everybody_begins_with_a_reset_and_after_an_end():
    tracker = EpisodeTracker(3)
    assert step(tracker, [0] * 3, [False] * 3).tolist() == [True] * 3
    assert step(tracker, [0] * 3, [False, True, False]).tolist() == [False, True, False]
    assert step(tracker, [0] * 3, [False] * 3).tolist() == [False] * 3


def test_an_episode_begins_when_an_agent_is_there_again_after_an_end():
    tracker = begun(3, masks=[True, True, False])
    found = [
        step(tracker, [0] * 3, [True, False, False], masks=[False, False, False]),
        step(tracker, [0] * 3, [False] * 3, masks=[False, False, False]),
        step(tracker, [0] * 3, [False] * 3),
        step(tracker, [0] * 3, [False] * 3),
    ]
    # The second one's episode went on while it was absent; the third one was not there when the others began.
    wanted = [[True, False, True], [True, False, True], [True, False, True], [False] * 3]
    assert [begins.tolist() for begins in found] == wanted


@pytest.mark.parametrize("rows", [slice(2, 4), np.array([3, 0])], ids=["slice", "array"])
def test_a_batch_begins_for_its_agents_alone(rows):
    tracker = EpisodeTracker(4)
    assert step(tracker, [0, 0], [False, False], rows=rows).tolist() == [True, True]
    waiting = np.ones(4, bool)
    waiting[rows] = False
    assert tracker.is_pending.tolist() == waiting.tolist()


def test_a_wrapper_gets_it_without_torch():
    code = "import sys, pufferlib.environment; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=600).returncode == 0
