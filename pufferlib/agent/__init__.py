"""Trained policies in your own code."""

from pufferlib.agent.agent import Agent
from pufferlib.agent.loading import load_agent

__all__ = ["Agent", "load_agent"]
