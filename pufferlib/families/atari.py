"""Atari games of the Arcade Learning Environment, preprocessed as the published results have them."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.families.gymnasium_entry import GymnasiumEntry, GymnasiumFamily, build

if TYPE_CHECKING:
    from pufferlib.vector import Vector

_SHARED = {"num_envs", "num_workers", "batch_size", "seed"}  # keywords of all vectors


class AtariGame(gymnasium.Wrapper):
    """Ends an episode with each life and clips rewards, as training wants it, and reports the score of whole games.

    After a lost life the game goes on where it was: the next episode begins with its next life.
    """

    def __init__(self, env: gymnasium.Env, episodic_life: bool, clip_rewards: bool):
        """Takes a preprocessed game; see `build_atari` for the settings."""
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
    _register()
    env = build(
        target,
        render_mode,
        frameskip=1,
        obs_type="rgb",
        repeat_action_probability=repeat_action_probability,
        **keywords,
    )
    env = AtariPreprocessing(env, noop_max=noop_max, frame_skip=frameskip, screen_size=screen_size)
    return AtariGame(FrameStackObservation(env, frame_stack), episodic_life, clip_rewards)


class AtariEntry(GymnasiumEntry):
    """A game; it trains in ale-py's own vector environment, unless another backend or a setting of others is given."""

    @override
    def make_vector(self, env_kwargs: dict[str, Any], **keywords: Any) -> Vector:
        from pufferlib.families.atari_vector import SETTINGS, make_atari_vector
        from pufferlib.vector import GymnasiumVector

        backend = keywords.get("backend", "auto")
        is_asked_for = backend in (GymnasiumVector, GymnasiumVector.__name__)
        others = sorted(env_kwargs.keys() - SETTINGS)
        others += [name for name in ("step_timeout_seconds",) if keywords.get(name) is not None]
        if is_asked_for and others:
            raise APIUsageError(
                f"ale-py's vector environment takes the settings {', '.join(sorted(SETTINGS))}, got {others[0]}; "
                "use the backend 'auto'"
            )
        if is_asked_for or (backend == "auto" and not others):
            shared = {name: keywords[name] for name in _SHARED & keywords.keys()}
            return make_atari_vector(self.name, **shared, **env_kwargs)
        return super().make_vector(env_kwargs, **keywords)


class Atari(GymnasiumFamily):
    """Games by their ids `ALE/<Game>-v5`, or `<Game>NoFrameskip-v4`."""

    name = "atari"
    example = "ALE/Pong-v5"
    packages = ("ale_py", "cv2")
    extra = "atari"
    recipe = "atari"
    builder = staticmethod(build_atari)
    fixed = frozenset({"game", "obs_type", "sound_obs"})
    entry_class = AtariEntry

    @override
    def owns(self, name: str) -> bool:
        return name.startswith("ALE/") or re.fullmatch(r"\w+NoFrameskip-v\d", name) is not None

    @override
    def register(self) -> None:
        _register()

    @override
    def names(self) -> list[str]:
        return [name for name in super().names() if name.startswith("ALE/")]


def _register() -> None:
    ale_py = importlib.import_module("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Warning)  # else every environment prints a banner
    gymnasium.register_envs(ale_py)
