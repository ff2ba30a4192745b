"""Seeds of parts."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pufferlib import seeding
from pufferlib.seeding import mix_seed

integers = st.integers(-(2**70), 2**70)


def test_the_finaliser_is_splitmix64():
    """The first two outputs of the reference generator started at 0."""
    gamma = 0x9E3779B97F4A7C15
    assert seeding._finalise(gamma) == 0xE220A8397B1DCDAF
    assert seeding._finalise(2 * gamma) == 0x6E789E6AA1B965F4


@settings(deadline=None, max_examples=200)
@given(seed=integers, index=integers)
def test_a_mixed_seed_is_a_63_bit_integer_that_depends_on_its_arguments_modulo_2_to_the_64(seed, index):
    mixed = mix_seed(seed, index)
    assert 0 <= mixed < 2**63
    assert mix_seed(seed + 2**64, index - 2**64) == mixed


def test_neighbouring_seeds_and_indices_give_different_results():
    mixed = {mix_seed(seed, index) for seed in range(100) for index in range(100)}
    assert len(mixed) == 100 * 100
    changed = [bin(mix_seed(seed, 0) ^ mix_seed(seed + 1, 0)).count("1") for seed in range(1000)]
    assert 29 < sum(changed) / len(changed) < 34  # half of 63 bits
