"""Torch's path on a CPU: threads share a minibatch only where one thread would find the same."""

import pytest
import torch
import torch.nn.functional as F
from drifting import DriftEnv, make_trainer
from torch import nn
from torch.distributions import Normal
from trained import iterate, weights

from pufferlib import models, pufferl, vector
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
        self.kept.append(hidden.detach())
        return super().heads(hidden)


CALLS = []


class KeepingInAGlobal(Own):
    def heads(self, hidden):
        CALLS.append(hidden.shape)
        return super().heads(hidden)


class OwnDropout(Own):
    def heads(self, hidden):
        return super().heads(F.dropout(hidden, 0.5, self.training))


class Noisy(Own):
    def forward(self, observations):
        return self.heads(self.body(observations.float() + torch.randn(3)))


class Leaving(Own):
    """Leaves its first layer out of the calls with many rows."""

    def __init__(self):
        super().__init__()
        self.skipped = nn.Linear(3, 3)

    def forward(self, observations):
        x = observations.float()
        return self.heads(self.body(self.skipped(x) if len(x) <= 16 else x))


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
    "list of what was seen": lambda env: KeepingInAList(),
    "list of the module": lambda env: KeepingInAGlobal(),
    "noise": lambda env: Noisy(),
    "a layer left out": lambda env: Leaving(),
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
    is_shared = trainer._learner.gradients._are_rows_apart
    trainer.release()
    return weights(trainer.policy) - before, is_shared


@pytest.mark.quick("LSTM")
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


@pytest.mark.quick("recurrent", "noise")
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


def test_a_policy_that_is_changed_is_asked_again_whether_it_mixes_rows(threads):
    class Later(Own):
        is_centred = False

        def heads(self, hidden):
            return super().heads(hidden - hidden.mean(0) if self.is_centred else hidden)

    threads(2)
    trainer = make_trainer(lambda env: Later(), fused=False, **SETTINGS)
    for is_centred in (False, True):
        trainer.policy.is_centred = is_centred
        iterate(trainer)
        assert trainer._learner.gradients._are_rows_apart == (not is_centred)
    trainer.release()


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
