"""What docs/tutorials/curriculum_and_shaping.md says of potentials holds for the classes that it shows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from code_blocks import blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "curriculum_and_shaping.md"
GAMMA, STEPS, ROVERS = 0.9, 200, 64


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Those of the page, `rover` and `shaping`."""
    for block in blocks_of(PAGE):
        if block.parsed.file in ("rover.py", "shaping.py"):
            (tmp_path / block.parsed.file).write_text(block.parsed.text)
    monkeypatch.syspath_prepend(tmp_path)
    import rover
    import shaping

    yield rover, shaping
    for name in ("rover", "shaping"):
        del sys.modules[name]


def test_all_that_a_potential_pays_in_an_episode_is_told_by_where_it_began(modules):
    rover, shaping = modules
    plain, shaped = rover.Rover(ROVERS, distance=3), shaping.Potential(rover.Rover(ROVERS, distance=3), GAMMA)
    observations, _ = plain.reset(1)
    shaped.reset(1)
    random = np.random.default_rng(1)
    begins, ends = -np.abs(observations).sum(axis=1), {True: 0, False: 0}
    sums, discounts = np.zeros(ROVERS), np.ones(ROVERS)
    for _ in range(STEPS):
        before = -np.abs(plain.observations).sum(axis=1)
        actions = random.integers(0, 4, ROVERS)
        observations, rewards, terminals, truncations, _ = plain.step(actions)
        sums += discounts * (shaped.step(actions)[1] - rewards)
        discounts *= GAMMA
        for row in np.flatnonzero(terminals | truncations):
            last = 0.0 if terminals[row] else discounts[row] * before[row]  # what the trainer's value takes away
            assert sums[row] == pytest.approx(last - begins[row], abs=1e-6)
            begins[row], sums[row], discounts[row] = -np.abs(observations[row]).sum(), 0.0, 1.0
            ends[bool(terminals[row])] += 1
    assert min(ends.values()) > 100


def test_a_checkpoint_of_the_wrapper_keeps_the_potential(modules):
    rover, shaping = modules
    env = shaping.Potential(rover.Rover(ROVERS), GAMMA)
    assert env.memory[0] is env.before


def test_an_arrival_counts_from_the_whole_distance_alone(modules):
    rover, _ = modules
    env = rover.Rover(ROVERS, distance=4, first=1)
    env.reset(1)
    perfs = []
    for _ in range(12):
        ways = np.rint(env.observations * 64).astype(int)
        east, north = ways.T
        *_, reports = env.step(np.where(east > 0, 1, np.where(east < 0, 3, np.where(north > 0, 0, 2))))
        perfs += [report["perf"] for report in reports]
    assert perfs == [0.0, 0.0, 1.0, 1.0]  # after 1, 2 and 4 steps, and then 4 again
