"""One Atari game of the Arcade Learning Environment, preprocessed as the published results have them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, SupportsFloat

import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from typing_extensions import override

from pufferlib.families.gymnasium_entry import build


class AtariGame(gymnasium.Wrapper):
    """Ends an episode with each life and clips rewards, as training wants it, and reports the score of whole games.

    After a lost life the game goes on where it was: the next episode begins with its next life.
    """

    def __init__(self, env: gymnasium.Env, episodic_life: bool, clip_rewards: bool):
        super().__init__(env)
        self._episodic_life = episodic_life
        self._clip_rewards = clip_rewards
        self._lives = 0
        self._is_over = True
        self._score = 0.0

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins a new game, or after a lost life the next one; a seed always begins a new game."""
        if seed is None and not self._is_over:
            observation, reward, terminal, truncation, info = self.env.step(0)  # no action
            self._score += reward
            if not (terminal or truncation):
                self._lives = info["lives"]
                return observation, {}
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives, self._is_over, self._score = info["lives"], False, 0.0
        return observation, {}

    @override
    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the game; the info at its end holds the score."""
        observation, reward, terminal, truncation, info = self.env.step(action)
        self._score += reward
        self._is_over = terminal or truncation
        is_life_lost = info["lives"] < self._lives
        self._lives = info["lives"]
        if self._clip_rewards:
            reward = (reward > 0) - (reward < 0)
        report = {"score": self._score} if self._is_over else {}
        return observation, reward, terminal or (self._episodic_life and is_life_lost), truncation, report


def build_atari(
    target: str,
    render_mode: str | None = None,
    frameskip: int = 4,
    frame_stack: int = 4,
    screen_size: int = 84,
    noop_max: int = 30,
    episodic_life: bool = True,
    clip_rewards: bool = True,
    repeat_action_probability: float = 0.0,
    **keywords: Any,
) -> gymnasium.Env:
    """Makes a game with observations `(frame_stack, screen_size, screen_size)` uint8, in grey.

    Args:
        target: the id.
        render_mode: What render() gives: human for a window, rgb_array for frames, None for nothing.
        frameskip: Frames for which an action is repeated; what is seen is the brighter of the last two.
        frame_stack: Pictures in an observation, the newest last.
        screen_size: Width and height of a picture, in pixels.
        noop_max: A game begins after 1 to this many frames without action; 0 begins it at once.
        episodic_life: End an episode with each life instead of with the game.
        clip_rewards: Rewards are -1, 0 or 1; the true score of a game is the statistic `score`.
        repeat_action_probability: How often the game repeats the last action ("sticky actions"); 0.25 is ale-py's own.
        keywords: of ale_py.env.AtariEnv.
    """
    register_games()
    env = build(
        target,
        render_mode,
        frameskip=1,
        obs_type="rgb",
        repeat_action_probability=repeat_action_probability,
        **keywords,
    )
    env.metadata = {**env.metadata, "render_fps": 60 / frameskip}  # steps in a second of the console
    env = AtariPreprocessing(env, noop_max=noop_max, frame_skip=frameskip, screen_size=screen_size)
    return AtariGame(FrameStackObservation(env, frame_stack), episodic_life, clip_rewards)


PREPROCESSING: Mapping[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(build_atari).parameters.items()
    if parameter.default is not parameter.empty and name != "render_mode"
}
"""What is seen and told of a game, however it is made: settings of `build_atari` and their defaults."""


def register_games() -> ModuleType:
    """Has ale-py register its games with Gymnasium; returns it."""
    ale_py = importlib.import_module("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Warning)  # else every game prints a banner
    gymnasium.register_envs(ale_py)
    return ale_py
