import numpy as np
import pytest
import torch

from pufferlib.ppo import losses
from pufferlib.ppo.losses import normalize

COEFFICIENTS = {"clip_coef": 0.2, "vf_clip_coef": 0.3, "vf_coef": 1.7, "ent_coef": 0.05}
ROWS, HORIZON = 6, 9


def minibatch(seed, rows=ROWS, horizon=HORIZON):
    """Logprobs, values, entropy, old logprobs, old values, advantages, returns, in the order of `ppo_loss`."""
    random = np.random.default_rng(seed)
    old_logprobs = -random.exponential(1.0, (rows, horizon))
    logprobs = old_logprobs + 0.3 * random.standard_normal((rows, horizon))
    values, old_values, advantages, returns = random.standard_normal((4, rows, horizon))
    entropy = random.random((rows, horizon))
    arrays = logprobs, values, entropy, old_logprobs, old_values, advantages, returns
    return [array.astype(np.float32) for array in arrays]


def truth(arrays, weights=None):
    """The formulas of PPO in float64, one sum at a time."""
    logprobs, values, entropy, old_logprobs, old_values, advantages, returns = (a.astype(np.float64) for a in arrays)
    w = np.ones_like(values) if weights is None else weights.astype(np.float64)
    sums = dict.fromkeys(losses.METRICS, 0.0)
    for index in np.ndindex(values.shape):
        logratio = logprobs[index] - old_logprobs[index]
        ratio = np.exp(logratio)
        clipped = min(max(ratio, 1 - 0.2), 1 + 0.2)
        near = old_values[index] + min(max(values[index] - old_values[index], -0.3), 0.3)
        errors = (values[index] - returns[index]) ** 2, (near - returns[index]) ** 2
        sums["policy_loss"] += w[index] * max(-advantages[index] * ratio, -advantages[index] * clipped)
        sums["value_loss"] += w[index] * 0.5 * max(errors)
        sums["entropy"] += w[index] * entropy[index]
        sums["old_approx_kl"] += w[index] * -logratio
        sums["approx_kl"] += w[index] * (ratio - 1 - logratio)
        sums["clipfrac"] += w[index] * (abs(ratio - 1) > 0.2)
        sums["importance"] += w[index] * ratio
    means = {name: total / values.size for name, total in sums.items()}
    return means["policy_loss"] + 1.7 * means["value_loss"] - 0.05 * means["entropy"], list(means.values())


def tensors(arrays):
    return [torch.from_numpy(array) for array in arrays]


# --- the loss


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_formula(seed, is_weighted):
    arrays = minibatch(seed)
    weights = np.random.default_rng(seed).random((ROWS, HORIZON)).astype(np.float32) if is_weighted else None
    total, metrics = truth(arrays, weights)
    found = losses.ppo_loss(*tensors(arrays), None if weights is None else torch.from_numpy(weights), **COEFFICIENTS)
    np.testing.assert_allclose(found.total.item(), total, rtol=1e-5)
    np.testing.assert_allclose(list(found.metrics.values()), metrics, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.ratio.numpy(), np.exp(arrays[0] - arrays[3]), rtol=1e-5)


def test_steps_of_weight_zero_change_nothing():
    arrays = minibatch(0)
    weights = torch.ones(ROWS, HORIZON)
    weights[:, 4:] = 0
    weights /= weights.mean()
    changed = [np.where(np.arange(HORIZON) >= 4, 1.5 * array, array) for array in arrays]
    found, again = (losses.ppo_loss(*tensors(batch), weights, **COEFFICIENTS) for batch in (arrays, changed))
    torch.testing.assert_close(found.metrics, again.metrics)
    kept = losses.ppo_loss(*tensors([array[:, :4] for array in arrays]), None, **COEFFICIENTS)
    torch.testing.assert_close(found.metrics, kept.metrics)


def test_a_policy_that_has_not_moved_has_no_divergence():
    arrays = minibatch(0)
    arrays[0] = arrays[3]
    metrics = losses.ppo_loss(*tensors(arrays), None, **COEFFICIENTS).metrics
    assert metrics["approx_kl"] == metrics["old_approx_kl"] == metrics["clipfrac"] == 0
    assert metrics["importance"] == 1
    assert metrics["policy_loss"] == pytest.approx(-arrays[5].mean(), abs=1e-6)


@pytest.mark.parametrize(("advantage", "logratio", "is_cut"), [(1, 0.5, True), (1, -0.5, False), (-1, -0.5, True)])
def test_the_gradient_is_cut_only_where_the_ratio_has_already_moved_the_right_way(advantage, logratio, is_cut):
    logprobs = torch.full((1, 1), logratio, requires_grad=True)
    zeros, ones = torch.zeros(1, 1), torch.ones(1, 1)
    coefficients = {**COEFFICIENTS, "vf_coef": 0.0, "ent_coef": 0.0}
    losses.ppo_loss(
        logprobs, zeros, zeros, zeros, zeros, advantage * ones, zeros, None, **coefficients
    ).total.backward()
    assert (logprobs.grad.item() == 0) == is_cut


def test_metrics_and_ratio_carry_no_gradient():
    arrays = tensors(minibatch(0))
    for tensor in arrays[:3]:
        tensor.requires_grad_()
    loss = losses.ppo_loss(*arrays, None, **COEFFICIENTS)
    assert loss.total.requires_grad and not loss.ratio.requires_grad
    assert not any(metric.requires_grad for metric in loss.metrics.values())


# --- explained variance


def explained_variance(values, returns, weights=None):
    unexplained, spread = losses.variance(returns - values, weights), losses.variance(returns, weights)
    return losses.explained_variance(unexplained, spread)


def test_explained_variance_is_the_formula():
    values, returns = torch.randn(50, 8), torch.randn(50, 8)
    truth = 1 - np.var((returns - values).double().numpy()) / np.var(returns.double().numpy())
    assert explained_variance(values, returns).item() == pytest.approx(truth, rel=1e-4)


def test_explained_variance_tells_perfect_from_useless():
    returns = torch.randn(50, 8)
    assert explained_variance(returns, returns) == 1
    assert explained_variance(torch.full_like(returns, 3.0), returns) == pytest.approx(0, abs=1e-6)
    assert explained_variance(-returns, returns) < -1
    assert explained_variance(torch.ones(1, 1), torch.ones(1, 1)).isfinite()


def test_explained_variance_leaves_absent_agents_out():
    values, returns = torch.randn(6, 8), torch.randn(6, 8)
    weights = torch.ones(6, 8)
    weights[2:] = 0
    kept = explained_variance(values[:2], returns[:2])
    torch.testing.assert_close(explained_variance(values, returns, weights / weights.mean()), kept)


# --- normalisation


def test_advantages_are_normalised_over_the_minibatch():
    advantages = 3 + 5 * torch.randn(40, 8)
    normalized = normalize(advantages, None)
    assert normalized.mean().item() == pytest.approx(0, abs=1e-5)
    assert normalized.std().item() == pytest.approx(1, rel=2e-3)  # of a population, not of a sample
    torch.testing.assert_close(normalize(advantages, torch.ones(40, 8)), normalized)


def test_absent_agents_do_not_count_in_the_normalisation():
    advantages = torch.randn(10, 8)
    weights = torch.ones(10, 8)
    weights[5:] = 0
    torch.testing.assert_close(
        normalize(advantages, weights / weights.mean())[:5], normalize(advantages[:5], torch.ones(5, 8))
    )


def test_a_minibatch_of_one_step_or_of_equal_advantages_is_finite():
    assert normalize(torch.ones(1, 1), None).item() == 0
    assert normalize(torch.full((3, 4), 2.5), None).abs().max() == 0
