"""The random numbers that actions are drawn by, which must not depend on which batch of agents comes first."""

from __future__ import annotations

import torch

from pufferlib.seeding import mix_seed


class Streams:
    """A random stream for each batch of agents, all of them from one generator.

    Worker processes finish in another order each time: drawing from one generator, batches would get other numbers in
    every run. A batch that is everything does draw from it; each of several has a stream of its own, seeded anew by one
    number of the generator for every group of segments. So a checkpoint keeps the generator alone.
    """

    def __init__(self, generator: torch.Generator, num_agents: int):
        """Makes no stream yet."""
        self._generator = generator
        self._num_agents = num_agents
        self._streams: dict[int, torch.Generator] = {}  # by the first agent of the batch
        self.begin()

    def begin(self) -> None:
        """Turns to another group of segments; nothing draws meanwhile."""
        self._seed: int | None = None  # of the streams of this group, None until one is asked for
        self._seeded: set[int] = set()

    def of(self, first_agent: int, count: int) -> torch.Generator:
        """The stream of a batch of `count` agents, one object every time; `ready` it before it is drawn from."""
        if count == self._num_agents:
            return self._generator
        if first_agent not in self._streams:
            self._streams[first_agent] = torch.Generator(self._generator.device)
        return self._streams[first_agent]

    def ready(self, first_agent: int, count: int) -> torch.Generator:
        """The stream of a batch, seeded for this group of segments."""
        stream = self.of(first_agent, count)
        if stream is not self._generator and first_agent not in self._seeded:
            if self._seed is None:
                self._seed = int(torch.randint(1 << 62, (), generator=self._generator, device=self._generator.device))
            self._seeded.add(first_agent)
            stream.manual_seed(mix_seed(self._seed, first_agent))
        return stream
