"""Seeds: from a run to a vector, from a vector to its environments, and to the batches that act."""

from __future__ import annotations

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


def mix_seed(seed: int, index: int) -> int:
    """The seed, in [0, 2**63), of part `index` of a whole with the seed `seed`; both are any integers, modulo 2**64.

    The formula is that of `rng_seed` in `puffer_env.h`, without its last bit.
    """
    return _finalise(_finalise(seed + _GOLDEN_GAMMA) + (index + 1) * _GOLDEN_GAMMA) >> 1


def _finalise(x: int) -> int:
    # The finaliser of SplitMix64 (Steele et al. 2014): every bit of the input moves every bit of the result.
    x &= _WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _WORD
    return x ^ (x >> 31)
