"""What torch.fx does to all threads while a policy is traced."""

import threading

import torch
from torch import nn

import pufferlib
from pufferlib.fast.policy_watch import is_altered, watch_changes
from pufferlib.fast.traced_graph import Tracer
from pufferlib.fast.traced_layers import trace
from pufferlib.models import Default
from pufferlib.ppo.rollout import Rollout


def test_other_threads_compute_as_before_and_see_no_change(monkeypatch):
    is_tracing, may_go_on = threading.Event(), threading.Event()
    is_leaf_module = Tracer.is_leaf_module

    def wait(self, m, module_qualified_name):
        is_tracing.set()
        assert may_go_on.wait(60)
        return is_leaf_module(self, m, module_qualified_name)

    monkeypatch.setattr(Tracer, "is_leaf_module", wait)
    env = pufferlib.make("puffer_squared", num_envs=1)
    policy, cpu = Default(env), torch.device("cpu")
    rollout = Rollout.allocate(env.single_observation_space, env.single_action_space, 1, 1, {}, cpu, cpu)
    other, numbers = nn.Sequential(nn.Linear(3, 2), nn.Tanh()), torch.randn(4, 3)
    expected, is_changed = other(numbers), watch_changes(other)
    answers, layers = [], []
    tracing = threading.Thread(target=lambda: layers.append(trace(policy, rollout)))
    asking = threading.Thread(target=lambda: answers.extend((is_altered(other), is_changed())))
    tracing.start()
    try:
        assert is_tracing.wait(60)
        asking.start()
        assert torch.equal(other(numbers), expected)
    finally:
        may_go_on.set()
        tracing.join()
    asking.join()
    env.close()
    assert len(layers[0].layers) == 2
    assert answers == [False, False]
