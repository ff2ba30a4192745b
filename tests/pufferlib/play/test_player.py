import itertools

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from scripted import ScriptedEnv, episode_length, expected
from torch import nn
from torch.distributions import Normal

from pufferlib import vector
from pufferlib.environment import PufferEnv
from pufferlib.play.player import Player


class Always(nn.Module):
    """Prefers one action."""

    def __init__(self, action=1):
        super().__init__()
        self.action = action

    def forward(self, observations, state):
        logits = torch.zeros(len(observations), 3)
        logits[:, self.action] = 1
        return logits, observations[:, 0]


class Clock(Always):
    """Acts 1 in the first step of an episode, as its state tells, and 0 after."""

    def initial_state(self, batch, device):
        return {"count": torch.zeros(batch, 2, device=device)}

    def forward_eval(self, observations, state):
        self.action = (state["count"][:, 0] == 0).long()
        state["count"] = state["count"] + 1
        logits = torch.zeros(len(observations), 3)
        logits[torch.arange(len(observations)), self.action] = 1
        return logits, observations[:, 0]


def scripted(num_envs=3, has_absent_agents=False, **options):
    return vector.make(
        ScriptedEnv,
        env_kwargs=[{"index": index, "has_absent_agents": has_absent_agents} for index in range(num_envs)],
        num_envs=num_envs,
        **{"backend": "Serial", **options},
    )


def episodes_of(row, count, has_absent_agents=False, action=1):
    """Return and length of the first episodes of a row."""
    for episode in range(count):
        times = np.arange(1, episode_length(row) + 1) + episode * episode_length(row)
        _, rewards, _, _, _ = expected(row, times, action)
        masks = expected(row, times - 1, action)[-1]  # who was there acted, and so the step counts
        has_acted = masks if has_absent_agents else np.ones_like(masks)
        has_begun = has_acted.cumsum() > 0  # what comes while it waits belongs to its last own step
        yield float(rewards[has_begun].sum()), int(has_acted.sum())


def played(steps):
    """Return and length of every episode, in an order that depends on nothing else."""
    return sorted(pair for each in steps for pair in zip(each.returns.tolist(), each.lengths.tolist(), strict=True))


# --- what is counted


@pytest.mark.parametrize("has_absent_agents", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"batch_size": 1}, {}, {"backend": "Multiprocessing", "num_workers": 2, "batch_size": 2}],
    ids=["batches of one", "one batch", "processes"],
)
def test_every_agent_plays_its_quota_and_no_more_counts(options, has_absent_agents):
    quotas = np.array([2, 1, 3, 3, 0, 1, 1, 2])
    with scripted(num_envs=4, has_absent_agents=has_absent_agents, **options) as vecenv:
        player = Player(vecenv, Always())
        found = played(player.play(quotas, 100))
        assert player.remaining.tolist() == [0] * 8
    wanted = [pair for row, count in enumerate(quotas) for pair in episodes_of(row, count, has_absent_agents)]
    assert found == sorted(wanted)


class FirstMove(PufferEnv):
    """A game of turns that ends with the third move, or with the first of an odd game: then the second agent has none.

    The winner is paid 1.
    """

    def __init__(self, buf=None, seed=0):
        self.single_observation_space, self.single_action_space = Box(0, 1, (1,), np.float32), Discrete(3)
        self.num_agents, self.games, self.moves = 2, 0, 0
        super().__init__(buf)

    def reset(self, seed=None):
        self.games = self.moves = 0
        self.masks[:] = True, False
        return self.observations, []

    def step(self, actions):
        self.moves += 1
        is_over = self.moves == (1 if self.games % 2 else 3)
        self.terminals[:] = is_over
        self.rewards[:] = is_over, 0
        self.games, self.moves = self.games + is_over, 0 if is_over else self.moves
        self.masks[:] = self.moves % 2 == 0, self.moves % 2 == 1
        return self.observations, self.rewards, self.terminals, self.truncations, []


def test_a_game_in_which_an_agent_has_no_turn_is_one_of_its_number():
    with vector.make(FirstMove, backend="Serial", num_envs=1) as vecenv:
        steps = list(Player(vecenv, Always()).play(np.full(2, 4), 1_000))
    assert len(steps) == 3 + 1 + 3 + 1
    found = [(each.agents.tolist(), each.lengths.tolist()) for each in steps if len(each.agents)]
    assert found == [([0, 1], [2, 1]), ([0], [1])] * 2


def test_a_second_play_begins_anew():
    with scripted() as vecenv:
        player = Player(vecenv, Always())
        first, second = (played(player.play(np.ones(6), 100)) for _ in range(2))
    assert first == second and len(first) == 6


def test_every_play_asks_the_policy_that_is_there_then():
    policy = Always(0)
    with scripted() as vecenv:
        player = Player(vecenv, policy)
        found = [played(player.play(np.ones(6), 100))]
        policy.forward_eval = Always(2).forward
        found.append(played(player.play(np.ones(6), 100)))
    assert found == [
        sorted(pair for row in range(6) for pair in episodes_of(row, 1, action=action)) for action in (0, 2)
    ]


def test_a_batch_whose_agents_are_done_is_stepped_no_more():
    with scripted(batch_size=1) as vecenv:
        list(Player(vecenv, Always()).play(np.array([1, 1, 0, 0, 2, 0]), 100))
        times = [group.envs[0].time for group in vecenv._groups]
    assert times == [episode_length(1), 0, 2 * episode_length(4)]


def test_batches_play_side_by_side_as_many_as_asked_in_their_order():
    seen = []

    def decide(decision):
        seen.append([rows.start // 2 for rows in decision.rows])
        return decision.actions

    with scripted(num_envs=4, batch_size=1) as vecenv:
        player = Player(vecenv, Clock())  # with a state, which those that wait must not gather
        found = played(player.play(np.array([1, 1, 0, 0, 1, 1, 2, 1]), 100, side_by_side=2, decide=decide))
        together = played(player.play(np.array([1, 1, 0, 0, 1, 1, 2, 1]), 100))
    assert found == together and len(found) == 7
    assert [envs for envs, _ in itertools.groupby(seen)] == [[0, 2], [2, 3], [3]]


def test_a_batch_whose_workers_come_in_another_order_is_of_its_own_agents(monkeypatch):
    with scripted(num_envs=2, backend="Multiprocessing", num_workers=2, zero_copy=False) as vecenv:
        batches, take = vecenv._batches, vecenv._batches.take

        def take_reversed():
            if batches.num_missing == 0:
                batches._ready.reverse()
            return take()

        monkeypatch.setattr(batches, "take", take_reversed)
        found = played(Player(vecenv, Always()).play(np.ones(4), 100))
    assert found == sorted(pair for row in range(4) for pair in episodes_of(row, 1))


def test_those_that_wait_lose_no_steps_of_their_own():
    with scripted(num_envs=3, batch_size=1) as vecenv:
        player = Player(vecenv, Always())
        found = played(player.play(np.ones(6), 5, side_by_side=1))
    assert len(found) == 4 and player.remaining.tolist() == [0, 0, 0, 1, 1, 0]  # rows 3 and 4 take 6 and 7 steps


def test_somebody_else_may_decide_and_sees_what_the_policy_saw():
    decisions = []

    def decide(decision):
        assert decision.actions.tolist() == [1] * 4 and decision.logits[0].tolist() == [0, 1, 0]
        assert decision.values.tolist() == decision.observations[:, 0].tolist()
        decisions.append(decision.observations[:, 0].tolist())
        actions = decision.actions.copy()
        actions[:2] = 2
        return actions

    with scripted(num_envs=2, batch_size=1) as vecenv:
        found = played(Player(vecenv, Always()).play(np.ones(4), 100, decide=decide))
    wanted = [pair for row in range(4) for pair in episodes_of(row, 1, action=2 if row < 2 else 1)]
    assert found == sorted(wanted) and len(decisions) == 6


def test_what_is_given_up_is_known_as_far_as_it_went():
    with scripted() as vecenv:
        player = Player(vecenv, Always())
        found = played(player.play(np.full(6, 2), 5))  # episodes of rows 0 to 5 take 3, 4, 5, 6, 7 and 3 steps
        running = player.running()
    assert len(found) == 4 and player.remaining.tolist() == [1, 1, 1, 2, 2, 1]
    assert running.lengths.tolist() == [2, 1, 5, 5, 2]  # row 2 has just ended one and not begun another
    rewards = [
        sum(expected(row, np.arange(1, 6), 1)[1][-length:].tolist())
        for row, length in ((0, 2), (1, 1), (3, 5), (4, 5), (5, 2))
    ]
    assert running.returns.tolist() == rewards


# --- what the policy does


def test_recurrent_state_begins_anew_with_every_episode_of_an_agent():
    with scripted() as vecenv:
        found = played(Player(vecenv, Clock()).play(np.full(6, 3), 100))
    without_action = [pair for row in range(6) for pair in episodes_of(row, 3, action=0)]
    assert found == sorted((total + 0.25, length) for total, length in without_action)


def test_actions_are_the_likeliest_or_drawn_from_the_policy():
    def total(generator):
        with scripted(num_envs=20) as vecenv:
            pairs = played(Player(vecenv, Always(), generator).play(np.ones(40), 100))
        rewards = sum(total for row in range(40) for total, _ in episodes_of(row, 1, action=0))
        return (sum(total for total, _ in pairs) - rewards) * 4 / sum(length for _, length in pairs)

    assert total(None) == pytest.approx(1.0)
    share = torch.tensor([0.0, 1.0, 0.0]).softmax(0)
    assert total(torch.Generator().manual_seed(1)) == pytest.approx(float(share @ torch.arange(3.0)), abs=0.2)


class Push(PufferEnv):
    """One step an episode, which pays the number that was sent."""

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = Box(-1, 1, (2,), np.float32)
        self.single_action_space = Box(-1, 1, (1,), np.float32)
        self.num_agents = 1
        super().__init__(buf)

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        self.rewards[:] = actions[:, 0]
        self.truncations[:] = True
        infos = [{"final_observation": np.zeros(2), "agent_id": 0}, {"pushed": float(actions[0, 0])}]
        return self.observations, self.rewards, self.terminals, self.truncations, infos


class Shaky(nn.Module):
    def forward(self, observations, state):
        return Normal(torch.full((len(observations), 1), 0.5), torch.ones(len(observations), 1)), observations[:, 0]


def test_continuous_play_takes_the_mean():
    with vector.make(Push, num_envs=3, backend="Serial", batch_size=1) as vecenv:
        steps = list(Player(vecenv, Shaky()).play(np.ones(3), 100))
    assert played(steps) == [(0.5, 1)] * 3


# --- reports


def test_what_an_environment_reports_belongs_to_its_episodes():
    with vector.make(Push, num_envs=3, backend="Serial", batch_size=1) as vecenv:
        (step,) = Player(vecenv, Shaky()).play(np.array([1, 0, 1]), 100)
    assert step.agents.tolist() == [0, 2] and step.reports == [{"pushed": 0.5}] * 2


def test_agents_that_report_for_themselves_are_told_apart_within_their_quotas():
    with scripted(num_envs=1, batch_size=1) as vecenv:
        steps = list(Player(vecenv, Always()).play(np.array([4, 1]), 100))
    lengths = [report["episode_length"] for each in steps for report in each.reports]
    assert lengths == [3, 4, 3, 3, 3]


def test_reports_of_several_environments_at_once_belong_to_nobody():
    with scripted() as vecenv:
        steps = list(Player(vecenv, Always()).play(np.ones(6), 100))
    assert not any(each.reports for each in steps)
