"""The diagnostic environments are learnt from their defaults, and are not where one part of the trainer is wrong.

Each of them was made to fail on the faults that the comment at the top of its header names. What is broken here is
broken as a mistake in the trainer would: the settings are the environment's own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

from pufferlib import pufferl
from pufferlib.ppo import actor
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.advantages import Advantages
from pufferlib.ppo.sampling import greedy_action, sample_logits
from pufferlib.vector.ordered import OrderedVector

IN_C = ("puffer_bandit", "puffer_memory", "puffer_multiagent", "puffer_password", "puffer_stochastic")
QUICK = ("puffer_memory", "puffer_multiagent")
TORCH = ("puffer_memory", "puffer_stochastic", "puffer_spaces")  # a state, drawn actions, structures; the others weekly
EPISODES = 1_000  # in the mean that decides


@dataclass(frozen=True)
class Outcome:
    """How a training went: the mean of perf over the last episodes, and what computed the policy."""

    is_solved: bool
    perf: float
    computed_by: str


def learn(name: str, tmp_path, rnn_name: str | None = "of its ini", **train) -> Outcome:
    """Trains until it is solved or the steps of the environment's ini are over."""
    args = pufferl.load_config(name)
    args["train"].update(device="cpu", data_dir=str(tmp_path), seed=1, **train)
    if rnn_name != "of its ini":
        args["rnn_name"] = rnn_name
    vecenv = pufferl.load_env(name, args)
    trainer = pufferl.PuffeRL({**args["train"], "env": name}, vecenv, pufferl.load_policy(args, vecenv, name))
    threshold, recent, perf = args["solve"]["threshold"], deque(), 0.0
    while trainer.epoch < trainer.total_epochs:
        statistics = trainer.evaluate()
        trainer.train()
        if "perf" in statistics:
            recent.append((statistics["perf"], statistics["n"]))
            while sum(count for _, count in recent) - recent[0][1] >= EPISODES:
                recent.popleft()
            perf = sum(mean * count for mean, count in recent) / sum(count for _, count in recent)
        if perf >= threshold and sum(count for _, count in recent) >= EPISODES:
            break
    computed_by = trainer._backend.name
    trainer.close()
    return Outcome(perf >= threshold, perf, computed_by)


@pytest.mark.quick("puffer_memory")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in IN_C])
def test_a_diagnostic_is_learnt_by_the_kernel(name, tmp_path):
    outcome = learn(name, tmp_path)
    assert outcome.is_solved and outcome.computed_by == "C kernel", outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in TORCH else pytest.mark.weekly) for name in (*IN_C, "puffer_spaces")]
)
def test_a_diagnostic_is_learnt_by_torch(name, tmp_path):
    outcome = learn(name, tmp_path, fused=False)
    assert outcome.is_solved and outcome.computed_by == "torch", outcome


# ----------------------------------------------------------------------------------------------------- broken trainers


def change_received(monkeypatch, change):
    """Has every batch that comes from the vector pass through a function."""
    receive = OrderedVector.receive
    monkeypatch.setattr(OrderedVector, "receive", lambda self: change(receive(self)))


def state_is_lost_between_steps(monkeypatch):
    clear = Actor._clear_states
    monkeypatch.setattr(Actor, "_clear_states", lambda self, rows, starts: clear(self, rows, np.ones_like(starts)))


def state_is_lost_between_steps_in_learning(monkeypatch):
    load = Advantages.load

    def forget_always(self):
        load(self)
        self.resets.fill_(True)

    monkeypatch.setattr(Advantages, "load", forget_always)


def state_is_lost_between_rollouts(monkeypatch):
    start_rollout = Actor.start_rollout

    def start_anew(self, offset):
        for state in self.states.values():
            state.zero_()
        start_rollout(self, offset)

    monkeypatch.setattr(Actor, "start_rollout", start_anew)


def state_outlives_its_episode(monkeypatch):
    load = Advantages.load

    def never_forget(self):
        load(self)
        self.resets.fill_(False)

    monkeypatch.setattr(Advantages, "load", never_forget)
    monkeypatch.setattr(Actor, "_clear_states", lambda self, rows, starts: None)


def values_flow_from_the_next_episode(monkeypatch):
    load = Advantages.load

    def cut_nowhere(self):
        load(self)
        self._ends.fill_(0.0)

    monkeypatch.setattr(Advantages, "load", cut_nowhere)


def rewards_come_a_step_late(monkeypatch):
    earlier = {}

    def delay(received):
        late = earlier.get(received.rows.start, np.zeros_like(received.rewards))
        earlier[received.rows.start] = received.rewards.copy()
        return received._replace(rewards=late)

    change_received(monkeypatch, delay)


def rewards_go_to_the_neighbour(monkeypatch):
    change_received(monkeypatch, lambda received: received._replace(rewards=np.roll(received.rewards, 1)))


def observations_go_to_the_neighbour(monkeypatch):
    change_received(monkeypatch, lambda got: got._replace(observations=np.roll(got.observations, 1, axis=0)))


def actions_go_to_the_neighbour(monkeypatch):
    send = OrderedVector.send
    monkeypatch.setattr(
        OrderedVector, "send", lambda self, rows, actions: send(self, rows, np.roll(actions, 1, axis=0))
    )


def observations_are_read_from_a_wrong_offset(monkeypatch):
    change_received(monkeypatch, lambda got: got._replace(observations=np.roll(got.observations, 8, axis=1)))


def numbers_of_an_action_are_in_another_order(monkeypatch):
    send = OrderedVector.send
    monkeypatch.setattr(
        OrderedVector, "send", lambda self, rows, actions: send(self, rows, np.roll(actions, 1, axis=1))
    )


def actions_are_the_likeliest(monkeypatch):
    def likeliest(logits, generator, masks):
        return sample_logits(logits, action=greedy_action(logits, masks), masks=masks)

    monkeypatch.setattr(actor, "sample_logits", likeliest)


def actions_are_other_than_those_learnt_from(monkeypatch):
    send, generator = OrderedVector.send, np.random.default_rng(0)

    def shuffle_half(self, rows, actions):
        is_moved = generator.random(len(actions)) < 0.5
        send(self, rows, np.where(is_moved, (actions + 1) % 3, actions))

    monkeypatch.setattr(OrderedVector, "send", shuffle_half)


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize(
    ("name", "break_it", "perf"),
    [
        ("puffer_bandit", values_flow_from_the_next_episode, 0.2),
        ("puffer_memory", state_is_lost_between_steps, 0.3),
        ("puffer_memory", state_is_lost_between_steps_in_learning, 0.3),
        ("puffer_memory", state_is_lost_between_rollouts, 0.85),
        ("puffer_memory", state_outlives_its_episode, 0.94),
        ("puffer_multiagent", actions_go_to_the_neighbour, 0.3),
        ("puffer_multiagent", observations_go_to_the_neighbour, 0.3),
        ("puffer_multiagent", rewards_go_to_the_neighbour, 0.3),
        ("puffer_password", rewards_come_a_step_late, 0.6),
        ("puffer_spaces", numbers_of_an_action_are_in_another_order, 0.85),
        ("puffer_spaces", observations_are_read_from_a_wrong_offset, 0.8),
        ("puffer_stochastic", actions_are_other_than_those_learnt_from, 0.8),
    ],
)
def test_a_broken_trainer_does_not_learn_it(name, break_it, perf, tmp_path, monkeypatch):
    break_it(monkeypatch)
    outcome = learn(name, tmp_path)
    assert not outcome.is_solved and outcome.perf < perf, outcome


@pytest.mark.slow
@pytest.mark.weekly
def test_the_likeliest_action_is_not_a_drawn_one(tmp_path, monkeypatch):
    actions_are_the_likeliest(monkeypatch)
    outcome = learn("puffer_stochastic", tmp_path, fused=False)  # the kernel draws by itself
    assert outcome.perf < 0.1, outcome


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize(
    ("name", "settings", "perf"),
    [
        ("puffer_bandit", {"gamma": 0.0}, 0.2),
        ("puffer_memory", {"rnn_name": None}, 0.3),
        ("puffer_password", {"ent_coef": 0.0}, 0.6),
        ("puffer_password", {"gamma": 0.0}, 0.1),
        ("puffer_stochastic", {"ent_coef": 1.0}, 0.8),
    ],
    ids=lambda value: "-".join(f"{key}={number}" for key, number in value.items()) if isinstance(value, dict) else None,
)
def test_settings_that_are_wrong_for_it_do_not_learn_it(name, settings, perf, tmp_path):
    outcome = learn(name, tmp_path, **settings)
    assert not outcome.is_solved and outcome.perf < perf, outcome
