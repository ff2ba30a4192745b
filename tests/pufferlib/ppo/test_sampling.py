import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.distributions import Categorical, Independent, Normal

from pufferlib.ppo import sampling
from pufferlib.ppo.sampling import greedy_action, sample_logits


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def chi_square(actions, probabilities):
    """Pearson's statistic divided by its degrees of freedom: about 1 when draws follow the probabilities."""
    expected = probabilities * len(actions)
    observed = torch.bincount(actions, minlength=len(probabilities)).double()
    return float(((observed - expected).square() / expected).sum() / (len(probabilities) - 1))


def uniform_numbers(monkeypatch, value):
    """Makes every uniform number the same one."""
    monkeypatch.setattr(sampling.torch, "rand", lambda *shape, device, generator: torch.full(shape, value))


LARGEST_UNIFORM = 1.0 - 2.0**-24  # the largest float32 that torch.rand returns


# --- discrete


@pytest.mark.parametrize("num_actions", [2, 5, 17])
def test_actions_are_drawn_as_often_as_their_probabilities_say(num_actions):
    logits = torch.randn(num_actions, generator=stream(1))
    actions, _, _ = sample_logits(logits.expand(40_000, -1), generator=stream(2))
    assert chi_square(actions, logits.double().softmax(-1)) < 2.5
    assert chi_square(actions, logits.double().flip(0).softmax(-1)) > 50  # the test can tell the difference


@given(rows=st.integers(1, 5), num_actions=st.integers(1, 9), seed=st.integers(0, 1000), scale=st.floats(0.01, 30))
@settings(deadline=None, max_examples=40)
def test_discrete_log_probability_and_entropy_are_those_of_torch(rows, num_actions, seed, scale):
    logits = scale * torch.randn(rows, num_actions, generator=stream(seed))
    actions, logprobs, entropy = sample_logits(logits, generator=stream(seed))
    truth = Categorical(logits=logits)
    assert actions.shape == logprobs.shape == entropy.shape == (rows,)
    torch.testing.assert_close(logprobs, truth.log_prob(actions))
    torch.testing.assert_close(entropy, truth.entropy(), atol=1e-5, rtol=1e-5)


def test_leading_dimensions_are_kept():
    logits = torch.randn(3, 7, 4)
    actions, logprobs, entropy = sample_logits(logits)
    assert actions.shape == logprobs.shape == entropy.shape == (3, 7)
    again, same, _ = sample_logits(logits, action=actions)
    assert again is actions
    torch.testing.assert_close(same, logprobs)


def test_stored_int32_actions_are_evaluated():
    logits = torch.randn(6, 4)
    actions, logprobs, _ = sample_logits(logits)
    torch.testing.assert_close(sample_logits(logits, action=actions.int())[1], logprobs)


def test_bfloat16_logits_are_evaluated_in_float32():
    logits = torch.randn(64, 4).bfloat16()
    actions, logprobs, entropy = sample_logits(logits)
    assert logprobs.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logprobs, Categorical(logits=logits.float()).log_prob(actions))


def test_the_same_generator_draws_the_same_actions():
    logits = torch.randn(1000, 6)
    first, again, other = (sample_logits(logits, generator=stream(seed))[0] for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_generator_leaves_the_global_stream_alone():
    before = torch.get_rng_state()
    sample_logits(torch.randn(10, 3, generator=stream()), generator=stream())
    sample_logits(Normal(torch.zeros(4, 2), torch.ones(4, 2)), generator=stream())
    assert torch.equal(torch.get_rng_state(), before)


# --- impossible actions and rounding


@pytest.mark.parametrize("impossible", [[0], [3], [0, 3], [1, 2, 3]])
def test_an_action_of_logit_minus_infinity_is_never_drawn(impossible):
    logits = torch.randn(4, generator=stream())
    logits[impossible] = -math.inf
    actions, logprobs, entropy = sample_logits(logits.expand(20_000, -1), generator=stream(1))
    assert not np.isin(actions.numpy(), impossible).any()
    assert logprobs.isfinite().all()
    possible = torch.tensor([index for index in range(4) if index not in impossible])
    torch.testing.assert_close(entropy[0], Categorical(logits=logits[possible]).entropy())


@given(num_actions=st.integers(2, 300), seed=st.integers(0, 10_000), uniform=st.sampled_from([0.0, LARGEST_UNIFORM]))
@settings(deadline=None, max_examples=100)
def test_rounded_sums_never_lead_to_an_impossible_action(num_actions, seed, uniform):
    logits = torch.randn(16, num_actions, generator=stream(seed))
    logits[:, 0] = logits[:, -1] = -math.inf
    if num_actions == 2:
        logits[:, 0] = 0.0
    with pytest.MonkeyPatch.context() as monkeypatch:
        uniform_numbers(monkeypatch, uniform)
        actions, logprobs, _ = sample_logits(logits)
    assert ((actions >= 0) & (actions < num_actions)).all()
    assert logprobs.isfinite().all()


def test_impossible_actions_have_no_gradient_of_nan():
    logits = torch.tensor([[0.3, -math.inf, 0.1]], requires_grad=True)
    _, logprobs, entropy = sample_logits(logits, action=torch.tensor([2]))
    (logprobs + entropy).sum().backward()
    assert logits.grad.isfinite().all() and logits.grad[0, 0] != 0


def test_the_entropy_gradient_is_that_of_torch():
    logits = torch.randn(5, 4, requires_grad=True)
    (ours,) = torch.autograd.grad(sample_logits(logits, action=torch.zeros(5))[2].sum(), logits)
    (truth,) = torch.autograd.grad(Categorical(logits=logits).entropy().sum(), logits)
    torch.testing.assert_close(ours, truth)


# --- several parts, and numbers


def test_multidiscrete_sums_over_independent_parts():
    parts = tuple(torch.randn(50, n, generator=stream(n)) for n in (2, 3, 5))
    actions, logprobs, entropy = sample_logits(parts, generator=stream())
    truths = [Categorical(logits=part) for part in parts]
    assert actions.shape == (50, 3) and logprobs.shape == entropy.shape == (50,)
    torch.testing.assert_close(
        logprobs, sum(truth.log_prob(actions[:, index]) for index, truth in enumerate(truths)), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(entropy, sum(truth.entropy() for truth in truths), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sample_logits(parts, action=actions.int())[1], logprobs)


def test_multidiscrete_parts_are_drawn_independently():
    parts = (torch.tensor([0.2, -0.4]).expand(40_000, -1), torch.tensor([0.0, 1.0, -1.0]).expand(40_000, -1))
    actions, _, _ = sample_logits(parts, generator=stream(5))
    joint = torch.outer(parts[0][0].double().softmax(-1), parts[1][0].double().softmax(-1)).flatten()
    assert chi_square(actions[:, 0] * 3 + actions[:, 1], joint) < 2.5


def test_normal_log_probability_and_entropy_are_those_of_torch():
    mean, std = torch.randn(100, 3), torch.rand(100, 3) + 0.1
    actions, logprobs, entropy = sample_logits(Normal(mean, std), generator=stream())
    truth = Independent(Normal(mean, std), 1)
    assert actions.shape == (100, 3)
    torch.testing.assert_close(logprobs, truth.log_prob(actions))
    torch.testing.assert_close(entropy, truth.entropy())


def test_normal_actions_have_its_mean_and_deviation():
    mean, std = torch.tensor([-1.0, 3.0]), torch.tensor([0.5, 2.0])
    actions, _, _ = sample_logits(Normal(mean.expand(40_000, -1), std.expand(40_000, -1)), generator=stream(7))
    standard_error = std / 40_000**0.5
    assert ((actions.mean(0) - mean).abs() < 4 * standard_error).all()
    assert ((actions.std(0) / std - 1).abs() < 0.02).all()


# --- mistakes


@pytest.mark.parametrize(
    "logits",
    [
        torch.tensor([[0.0, math.nan]]),
        torch.tensor([[math.inf, math.inf]]),
        torch.full((1, 3), -math.inf),
        (torch.zeros(1, 2), torch.tensor([[math.nan, 0.0]])),
        Normal(torch.tensor([[math.nan]]), torch.ones(1, 1), validate_args=False),
        Normal(torch.zeros(1, 1), torch.tensor([[math.nan]]), validate_args=False),
    ],
    ids=["nan", "inf", "all impossible", "multidiscrete", "mean", "deviation"],
)
def test_logits_that_are_no_distribution_raise(logits):
    with pytest.raises(ValueError, match="NaN; lower the learning rate"):
        sample_logits(logits)


# --- greedy


def test_the_greedy_action_is_the_likeliest():
    logits = torch.randn(20, 4)
    assert torch.equal(greedy_action(logits), Categorical(logits=logits).mode)
    parts = torch.randn(20, 2), torch.randn(20, 3)
    assert torch.equal(greedy_action(parts), torch.stack([part.argmax(-1) for part in parts], -1))
    normal = Normal(torch.randn(20, 2), torch.ones(20, 2))
    assert torch.equal(greedy_action(normal), normal.mean)
