"""Atari games by ale-py's own vector environment: emulated, preprocessed and stacked by C++ threads."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from typing_extensions import override

from pufferlib.emulation.gymnasium_vector_env import GymnasiumVectorPufferEnv
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError, MissingExtraError
from pufferlib.families.atari_game import PREPROCESSING, register_games
from pufferlib.vector import AUTO, Options, Vector, make
from pufferlib.vector.sizes import count_batch, count_threads, is_count

SETTINGS = frozenset({*PREPROCESSING, "full_action_space"})
"""Those of a game that its vector environment can be told."""

_MAX_FRAMES = 108_000  # of a game, half an hour: as the ids of Gymnasium have it


class AtariVectorPufferEnv(GymnasiumVectorPufferEnv):
    """Games of one kind as one PufferEnv; observations are `(frame_stack, screen_size, screen_size)` uint8, in grey.

    The pictures are those of Gymnasium's AtariPreprocessing. Three things differ from it and its FrameStackObservation:
    the frames before the first of a game are black instead of copies of it, the number of frames without action at its
    beginning, up to `noop_max`, is drawn by another generator, and after a lost life the game goes on at once.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 8,
        full_action_space: bool = False,
        num_threads: int = 0,
        buf: Buffers | None = None,
        seed: int = 0,
        **preprocessing: Any,
    ):
        """Makes the games.

        Args:
            env_id: such as `ALE/Pong-v5`.
            num_envs: games.
            full_action_space: all 18 actions instead of those that the game has.
            num_threads: that step the games; 0 leaves it to ale-py.
            buf: as of every PufferEnv.
            seed: as of every PufferEnv.
            preprocessing: settings of `build_atari`, of those in `PREPROCESSING`, by name.

        Raises:
            MissingExtraError: if ale-py is not installed.
            APIUsageError: if it is not the id of an Atari game, or a setting is none of these.
        """
        unknown = sorted(preprocessing.keys() - PREPROCESSING.keys())
        if unknown:
            known = ", ".join(sorted(SETTINGS))
            raise APIUsageError(f"ale-py's vector environment takes the settings {known}, got {unknown[0]}")
        settings = {**PREPROCESSING, **preprocessing}
        game = {
            "game": _game(env_id),
            "num_envs": num_envs,
            "num_threads": num_threads,
            "max_num_frames_per_episode": _MAX_FRAMES,
            "repeat_action_probability": settings.pop("repeat_action_probability"),
            "full_action_space": full_action_space,
        }
        size = settings.pop("screen_size")
        pictures = {"img_height": size, "img_width": size, "stack_num": settings.pop("frame_stack")}
        course = {
            "frameskip": settings.pop("frameskip"),
            "noop_max": settings.pop("noop_max"),
            "life_loss_info": settings.pop("episodic_life"),  # ale-py's would begin a new game with each life
            "reward_clipping": False,  # done here, where the score is still known
            "use_fire_reset": False,
        }
        self._clips_rewards = settings.pop("clip_rewards")
        assert not settings, f"build_atari has the settings {', '.join(settings)}, which are not passed on here"
        super().__init__(env_creator=_make, env_kwargs={**game, **pictures, **course}, buf=buf, seed=seed)
        self._scores = np.zeros(num_envs)
        self._frames = np.zeros(num_envs, np.int64)  # of the running games

    @override
    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        self._scores[:] = 0
        self._frames[:] = 0
        return super().reset(seed)

    @override
    def _follow(self, infos: Mapping[str, Any]) -> None:
        frames = infos["episode_frame_number"]
        self._is_over = frames < self._frames  # where only a life was lost it goes on counting
        self._frames[:] = frames
        self._scores += self.rewards
        if self._clips_rewards:
            np.sign(self.rewards, out=self.rewards)

    @override
    def _final_numbers(self, infos: Mapping[str, Any], agent: int) -> dict[str, float]:
        if not self._is_over[agent]:
            return {}
        score, self._scores[agent] = float(self._scores[agent]), 0.0
        return {"score": score}


def make_atari_vector(
    env_id: str,
    num_envs: int = 8,
    num_workers: int | str = AUTO,
    batch_size: int | str = AUTO,
    seed: int = 0,
    **settings: Any,
) -> Vector:
    """Makes Atari games in ale-py's own vector environments.

    Args:
        env_id: such as `ALE/Pong-v5`.
        num_envs: games in all.
        num_workers: threads that step a batch; 'auto' is the cores this process may use.
        batch_size: games in each vector environment, a divisor of `num_envs`: all others step while the policy works on
            one. 'auto' is all games in one.
        seed: as for `pufferlib.vector.make`.
        settings: of those in `SETTINGS`.

    Raises:
        MissingExtraError: if ale-py is not installed.
        APIUsageError: if it is not the id of an Atari game, or the games cannot be shared equally.
    """
    if not is_count(num_envs):
        raise APIUsageError(f"num_envs must be an integer of at least 1, got {num_envs!r}")
    options = Options(num_workers, batch_size)
    size = count_batch(options, num_envs, num_envs)
    kwargs = {"env_id": env_id, "num_envs": size, "num_threads": count_threads(options), **settings}
    return make(AtariVectorPufferEnv, env_kwargs=kwargs, num_envs=num_envs // size, seed=seed)


def _game(env_id: str) -> str:
    _import_ale()
    try:
        game = gymnasium.spec(env_id).kwargs["game"]
    except (gymnasium.error.Error, KeyError) as error:
        raise APIUsageError(f"the id of an Atari game must be like 'ALE/Pong-v5', got {env_id!r}") from error
    return game


def _import_ale() -> ModuleType:
    try:
        ale_py = register_games()
        importlib.import_module("ale_py.vector_env")
    except ImportError as error:
        raise MissingExtraError(
            "Atari games in a vector environment need ale-py of at least 0.11; "
            "install it with pip install 'pufferlib[atari]'"
        ) from error
    return ale_py


def _make(**settings: Any) -> VectorEnv:
    return _import_ale().vector_env.AtariVectorEnv(**settings, autoreset_mode=AutoresetMode.SAME_STEP)
