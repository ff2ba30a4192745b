"""Agents that leave before the others, or come later, begin their next episode with a recurrent state of zero."""

import functools

import numpy as np
import pytest
import torch
from collecting import collected, going_on, make_collector
from gymnasium.spaces import Box, Discrete
from pettingzoo_environments import Leaving
from recorded_capture import FakeCapture
from scripted_policies import CountingPolicy

from pufferlib import pufferl, vector
from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.play.player import Player

CPU = torch.device("cpu")
LENGTH = 5  # steps of an episode
STAYS = ((0, 5), (0, 2), (2, 5))  # when each agent is there: to the end, to an end of its own, from later on
FIRST, LAST = np.array(STAYS).T


class LeavingEnv(PufferEnv):
    """Three agents with the stays above; each end is flagged once, to those who were there until then.

    Observations are random, and noise where an agent is absent: what is seen there must leave no trace.
    """

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space = Discrete(3)
        self.num_agents = len(STAYS)
        super().__init__(buf)
        self.time = 0

    def reset(self, seed=None):
        self.time = 0
        self.show()
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.rewards[:] = 1.0
        self.terminals[:] = (self.time - 1) % LENGTH + 1 == LAST
        self.show()
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def show(self):
        self.observations[:] = np.random.default_rng(self.time).normal(size=self.observations.shape)
        self.masks[:] = is_there(self.time)

    def snapshot(self):
        return self.time.to_bytes(8, "little")

    def restore(self, snapshot):
        self.time = int.from_bytes(snapshot, "little")


def is_there(time):
    """Which agents act at a time, `(3,)`."""
    return (time % LENGTH >= FIRST) & (time % LENGTH < LAST)


def make_vector(num_envs=2, **options):
    return vector.make(LeavingEnv, num_envs=num_envs, backend="Serial", **options)


def recurrent(wrapper, env):
    torch.manual_seed(0)
    return wrapper(env, Default(env, 16), 16, 16)


POLICIES = {
    "LSTM": functools.partial(recurrent, LSTMWrapper),
    "MinGRU": functools.partial(recurrent, MinGRUWrapper),
}


@torch.no_grad()
def true_values(policy, observations):
    """What an agent's observations `(steps, 4)` are worth, each stay from a state of zero; NaN where it is absent."""
    agents, steps = observations.shape[:2]
    values = torch.full((agents, steps), torch.nan)
    for agent in range(agents):
        for time in range(steps):
            begin, end = STAYS[agent % len(STAYS)]
            if time % LENGTH == begin:
                state = policy.initial_state(1, CPU)
            if begin <= time % LENGTH < end:
                values[agent, time] = policy.forward_eval(observations[agent, time : time + 1], state)[1].item()
    return values


def assert_as_true(values, expected):
    is_present = ~expected.isnan()
    assert is_present.any() and not is_present.all()
    torch.testing.assert_close(values[is_present], expected[is_present], rtol=1e-4, atol=1e-5)


def make_trainer(policy, horizon, is_fused=True, **settings):
    vecenv = make_vector()
    steps = 2 * horizon * vecenv.num_agents  # two groups of segments
    sizes = {"bptt_horizon": horizon, "batch_size": steps, "minibatch_size": steps, "total_timesteps": 100 * steps}
    settings = {"device": "cpu", "fused": is_fused, "anneal_lr": False, **sizes, **settings}
    return pufferl.PuffeRL(settings, vecenv, POLICIES[policy](vecenv))


def in_time(tensor, agents):
    """`(segments, T)` -> `(agents, groups * T)`."""
    return tensor.unflatten(0, (-1, agents)).transpose(0, 1).flatten(1, 2)


# --- acting, learning


@pytest.mark.quick("3")
@pytest.mark.parametrize("horizon", [1, 3, 8])
@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_episode_is_acted_and_learned_from_a_state_of_zero(policy, is_fused, horizon, tmp_path):
    trainer = make_trainer(policy, horizon, is_fused, update_epochs=1, data_dir=str(tmp_path))
    agents, rollouts = trainer.vecenv.num_agents, 4
    acted, learned, seen = [], [], []
    for _ in range(rollouts):
        trainer.evaluate()
        seen.append(in_time(trainer.rollout.observations, agents).clone())
        acted.append(in_time(trainer.rollout.values[:, :-1], agents).clone())
        trainer.rollout.values.zero_()
        trainer.learning_rate = 0.0
        trainer.train()
        learned.append(in_time(trainer.rollout.values[:, :-1], agents).clone())
    expected = true_values(trainer.policy, torch.cat(seen, 1))
    assert_as_true(torch.cat(acted, 1), expected)
    assert_as_true(torch.cat(learned, 1), expected)
    trainer.release()


@pytest.mark.parametrize("batch_size", [1, 2])
def test_batches_of_a_graph_begin_their_episodes_alike(batch_size):
    graphs = functools.partial(GraphActor, capture=FakeCapture())
    collector = make_collector(make_vector(batch_size=batch_size), CountingPolicy(), actor_class=graphs)
    arrays = collected(collector, rollouts=3)
    time = np.arange(3)[:, None] * 7 + np.arange(7)
    stay = time % LENGTH - np.tile(FIRST, 2)[:, None, None]
    is_present = arrays["masks"][..., :-1].astype(bool)
    np.testing.assert_array_equal(arrays["values"][..., :-1][is_present], stay[is_present])


def test_agents_of_pettingzoo_begin_anew_when_all_are_reset():
    vecenv = vector.make(PettingZooPufferEnv, env_kwargs={"env_creator": Leaving}, backend="Serial")
    policy = CountingPolicy()
    policy.weight = torch.nn.Parameter(torch.zeros(3, 5))  # for its spaces
    arrays = collected(make_collector(vecenv, policy, horizon=3), rollouts=5)
    is_present = arrays["masks"].astype(bool)
    assert not is_present.all()
    for agent in range(3):
        observations = arrays["observations"][agent].reshape(-1, 3)
        there = is_present[agent, :, :-1].flatten()
        np.testing.assert_array_equal(arrays["values"][agent, :, :-1].flatten()[there], observations[there, 2])


def test_a_second_reset_begins_from_zero_too():
    collector = make_collector(make_vector(), CountingPolicy())
    collector.collect()
    collector.reset(None)
    arrays = collected(collector, rollouts=1)
    assert (arrays["values"][:, 0, 0][arrays["masks"][:, 0, 0]] == 0).all()


# --- what crosses the gap


def test_what_happens_after_an_end_changes_no_advantage_before_it(tmp_path):
    trainer = make_trainer("MinGRU", 12, data_dir=str(tmp_path))
    trainer.evaluate()
    agents, advantages = trainer.vecenv.num_agents, trainer._learner._advantages
    before = in_time(advantages.compute().clone(), agents)
    end, back = STAYS[1][1], LENGTH
    trainer.rollout.values[1, back:] += 100.0
    trainer.rollout.rewards[1, back:] += 100.0
    advantages.load()
    after = in_time(advantages.compute(), agents)
    assert torch.equal(after[1, :end], before[1, :end])
    trainer.rollout.values[1, end:back] -= 1000.0  # of the gap itself
    trainer.rollout.rewards[1, end + 1 : back + 1] -= 1000.0
    advantages.load()
    gone = in_time(advantages.compute(), agents)
    assert torch.equal(gone[1, :end], before[1, :end]) and torch.equal(gone[1, back:], after[1, back:])
    # The value of the new episode does not reach into the gap.
    assert torch.equal(advantages._ends[1, back], torch.tensor(1.0))
    trainer.release()


@pytest.mark.parametrize("horizon", [3, 4])  # the rollout ends while agents are absent, and begins so
def test_who_is_absent_is_still_awaited_after_a_resume(horizon, tmp_path):
    def started():
        return make_collector(make_vector(), CountingPolicy(), horizon=horizon)

    collector = started()
    collector.collect()
    restored = going_on(started(), collector)
    first, second = collected(collector, 3), collected(restored, 3)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    time = horizon + np.arange(3)[:, None] * horizon + np.arange(horizon)
    stay = time % LENGTH - np.tile(FIRST, 2)[:, None, None]
    is_present = second["masks"][..., :-1].astype(bool)
    np.testing.assert_array_equal(second["values"][..., :-1][is_present], stay[is_present])


# --- playing


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_player_begins_episodes_from_zero(batch_size):
    counts = []

    class Watched(CountingPolicy):
        def forward_eval(self, observations, state):
            counts.append(state["count"][:, 0].clone())
            return super().forward_eval(observations, state)

    vecenv = make_vector(batch_size=batch_size)
    list(Player(vecenv, Watched()).play(np.full(vecenv.num_agents, 3), max_steps=100))
    assert len(counts) == 3 * LENGTH
    for time, count in enumerate(counts):
        there = np.tile(is_there(time), 2)
        np.testing.assert_array_equal(count.numpy()[there], np.tile(time % LENGTH - FIRST, 2)[there])


class RestingEnv(PufferEnv):
    """Two agents in an endless episode; the second is absent at every fourth step, where it sees `unseen`."""

    def __init__(self, unseen=0.0, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space, self.num_agents, self.unseen = Discrete(3), 2, unseen
        super().__init__(buf)

    def reset(self, seed=None):
        self.time = 0
        return self.show(), []

    def step(self, actions):
        self.time += 1
        self.rewards[:] = actions == self.time % 3
        return self.show(), self.rewards, self.terminals, self.truncations, []

    def show(self):
        self.observations[:] = np.random.default_rng(self.time).normal(size=self.observations.shape)
        self.masks[1] = self.time % 4 != 3
        if not self.masks[1]:
            self.observations[1] = self.unseen
        return self.observations


@pytest.mark.parametrize("settings", [{}, {"fused": False}, {"shuffle": "steps", "prio_alpha": 0.0}], ids=str)
def test_what_an_agent_would_see_that_waits_after_the_last_step_leaves_no_trace(settings):
    weights = []
    for unseen in (0.0, 9.0):
        vecenv = vector.make(RestingEnv, env_kwargs={"unseen": unseen}, num_envs=4, backend="Serial")
        torch.manual_seed(0)
        sizes = {"batch_size": 24, "bptt_horizon": 3, "minibatch_size": 24, "total_timesteps": 10_000}
        trainer = pufferl.PuffeRL({"device": "cpu", **sizes, **settings}, vecenv, Default(vecenv, 16))
        trainer.evaluate()  # all act at each of the three steps
        assert trainer.global_step == 24
        trainer.train()
        weights.append([parameter.detach().clone() for parameter in trainer.policy.parameters()])
        trainer.release()
    assert all(map(torch.equal, *weights))
