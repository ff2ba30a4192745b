import copy
import math
import subprocess
import sys

import pytest
import torch
from torch import nn
from trained import weights

from pufferlib.extensions.optimizers import ADAMW_SHARE, Muon, make_optimizer, set_learning_rate

SETTINGS = {"learning_rate": 0.05, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}


def network(seed=0):
    """Matrices that are wide, tall and square, two of one shape, and vectors."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16, bias=False), nn.Linear(16, 16), nn.Linear(16, 3)
    )


def give_gradients(model, step):
    generator = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def train(model, optimizer, steps):
    for step in steps:
        give_gradients(model, step)
        optimizer.step()
        optimizer.zero_grad()


# --- Muon


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.95])
def test_matrices_follow_torch_muon(momentum, weight_decay):
    model, peer = network(), network()
    ours = Muon(model.parameters(), 0.02, momentum, weight_decay=weight_decay)
    matrices = [parameter for parameter in peer.parameters() if parameter.dim() == 2]
    theirs = torch.optim.Muon(matrices, lr=0.02, momentum=momentum, weight_decay=weight_decay)
    start = [parameter.detach().clone() for parameter in matrices]
    for step in range(6):
        give_gradients(model, step), give_gradients(peer, step)
        ours.step(), theirs.step()
    pairs = zip((p for p in model.parameters() if p.dim() == 2), matrices, start, strict=True)
    for mine, other, origin in pairs:
        moved = (other - origin).norm()
        assert moved > 0.05
        assert (mine - other).norm() < 0.03 * moved  # torch iterates in bfloat16


def test_vectors_follow_adamw_at_their_share_of_the_learning_rate():
    model, peer = network(), network()
    ours = Muon(model.parameters(), 0.02, 0.9, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.3)
    vectors = [parameter for parameter in peer.parameters() if parameter.dim() != 2]
    theirs = torch.optim.AdamW(vectors, lr=ADAMW_SHARE * 0.02, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.3)
    for step in range(4):
        give_gradients(model, step), give_gradients(peer, step)
        ours.step(), theirs.step()
    for mine, other in zip((p for p in model.parameters() if p.dim() != 2), vectors, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("shape", [(4,), (4, 5), (2, 3, 3, 3)])
def test_policies_of_one_kind_of_parameter_are_trained(shape):
    parameter = nn.Parameter(torch.ones(shape))
    optimizer = Muon([parameter], 0.1, 0.9)
    parameter.grad = torch.randn(shape)
    optimizer.step()
    optimizer.zero_grad()
    assert (parameter != 1).all() and parameter.grad is None


def test_parameters_without_a_gradient_stay_and_others_of_their_shape_do_not():
    first, second = nn.Parameter(torch.ones(3, 4)), nn.Parameter(torch.ones(3, 4))
    optimizer = Muon([first, second], 0.1, 0.9)
    second.grad = torch.randn(3, 4)
    optimizer.step()
    assert (first == 1).all() and (second != 1).any()


# --- all of them


@pytest.mark.parametrize("name", ["muon", "adam", "sgd"])
def test_a_restored_optimizer_goes_on_identically(name):
    model = network()
    optimizer = make_optimizer(name, model.parameters(), *SETTINGS.values())
    train(model, optimizer, range(3))
    set_learning_rate(optimizer, 0.01)
    restored = copy.deepcopy(model)
    again = make_optimizer(name, restored.parameters(), *SETTINGS.values())
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, optimizer, range(3, 6))
    train(restored, again, range(3, 6))
    assert torch.equal(weights(model), weights(restored))


@pytest.mark.parametrize("name", ["muon", "adam", "sgd"])
def test_the_learning_rate_scales_every_step(name):
    steps = []
    for learning_rate in (0.01, 0.02):
        model = network()
        before = weights(model)
        optimizer = make_optimizer(name, model.parameters(), 1.0, (0.9, 0.99), 1e-8, 0.0)
        set_learning_rate(optimizer, learning_rate)
        train(model, optimizer, range(1))
        steps.append(weights(model) - before)
    torch.testing.assert_close(2 * steps[0], steps[1], atol=1e-6, rtol=1e-4)
    assert (steps[0] != 0).all()


@pytest.mark.parametrize("name", ["muon", "adam"])
def test_weight_decay_is_decoupled_from_the_gradient(name):
    """Where the gradient is 0 a weight shrinks by the learning rate times the decay, whatever the momentum."""
    model = network()
    before = weights(model)
    optimizer = make_optimizer(name, model.parameters(), 0.1, (0.9, 0.99), 1e-8, 0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    decay = torch.cat(
        [
            torch.full((p.numel(),), 0.1 * 0.5 * (ADAMW_SHARE if name == "muon" and p.dim() == 1 else 1.0))
            for p in model.parameters()
        ]
    )
    torch.testing.assert_close(weights(model), before * (1 - decay))


def test_sgd_is_momentum_sgd():
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimizer = make_optimizer("sgd", [parameter], 0.1, (0.5, 0.99), 1e-8, 0.0)
    for gradient in (1.0, 2.0):
        parameter.grad = torch.tensor([gradient])
        optimizer.step()
    assert parameter.item() == pytest.approx(1.0 - 0.1 * 1.0 - 0.1 * (0.5 * 1.0 + 2.0))


def test_gradients_are_gone_after_zero_grad():
    model = network()
    optimizer = make_optimizer("muon", model.parameters(), *SETTINGS.values())
    give_gradients(model, 0)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_adam_steps_by_the_learning_rate_at_first():
    parameter = nn.Parameter(torch.zeros(3))
    optimizer = make_optimizer("adam", [parameter], 0.25, (0.9, 0.99), 1e-12, 0.0)
    parameter.grad = torch.tensor([1e-3, -5.0, math.pi])
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.tensor([-0.25, 0.25, -0.25]))


# --- torch.compile


@pytest.mark.slow
def test_no_optimizer_imports_torch_compile(tmp_path):
    """It takes two seconds, and was half of the wait for a first dashboard."""
    program = """
import sys
import pufferlib
from pufferlib import PuffeRL
from pufferlib.models import Default, LSTMWrapper

for optimizer in ("muon", "adam", "sgd"):
    for fused in (True, False):
        env = pufferlib.make("puffer_squared", num_envs=8)
        policy = LSTMWrapper(env, Default(env, hidden_size=8), 8, 8)
        trainer = PuffeRL(env, policy, optimizer=optimizer, fused=fused, num_steps=8, batch_size=64, device="cpu")
        trainer.evaluate(), trainer.train(), trainer.save_checkpoint("checkpoint.pt")
        trainer.load_checkpoint("checkpoint.pt"), trainer.evaluate(), trainer.train(), trainer.close()
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "torchs"), [("adam", torch.optim.AdamW), ("sgd", torch.optim.SGD)])
def test_steps_are_torchs(name, torchs):
    models = [network(), network()]
    settings = {"betas": (0.9, 0.99), "eps": 1e-8} if name == "adam" else {"momentum": 0.9}
    optimizers = [
        make_optimizer(name, models[0].parameters(), **SETTINGS),
        torchs(models[1].parameters(), lr=0.05, weight_decay=0.1, **settings),
    ]
    for model, optimizer in zip(models, optimizers, strict=True):
        train(model, optimizer, range(4))
    assert torch.equal(weights(models[0]), weights(models[1]))
    assert all(parameter.is_leaf for parameter in models[0].parameters())
