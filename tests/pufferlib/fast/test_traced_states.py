"""Recurrent policies in plain torch that the kernel computes: modules of torch, cells written by hand, own states."""

import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from test_traced_layers import CHOICES, FLOATS, NUMBERS, Game, make_trainer
from torch import nn
from torch.distributions import Normal
from torch.nn import functional
from traced_policies import layers_of

from pufferlib.fast.cpu import NetworkGradients
from pufferlib.fast.traced_values import UntracedError


class Steps(nn.Module):
    """A policy whose `step` reads and replaces the state, for one step and in a loop over those of segments."""

    spaces = NUMBERS, CHOICES
    sizes = {"h": (12,)}
    hidden_size = 12

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(7, 9)
        self.head, self.value = nn.Linear(self.hidden_size, 3), nn.Linear(self.hidden_size, 1)

    def initial_state(self, batch, device="cpu"):
        return {name: torch.zeros(batch, *size, device=device) for name, size in self.sizes.items()}

    def forward_eval(self, observations, state):
        hidden = self.step(torch.relu(self.body(observations)), state)
        return self.head(hidden), self.value(hidden)

    def forward(self, observations, state):
        encoded, outputs = torch.relu(self.body(observations)), []
        state = {name: state[name] for name in self.sizes} | {"resets": state["resets"]}
        resets = state.pop("resets")
        for step in range(observations.shape[1]):
            kept = (~resets[:, step]).float()
            state = {name: each * kept.view(-1, *[1] * (each.dim() - 1)) for name, each in state.items()}
            outputs.append(self.step(encoded[:, step], state))
        hidden = torch.stack(outputs, 1)
        return self.head(hidden), self.value(hidden)


class HandGRU(Steps):
    """Gates of two layers each."""

    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(9, 36), nn.Linear(12, 36, bias=False)

    def step(self, x, state):
        xr, xz, xn = self.x(x).chunk(3, dim=-1)
        hr, hz, hn = self.h(state["h"]).chunk(3, dim=1)
        reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        candidate = torch.tanh(xn + reset * hn)
        state["h"] = (1 - update) * candidate + update * state["h"]
        return state["h"]


class HandLSTM(Steps):
    """Gates of one layer on [x, h]."""

    sizes = {"h": (12,), "c": (12,)}

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(21, 48)

    def step(self, x, state):
        h, c = state["h"], state["c"]
        i, f, g, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        state["h"], state["c"] = h, c
        return h


class GateLSTM(Steps):
    """Four layers with peepholes, entries in another order, and the head sees the memory."""

    sizes = {"c": (12,), "h": (12,)}

    def __init__(self):
        super().__init__()
        self.i, self.f, self.g, self.o = (nn.Linear(33, 12) for _ in range(4))

    def step(self, x, state):
        seen = torch.cat([x, state["h"], state["c"]], -1)
        i, f, o = (torch.sigmoid(gate(seen)) for gate in (self.i, self.f, self.o))
        state["c"] = f * state["c"] + i * torch.tanh(self.g(seen))
        state["h"] = o * torch.tanh(state["c"])
        return state["h"] + 0.1 * state["c"]


class HandMinGRU(Steps):
    def __init__(self):
        super().__init__()
        self.candidate, self.gate = nn.Linear(9, 12), nn.Linear(9, 12)

    def step(self, x, state):
        z = torch.sigmoid(self.gate(x))
        state.update(h=(1 - z) * state["h"] + z * self.candidate(x))
        return torch.tanh(state["h"])


class TwoHands(Steps):
    """Two cells, the second of which sees the first; one state is a number, and one is left alone."""

    sizes = {"second": (12,), "count": (), "first": (5,), "fixed": (12,)}

    def __init__(self):
        super().__init__()
        self.one, self.own = nn.Linear(9, 5), nn.Linear(5, 5)
        self.two, self.also = nn.Linear(5, 12), nn.Linear(12, 12)

    def step(self, x, state):
        state["first"] = torch.tanh(self.one(x) + self.own(state.get("first")))
        state["second"] = torch.tanh(self.two(state["first"]) + self.also(state["second"])) + state["fixed"]
        state["count"] = 0.9 * state["count"] + 0.1
        return state["second"]


class Remembers(Steps):
    """What the layer before saw in the step before, without a loop."""

    sizes = {"before": (9,)}
    hidden_size = 18

    def step(self, x, state):
        before, state["before"] = state["before"], x
        return torch.cat([x, before], 1)


class Shifts(Steps):
    """Each entry gets what the one before it had."""

    sizes = {"h": (12,), "last": (12,), "oldest": (12,)}

    def __init__(self):
        super().__init__()
        self.new = nn.Linear(9, 12)

    def step(self, x, state):
        oldest = state["oldest"]
        state["h"], state["last"], state["oldest"] = torch.tanh(self.new(x)), state["h"], state["last"]
        return state["h"] - oldest


class SeenCell(Steps):
    """A cell of torch whose memory the head sees, and whose hidden state is clipped by hand."""

    sizes = {"h": (12,), "c": (12,)}

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(9, 12)

    def step(self, x, state):
        h, c = self.cell(x, (state["h"], state["c"]))
        state["h"], state["c"] = torch.tanh(h), c
        return h + c


class SeenGRUCell(Steps):
    """It reads its own past twice."""

    def __init__(self):
        super().__init__()
        self.attend, self.cell = nn.Linear(12, 9), nn.GRUCell(9, 12, bias=False)

    def step(self, x, state):
        x = x * torch.sigmoid(self.attend(state["h"]))
        state["h"] = self.cell(x, state["h"])
        return state["h"]


class Modules(Steps):
    """nn.LSTM or nn.GRU on one step and on segments cut at the resets."""

    batch_first, num_layers, bias, kind = True, 1, True, nn.LSTM

    def __init__(self):
        super().__init__()
        self.rnn = self.kind(9, 12, self.num_layers, batch_first=self.batch_first, bias=self.bias)

    def step(self, x, state):
        output, (h, c) = self.rnn(x.unsqueeze(1), (state["h"].unsqueeze(0), state["c"].unsqueeze(0)))
        state["h"], state["c"] = h.squeeze(0), c.squeeze(0)
        return output.squeeze(1)


class LSTM(Modules):
    sizes = {"h": (12,), "c": (12,)}


class TimeFirstLSTM(Modules):
    """Entries of (rows, layers, units), the time dimension first, indices instead of squeezes."""

    batch_first, num_layers, bias = False, 3, False
    sizes = {"c": (3, 12), "h": (3, 12)}

    def step(self, x, state):
        h, c = state["h"].transpose(0, 1).contiguous(), state["c"].permute(1, 0, 2)
        output, (h, c) = self.rnn(x[None], (h, c))
        state["h"], state["c"] = h.transpose(0, 1), c.transpose(0, 1)
        return output[-1]


class StackedLSTM(Modules):
    """An entry for each layer, stacked."""

    num_layers = 2
    sizes = {"h0": (12,), "h1": (12,), "c0": (12,), "c1": (12,)}

    def step(self, x, state):
        h, c = torch.stack([state["h0"], state["h1"]]), torch.stack((state["c0"], state["c1"]), dim=0)
        output, left = self.rnn(x.view(len(x), 1, 9) if type(x) is torch.Tensor else x[:, None], (h, c))
        (state["h0"], state["h1"]), (state["c0"], state["c1"]) = left[0].unbind(0), left[1].unbind()
        return output[:, -1, :]


class GRU(Modules):
    """Two layers whose last hidden state is what the heads see; the state keeps its dimension of layers."""

    kind, num_layers = nn.GRU, 2
    sizes = {"h": (2, 12)}

    def step(self, x, state):
        _, h = self.rnn(x.unsqueeze(1), hx=state["h"].transpose(0, 1).contiguous())
        state["h"] = h.permute(1, 0, 2)
        return h[-1]


class TurnedGRU(GRU):
    """Its state begins as torch has it, with the layers first, turned."""

    def initial_state(self, batch, device="cpu"):
        return {"h": torch.zeros(2, batch, 12, device=device).transpose(0, 1)}


class SeenGRU(Modules):
    """Its first layer is seen as well, and a norm of steps stands before and after it."""

    kind, num_layers, batch_first = nn.GRU, 2, False
    sizes = {"h": (2, 12)}

    def __init__(self):
        super().__init__()
        self.norm, self.after = nn.LayerNorm(9), nn.Linear(12, 12)

    def step(self, x, state):
        output, h = self.rnn(self.norm(x.unsqueeze(0)), torch.transpose(state["h"], 0, 1))
        state["h"] = torch.stack([h[0], 0.5 * h[1]], 1)
        return functional.elu(self.after(output)).squeeze(0) - h[0]


class PackedState(Modules):
    """The state of both layers side by side in one row."""

    kind, num_layers = nn.GRU, 2
    sizes = {"h": (24,)}

    def step(self, x, state):
        first, second = state["h"].chunk(2, 1)
        output, h = self.rnn(x.unsqueeze(1), torch.stack([first, second], 0))
        state["h"] = torch.cat([h[0], h[1]], -1)
        return output[:, 0]


class Numbers(HandLSTM):
    spaces = NUMBERS, FLOATS

    def __init__(self):
        super().__init__()
        self.head, self.log_std = nn.Linear(12, 2), nn.Parameter(torch.zeros(2))

    def normal(self, mean):
        return Normal(mean, self.log_std.exp().expand_as(mean))

    def forward_eval(self, observations, state):
        mean, value = super().forward_eval(observations, state)
        return self.normal(mean), value

    def forward(self, observations, state):
        mean, value = super().forward(observations, state)
        return self.normal(mean), value


class Frozen(Steps):
    """A cell that was trained before, and layers of a cell by hand likewise."""

    sizes = {"h": (12,), "own": (12,)}

    def __init__(self):
        super().__init__()
        self.cell, self.keep, self.new = nn.GRUCell(9, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.cell.requires_grad_(False)
        self.keep.requires_grad_(False)

    def step(self, x, state):
        state["h"] = self.cell(x, state["h"])
        state["own"] = torch.tanh(self.keep(state["own"]) + self.new(state["h"]))
        return state["own"]


class Shares(Steps):
    """Two cells with the same weights for what they remember, and a layer that each step calls twice."""

    sizes = {"first": (12,), "second": (12,), "own": (12,)}

    def __init__(self):
        super().__init__()
        self.first, self.second, self.again = nn.GRUCell(9, 12), nn.GRUCell(12, 12), nn.Linear(12, 12)
        self.second.weight_hh, self.second.bias_ih = self.first.weight_hh, self.first.bias_ih

    def step(self, x, state):
        state["first"] = self.first(x, state["first"])
        state["second"] = self.second(state["first"], state["second"])
        state["own"] = torch.tanh(self.again(torch.tanh(self.again(state["own"]) + state["second"])))
        return state["own"]


class Slots(Steps):
    """A state of entities that attend to each other, and a constant by which they forget."""

    sizes = {"slots": (3, 4)}
    hidden_size = 4

    def __init__(self):
        super().__init__()
        self.new, self.three = nn.Linear(9, 12), nn.Linear(4, 12)
        self.register_buffer("kept", torch.tensor([0.9, 0.5, 0.1, -0.5]))

    def step(self, x, state):
        slots = state["slots"] * self.kept + self.new(x).view(x.shape[0], 3, 4)
        query, key, value = self.three(slots).chunk(3, dim=-1)
        slots = slots + functional.scaled_dot_product_attention(query, key, value)
        state["slots"] = torch.tanh(slots)
        return slots.mean(dim=1)


class LeavesALayer(Steps):
    """What a layer gives is left as it is, and seen behind a ReLU."""

    def __init__(self):
        super().__init__()
        self.new = nn.Linear(9, 12)

    def step(self, x, state):
        before, state["h"] = state["h"], self.new(x)
        return torch.relu(state["h"]) - before


class Takes(HandMinGRU):
    """Out of its state, and out of a copy of it."""

    def step(self, x, state):
        h = 0.5 * (state.copy()["h"] + state.pop("h"))
        state["h"] = h + self.candidate(x)
        return state["h"]


KINDS = (
    *(HandGRU, HandLSTM, GateLSTM, HandMinGRU, TwoHands, Remembers, Shifts, SeenCell, SeenGRUCell, LSTM, TimeFirstLSTM),
    *(StackedLSTM, GRU, TurnedGRU, SeenGRU, PackedState, Numbers, Frozen, Shares, Slots, LeavesALayer, Takes),
)


def train(kind, folder, fused, iterations=3, **keywords):
    trainer = make_trainer(kind, folder, fused=fused, **keywords)
    assert isinstance(trainer._learner.gradients, NetworkGradients) == fused, trainer.computed_by
    before = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
    for _ in range(iterations):
        trainer.evaluate()
        metrics = trainer.train()
    change = [after.detach() - each for after, each in zip(trainer.policy.parameters(), before, strict=True)]
    states = {name: state.clone() for name, state in trainer._collector.actor.states.items()}
    trainer.release()
    return torch.cat([each.flatten() for each in change]), trainer.rollout.actions.clone(), states, metrics


LAYERS = {
    **{
        HandGRU: ["StateLayer"],
        HandLSTM: ["StateLayer", "StateLayer"],
        Remembers: ["StateLayer"],
        SeenCell: ["StateLayer", "StateLayer"],
    },
    **{LSTM: ["LSTM"], TimeFirstLSTM: ["LSTM"] * 3, StackedLSTM: ["LSTM", "LSTM"], GRU: ["GRU", "GRU"]},
    **{SeenGRUCell: ["StateLayer"], SeenGRU: ["StateLayer", "StateLayer"], PackedState: ["StateLayer"]},
}


@pytest.mark.parametrize("kind", LAYERS)
def test_cells_of_torch_are_layers_of_their_own_where_nothing_else_sees_into_them(kind, tmp_path):
    trainer = make_trainer(kind, tmp_path)
    layers = trainer._backend.network.layers.layers
    assert [type(layer).__name__ for layer in layers if layer.num_states] == LAYERS[kind]
    trainer.release()


class Drawn(Steps):
    """A step of random operations on the values before them, which leaves any of them in its state."""

    def __init__(self, size, num_states, operations, left):
        self.hidden_size = size
        self.sizes = {f"h{index}": (size,) for index in range(num_states)}
        super().__init__()
        self.body, self.operations, self.left = nn.Linear(7, size), operations, left
        self.parts = nn.ModuleList(self.make(kind, size) for kind, *_ in operations)

    def make(self, kind, size):
        if kind == "cell":
            return nn.GRUCell(size, size)
        inputs = {"linear": size, "cat": 2 * size}.get(kind)
        return nn.Identity() if inputs is None else nn.Linear(inputs, size)

    def step(self, x, state):
        values = [x, *(state[name] for name in self.sizes)]
        for part, (kind, first, second) in zip(self.parts, self.operations, strict=True):
            left, right = values[first % len(values)], values[second % len(values)]
            if kind == "cell":
                name = f"h{second % len(self.sizes)}"
                values.append(part(left, state[name]))
            elif kind == "cat":
                values.append(torch.tanh(part(torch.cat([left, right], 1))))
            elif kind == "product":
                values.append(torch.sigmoid(left) * torch.tanh(right))
            elif kind == "mean":
                values.append(0.5 * (left + right))
            else:
                values.append(torch.tanh(part(left)))
        for name, index in zip(self.sizes, self.left, strict=True):
            state[name] = values[index % len(values)]
        return torch.tanh(sum(values))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    size=st.integers(1, 20),
    operations=st.lists(
        st.tuples(
            st.sampled_from(["linear", "cat", "product", "mean", "cell"]), st.integers(0, 20), st.integers(0, 20)
        ),
        min_size=1,
        max_size=6,
    ),
    left=st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
def test_the_kernel_trains_random_recurrent_graphs_as_torch_does(size, operations, left, tmp_path_factory):
    assume([kind for kind, *_ in operations].count("cell") < 3)  # else there may be more layers than a kernel takes

    def make():
        return Drawn(size, len(left), operations, left)

    make.spaces = Drawn.spaces
    folder = tmp_path_factory.mktemp("drawn")
    plain, found = (train(make, folder, fused, iterations=1) for fused in (False, True))
    torch.testing.assert_close(found[0], plain[0], rtol=2e-3, atol=5e-4)
    for name, state in plain[2].items():
        torch.testing.assert_close(found[2][name], state, rtol=2e-3, atol=2e-3)


@pytest.mark.quick("False-HandLSTM", "False-PackedState", "False-Takes", "True-StackedLSTM")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalizes", [False, True])
def test_the_kernel_trains_an_own_recurrence_as_torch_does(kind, normalizes, tmp_path):
    plain, found = (train(kind, tmp_path, fused, normalize_observations=normalizes) for fused in (False, True))
    assert plain[0].abs().max() > 0.005
    torch.testing.assert_close(found[0], plain[0], rtol=2e-3, atol=5e-4)
    torch.testing.assert_close(found[1], plain[1], rtol=1e-3, atol=1e-3)
    assert found[2].keys() == plain[2].keys()
    for name, state in plain[2].items():
        torch.testing.assert_close(found[2][name], state, rtol=2e-3, atol=2e-3)
    assert found[3] == pytest.approx(plain[3], rel=2e-2, abs=2e-3)


def mix(old, new, gate):
    return SCALE * old + gate * (inner(new) - old)


def inner(new):
    return torch.tanh(new) * OPTIONS["scale"]


def other(new):
    return 0.5 * torch.tanh(new)


SCALE, OPTIONS = 1.0, {"scale": 1.0}


class Base(HandMinGRU):
    scales = [1.0]

    def candidate_of(self, x):
        return self.scales[0] * self.candidate(x)


class Watched(Base):
    """It computes by functions and numbers of its module, of its class and of itself."""

    def __init__(self):
        super().__init__()
        self.options = SimpleNamespace(scales=[1.0])

    def step(self, x, state):
        gate = torch.sigmoid(self.gate(x)) * self.options.scales[0]
        state["h"] = mix(state["h"], self.candidate_of(x), gate)
        return state["h"]


def halved(self, x):
    return 0.5 * self.candidate(x)


MODULE = sys.modules[__name__]
CHANGES = {
    "a global function": lambda patch, policy: patch.setattr(MODULE, "mix", lambda old, new, gate: old + gate * new),
    "a function that it calls": lambda patch, policy: patch.setattr(MODULE, "inner", other),
    "the code of a function": lambda patch, policy: patch.setattr(inner, "__code__", other.__code__),
    "a global number": lambda patch, policy: patch.setattr(MODULE, "SCALE", 0.5),
    "an entry of a global dict": lambda patch, policy: patch.setitem(OPTIONS, "scale", 0.5),
    "a method of its base": lambda patch, policy: patch.setattr(Base, "candidate_of", halved),
    "a list of its base": lambda patch, policy: Base.scales.__setitem__(0, 0.5),
    "a list that it keeps": lambda patch, policy: policy.options.scales.__setitem__(0, 0.5),
}


@pytest.mark.quick("a function that it calls")
@pytest.mark.parametrize("change", CHANGES)
def test_what_the_step_computes_by_counts_at_once_where_it_is_replaced(change, tmp_path):
    results = []
    for fused in (False, True):
        trainer = make_trainer(Watched, tmp_path, fused=fused)
        trainer.evaluate()
        trainer.train()
        first = trainer._backend
        assert not first.is_outdated() and isinstance(trainer._learner.gradients, NetworkGradients) == fused
        with pytest.MonkeyPatch.context() as patch:
            CHANGES[change](patch, trainer.policy)
            assert first.is_outdated() or not fused
            trainer.evaluate()
            trainer.train()
            assert isinstance(trainer._learner.gradients, NetworkGradients) == fused, trainer.computed_by
        Base.scales[0] = 1.0
        results.append(trainer.rollout.values.clone())
        trainer.release()
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-3)


class Changes:
    scale = 1.0


CHANGING = Changes()


class Uncertain(HandMinGRU):
    def step(self, x, state):
        return CHANGING.scale * super().step(x, state)


class Writes(Steps):
    def step(self, x, state):
        state["h"] = torch.cat([x, x[:, :3]], 1)
        return state["h"]


class Narrow(HandGRU):
    def forward_eval(self, observations, state):
        result = super().forward_eval(observations, state)
        state["h"] = state["h"][:, :1]  # which is stretched over its row
        return result


class Whole(HandMinGRU):
    def initial_state(self, batch, device="cpu"):
        return {"h": torch.zeros(batch, 12, dtype=torch.float64, device=device)}

    def step(self, x, state):
        return super().step(x, state).float()


class Drops(LSTM):
    num_layers = 2
    sizes = {"h": (2, 12), "c": (2, 12)}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(9, 12, 2, dropout=0.1)

    def step(self, x, state):
        output, (h, c) = self.rnn(x.unsqueeze(0), (state["h"].transpose(0, 1), state["c"].transpose(0, 1)))
        state["h"], state["c"] = h.transpose(0, 1), c.transpose(0, 1)
        return output[0]


class TwoWays(Drops):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(9, 6, bidirectional=True)
        self.sizes = {"h": (2, 6), "c": (2, 6)}


class Projects(LSTM):
    sizes = {"h": (5,), "c": (12,)}
    hidden_size = 5

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(9, 12, proj_size=5, batch_first=True)
        warnings.filterwarnings("ignore", "LSTM with projections")


class NoState(LSTM):
    def step(self, x, state):
        output, (h, c) = self.rnn(x.unsqueeze(1))
        state["h"], state["c"] = state["h"] + h[0], state["c"] + c[0]
        return output[:, 0]


class Rows(LSTM):
    """A step that is taken for a sequence of all rows."""

    batch_first = False

    def step(self, x, state):
        output, (h, c) = self.rnn(x, (state["h"][:1], state["c"][:1]))
        state["h"], state["c"] = h.expand_as(state["h"]), c.expand_as(state["c"])
        return output


class Backwards(LSTM):
    """Its segments forget the memory between steps."""

    def forward(self, observations, state):
        output, _ = self.rnn(torch.relu(self.body(observations)))
        return self.head(output), self.value(output)


class Wipes(HandMinGRU):
    """It leaves a comparison."""

    def step(self, x, state):
        result = super().step(x, state)
        state["h"] = result > 0
        return result


class Unseen(HandMinGRU):
    """A cell that changes no result."""

    def step(self, x, state):
        super().step(x, state)
        return torch.cat([x, x[:, :3]], 1)


@pytest.mark.quick(
    "Unseen-does not use its parameter",
    "TwoWays-LSTM with dropout, proj_size or two directions",
    "Wipes-something else than rows of 12 in state['h']",
)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Uncertain, "uses CHANGING, a Changes that may change"),
        (Writes, "never reads state['h'], which it replaces"),
        (Narrow, "something else than rows of 12 in state['h']"),
        (Whole, "has state['h'] of (12,) torch.float64, not of one or two sizes in float32"),
        (Drops, "LSTM with dropout, proj_size or two directions (test_traced_states.py, line"),
        (TwoWays, "LSTM with dropout, proj_size or two directions"),
        (Projects, "LSTM with dropout, proj_size or two directions"),
        (NoState, "LSTM without a state of the policy (test_traced_states.py, line"),
        (Rows, "(test_traced_states.py, line"),
        (Backwards, "differs from what the kernel makes of it"),
        (Wipes, "something else than rows of 12 in state['h']"),
        (Unseen, "does not use its parameter"),
    ],
)
def test_a_recurrence_that_is_not_traced_is_left_to_torch_with_the_reason(kind, reason, tmp_path):
    trainer = make_trainer(kind, tmp_path)
    assert trainer.computed_by.startswith("torch (the policy") and reason in trainer.computed_by, trainer.computed_by
    trainer.evaluate()
    trainer.train()
    trainer.release()


class Loses(HandMinGRU):
    def step(self, x, state):
        return state.pop("h") + self.candidate(x)


def test_an_entry_that_is_not_there_after_the_step_is_not_traced():
    with pytest.raises(UntracedError, match="'h'"):
        layers_of(Loses(), Game(NUMBERS, CHOICES))
