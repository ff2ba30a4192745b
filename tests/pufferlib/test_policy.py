import pytest
import torch
from torch import nn

from pufferlib.policy import RecordsInitArgs, acting_forward, init_args, make_module, training_forward


class Policy(nn.Module):
    """Returns a hidden layer, or what it was given beside the observations."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, observations):
        return self.layer(observations)


class StateByAnotherName(Policy):
    def forward(self, observations, hidden):
        return hidden


class OptionalState(Policy):
    def forward(self, observations, state=None):
        return state


class AnOption(Policy):
    def forward(self, observations, is_greedy=True):
        return is_greedy


class Anything(Policy):
    def forward(self, *arguments):
        return arguments[1]


@pytest.mark.parametrize("policy_class", [StateByAnotherName, OptionalState, Anything])
def test_a_state_is_passed_to_who_takes_one(policy_class):
    policy, state = policy_class(), {"key": torch.ones(1)}
    assert acting_forward(policy)(torch.zeros(1, 4), state) is state
    assert training_forward(policy, policy)(torch.zeros(1, 4), state) is state


def test_an_option_of_forward_is_no_state():
    policy = AnOption()
    assert acting_forward(policy)(torch.zeros(1, 4), {}) is True


def test_forward_eval_acts_where_there_is_one():
    class Both(Policy):
        def forward_eval(self, observations):
            return "acted"

    policy = Both()
    assert acting_forward(policy)(torch.zeros(1, 4), {}) == "acted"
    assert training_forward(policy, policy)(torch.zeros(1, 4), {}).shape == (1, 8)


def test_hooks_and_compiled_modules_are_called():
    policy, calls = Policy(), []
    policy.register_forward_hook(lambda *_: calls.append(1))
    acting_forward(policy)(torch.zeros(1, 4), {})
    assert calls == [1]
    compiled = torch.compile(policy, backend="eager")
    assert acting_forward(compiled)(torch.zeros(1, 4), {}).shape == (1, 8)


# --- what a policy was made with


class Sized(RecordsInitArgs):
    def __init__(self, env, size=3, *, name="small"):
        super().__init__()


@pytest.mark.parametrize("make", [Sized, lambda *given, **settings: make_module(Sized, *given, **settings)])
def test_a_policy_remembers_its_settings_and_the_defaults_of_others(make):
    assert init_args(make(None, name="large")) == {"size": 3, "name": "large"}


def test_of_other_modules_the_settings_given_are_noted():
    assert init_args(make_module(nn.Linear, 2, out_features=3)) == {"out_features": 3}
    assert init_args(nn.Linear(2, 3)) is None


def test_a_wrong_call_is_refused_by_the_class_itself():
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        Sized(None, depth=2)
