"""Atari games: their preprocessing, ale-py's own vector, and their entries in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from typing_extensions import override

from pufferlib.emulation.gymnasium_emulation import GymnasiumVectorPufferEnv
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError
from pufferlib.families.entry import Entry
from pufferlib.families.gymnasium_families import GymnasiumFamily, build
from pufferlib.setting import signature_settings
from pufferlib.vector import AUTO, GymnasiumVector, Options, Vector, make
from pufferlib.vector.recipe import count_batch, count_threads, is_count


class AtariGame(gymnasium.Wrapper):
    """Ends an episode with each life and clips rewards, as training wants it, and reports the score of whole games.

    After a lost life the game continues: the next episode begins with its next life.
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
    frameskip: int = 4,
    frame_stack: int = 4,
    screen_size: int = 84,
    noop_max: int = 30,
    episodic_life: bool = True,
    clip_rewards: bool = True,
    repeat_action_probability: float = 0.0,
    max_num_frames_per_episode: int = 108_000,
    **keywords: object,
) -> gymnasium.Env:
    """Makes a game with observations `(frame_stack, screen_size, screen_size)` uint8, in grey.

    Args:
        target: the id.
        frameskip: Frames for which an action is repeated; what is seen is the brighter of the last two.
        frame_stack: Pictures in an observation, the newest last.
        screen_size: Width and height of a picture, in pixels.
        noop_max: A game begins after 1 to this many frames without action; 0 begins it at once.
        episodic_life: End an episode with each life instead of with the game. Policies are scored by whole games.
        clip_rewards: Rewards are -1, 0 or 1; the true score of a game is the statistic `score`, and of scored games
            also the return.
        repeat_action_probability: How often the game repeats the last action ("sticky actions"); 0.25 is ale-py's own.
        max_num_frames_per_episode: Frames of the console after which a game is cut; 108,000 are half an hour.
        keywords: of ale_py.env.AtariEnv, and of `build`.
    """
    register_games()
    env = build(
        target,
        frameskip=1,
        obs_type="rgb",
        repeat_action_probability=repeat_action_probability,
        max_num_frames_per_episode=max_num_frames_per_episode,
        **keywords,
    )
    env.metadata = {**env.metadata, "render_fps": 60 / frameskip}  # steps in a second of the console
    env = AtariPreprocessing(env, noop_max=noop_max, frame_skip=frameskip, screen_size=screen_size)
    return AtariGame(FrameStackObservation(env, frame_stack), episodic_life, clip_rewards)


def register_games() -> None:
    """Registers the games of ale-py with Gymnasium."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Warning)  # else every game prints a banner
    gymnasium.register_envs(ale_py)


SETTINGS: Mapping[str, Any] = {
    **{name: setting.default for name, setting in signature_settings("env", build_atari).items()},
    "full_action_space": False,
}
"""Settings of a game that its vector environment has as well, and their defaults."""


class AtariVectorPufferEnv(GymnasiumVectorPufferEnv):
    """Games of one kind as one PufferEnv; observations are `(frame_stack, screen_size, screen_size)` uint8, in grey.

    The pictures are those of Gymnasium's AtariPreprocessing. Three things differ from it and its FrameStackObservation:
    the frames before the first of a game are black instead of copies of it, the number of frames without action at its
    beginning, up to `noop_max`, is drawn by another generator, and after a lost life the game continues at once.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        num_threads: int,
        buf: Buffers | None = None,
        seed: int = 0,
        **given: Any,
    ):
        """Makes `num_envs` games of an id such as `ALE/Pong-v5`, with those of SETTINGS that are given by name."""
        from ale_py.vector_env import AtariVectorEnv

        settings = {**SETTINGS, **given}
        games = AtariVectorEnv(
            game=gymnasium.spec(env_id).kwargs["game"],
            num_envs=num_envs,
            num_threads=num_threads,
            max_num_frames_per_episode=settings["max_num_frames_per_episode"],
            repeat_action_probability=settings["repeat_action_probability"],
            full_action_space=settings["full_action_space"],
            img_height=settings["screen_size"],
            img_width=settings["screen_size"],
            stack_num=settings["frame_stack"],
            frameskip=settings["frameskip"],
            noop_max=settings["noop_max"],
            life_loss_info=settings["episodic_life"],  # ale-py's would begin a new game with each life
            reward_clipping=False,  # done here, where the score is still known
            use_fire_reset=False,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        self._clips_rewards = settings["clip_rewards"]
        super().__init__(games, buf=buf, seed=seed)
        self._scores = np.zeros(num_envs)
        self._frames = np.zeros(num_envs, np.int64)  # of the running games

    @override
    def _clear_step(self) -> None:
        super()._clear_step()
        self._scores[:] = 0
        self._frames[:] = 0

    @override
    def _ends(self, infos: Mapping[str, Any]) -> list[dict]:
        frames = infos["episode_frame_number"]
        self._is_over = frames < self._frames  # where only a life was lost the count continues
        self._frames[:] = frames
        self._scores += self.rewards
        if self._clips_rewards:
            np.sign(self.rewards, out=self.rewards)
        return super()._ends(infos)

    @override
    def _final_numbers(self, infos: Mapping[str, Any], agent: int) -> dict[str, float]:
        if not self._is_over[agent]:
            return {}
        score, self._scores[agent] = float(self._scores[agent]), 0.0
        return {"score": score}


class AtariEntry(Entry):
    """A game; it trains in ale-py's own vector environments, unless another backend or a setting of others is given.

    They step in turns. Each has `batch_size` games, a divisor of `num_envs`; 'auto' is all games in one. `num_workers`
    threads step it; 'auto' is the cores that this process may use.
    """

    whole_games: Mapping[str, Any] = {"episodic_life": False, "clip_rewards": False}

    @override
    def make_vector(self, env_kwargs: dict[str, Any], **keywords: object) -> Vector:
        backend = keywords.get("backend", AUTO)
        is_asked_for = backend in (GymnasiumVector, GymnasiumVector.__name__)
        limit = [] if keywords.get("step_timeout_seconds") is None else ["step_timeout_seconds"]  # ale-py has none
        unknown = sorted({*env_kwargs, *limit} - SETTINGS.keys())
        if not is_asked_for and (backend != AUTO or unknown):
            return super().make_vector(env_kwargs, **keywords)
        if unknown:
            raise APIUsageError(
                f"ale-py's vector environment takes the settings {', '.join(sorted(SETTINGS))}, got {unknown[0]}; "
                "use the backend 'auto'"
            )
        num_envs = keywords.get("num_envs", 1)
        if not is_count(num_envs):
            raise APIUsageError(f"num_envs must be an integer of at least 1, got {num_envs!r}")
        options = Options(keywords.get("num_workers", AUTO), keywords.get("batch_size", AUTO))
        size = count_batch(options, num_envs, num_envs)
        kwargs = {"env_id": self.name, "num_envs": size, "num_threads": count_threads(options), **env_kwargs}
        return make(AtariVectorPufferEnv, env_kwargs=kwargs, num_envs=num_envs // size, seed=keywords.get("seed", 0))


ATARI = GymnasiumFamily(
    "atari",
    "ALE/Pong-v5",
    pattern=r"ALE/|\w+NoFrameskip-v\d$",
    listed="ALE/",
    packages=("ale_py", "cv2"),
    extra="atari",
    register=register_games,
    recipe="atari",
    builder=build_atari,
    fixed=frozenset({"game", "obs_type", "sound_obs", "max_episode_steps"}),
    entry_class=AtariEntry,
)
