import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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
    np.testing.assert_allclose(found.metrics.numpy(), metrics, rtol=1e-4, atol=1e-6)
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
    metrics = dict(
        zip(losses.METRICS, losses.ppo_loss(*tensors(arrays), None, **COEFFICIENTS).metrics.tolist(), strict=True)
    )
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
    assert loss.total.requires_grad and not loss.metrics.requires_grad and not loss.ratio.requires_grad


# --- truncations


def test_a_truncated_step_gains_the_discounted_value_of_the_observation_acted_on():
    values = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    rewards = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    cuts = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    found = losses.bootstrap_truncations(rewards, values, cuts, 0.5, out=torch.full_like(rewards, 9.0))
    # Column 0 is of an action of the rollout before.
    torch.testing.assert_close(found, torch.tensor([[9.0, 0.2 + 0.5 * 1.0, 0.3, 0.4]]))
    torch.testing.assert_close(rewards, torch.tensor([[0.1, 0.2, 0.3, 0.4]]))


# --- priorities


@given(seed=st.integers(0, 1000), alpha=st.floats(0, 2), segments=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_priorities_are_the_formula(seed, alpha, segments):
    advantages = np.random.default_rng(seed).standard_normal((segments, 7)).astype(np.float32)
    weights = np.abs(advantages.astype(np.float64)).sum(1) ** alpha
    truth = (weights + 1e-6) / (weights.sum() + 1e-6)
    found = losses.segment_probabilities(torch.from_numpy(advantages), alpha)
    np.testing.assert_allclose(found.numpy(), truth / truth.sum(), rtol=1e-4)


def test_priorities_are_uniform_without_exponent_or_without_advantages():
    uniform = torch.full((8,), 1 / 8)
    torch.testing.assert_close(losses.segment_probabilities(torch.randn(8, 3), 0.0), uniform)
    torch.testing.assert_close(losses.segment_probabilities(torch.zeros(8, 3), 0.8), uniform)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_segment_that_overflowed_is_seldom_drawn_and_hurts_no_other(bad):
    advantages = torch.ones(4, 3)
    advantages[2, 1] = bad
    found = losses.segment_probabilities(advantages, 1.0)
    assert found.isfinite().all() and found.sum() == pytest.approx(1)
    assert found[2] < 1e-6 and found[0] == found[1] == found[3]


# --- moments


def explained_variance(values, returns, weights=None):
    unexplained, spread = losses.moments(returns - values, weights)[2], losses.moments(returns, weights)[2]
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


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=8), offset=st.floats(-1000, 1000))
@settings(deadline=None, max_examples=40)
def test_moments_of_parts_are_those_of_the_whole(sizes, offset):
    random = torch.Generator().manual_seed(sum(sizes))
    parts = [offset * (index + 1) + torch.randn(50, generator=random) for index in range(len(sizes))]
    weights = [(torch.arange(50) < size) * (50 / max(size, 1)) for size in sizes]
    found = losses.pooled(torch.stack([losses.moments(*part) for part in zip(parts, weights, strict=True)]))
    whole = torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).double()
    if not len(whole):
        assert found.tolist() == [0, 0, 0]
        return
    expected = [len(whole), whole.mean(), whole.var(correction=0)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * (1 + offset**2))


def test_moments_of_a_single_part_are_its_own():
    own = losses.moments(3 + torch.randn(7, 9), None)
    assert torch.equal(losses.pooled(own.unsqueeze(0)), own)


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


# --- drawing segments


def test_segments_are_drawn_as_torch_draws_without_replacement():
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    counts = {"race": torch.zeros(4), "torch": torch.zeros(4)}
    generator = torch.Generator().manual_seed(0)
    for _ in range(3000):
        counts["race"][losses.draw_segments(probabilities, 2, generator)] += 1
        counts["torch"][torch.multinomial(probabilities, 2, generator=generator)] += 1
    # Of two drawn one after another, segment i is missing with probability sum_j p_j (1 - p_i - p_j) / (1 - p_j).
    exact = torch.tensor(
        [1 - sum(q * (1 - p - q) / (1 - q) for q in (0.4, 0.3, 0.2, 0.1) if q != p) for p in (0.4, 0.3, 0.2, 0.1)]
    )
    for drawn in counts.values():
        torch.testing.assert_close(drawn / 3000, exact, atol=0.03, rtol=0)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 50), st.data())
def test_no_segment_is_drawn_twice(segments, data):
    count = data.draw(st.integers(1, segments))
    generator = torch.Generator().manual_seed(count)
    rows = losses.draw_segments(torch.full((segments,), 1 / segments), count, generator)
    assert len(rows.unique()) == count and rows.min() >= 0 and rows.max() < segments


# --- importance weights


def spread_probabilities(seed, segments, decades):
    """Of segments whose priorities lie evenly over some orders of magnitude, in random order."""
    exponents = torch.from_numpy(np.random.default_rng(seed).uniform(0, decades, segments))
    weights = 10**exponents
    return (weights / weights.sum()).float()


@given(seed=st.integers(0, 1000), segments=st.integers(1, 300), decades=st.floats(0, 6), data=st.data())
@settings(deadline=None, max_examples=60)
def test_inclusion_probabilities_grow_with_the_priority_and_sum_to_the_count(seed, segments, decades, data):
    count = data.draw(st.integers(1, segments))
    probabilities = spread_probabilities(seed, segments, decades)
    found = losses.inclusion_probabilities(probabilities, count)
    assert found.dtype == torch.float32 and (found > 0).all() and (found <= 1).all()
    assert found.double().sum().item() == pytest.approx(count, rel=1e-3)
    assert (found[probabilities.argsort()].diff() >= 0).all()


@pytest.mark.parametrize("count", [1, 30, 32, 33, 63])
@pytest.mark.parametrize(
    "weights",
    [
        torch.tensor([1.0, *[1e-9] * 63]),  # one that is always drawn
        torch.tensor([*[1.0] * 32, *[1e-6] * 32]),
        torch.tensor([1e9, *[1.0] * 31, *[1e-9] * 32]),
        torch.logspace(-12, 0, 64),
    ],
    ids=["one", "half", "three sizes", "twelve decades"],
)
def test_extreme_priorities_keep_inclusion_probabilities_finite(weights, count):
    found = losses.inclusion_probabilities(weights / weights.sum(), count)
    assert (found > 0).all() and (found <= 1).all()
    assert found.double().sum().item() == pytest.approx(count, rel=0.02)
    assert losses.importance_weights(found, torch.arange(count), 0.2).isfinite().all()


def test_inclusion_probabilities_are_the_shares_of_draws():
    probabilities = spread_probabilities(0, 48, 1.5)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.zeros(48)
    for _ in range(4000):
        drawn[losses.draw_segments(probabilities, 16, generator)] += 1
    torch.testing.assert_close(drawn / 4000, losses.inclusion_probabilities(probabilities, 16), atol=0.03, rtol=0)


def test_inclusion_probabilities_ask_a_gpu_for_no_number():
    probabilities = torch.ones(40, device="meta")  # has no numbers to tell
    assert losses.inclusion_probabilities(probabilities, 7).shape == (40,)


def test_importance_weights_are_one_where_all_segments_are_drawn_or_all_are_alike():
    uneven = spread_probabilities(0, 40, 3.0)
    weights = losses.importance_weights(losses.inclusion_probabilities(uneven, 40), torch.arange(40), 0.7)
    assert torch.equal(weights, torch.ones(40))
    alike = losses.inclusion_probabilities(torch.full((40,), 1 / 40), 7)
    torch.testing.assert_close(losses.importance_weights(alike, torch.arange(7), 0.7), torch.ones(7))
