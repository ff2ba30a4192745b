"""PufferLib: reinforcement learning at millions of steps per second, on one machine."""

from __future__ import annotations
