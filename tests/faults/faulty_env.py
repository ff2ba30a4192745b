"""A Gymnasium environment that goes wrong in any place, in any way, and tells when it did."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np


class Faulty(gymnasium.Env):
    """Episodes of ten steps, in which `what` happens where `place` says: in `init`, `reset`, `step` or `close`."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, place="nowhere", what="raise", at_step=150, render_mode=None):
        self.place, self.what, self.at_step = place, what, at_step
        self.steps = self.resets = 0
        if Path("mended").exists():  # the run that goes on
            self.place, self.at_step = "nowhere", math.inf
        if place == "init" and _is_in_a_worker():  # the environment that tells the spaces is a good one
            self.go_wrong("init")

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        if self.resets == 3:
            self.go_wrong("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == self.at_step:
            self.go_wrong("step")
        reward = float("nan") if self.steps > self.at_step and self.what == "no_number" else float(action)
        return np.zeros(2, np.float32), reward, self.steps % 10 == 0, False, {}

    def close(self):
        self.go_wrong("close")

    def go_wrong(self, place):
        if place != self.place:
            return
        Path("struck").write_text(repr(time.monotonic()))
        if self.what == "raise":
            raise RuntimeError("the ball went through the wall")
        if self.what == "exit":
            raise SystemExit(3)
        if self.what == "vanish":
            os._exit(3)
        if self.what == "crash":
            ctypes.string_at(0)
        if self.what == "hang":
            time.sleep(1000)
        if self.what == "freeze":
            ctypes.PyDLL(None).sleep(1000)  # in C, with the interpreter lock
        if self.what == "die":
            os.kill(os.getpid(), signal.SIGKILL)


def _is_in_a_worker():
    return b"pufferlib.vector.worker" in Path("/proc/self/cmdline").read_bytes()


gymnasium.register("Faulty-v0", entry_point=Faulty)
