"""A policy's episodes as a video, for one's own code: `pufferlib.record`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.rendering import Drawing
from pufferlib.ocean.screen import Screen
from pufferlib.play.player import Decision, Player
from pufferlib.play.scores import make_environments, player_of, recipe_of
from pufferlib.watch.array_scene import ArrayScene, array_settings
from pufferlib.watch.playback import Playback
from pufferlib.watch.scene import Scene
from pufferlib.watch.video import VideoWriter, require_video

FRAMES_PER_SECOND = 60.0
"""Of environments that are drawn between their steps; of others there are as many as steps."""


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
        steps = _Steps(player, int(episodes), int(max_steps), seed)
        scene = undo.enter_context(closing(steps.begin()))
        fps = FRAMES_PER_SECOND if isinstance(scene, Drawing) else scene.steps_per_second
        screen = undo.enter_context(closing(Screen(*scene.size, scene.title, False)))
        video = undo.enter_context(VideoWriter(path, scene.size, fps))
        _draw_all(steps, scene, screen, video)
    return Path(path)


def _vector(env: Any, seed: int, undo: ExitStack) -> vector.Vector:
    """A vector of the one environment to play in."""
    recipe = recipe_of(env)
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


class _Steps:
    """The steps of a play, one at a time; its scene remembers the moment before each."""

    def __init__(self, player: Player, episodes: int, max_steps: int, seed: int):
        self.count = 0
        self._vecenv = player.vecenv
        self._scene: Scene | Drawing | None = None
        quotas = np.full(player.vecenv.num_agents, episodes)
        self._play: Iterator[object] = player.play(quotas, max_steps, seed, decide=self._remember)

    def begin(self) -> Scene | Drawing:
        """Makes the first step, before which the environment was reset; returns the scene."""
        self.make()
        assert self._scene is not None
        return self._scene

    def make(self) -> bool:
        """Makes a step; returns whether there was one left."""
        is_made = next(self._play, None) is not None
        self.count += is_made
        return is_made

    def _remember(self, decision: Decision) -> np.ndarray:
        if self._scene is None:
            env = self._vecenv.driver_env
            self._scene = env.drawing() if isinstance(env, OceanEnv) else ArrayScene(env)
        self._scene.remember()
        return decision.actions


def _draw_all(steps: _Steps, scene: Scene | Drawing, screen: Screen, video: VideoWriter) -> None:
    """Draws a picture for every frame of the video, as long as there are steps to show."""
    playback = Playback(scene.steps_per_second, video.fps)
    while not playback.is_over:
        while steps.count < playback.steps_due:
            if not steps.make():
                playback.end_at(steps.count)
        screen.begin()
        try:
            scene.draw(0, 0, 1, playback.progress)
            video.add(screen.frame())
        finally:
            screen.end()
        playback.advance(0.0)
