import numpy as np
import torch
from hypothesis import given, settings, strategies as st

from pufferlib.metrics.measures import Moments


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-1e3, 1e3), max_size=6), min_size=1, max_size=5))
def test_moments_of_parts_are_those_of_the_whole(parts):
    merged = Moments()
    for part in parts:
        merged = merged.merged(Moments(len(part), np.mean(part), np.var(part)) if part else Moments())
    whole = np.concatenate(parts)
    if len(whole):
        assert merged.count == len(whole)
        np.testing.assert_allclose(merged.mean, whole.mean(), atol=1e-9, rtol=1e-9)
        np.testing.assert_allclose(merged.variance, whole.var(), atol=1e-6, rtol=1e-6)


def test_moments_of_rows_are_those_of_the_numbers():
    rows = 3.0 + torch.randn(50, 2, 3, generator=torch.Generator().manual_seed(0))
    found = Moments.of_rows(rows)
    assert found.count == 50 and found.mean.shape == found.variance.shape == (2, 3)
    np.testing.assert_allclose(found.mean, rows.double().mean(0))
    np.testing.assert_allclose(found.variance, rows.double().var(0, correction=0))
    assert Moments.of_rows(rows[:0]).count == 0
