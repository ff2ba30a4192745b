"""Torch's path on a CPU: threads share a minibatch only where one thread would find the same."""

import copy
import importlib
import linecache
import sys

import pytest
import torch
import torch.nn.functional as F
from drifting import DriftEnv, make_trainer
from torch import nn
from torch.distributions import Normal
from trained import iterate, weights

from pufferlib import models, pufferl, vector
from pufferlib.fast.row_wise import RowWise
from pufferlib.models import Continuous, Default, LSTMWrapper, MinGRUWrapper, recur
from pufferlib.ppo.losses import PPOLoss, ppo_loss

SETTINGS = {"optimizer": "sgd", "learning_rate": 0.02}


class Own(nn.Module):
    """What users write: known layers, called one after the other."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.mean, self.value = nn.Linear(16, 2), nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.zeros(2))
        self.scale = 20.0

    def forward(self, observations, state=None):
        """Anything that stands at the head of a method."""
        return self.heads(self.body(observations.float().flatten(1) / self.scale))

    def heads(self, hidden):
        mean = self.mean(hidden)
        return Normal(mean, self.log_std.exp().expand_as(mean)), self.value(hidden).squeeze(-1)


class Written(Own):
    """All that may stand in a method."""

    def forward(self, observations):
        x = observations.view(len(observations), -1).float()
        left, right = x[:, :1], x[:, 1:].unsqueeze(1).squeeze(1)
        x = torch.cat([left, -right], dim=-1) * 0.1 + F.relu(x).clamp(min=0.0, max=1.0)
        hidden = torch.tanh(self.body(x.reshape(x.shape[0], 3)))
        return self.heads(hidden)


class Remembering(Own):
    """With a cell of torch, which runs over segments by the library's function."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 16)

    def initial_state(self, batch, device="cpu"):
        return {name: torch.zeros(batch, 16, device=device) for name in ("hidden", "memory")}

    def forward_eval(self, observations, state):
        hidden = self.body(observations.float() / self.scale)
        state["hidden"], state["memory"] = self.cell(hidden, (state["hidden"], state["memory"]))
        return self.heads(state["hidden"])

    def forward(self, observations, state):
        before = state["hidden"], state["memory"]
        hidden, _ = recur(self.cell, self.body(observations.float() / self.scale), before, state["resets"])
        return self.heads(hidden)


class Keeping(Own):
    """Has a loss of its own read what its last call left."""

    def heads(self, hidden):
        self.last_hidden = hidden
        return super().heads(hidden)


class KeepingInAList(Own):
    def __init__(self):
        super().__init__()
        self.kept = []

    def heads(self, hidden):
        self.kept.append(hidden)
        return self.mean(hidden), self.value(hidden)


class OwnDropout(Own):
    def heads(self, hidden):
        return super().heads(F.dropout(hidden, 0.5, self.training))


class Noisy(Own):
    def forward(self, observations):
        return self.heads(self.body(observations.float() + torch.randn(3)))


class Centred(Own):
    def forward(self, observations):
        x = observations.float()
        return self.heads(self.body(x - x.mean(0)))


class Counting(Own):
    """Adds to a tensor that no gradient sees."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, observations):
        self.calls += 1
        return self.heads(self.body(observations.float() / (1 + self.calls)))


def with_layer(layer):
    def make(env):
        policy = Own()
        policy.body.append(layer())
        return policy

    return make


def with_spectral_norm(env):
    policy = Own()
    nn.utils.parametrizations.spectral_norm(policy.body[0])
    return policy


def with_old_spectral_norm(env):
    policy = Own()
    nn.utils.spectral_norm(policy.body[0])
    return policy


def with_module_hook(env):
    policy = Own()
    policy.body.register_forward_hook(lambda module, inputs, output: output - output.mean(0))
    return policy


def with_backward_hook(env):
    policy = Own()
    policy.body[1].register_full_backward_hook(lambda module, inputs, outputs: tuple(bent(each) for each in inputs))
    return policy


def with_gradient_hook(env):
    policy = Own()
    for parameter in policy.parameters():
        parameter.register_hook(bent)
    return policy


def with_accumulation_hook(env):
    policy = Own()
    for parameter in policy.parameters():
        parameter.register_post_accumulate_grad_hook(bend_gradient)
    return policy


def bend_gradient(parameter):
    parameter.grad = bent(parameter.grad)


def bent(gradient):
    """Not the sum of what becomes of parts."""
    return torch.tanh(100.0 * gradient) / 10.0


STATEFUL = {
    "hidden layer kept": lambda env: Keeping(),
    "batch norm": with_layer(lambda: nn.BatchNorm1d(16)),
    "dropout": with_layer(lambda: nn.Dropout(0.5)),
    "dropout in its forward": lambda env: OwnDropout(),
    "spectral norm": with_spectral_norm,
    "old spectral norm": with_old_spectral_norm,
    "module hook": with_module_hook,
    "backward hook": with_backward_hook,
    "gradient hook": with_gradient_hook,
    "hook after accumulation": with_accumulation_hook,
    "noise": lambda env: Noisy(),
    "mean over rows": lambda env: Centred(),
    "counter": lambda env: Counting(),
}
STATELESS = {
    "plain": lambda env: Own(),
    "all that is read": lambda env: Written(),
    "library": lambda env: Continuous(env, [16], [16]),
    "recurrent": lambda env: MinGRUWrapper(env, Default(env, 16), 16, 16),
    "LSTM": lambda env: LSTMWrapper(env, Default(env, 16), 16, 16),
    "a cell by recur": lambda env: Remembering(),
}


@pytest.fixture
def threads(monkeypatch):
    """Sets the number of threads, of which each takes a few rows."""
    monkeypatch.setattr("pufferlib.fast.cpu._MIN_CHUNK_STEPS", 16)
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def train(make_policy, **keywords):
    """Trains for an iteration; returns the change of the weights, and whether threads shared the minibatches."""
    trainer = make_trainer(make_policy, fused=False, **SETTINGS, **keywords)
    before = weights(trainer.policy)
    iterate(trainer)
    is_shared = trainer._learner.gradients._chunks.count > 1
    trainer.release()
    return weights(trainer.policy) - before, is_shared


@pytest.mark.parametrize("case", ["LSTM", "a cell by recur"])
def test_many_steps_at_once_learn_what_single_ones_do(case, monkeypatch):
    found, least = {}, models._MIN_RUN
    for steps in (least, 10**9):
        monkeypatch.setattr(models, "_MIN_RUN", steps)
        trainer = make_trainer(STATELESS[case], fused=False, **SETTINGS)
        before = weights(trainer.policy)
        iterate(trainer, 3)
        trainer.release()
        found[steps] = weights(trainer.policy)
    assert (found[least] - before).abs().max() > 1e-3 and not torch.equal(found[least], found[10**9])
    torch.testing.assert_close(found[least], found[10**9], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [*STATEFUL, *STATELESS])
def test_threads_find_what_one_finds_and_the_same_each_time(case, threads):
    make_policy = {**STATEFUL, **STATELESS}[case]
    threads(1)
    expected, _ = train(make_policy)
    assert expected.abs().max() > 1e-3
    for count in (2, 3):
        threads(count)
        found, is_shared = train(make_policy)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
        assert is_shared == (case in STATELESS)
    assert torch.equal(train(make_policy)[0], found)


def test_a_loss_may_read_what_the_policy_kept(threads):
    """A hidden layer of other rows would be another's; one that was differentiated already, an error."""

    def make_loss(policy):
        def loss(logprobs, *tensors, **coefficients):
            assert policy.last_hidden.shape[0] == logprobs.numel()
            found = ppo_loss(logprobs, *tensors, **coefficients)
            return PPOLoss(found.total + policy.last_hidden.square().mean(), found.metrics, found.ratio)

        return loss

    results = []
    for count in (1, 2, 3, 3):
        threads(count)
        torch.manual_seed(0)
        policy = Keeping()
        config = {**SETTINGS, "device": "cpu", "bptt_horizon": 16, "batch_size": 96, "minibatch_size": 48}
        vecenv = vector.make(DriftEnv, backend="Serial")
        trainer = pufferl.PuffeRL({**config, "total_timesteps": 10**6}, vecenv, policy, loss=make_loss(policy))
        iterate(trainer, 3)
        trainer.release()
        results.append(weights(policy))
    assert torch.equal(results[2], results[3])
    for found in results[1:]:
        torch.testing.assert_close(found, results[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Keeping(), "Keeping.heads has `self.last_hidden = hidden`"),
        (KeepingInAList(), "KeepingInAList.heads has `self.kept.append(hidden)`"),
        (OwnDropout(), "OwnDropout.heads has `F.dropout(hidden, 0.5, self.training)`"),
        (Noisy(), "Noisy.forward has `torch.randn(3)`"),
        (Centred(), "Centred.forward has `x.mean(0)`"),
        (Counting(), "Counting.forward has `self.calls += 1`"),
        (with_layer(lambda: nn.BatchNorm1d(16))(None), "BatchNorm1d is not known to compute each row alone"),
        (with_layer(lambda: nn.Flatten(0))(None), "Flatten joins rows"),
        (with_layer(lambda: nn.ReLU(inplace=True))(None), "ReLU works in place"),
        (with_module_hook(None), "a part has hooks or methods of its own"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, nn.Module) else "",
)
def test_why_all_rows_are_in_one_call_is_told(policy, reason):
    assert RowWise(policy).reason == reason


METHODS = {
    "a global": "print(x)",
    "a builtin": "float(x)",
    "a recurrent layer that draws": "recur(nn.LSTM(3, 3), x, x, x)",
    "a row": "x[0]",
    "rows joined": "x.flatten(0)",
    "another shape": "x.view(-1, 6)",
    "matrix product": "x @ x.T",
    "in place": "x.add_(1)",
    "target of a function": "torch.add(x, x, out=self.scale)",
    "a function in place": "F.relu(x, True)",
    "cast of a module": "self.body.float()(x)",
    "a module as a value": "self.heads(self.body)",
    "random": "torch.rand_like(x)",
    "a condition": "x if x else -x",
    "a condition of a part": "x if self.body.training else -x",
    "an assignment inside": "(y := x)",
    "cat of rows": "torch.cat([x, x], 0)",
    "stacked in front": "torch.stack([x, x])",
    "turned": "x.permute(1, 0)",
    "keywords of anything": "self.body(**x)",
    "another's method": "nn.init.zeros_(x)",
}


TEXT = """
import math

import torch
import torch.nn.functional as F
from pufferlib.models import recur
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.scale = nn.Linear(3, 4), 2.0
        self.weight, self.layers = nn.Parameter(torch.zeros(1)), nn.ModuleList([nn.Linear(3, 3)])

    def forward(self, x):
        return self.heads(self.body(EXPRESSION))

    def heads(self, x):
        return x, x[:, 0]
"""


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a policy of TEXT from a file, which is where its methods are read."""

    def make(expression):
        (tmp_path / "policy_in_a_file.py").write_text(TEXT.replace("EXPRESSION", expression))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "policy_in_a_file", raising=False)
        return importlib.import_module("policy_in_a_file").Policy()

    yield make
    sys.modules.pop("policy_in_a_file", None)
    linecache.clearcache()


@pytest.mark.parametrize("case", METHODS)
def test_what_cannot_be_read_is_in_one_call(case, imported):
    assert RowWise(imported(METHODS[case])).reason is not None


def test_a_method_is_read_from_its_file(imported):
    assert RowWise(imported("x * self.scale")).reason is None


APART = [
    *("x.mean(dim=1)", "x.sum((1, 2), keepdim=True)", "torch.softmax(x, 1)", "x.max(1)[0]", "x.max(dim=1).values"),
    *("x.transpose(1, 2)", "x.unflatten(1, (2, -1))", "F.one_hot(x.long(), 4)", "F.one_hot(x, num_classes=4)"),
    *("x * (x > 0)", "~(x == 1)", "x.masked_fill(x < 0, float('-inf'))", "x.to(torch.float32) / math.sqrt(8)"),
    *("[layer(x) for layer in self.layers]", "x.view(x.shape[0], x.shape[1] * 2, self.scale)"),
]
TOGETHER = [
    *("x @ x", "torch.matmul(x, x)", "x.softmax(dim=-1)", "x.mean(-1)", "x[..., 1:]", "x.mT", "x.transpose(-2, -1)"),
    *("x / x.shape[-1]", "F.scaled_dot_product_attention(x, x, x)", "F.linear(x, self.weight)"),
]
UNREAD = [
    *("x.mean()", "x.mean(0)", "x.mean(dim=(0, 1))", "x.max()", "x.max(1)[1]", "x.softmax(0)", "F.one_hot(x)", "x[0]"),
    *(
        "x.transpose(0, 1)",
        "x.sum(1) / x.shape[0]",
        "x / x.shape[-2]",
        "x.view(x.shape[1], -1)",
        "[layer(x) for layer in x]",
        "print[0]",
    ),
    *("x.flatten(0)", "x.unflatten(0, (2, -1))", "[y for y in self.layers if y(x)]", "x.max(1).indices"),
]


@pytest.mark.parametrize("expression", [*APART, *TOGETHER, *UNREAD])
def test_what_may_mix_rows_is_in_one_call_and_may_be_traced(expression, imported):
    found = RowWise(imported(expression))
    assert (found.reason is None) == (expression in APART), found.reason
    assert (found.unread is None) == (expression not in UNREAD), found.unread


def test_a_file_that_was_edited_since_is_not_believed(imported, tmp_path):
    policy = imported("print(x, 1)")
    (tmp_path / "policy_in_a_file.py").write_text(TEXT.replace("EXPRESSION", "x"))
    assert RowWise(policy).reason == "Policy.forward cannot be read"


@pytest.mark.parametrize("name", ["__call__", "__getattr__", "train", "add_module"])
def test_a_class_with_special_methods_is_in_one_call(name):
    kind = type("Special", (Own,), {name: getattr(nn.Module, name)})
    assert RowWise(kind()).reason == f"Special has its own {name}"


def test_what_the_code_uses_is_watched(monkeypatch):
    policy = Own()
    found = RowWise(policy)
    assert found.reason is None and not found.has_changed()
    policy.scale = 30.0
    assert found.has_changed()
    found = RowWise(policy)
    for change in (
        lambda patch: patch.setattr(Own, "heads", Keeping.heads),
        lambda patch: patch.setitem(globals(), "Normal", print),
        lambda patch: patch.setattr(policy, "scale", "something"),
        lambda patch: patch.setattr(policy, "heads", print),
    ):
        with monkeypatch.context() as patch:
            change(patch)
            assert found.has_changed()
        assert not found.has_changed()
    assert not RowWise(copy.deepcopy(policy)).reason
