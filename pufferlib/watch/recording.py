"""A policy's episodes as a video, for one's own code: `pufferlib.record`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.play.scores import configured_env, make_environments, player_of
from pufferlib.watch.array_scene import array_settings
from pufferlib.watch.scenes import make_scene
from pufferlib.watch.show import RenderOptions, Show
from pufferlib.watch.video import require_video
from pufferlib.watch.watched_play import WatchedPlay


def record(
    policy: Any,
    env: Any,
    path: str | os.PathLike[str],
    episodes: int = 1,
    sample: bool = False,
    seed: int = 0,
    max_steps: int = 20_000,
) -> Path:
    """Records how a policy plays; needs no display.

        pufferlib.record(trainer.policy, "puffer_breakout", "breakout.mp4", episodes=3)

    The episodes are played one after another, at the pace that looks natural. The policy stays as it is.

    Args:
        policy: a torch module that `PuffeRL` would train, or a `pufferlib.Agent`; it may be recurrent.
        env: a name, which has the settings of its configuration; a class or a function; an environment, or a trainer's
            `vecenv`, that was made by a name: another one like it is made for the video. Or a ready environment of
            Gymnasium or PettingZoo that was made with `render_mode="rgb_array"`: it is played in from a reset on, and
            left open.
        path: of the video, which ends in `.mp4` or `.gif`.
        episodes: at least 1.
        sample: draw actions from the policy instead of taking the likeliest.
        seed: of the environment and of the actions.
        max_steps: of all episodes together, after which the video ends anyway.

    Returns:
        The path.

    Raises:
        APIUsageError: if an argument is none of these, the policy does not fit, or the environment cannot be drawn.
        DivergedError: if a weight of the policy is infinite or NaN.
        MissingExtraError: for an mp4, if the extra `video` is not installed.
        StorageError: if the video cannot be written.
    """
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise APIUsageError(f"{name} must be an integer of at least 1, got {value!r}")
    require_video(Path(path))
    with ExitStack() as undo:
        vecenv = _vector(env, seed, undo)
        player = player_of(policy, vecenv, seed if sample else None, undo)
        quotas = np.full(vecenv.num_agents, int(episodes))
        play = WatchedPlay(lambda: player, make_scene, quotas, int(max_steps), seed, side_by_side=1)
        Show(play, RenderOptions(lambda scene: scene.frames_per_second, in_window=False, video=Path(path))).run()
    return Path(path)


def _vector(env: Any, seed: int, undo: ExitStack) -> vector.Vector:
    recipe = configured_env(env)
    if recipe is not None:
        env_kwargs = {**recipe.env_kwargs, **array_settings(recipe.entry)}
        vecenv = make_environments(recipe.entry, env_kwargs, 1, seed)
        undo.callback(vecenv.close)
        return vecenv
    if hasattr(env, "recv") and hasattr(env, "send"):
        if getattr(env.driver_env, "made_from", None) is not None:
            return _vector(env.driver_env, seed, undo)
        raise APIUsageError(
            f"no environment for a video can be made from the ready vector of {type(env.driver_env).__name__}; "
            "pass the environment's name or its class"
        )
    vecenv = vector.adopt(env, seed=seed)
    undo.callback(vecenv.hand_over)
    return vecenv
