import functools
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from drifting import DriftEnv, make_trainer, recurrent, with_lstm
from gymnasium.spaces import Box, Discrete
from torch import nn
from trained import iterate, weights

from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError
from pufferlib.extensions.network import has_bfloat16
from pufferlib.fast.choose import choose_backend
from pufferlib.fast.cpu import NetworkActor, NetworkGradients, ThreadedGradients
from pufferlib.metrics.measures import Phases
from pufferlib.models import Continuous, Default
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.learner import Gradients, coefficients
from pufferlib.ppo.losses import PPOLoss, ppo_loss
from pufferlib.ppo.rollout import Rollout

AGENTS, HORIZON = 16, 8
CPU = torch.device("cpu")
ENV = SimpleNamespace(single_observation_space=Box(-1, 1, (3,)), single_action_space=Discrete(4), emulated=None)


def config(**settings):
    given = {"batch_size": AGENTS * HORIZON, "bptt_horizon": HORIZON, "minibatch_size": 64, "device": "cpu", **settings}
    return resolve_sizes(TrainConfig(**given), AGENTS, "cpu")


def allocate(space=ENV.single_observation_space):
    torch.manual_seed(0)
    return Rollout.allocate(space, ENV.single_action_space, AGENTS, HORIZON, {}, CPU, CPU)


def chosen(policy=None, space=ENV.single_observation_space, device=CPU, loss=ppo_loss, **settings):
    policy = Default(ENV, 16) if policy is None else policy
    return choose_backend(policy, allocate(space), config(**settings), device, loss)


def with_an_unused_parameter():
    policy = Default(ENV, 16)
    policy.unused = nn.Parameter(torch.zeros(1))
    return policy


def with_another_activation(activation):
    policy = Default(ENV, 16)
    policy.encoder[1] = activation
    return policy


def deep():
    return Default(ENV, 16, num_layers=64)


class DropsOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.action, self.value, self.drop = nn.Linear(3, 4), nn.Linear(3, 1), nn.Dropout(0.1)

    def forward(self, observations):
        return self.action(self.drop(observations)), self.value(observations)


def plain_loss(logprobs, values, entropy, old_logprobs, old_values, advantages, returns, weights, *, vf_coef):
    """A policy gradient without clipping, and half of what ppo_loss tells."""
    ratio = (logprobs - old_logprobs).exp()
    value_loss = (values - returns).square().mean()
    total = vf_coef * value_loss - (advantages * ratio).mean()
    return PPOLoss(total, {"value_loss": value_loss, "largest_ratio": ratio.max()}, ratio)


@pytest.mark.parametrize("make_policy", [Continuous, recurrent, with_lstm])
def test_a_policy_of_float32_is_trained_alike_whatever_torchs_default_type_is(make_policy):
    results = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        policy = make_policy(DriftEnv())
        torch.set_default_dtype(dtype)
        try:
            trainer = make_trainer(lambda env, policy=policy: policy, {"dtype": np.float32})
            assert trainer.computed_by.startswith("C kernel")
            iterate(trainer)
        finally:
            torch.set_default_dtype(torch.float32)
        results.append(weights(policy))
    assert torch.equal(*results)


# --- what is chosen, and why


def test_a_small_policy_on_a_cpu_is_a_kernel():
    backend = chosen()
    assert (str(backend), backend.reason) == ("C kernel", None)
    rollout = allocate()
    assert type(backend.make_actor(rollout, AGENTS, torch.Generator())) is NetworkActor
    assert type(backend.make_gradients(rollout)) is NetworkGradients


@pytest.mark.parametrize("policy", [with_an_unused_parameter(), with_another_activation(nn.ELU())])
def test_a_policy_of_the_library_that_was_changed_is_traced_as_one_of_a_users_own(policy):
    assert str(chosen(policy=policy)) == "C kernel"
    reason = chosen(policy=with_another_activation(nn.Hardtanh())).reason
    assert reason.startswith(
        "the policy Default has Hardtanh as `encoder.1`, which the kernel does not know, (models.py"
    )


@pytest.mark.parametrize(
    "given, reason",
    [
        ({"device": torch.device("meta")}, "the kernel for whole policies is for CPUs, the device is meta"),
        ({"fused": False}, "[train] fused is False"),
        ({"compile": True}, "[train] compile is True"),
        ({"loss": plain_loss}, "the loss is plain_loss, one of your own"),
        ({"loss": functools.partial(ppo_loss, clip_coef=0.3)}, "the loss is partial, one of your own"),
        (
            {"policy": DropsOut()},
            "the policy DropsOut has Dropout as `drop`, which the kernel does not know, "
            f"(test_choose.py, line {DropsOut.forward.__code__.co_firstlineno + 1})",
        ),
        ({"policy": deep()}, "the policy's layers are not of the sizes and types that the kernel takes"),
        ({"space": Box(0, 1, (3,), dtype="float16")}, "observations are float16"),
    ],
    ids=lambda each: each[:30] if isinstance(each, str) else "",
)
def test_what_is_no_kernel_says_why_and_runs_by_torch(given, reason):
    backend = chosen(**given)
    assert (backend.name, backend.reason, str(backend)) == ("torch", reason, f"torch ({reason})")
    assert backend.network is None and type(backend.make_actor(allocate(), AGENTS, torch.Generator())) is Actor


def test_dropout_that_is_switched_off_is_no_reason_for_torch():
    backend = chosen(policy=DropsOut().eval())
    assert str(backend) == "C kernel" and not backend.is_outdated()
    backend.policy.train()
    assert backend.is_outdated()


@pytest.mark.parametrize(("can_multiply", "products"), [(True, "bfloat16"), (False, "float32")])
def test_bfloat16_is_taken_where_the_processor_multiplies_it(can_multiply, products, monkeypatch):
    if can_multiply and not has_bfloat16():
        pytest.skip("needs a processor with AVX512-BF16")
    monkeypatch.setattr("pufferlib.fast.choose.has_bfloat16", lambda: can_multiply)
    monkeypatch.setattr("pufferlib.fast.choose.is_faster_in_bfloat16", lambda: can_multiply)
    for precision in ("bfloat16", "auto"):
        backend = chosen(precision=precision)
        assert backend.network.products == products
        assert str(backend) == ("C kernel (products of bfloat16)" if can_multiply else "C kernel")
    assert chosen().network.products == "float32"


def test_bfloat16_is_not_taken_unasked_where_it_is_slower(monkeypatch):
    if not has_bfloat16():
        pytest.skip("needs a processor with AVX512-BF16")
    monkeypatch.setattr("pufferlib.fast.choose.is_faster_in_bfloat16", lambda: False)
    assert chosen(precision="auto").network.products == "float32"
    assert chosen(precision="bfloat16").network.products == "bfloat16"


def test_torch_rounds_where_bfloat16_is_asked_for_by_its_name():
    for precision, is_on in (("bfloat16", True), ("auto", False), ("float32", False)):
        with chosen(precision=precision, fused=False).autocast():
            assert torch.is_autocast_enabled("cpu") is is_on


def test_an_edited_loss_runs_by_torch_until_the_kernel_follows(monkeypatch):
    monkeypatch.setattr("pufferlib.fast.choose.stale_files", lambda: ("ppo/losses.py",))
    assert chosen().reason == "ppo/losses.py changed, and the kernel did not follow"


def test_an_edited_draw_leaves_the_kernel_of_the_policy(monkeypatch):
    monkeypatch.setattr("pufferlib.fast.choose.stale_files", lambda: ("ppo/advantages.py",))
    assert chosen().network is not None


def test_gradients_of_torch_fit_where_the_observations_and_the_policy_are():
    gradients = chosen(fused=False).make_gradients(allocate())
    assert type(gradients) is ThreadedGradients
    gradients.close()
    assert type(chosen(compile=True).make_gradients(allocate())) is Gradients


# --- a loss of one's own


def learner_of(loss, **settings):
    backend, rollout = chosen(loss=loss, prio_alpha=0.0, **settings), allocate()
    for name in ("logprobs", "values", "rewards", "observations"):
        getattr(rollout, name).normal_()
    learner = backend.make_learner(rollout, torch.Generator().manual_seed(0), Phases(), Ranks())
    learner.prepare()
    return backend, learner


def test_a_loss_of_ones_own_is_learned_from_by_torch_and_told_of_by_its_own_names():
    backend, learner = learner_of(plain_loss)
    before = [parameter.clone() for parameter in backend.policy.parameters()]
    metrics = learner.learn(0.1, 0.0, True)
    learner.gradients.close()
    assert backend.name == "torch" and learner.gradients.metric_names == ("value_loss", "largest_ratio")
    assert list(metrics) == ["value_loss", "largest_ratio", "explained_variance"]
    assert all(math.isfinite(value) for value in metrics.values())
    after = backend.policy.parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_a_loss_that_returns_something_else_is_refused():
    _, learner = learner_of(lambda *tensors: tensors[0].mean())
    with pytest.raises(APIUsageError, match="a loss must return a PPOLoss.*got Tensor"):
        learner.learn(0.1, 0.0, True)
    learner.gradients.close()


@pytest.mark.parametrize("kind", [Gradients, ThreadedGradients])
def test_all_ways_of_torch_find_the_same_gradients_in_parts_as_at_once(kind):
    found = []
    for most in (64, 16):
        torch.manual_seed(1)
        _, learner = learner_of(ppo_loss, fused=False, max_minibatch_size=most)
        learner._minibatches.begin(0.0, True)
        minibatch = learner._minibatches.draw().ready_for_loss(True)
        learner.gradients.close()
        torch.manual_seed(2)
        policy = Default(ENV, 16)
        gradients = kind(policy, learner.rollout, learner.config)
        metrics = gradients.differentiate(minibatch)
        gradients.close()
        found.append([metrics, *(parameter.grad for parameter in policy.parameters())])
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-5)


# --- the settings that a loss takes


def test_a_loss_gets_the_settings_that_it_names():
    assert coefficients(plain_loss, config(vf_coef=0.7)) == {"vf_coef": 0.7}
    expected = {"clip_coef": 0.1, "vf_clip_coef": 0.2, "vf_coef": 0.3, "ent_coef": 0.4}
    assert coefficients(ppo_loss, config(**expected)) == expected
    assert coefficients(ppo_loss, config(clip_vloss=False))["vf_clip_coef"] == math.inf


def test_a_loss_with_any_keywords_gets_those_of_ppo_loss():
    def loss(*tensors, **keywords):
        return ppo_loss(*tensors, **keywords)

    assert coefficients(loss, config()) == coefficients(ppo_loss, config())


def test_what_a_partial_has_bound_stays_bound():
    assert coefficients(functools.partial(ppo_loss, clip_coef=0.5), config()).keys() == {
        "vf_clip_coef",
        "vf_coef",
        "ent_coef",
    }

    def loss(*tensors, temperature, vf_coef):
        return temperature, vf_coef

    assert coefficients(functools.partial(loss, temperature=2.0), config(vf_coef=0.7)) == {"vf_coef": 0.7}


def test_a_keyword_that_is_no_setting_needs_a_default():
    def unknown(*tensors, temperature):
        return temperature

    def has_default(*tensors, temperature=1.0, ent_coef):
        return temperature, ent_coef

    with pytest.raises(APIUsageError, match="settings or have defaults, got 'temperature'.*functools.partial"):
        coefficients(unknown, config())
    assert coefficients(has_default, config(ent_coef=0.3)) == {"ent_coef": 0.3}


# --- CUDA graphs, which run no code of the policy


class Twin(nn.Module):
    """Computes what Default does; what its calls keep is in `keep`."""

    def __init__(self, keep=lambda twin: None):
        super().__init__()
        self.inner, self.keep = Default(ENV, 16), keep
        self.steps, self.factor, self.mask = 0, 1.0, None
        self.register_buffer("count", torch.zeros(()))

    def forward(self, observations, state=None):
        self.keep(self)
        logits, values = self.inner(observations)
        return logits * self.factor, values


def count_in_python(twin):
    twin.steps += 1


def make_another_buffer(twin):
    twin.count = twin.count + 1


def draw_a_number(twin):
    twin.factor = random.random()


def keep_the_values(twin):
    twin.last = torch.zeros(3)


def count_in_place(twin):
    twin.count += 1


def make_a_mask_once(twin):
    twin.mask = torch.ones(3) if twin.mask is None else twin.mask


@pytest.fixture
def captures(monkeypatch):
    monkeypatch.setattr("pufferlib.extensions.cuda_library.is_nvidia", lambda device: True)
    return functools.partial(chosen, fused=False)


@pytest.mark.parametrize("keep", [count_in_python, make_another_buffer, draw_a_number, keep_the_values])
def test_calls_that_keep_something_are_not_replayed(keep, captures):
    backend = captures(Twin(keep))
    assert backend.name == "torch" and "keeps something in a call" in backend.reason
    assert not backend.is_outdated()


@pytest.mark.parametrize("keep", [lambda twin: None, count_in_place, make_a_mask_once])
def test_calls_that_keep_nothing_but_numbers_are_replayed(keep, captures):
    policy = Twin(keep)
    assert captures(policy).name == "CUDA graphs"
    assert policy.count == 0 and policy.mask is None  # a copy was called


def test_a_number_that_changes_between_calls_is_captured_anew(captures):
    policy = Twin()
    backend = captures(policy)
    assert not backend.is_outdated()
    policy.factor = 0.5
    assert backend.is_outdated()


def test_a_policy_that_fails_in_a_call_of_the_choice_fails_in_training(captures):
    def fail(twin):
        raise ArithmeticError

    assert captures(Twin(fail)).name == "CUDA graphs"
