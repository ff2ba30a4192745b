"""Policies of random operations: the kernel computes each as torch does, or leaves it to torch with a reason."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional

from pufferlib.extensions.network import Network
from pufferlib.fast.traced_layers import trace
from pufferlib.fast.traced_values import UntracedError

INPUTS, ACTIONS, ROWS = 7, 3, 40
LAYERS = {
    "linear": lambda size: nn.Linear(size, size),
    "without bias": lambda size: nn.Linear(size, size, bias=False),
    "perceptron": lambda size: nn.Sequential(nn.Linear(size, 2 * size), nn.GELU("tanh"), nn.Linear(2 * size, size)),
    "joined": lambda size: nn.Linear(2 * size, size),
    "layer norm": nn.LayerNorm,
    "rms norm": nn.RMSNorm,
    "gru cell": lambda size: nn.GRUCell(size, size),
}
OF_ONE = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "elu": functional.elu,
    "leaky relu": functional.leaky_relu,
    "softplus": functional.softplus,
    "affine": lambda x: 0.5 * x - 0.25,
    "negative": lambda x: -x,
    "turned": lambda x: torch.cat([x[:, 1:], x[:, :1]], 1),
    "positive": lambda x: (x > 0.1).float(),
    "sine": torch.sin,  # which no kernel has, as the next one
    "sorted": lambda x: x.sort(-1).values,
}
OF_TWO = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x - y,
    "product": lambda x, y: torch.tanh(x) * y,
    "gate": lambda x, y: torch.sigmoid(x) * y + (1 - torch.sigmoid(x)) * x,
}
KINDS = [*LAYERS, *OF_ONE, *OF_TWO]
RARE = "sine", "sorted"
REFUSED = "more than 64", "never reads state['h']", "does not use its parameter"


class Graph(nn.Module):
    """Operations on any values before them, of which the last is left as the state where there is one."""

    def __init__(self, size, operations):
        super().__init__()
        self.hidden_size, self.operations = size, operations
        self.body, self.actor, self.critic = nn.Linear(INPUTS, size), nn.Linear(size, ACTIONS), nn.Linear(size, 1)
        self.parts = nn.ModuleList(LAYERS.get(kind, lambda size: nn.Identity())(size) for kind, *_ in operations)

    def step(self, observations, before):
        values = [self.body(observations), before]
        for part, (kind, first, second) in zip(self.parts, self.operations, strict=True):
            left, right = values[first % len(values)], values[second % len(values)]
            if kind in OF_ONE:
                values.append(OF_ONE[kind](left))
            elif kind in OF_TWO:
                values.append(OF_TWO[kind](left, right))
            elif kind == "joined":
                values.append(part(torch.cat([left, right], 1)))
            else:
                values.append(part(left, right) if kind == "gru cell" else part(left))
        return sum(values[2:]) + values[0], torch.tanh(values[-1])


class Plain(Graph):
    """One whose values depend on the observation alone."""

    def forward(self, observations):
        hidden, _ = self.step(observations, self.body(0.5 * observations))
        return self.actor(hidden), self.critic(hidden)


class Recurrent(Graph):
    """One that reads a state and leaves it."""

    def initial_state(self, rows, device=None):
        return {"h": torch.zeros(rows, self.hidden_size, device=device)}

    def forward_eval(self, observations, state):
        hidden, state["h"] = self.step(observations, state["h"])
        return self.actor(hidden), self.critic(hidden)

    def forward(self, observations, state):
        before, outputs = state["h"], []
        for index in range(observations.shape[1]):
            before = before * ~state["resets"][:, index, None]
            hidden, before = self.step(observations[:, index], before)
            outputs.append(hidden)
        hidden = torch.stack(outputs, 1)
        return self.actor(hidden), self.critic(hidden)


def outcome(size, operations, is_recurrent):
    """`equal`, or the reason why torch computes it."""
    policy = (Recurrent if is_recurrent else Plain)(size, operations)
    states = {"h": torch.randn(ROWS, size)} if is_recurrent else {}
    observations = torch.randn(ROWS, 3, INPUTS)
    try:
        layers = trace(policy, SimpleNamespace(observations=observations, states=states, horizon=3))
    except UntracedError as error:
        return str(error)
    values = torch.empty(ROWS)
    entries = [state.clone() for state in layers.states_of(states.values())]
    Network(layers).value(observations[:, 0].contiguous(), entries, values)
    with torch.no_grad():
        given = observations[:, 0]
        _, expected = policy.forward_eval(given, dict(states)) if is_recurrent else policy(given)
    torch.testing.assert_close(values, expected[:, 0], rtol=0, atol=1e-4 * max(1e-3, expected.abs().max().item()))
    return "equal"


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("is_recurrent", [False, True], ids=["of observations", "of a state"])
def test_random_graphs_are_equal_or_refused(is_recurrent):
    """250 of each; a graph is refused for an operation that no kernel has, its size, or what it leaves unread."""
    found = Counter()
    operation = st.tuples(st.sampled_from(KINDS), st.integers(0, 20), st.integers(0, 20))

    @settings(deadline=None, max_examples=250)
    @given(st.integers(1, 40), st.lists(operation, min_size=1, max_size=12), st.integers(0, 2**31))
    def check(size, operations, seed):
        torch.manual_seed(seed)
        result = outcome(size, operations, is_recurrent)
        found[result.split(" (")[0]] += 1
        has_no_columns = size == 1 and any(kind == "turned" for kind, *_ in operations)
        is_rare = any(kind in RARE for kind, *_ in operations) or has_no_columns
        assert result == "equal" or is_rare or any(reason in result for reason in REFUSED), result

    check()
    print(dict(found))
    assert found["equal"] > 80
