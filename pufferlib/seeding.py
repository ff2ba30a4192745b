"""Seeds: from a run to a vector, from a vector to its environments, and to the batches that act."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

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


class Streams:
    """Random streams for the actions of batches of agents, seeded by one generator of torch.

    Worker processes finish in another order each time, so each of several batches has a stream of its own, which one
    number of the generator seeds for every group of segments. So a checkpoint keeps the generator alone.
    """

    def __init__(self, generator: torch.Generator, num_agents: int):
        self._generator = generator
        self._num_agents = num_agents
        self._streams: dict[int, torch.Generator] = {}  # by the first agent of the batch
        self.begin()

    def begin(self) -> None:
        """Starts another group of segments; nothing draws meanwhile."""
        self._seed: int | None = None  # of the streams of this group, None until one is asked for
        self._seeded: set[int] = set()

    def of(self, agents: slice) -> torch.Generator:
        """The stream of a batch of agents, always the same object; call `ready` before drawing from it."""
        if agents.stop - agents.start == self._num_agents:
            return self._generator
        if agents.start not in self._streams:
            import torch  # loaded already, as there is a generator

            self._streams[agents.start] = torch.Generator(self._generator.device)
        return self._streams[agents.start]

    def ready(self, agents: slice) -> torch.Generator:
        """The stream of a batch of agents, seeded for this group of segments."""
        stream = self.of(agents)
        if stream is not self._generator and agents.start not in self._seeded:
            if self._seed is None:
                import torch

                self._seed = int(torch.randint(1 << 62, (), generator=self._generator, device=self._generator.device))
            self._seeded.add(agents.start)
            stream.manual_seed(mix_seed(self._seed, agents.start))
        return stream
