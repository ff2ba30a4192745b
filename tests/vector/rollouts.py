"""Rollouts whose actions depend on the global step alone, whatever the order of the batches."""

from __future__ import annotations

import hashlib
import warnings
from collections import deque

import gymnasium
import numpy as np

from pufferlib import vector


def make_quietly(*args, **kwargs) -> vector.Vector:
    """`vector.make` with more workers than this machine may have cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "num_workers .* is more than", RuntimeWarning)
        return vector.make(*args, **kwargs)


def random_actions(random: np.random.Generator, space: gymnasium.Space, rows: int) -> np.ndarray:
    if isinstance(space, gymnasium.spaces.Box):
        return random.uniform(space.low, space.high, (rows, *space.shape)).astype(np.float32)
    high = space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec
    return random.integers(0, high, (rows, *space.shape))


class Driver:
    """Steps all batches of a vector once per call and puts their rows into the order of the agents."""

    def __init__(self, vecenv: vector.Vector):
        self.vecenv = vecenv
        self.received: deque[np.ndarray] = deque()

    def receive_all(self) -> list[np.ndarray]:
        vecenv = self.vecenv
        merged = None
        for _ in range(vecenv.num_envs // vecenv.batch_size):
            *arrays, _, agent_ids, masks = vecenv.recv()
            arrays.append(masks)
            if merged is None:
                merged = [np.empty((vecenv.num_agents, *array.shape[1:]), array.dtype) for array in arrays]
            for target, array in zip(merged, arrays, strict=True):
                target[agent_ids] = array
            self.received.append(agent_ids)
        return merged

    def send_all(self, actions: np.ndarray) -> None:
        while self.received:
            self.vecenv.send(actions[self.received.popleft()])


def rollout(vecenv: vector.Vector, steps: int, action_seed: int = 0) -> list[list[np.ndarray]]:
    """Resets, steps and closes; the arrays of every step, the reset included."""
    random, driver = np.random.default_rng(action_seed), Driver(vecenv)
    vecenv.async_reset()
    history = [driver.receive_all()]
    for _ in range(steps):
        driver.send_all(random_actions(random, vecenv.single_action_space, vecenv.num_agents))
        history.append(driver.receive_all())
    vecenv.close()
    return history


def digest(history: list[list[np.ndarray]]) -> str:
    hashed = hashlib.sha256()
    for arrays in history:
        for array in arrays:
            hashed.update(array.tobytes())
    return hashed.hexdigest()[:16]
