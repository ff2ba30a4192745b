"""A module like EnvPool, whose environments follow a script: what it returns where and when is known."""

from __future__ import annotations

import signal
import sys
import types
from collections import deque
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

TASK = "Script-v1"


class Config(NamedTuple):
    num_envs: int = 1
    batch_size: int = 1
    num_threads: int = 1
    max_num_players: int = 1
    max_episode_steps: int = 9
    bonus: float = 0.0
    name: str = "script"
    pair: tuple = (1, 2)


def length(env: int, episode: int) -> int:
    return 2 + (env + 2 * episode) % 4


def is_cut(env: int, episode: int) -> bool:
    return (env + episode) % 2 == 1


def reward(time: int) -> float:
    """Of the step to this time of an episode."""
    return 1.0 + 0.25 * time


SPACES = {
    "box": Box(-np.inf, np.inf, (4,), np.float32),
    "double": Box(-np.inf, np.inf, (4,), np.float64),
    "dict": Dict({"cell": Discrete(9), "row": Box(-9, 9, (4,), np.float32)}),
    "masked": Dict({"action_mask": MultiBinary((5,)), "row": Box(-9, 9, (4,), np.float32)}),
}


def allowed(env: int, time: int) -> list[bool]:
    """What the environment allows at a time, where it has masks."""
    return [choice != (env + time) % 5 for choice in range(5)]


class FakePool:
    """Environment `i` shows its number, from `first` on, the time in the episode, the episode and the last action."""

    def __init__(self, kind, num_envs, env_seed, first):
        assert len(env_seed) == num_envs and all(0 <= seed < 2**31 for seed in env_seed)
        self.kind, self.num_envs, self.first = kind, num_envs, first
        self.env_seed, self.observation_space = env_seed, SPACES[kind]
        self.episode, self.time = np.full(num_envs, -1), np.zeros(num_envs, int)
        self.has_ended = np.ones(num_envs, bool)
        self.actions = np.zeros(num_envs)
        self.running: deque[int] = deque()
        self.is_closed = False
        self.held_signals = signal.pthread_sigmask(signal.SIG_BLOCK, []) if sys.platform != "win32" else set()

    def async_reset(self):
        assert not self.running
        self.has_ended[:] = True
        self.send(np.full(self.num_envs, -1), np.arange(self.num_envs, dtype=np.int32))

    def send(self, actions, envs):
        assert actions.dtype.kind == "i" and envs.dtype == np.int32 and not set(envs) & set(self.running)
        for env, action in zip(envs.tolist(), actions, strict=True):
            self.running.append(env)
            self.actions[env] = action

    def recv(self):
        assert len(self.running) == self.num_envs, "it would wait for ever"
        self.running.clear()
        numbers = np.arange(self.first, self.first + self.num_envs)
        rows, rewards = np.zeros((self.num_envs, 4)), np.zeros(self.num_envs, np.float32)
        terminals, truncations = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        for row, env in enumerate(numbers.tolist()):
            if self.has_ended[row]:  # whatever the action
                self.episode[row] += 1
                self.time[row] = self.actions[row] = 0
                self.has_ended[row] = False
            else:
                self.time[row] += 1
                rewards[row] = reward(self.time[row])
                if self.time[row] == length(env, self.episode[row]):
                    flags = truncations if is_cut(env, self.episode[row]) else terminals
                    flags[row] = self.has_ended[row] = True
            rows[row] = env, self.time[row], self.episode[row], self.actions[row]
        info = {
            "env_id": np.arange(self.num_envs, dtype=np.int32),
            "players": {"env_id": np.arange(self.num_envs, dtype=np.int32)},
            "elapsed_step": self.time.astype(np.int32),
            "place": numbers.astype(np.float32),
            "pair": np.zeros((self.num_envs, 2)),
        }
        return self._observations(rows), rewards, terminals, truncations, info

    def _observations(self, rows):
        if self.kind == "dict":
            return {"cell": rows[:, 1].astype(np.int32), "row": rows.astype(np.float32)}
        if self.kind == "masked":
            masks = np.array([allowed(int(env), int(time)) for env, time, *_ in rows], np.int8)
            return {"action_mask": masks, "row": rows.astype(np.float32)}
        return rows.astype(SPACES[self.kind].dtype)

    def render(self, env_ids):
        return np.full((len(env_ids), 8, 8, 3), 7, np.uint8)

    def close(self):
        self.is_closed = True


def install(monkeypatch, kind="box"):
    """Puts the module in EnvPool's place; returns it, with `pools` of all that were made.

    The environments of a pool have the numbers that follow those of the pools that are open.
    """
    module = types.ModuleType("envpool")
    module.__spec__ = ModuleSpec("envpool", None, origin="a test")
    module.__version__ = "0.0"
    module.pools = []

    def make_spec(task, **config):
        return SimpleNamespace(
            config=Config(**config),
            gymnasium_observation_space=SPACES[kind],
            gymnasium_action_space=Discrete(5),
            action_array_spec={"action": SimpleNamespace(dtype=np.dtype(np.int32))},
        )

    def make_gymnasium(task, num_envs, num_threads, env_seed, **config):
        first = sum(pool.num_envs for pool in module.pools if not pool.is_closed)
        module.pools.append(FakePool(kind, num_envs, env_seed, first))
        return module.pools[-1]

    module.make_spec, module.make_gymnasium = make_spec, make_gymnasium
    module.list_all_envs = lambda: [TASK, "Other-v0"]
    specs = dict.fromkeys(module.list_all_envs(), ("envpool.scripts", "Spec", {}))
    module.registration = SimpleNamespace(registry=SimpleNamespace(specs=specs))
    monkeypatch.setitem(sys.modules, "envpool", module)
    return module
