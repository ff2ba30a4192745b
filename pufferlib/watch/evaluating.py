"""`puffer eval`: plays a policy in a window or without one, records a video, prints the scores."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pufferlib.config.flags import EvalOptions
from pufferlib.dashboard.output import printable
from pufferlib.errors import APIUsageError, DisplayError
from pufferlib.families.catalog import Entry, find, slug
from pufferlib.ocean.screen import display_trouble, has_display
from pufferlib.play import scores
from pufferlib.play.matches import Versus, against, sheet_for, versus
from pufferlib.play.player import Player
from pufferlib.runs.checks import whole_number
from pufferlib.runs.loaders import load_policy
from pufferlib.runs.making import is_vector
from pufferlib.runs.stopping import StopRequest
from pufferlib.vector import Vector
from pufferlib.watch.show import Show, WatchedPlay
from pufferlib.watch.video import VideoWriter, require_video


def record(
    policy: object,
    env: object,
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
        env: as for `pufferlib.evaluate`, but never None. A ready environment of Gymnasium or PettingZoo was made with
            `render_mode="rgb_array"`; a vector was made by a name, as a trainer's `vecenv` may be.
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
    episodes, max_steps = whole_number("episodes", episodes), whole_number("max_steps", max_steps)
    require_video(Path(path))
    if is_vector(env) and scores.configured_env(env) is None:
        env = env.driver_env
        if scores.configured_env(env) is None:
            raise APIUsageError(
                f"no environment for a video can be made from the ready vector of {type(env).__name__}; "
                "pass the environment's name or its class"
            )
    with scores.player_in(env, lambda vecenv: policy, 1, seed, sample, is_shown=True) as player:
        quotas = np.full(player.vecenv.num_agents, episodes)
        play = WatchedPlay(player, quotas, max_steps, seed, side_by_side=1)
        Show(play, EvalOptions(video=str(path)), in_window=False).run()
    return Path(path)


def evaluate_command(env_name: str, args: dict[str, Any], options: EvalOptions) -> None:
    """Plays and prints the scores; the episodes are the same with a window, a video or neither."""
    entry = find(env_name)
    why_no_window = _why_no_window(entry, options)
    is_drawn = not why_no_window or options.video is not None
    seed = args["train"]["seed"] if options.seed is None else options.seed
    opponent = options.opponent
    if opponent is not None:
        args = {**args, "env": against(opponent, entry, args["env"])}

    def make_policy(vecenv: Vector) -> nn.Module:
        policy = load_policy(args, vecenv, env_name)
        return policy if opponent is None else versus(opponent, entry.name, args["train"]["data_dir"], policy, vecenv)

    env = scores.ConfiguredEnv(entry, args["env"])
    with scores.player_in(env, make_policy, options.episodes, seed, not options.is_greedy, is_drawn) as player:
        print(printable(_beginning(env_name, args, options, why_no_window)), flush=True)
        if options.opponent is None:  # else an episode is a game, of one side
            _print_agents(player.vecenv, options.episodes)
        quotas = scores.episodes_per_agent(options.episodes, player)
        max_steps = options.max_steps * int(quotas.max())
        if is_drawn:
            play = WatchedPlay(player, quotas, max_steps, seed, min(options.grid, player.vecenv.num_envs))
            _show(play, options, not why_no_window, slug(entry.name))
        else:
            _score(player, quotas, max_steps, seed, options.episodes)


def _why_no_window(entry: Entry, options: EvalOptions) -> str:
    # Empty where there is one. Options that cannot be had raise.
    has_video = options.video is not None
    if has_video:
        require_video(Path(options.video))
    if options.sample and options.deterministic:
        raise APIUsageError("--sample and --deterministic ask for opposites; pass one of them")
    if options.window and options.headless:
        raise APIUsageError("--window and --headless ask for opposites; pass one of them")
    if options.window and not has_display():
        raise APIUsageError("--window needs a display, and there is none; on Linux DISPLAY or WAYLAND_DISPLAY names it")
    can_be_drawn = entry.family == "ocean" or "render_mode" in entry.settings or entry.takes_any_setting
    if not can_be_drawn and (has_video or options.window):
        raise APIUsageError(f"{entry.name} cannot be drawn, as it takes no render_mode; pass --headless to score it")
    reasons = {
        "without a window": options.headless or (has_video and not options.window),
        "without a window, as there is no display": not has_display(),
        "without a window, as it cannot be drawn": not can_be_drawn,
    }
    why_no_window = next((reason for reason, holds in reasons.items() if holds), "")
    if (has_video or not why_no_window) and options.grid > options.episodes:
        raise APIUsageError(
            f"--grid {options.grid} needs an episode for each of the environments, got {options.episodes}; "
            f"pass --episodes {options.grid} or more"
        )
    return why_no_window


def _beginning(env_name: str, args: dict[str, Any], options: EvalOptions, why_no_window: str) -> str:
    shown = f", {why_no_window}" if why_no_window else ""
    if options.video is not None:
        shown = f" into {options.video}"
    policy = args["load_model_path"] or "an untrained policy (--load-model-path latest takes the last that was trained)"
    actions = "the likeliest actions (--sample draws them)" if options.is_greedy else "actions that are drawn"
    return (
        f"playing {options.episodes} episode{'s' * (options.episodes != 1)} of {env_name}{shown}, "
        f"by {policy}, with {actions}"
    )


def _print_agents(vecenv: Vector, episodes: int) -> None:
    agents = vecenv.agents_per_env
    if agents > 1 and scores.counts_by_agent(vecenv.driver_env):
        print(f"an episode is one of a single agent: the {agents} agents of an environment begin and end on their own")
    elif agents > 1:
        print(f"an episode is one of all {agents} agents, so n is {episodes * agents:,} where each of them is counted")


_PROGRESS_SECONDS = 10.0  # between two lines while nothing is shown


def _score(player: Player, quotas: np.ndarray, max_steps: int, seed: int, num_episodes: int) -> None:
    sheet, shown_at = sheet_for(player), time.monotonic()
    with StopRequest() as stop:
        for episodes in player.play(quotas, max_steps, seed):
            sheet.add(episodes)
            if stop.requested:
                break
            if time.monotonic() - shown_at >= _PROGRESS_SECONDS:
                shown_at = time.monotonic()
                print(f"{num_episodes - _count_remaining(player)} of {num_episodes} episodes ended", flush=True)
    reason = "had not ended" if stop.requested else "did not end"
    if stop.requested and sheet.scores():
        reason += "; those above are the shorter ones"
    _print_scores(sheet, player, num_episodes, reason)
    if stop.requested:
        raise KeyboardInterrupt


def _show(play: WatchedPlay, options: EvalOptions, in_window: bool, name: str) -> None:
    show, interrupt = Show(play, options, in_window, name), None
    try:
        show.run()
    except DisplayError as error:
        remedy = "unset it, or pass --headless or --video play.gif, to go without a window"
        raise DisplayError(f"no window can be opened, as {display_trouble()}; {remedy}") from error
    except KeyboardInterrupt as error:
        interrupt = error
    reason = "had not ended when the window was closed" if show.is_left else "did not end"
    _print_scores(play.sheet, play.player, options.episodes, reason)
    if play.is_helped:
        print("a person took part, so these are not the scores of the policy alone")
    if show.video is not None:
        print(printable(_described(show.video)))
    if interrupt is not None:
        raise interrupt


def _print_scores(sheet: scores.ScoreSheet, player: Player, episodes: int, reason: str) -> None:
    # And how many episodes are missing, with the reason.
    for name, score in sheet.scores().items():
        print(printable(f"{name:<16} {score}"))
    remaining = _count_remaining(player)
    if remaining:
        print(f"{remaining} of {episodes} episodes {reason}")


def _count_remaining(player: Player) -> int:
    is_single = scores.counts_by_agent(player.vecenv.driver_env) and not isinstance(player.policy, Versus)
    return int((player.remaining if is_single else player.remaining.reshape(player.vecenv.num_envs, -1).max(1)).sum())


def _described(video: VideoWriter) -> str:
    if not video.path.exists():
        return f"no video was written to {video.path}, as there was nothing to show"
    width, height = video.size
    fps, megabytes = float(video.fps), video.path.stat().st_size / 1e6
    return (
        f"{video.path}: {video.frames:,} frames, {video.frames / fps:.2f} s at {fps:g} frames a second, "
        f"{width} x {height}, {megabytes:.2f} MB"
    )
