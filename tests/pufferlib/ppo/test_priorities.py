import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from pufferlib.ppo.advantages import draw_segments, importance_weights, inclusion_probabilities, segment_probabilities

# --- priorities


@given(seed=st.integers(0, 1000), alpha=st.floats(0, 2), segments=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_priorities_are_the_formula(seed, alpha, segments):
    advantages = np.random.default_rng(seed).standard_normal((segments, 7)).astype(np.float32)
    weights = np.abs(advantages.astype(np.float64)).sum(1) ** alpha
    truth = (weights + 1e-6) / (weights.sum() + 1e-6)
    found = segment_probabilities(torch.from_numpy(advantages), alpha)
    np.testing.assert_allclose(found.numpy(), truth / truth.sum(), rtol=1e-4)


def test_priorities_are_uniform_without_exponent_or_without_advantages():
    uniform = torch.full((8,), 1 / 8)
    torch.testing.assert_close(segment_probabilities(torch.randn(8, 3), 0.0), uniform)
    torch.testing.assert_close(segment_probabilities(torch.zeros(8, 3), 0.8), uniform)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_segment_that_overflowed_is_seldom_drawn_and_hurts_no_other(bad):
    advantages = torch.ones(4, 3)
    advantages[2, 1] = bad
    found = segment_probabilities(advantages, 1.0)
    assert found.isfinite().all() and found.sum() == pytest.approx(1)
    assert found[2] < 1e-6 and found[0] == found[1] == found[3]


# --- drawing segments


def test_segments_are_drawn_as_torch_draws_without_replacement():
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    counts = {"race": torch.zeros(4), "torch": torch.zeros(4)}
    generator = torch.Generator().manual_seed(0)
    for _ in range(3000):
        counts["race"][draw_segments(probabilities, 2, generator)] += 1
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
    rows = draw_segments(torch.full((segments,), 1 / segments), count, generator)
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
    found = inclusion_probabilities(probabilities, count)
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
    found = inclusion_probabilities(weights / weights.sum(), count)
    assert (found > 0).all() and (found <= 1).all()
    assert found.double().sum().item() == pytest.approx(count, rel=0.02)
    assert importance_weights(found, torch.arange(count), 0.2).isfinite().all()


def test_inclusion_probabilities_are_the_shares_of_draws():
    probabilities = spread_probabilities(0, 48, 1.5)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.zeros(48)
    for _ in range(4000):
        drawn[draw_segments(probabilities, 16, generator)] += 1
    torch.testing.assert_close(drawn / 4000, inclusion_probabilities(probabilities, 16), atol=0.03, rtol=0)


def test_inclusion_probabilities_ask_a_gpu_for_no_number():
    probabilities = torch.ones(40, device="meta")  # has no numbers to tell
    assert inclusion_probabilities(probabilities, 7).shape == (40,)


def test_importance_weights_are_one_where_all_segments_are_drawn_or_all_are_alike():
    uneven = spread_probabilities(0, 40, 3.0)
    weights = importance_weights(inclusion_probabilities(uneven, 40), torch.arange(40), 0.7)
    assert torch.equal(weights, torch.ones(40))
    alike = inclusion_probabilities(torch.full((40,), 1 / 40), 7)
    torch.testing.assert_close(importance_weights(alike, torch.arange(7), 0.7), torch.ones(7))
