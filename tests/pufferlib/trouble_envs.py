"""An environment of Gymnasium that can do anything wrong."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import gymnasium
import numpy as np

PAUSE = float(os.environ.get("TROUBLE_PAUSE", "0"))  # seconds in every step, for who wants to come between


class Trouble(gymnasium.Env):
    """Episodes of ten steps; `level` is what it pays for each, and `trouble` what happens after some steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, level=0.5, trouble="none", render_mode=None):
        self.level, self.trouble = level, trouble
        self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        time.sleep(PAUSE)
        if self.steps == 70:
            self.make_trouble()
        is_over = self.steps % 10 == 0
        return np.zeros(2, np.float32), self.level, is_over, False, {"goals": self.level} if is_over else {}

    def make_trouble(self):
        if self.trouble == "raise":
            raise RuntimeError("the ball went through the wall")
        if self.trouble == "hang":
            time.sleep(1000)
        if self.trouble == "freeze":
            ctypes.PyDLL(None).sleep(1000)  # with the interpreter lock
        if self.trouble == "eat":
            self.eaten = []
            while True:
                self.eaten.append(np.ones(500_000))  # at most 0.4 GB a second, as one look a second is taken
                time.sleep(0.01)
        if self.trouble == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "nan":
            self.level = float("nan")


gymnasium.register("Trouble-v0", entry_point=Trouble)
