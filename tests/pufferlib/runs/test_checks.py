import functools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn
from torch.distributions import Normal

from pufferlib.errors import APIUsageError
from pufferlib.models import Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.runs.checks import check_acting, prepare_policy

OBSERVATIONS = Box(-1, 1, (4,))
CPU = torch.device("cpu")
MIXED = Tuple([Discrete(3), Box(-1, 1, (2,))])


class Spaces:
    def __init__(self, action_space):
        self.single_observation_space, self.single_action_space = OBSERVATIONS, action_space


class Policy(nn.Module):
    """Returns what a function makes of a hidden layer."""

    def __init__(self, output, inputs=4):
        super().__init__()
        self.layer = nn.Linear(inputs, 8)
        self.output = output

    def forward(self, observations):
        return self.output(self.layer(observations))


class Stateful(Policy):
    def forward(self, observations, state):
        output = self.output(self.layer(observations) + state["memory"].sum())
        state["memory"] = 2 * state["memory"]
        return output

    def initial_state(self, batch, device):
        return {"memory": torch.zeros(batch, 2, device=device)}


class StateByAnotherName(Policy):
    def forward(self, observations, hidden):
        return hidden


def check(policy, action_space=None):
    prepare_policy(policy, Spaces(action_space or Discrete(3)), CPU)


# --- outputs that fit

GOOD = {
    "values (rows,)": (Policy(lambda h: (h[:, :3], h[:, 3])), Discrete(3)),
    "values (rows, 1)": (Policy(lambda h: (h[:, :3], h[:, 3:4])), Discrete(3)),
    "a list": (Policy(lambda h: [h[:, :3], h[:, 3]]), Discrete(3)),
    "multidiscrete": (Policy(lambda h: ((h[:, :3], h[:, :2]), h[:, 3])), MultiDiscrete([3, 2])),
    "normal": (Policy(lambda h: (Normal(h[:, :2], 1.0), h[:, 3])), Box(-1, 1, (2,))),
    "a Box of float64": (Policy(lambda h: (Normal(h[:, :2], 1.0), h[:, 3])), Box(-1, 1, (2,), np.float64)),
    "binary": (Policy(lambda h: ((h[:, :2], h[:, 2:4]), h[:, 3])), MultiBinary(2)),
    "mixed": (Policy(lambda h: ((h[:, :3], Normal(h[:, :2], 1.0)), h[:, 3])), MIXED),
    "recurrent": (Stateful(lambda h: (h[..., :3], h[..., 3])), Discrete(3)),
    "recurrent, values of 1": (Stateful(lambda h: (h[..., :3], h[..., 3:4])), Discrete(3)),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_fits_passes(name):
    check(*GOOD[name])


@pytest.mark.parametrize("action_space", [Discrete(3), MultiDiscrete([3, 2]), Box(-1, 1, (2,)), MIXED])
@pytest.mark.parametrize("wrapper", [None, LSTMWrapper, MinGRUWrapper])
def test_the_policies_of_the_library_pass(action_space, wrapper):
    env = Spaces(action_space)
    policy = Default(env, 8)
    check(policy if wrapper is None else wrapper(env, policy, 8, 8), action_space)


def test_images_pass():
    env = Spaces(Discrete(3))
    env.single_observation_space = gymnasium.spaces.Box(0, 255, (1, 36, 36), "uint8")
    prepare_policy(Convolutional(env, 8), env, CPU)


def test_nothing_is_left_behind_by_the_check():
    class Noisy(Policy):
        def __init__(self, output):
            super().__init__(output)
            self.norm = nn.BatchNorm1d(4)

        def forward(self, observations):
            return super().forward(nn.functional.dropout(self.norm(observations + 1)))

    policy = Noisy(lambda h: (h[:, :3], h[:, 3]))
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    random = torch.get_rng_state()
    check(policy)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(tensor, before[name]) for name, tensor in policy.state_dict().items())
    assert policy.training


# --- outputs that do not

BAD = {
    "logits alone": (lambda h: h[:, :3], Discrete(3), r"Policy.forward must return two things, .*, got Tensor"),
    "three things": (lambda h: (h[:, :3], h[:, 3], h), Discrete(3), "two things, .*, got 3 of them"),
    "other logits": (
        lambda h: (h[:, :4], h[:, 3]),
        Discrete(3),
        r"logits as a tensor of shape \(rows, 3\) for Discrete\(3\), got a tensor of shape \(5, 4\) for \(5,\)",
    ),
    "swapped": (lambda h: (h[:, 3], h[:, :3]), Discrete(3), r"got a tensor of shape \(5,\)"),
    "one tensor for two": (
        lambda h: (h[:, :5], h[:, 3]),
        MultiDiscrete([3, 2]),
        r"a tuple of a tensor of shape \(rows, 3\) and a tensor of shape \(rows, 2\) for Multi.*, "
        r"got a tensor of shape \(5, 5\)",
    ),
    "parts in another order": (
        lambda h: ((h[:, :2], h[:, :3]), h[:, 3]),
        MultiDiscrete([3, 2]),
        r"got 2 parts: a tensor of shape \(5, 2\), a tensor of shape \(5, 3\)",
    ),
    "logits for a box": (
        lambda h: (h[:, :2], h[:, 3]),
        Box(-1, 1, (2,)),
        r"a torch.distributions.Normal of shape \(rows, 2\) for Box.*, got a tensor",
    ),
    "a normal of another size": (
        lambda h: (Normal(h[:, :3], 1.0), h[:, 3]),
        Box(-1, 1, (2,)),
        r"got a Normal of shape \(5, 3\)",
    ),
    "no normal for numbers": (
        lambda h: ((h[:, :3], h[:, :2]), h[:, 3]),
        MIXED,
        r"a tuple of a tensor of shape \(rows, 3\) and a torch.distributions.Normal of shape \(rows, 2\) for Tuple.*, "
        r"got 2 parts: a tensor of shape \(5, 3\), a tensor of shape \(5, 2\)",
    ),
    "a part is missing": (lambda h: ((h[:, :3],), h[:, 3]), MIXED, r"got 1 parts: a tensor of shape \(5, 3\)"),
    "many values": (
        lambda h: (h[:, :3], h[:, :2]),
        Discrete(3),
        r"values of shape \(rows\) or \(rows, 1\), got a tens",
    ),
    "no values": (lambda h: (h[:, :3], None), Discrete(3), "values of shape .*, got NoneType"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_named(name):
    output, action_space, message = BAD[name]
    with pytest.raises(APIUsageError, match=message) as caught:
        check(Policy(output), action_space)
    assert "\n" not in str(caught.value)


def doubled(state):
    return {name: 2 * entry for name, entry in state.items()}


class Steps(Stateful):
    """Begins with a state, and leaves what a function makes of it."""

    def __init__(self, begin, leave=doubled, detaches=False):
        super().__init__(lambda h: (h[..., :3].detach(), h[..., 3].detach()) if detaches else (h[..., :3], h[..., 3]))
        self.begin, self.leave = begin, leave

    def initial_state(self, batch, device):
        return self.begin(batch)

    def forward_eval(self, observations, state):
        output = self.output(self.layer(observations))
        state.update(self.leave(state))
        return output


def memory(batch, number=0.0):
    return {"memory": torch.full((batch, 2), number)}


BAD_STATES = {
    "no zeros": (Steps(lambda batch: memory(batch, 5.0)), "initial_state must return zeros, .* other numbers in 'memo"),
    "a tuple": (Steps(lambda batch: tuple(memory(batch).values())), "a dict of tensors .*, got tuple"),
    "a list inside": (Steps(lambda batch: {"memory": [0.0] * batch}), "a dict of tensors .*, got dict"),
    "layers first": (
        Steps(lambda batch: {"memory": torch.zeros(1, batch, 2)}),
        r"first dimension is the agent, \(5, ...\) for 5 agents, got {'memory': \(1, 5, 2\)}; .* layers behind",
    ),
    "another shape": (
        Steps(memory, lambda state: {"memory": torch.zeros(5, 3)}),
        r"must leave the entries .*, {'memory': \(5, 2\)}, got {'memory': \(5, 3\)}",
    ),
    "a new entry": (Steps(memory, lambda state: {"other": state["memory"]}), r"must leave the entries .* 'other': "),
    "the same": (Steps(memory, dict), r"must write the next state .* left all of \['memory'\] .* state\['memory'\] = "),
    "no gradients": (Steps(memory, detaches=True), "Steps.forward must return logits and values that have gradients"),
}


@pytest.mark.parametrize("name", BAD_STATES)
def test_a_state_that_does_not_fit_is_named(name):
    policy, message = BAD_STATES[name]
    with pytest.raises(APIUsageError, match=message) as caught:
        check(policy)
    assert "\n" not in str(caught.value)


def test_a_policy_that_only_acts_begins_with_zeros_too():
    with pytest.raises(APIUsageError, match="initial_state must return zeros"):
        check_acting(BAD_STATES["no zeros"][0], Spaces(Discrete(3)), CPU)


def test_a_state_without_a_call_for_one_step_is_named():
    class Segments(Stateful):
        def forward(self, observations, state):
            return super().forward(observations * ~state["resets"][..., None], state)

    with pytest.raises(APIUsageError, match=r"KeyError: 'resets'\); with initial_state, add forward_eval\("):
        check(Segments(lambda h: (h[..., :3], h[..., 3])))


def test_a_state_may_be_a_row_that_is_stretched():
    check(Steps(memory, lambda state: {"memory": state["memory"][:, :1]}))


def test_what_training_gets_is_checked_too():
    def acts_only(hidden):
        return (hidden[..., :3], hidden[..., 3]) if hidden.dim() == 2 else (hidden[:, 0, :3], hidden[:, 0, 3])

    message = r"Stateful.forward must .* shape \(segments, horizon, 3\) .* got a tensor of shape \(5, 3\) for \(5, 3\)"
    with pytest.raises(APIUsageError, match=message):
        check(Stateful(acts_only))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            Policy(None, inputs=5),
            r"must take observations \(rows, ...\) .* fails for \(5, 4\) of torch.float32 \(RuntimeE",
        ),
        (functools.partial(StateByAnotherName, lambda h: h)(), "must return two things"),
        (nn.Linear(4, 3), "Linear.forward must return two things, .*, got Tensor"),
    ],
)
def test_a_policy_that_fails_is_named(policy, message):
    with pytest.raises(APIUsageError, match=message) as caught:
        check(policy)
    assert "\n" not in str(caught.value)
