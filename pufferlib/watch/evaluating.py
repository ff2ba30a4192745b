"""`puffer eval`: plays the policy of a run, in a window, as a video, or for its scores alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pufferlib.config.options import EvalOptions
from pufferlib.errors import APIUsageError, DisplayError
from pufferlib.families.catalog import Entry, find, slug
from pufferlib.metrics.output import printable
from pufferlib.ocean.screen import display_trouble, has_display
from pufferlib.play.evaluation import prepare_players
from pufferlib.play.player import Player
from pufferlib.play.scores import ScoreSheet, counts_by_agent, episodes_per_agent
from pufferlib.runs.stopping import StopRequest
from pufferlib.vector import Vector
from pufferlib.watch.array_scene import array_settings
from pufferlib.watch.recording_line import RecordingLine
from pufferlib.watch.scene import Scene
from pufferlib.watch.scenes import make_scene
from pufferlib.watch.show import RenderOptions, Show
from pufferlib.watch.video import VideoWriter, require_video
from pufferlib.watch.watched_play import WatchedPlay

LEAST_PICTURES = 30.0  # a second in a window, where `--fps` does not say: keys are read with each


@dataclass(frozen=True)
class _Display:
    in_window: bool
    video: Path | None
    why_no_window: str = ""

    @property
    def is_drawn(self) -> bool:
        return self.in_window or self.video is not None


def evaluate_command(env_name: str, args: dict[str, Any], options: EvalOptions) -> None:
    """Plays and prints the scores.

    The episodes are the same with a window, with a video and without; without, many run side by side.
    """
    entry = find(env_name)
    display = _display(entry, options)
    print(printable(_beginning(env_name, args, options, display)), flush=True)
    seed = args["train"]["seed"] if options.seed is None else options.seed
    needs = {} if entry.family == "ocean" else array_settings(entry)
    drawn_with = needs if display.is_drawn else None
    with prepare_players(env_name, args, options.episodes, options.is_greedy, seed, drawn_with) as make_player:
        _print_agents(make_player().vecenv, options.episodes)
        if display.is_drawn:
            _show(make_player, options, display, seed, slug(entry.name))
        else:
            _score(make_player, options, seed)


def _display(entry: Entry, options: EvalOptions) -> _Display:
    video = None if options.video is None else Path(options.video)
    if video is not None:
        require_video(video)
    if options.sample and options.deterministic:
        raise APIUsageError("--sample and --deterministic ask for opposites; pass one of them")
    if options.window and options.headless:
        raise APIUsageError("--window and --headless ask for opposites; pass one of them")
    if options.window and not has_display():
        raise APIUsageError("--window needs a display, and there is none; on Linux DISPLAY or WAYLAND_DISPLAY names it")
    can_be_drawn = entry.family == "ocean" or "render_mode" in entry.settings or entry.takes_any_setting
    if not can_be_drawn and (video is not None or options.window):
        raise APIUsageError(f"{entry.name} cannot be drawn, as it takes no render_mode; pass --headless to score it")
    if options.headless or (video is not None and not options.window):
        display = _Display(False, video, "without a window")
    elif not has_display():
        display = _Display(False, video, "without a window, as there is no display")
    elif not can_be_drawn:
        display = _Display(False, video, "without a window, as it cannot be drawn")
    else:
        display = _Display(True, video)
    if display.is_drawn and options.grid > options.episodes:
        raise APIUsageError(
            f"--grid {options.grid} needs an episode for each of the environments, got {options.episodes}; "
            f"pass --episodes {options.grid} or more"
        )
    return display


def _beginning(env_name: str, args: dict[str, Any], options: EvalOptions, display: _Display) -> str:
    shown = (
        f" into {display.video}"
        if display.video is not None
        else f", {display.why_no_window}"
        if display.why_no_window
        else ""
    )
    policy = args["load_model_path"] or "an untrained policy (--load-model-path latest takes the last that was trained)"
    actions = "the likeliest actions (--sample draws them)" if options.is_greedy else "actions that are drawn"
    return (
        f"playing {options.episodes} episode{'s' * (options.episodes != 1)} of {env_name}{shown}, "
        f"by {policy}, with {actions}"
    )


def _print_agents(vecenv: Vector, episodes: int) -> None:
    agents = vecenv.agents_per_env
    if agents == 1:
        return
    if counts_by_agent(vecenv.driver_env):
        print(f"an episode is one of a single agent: the {agents} agents of an environment begin and end on their own")
    else:
        print(f"an episode is one of all {agents} agents, so n is {episodes * agents:,} where each of them is counted")


def _score(make_player: Callable[[], Player], options: EvalOptions, seed: int) -> None:
    player, sheet = make_player(), ScoreSheet()
    with StopRequest() as stop:
        for ended in player.play(*_quotas(player, options), seed):
            for episodes in ended:
                sheet.add(episodes)
            if stop.requested:
                break
    _print_scores(sheet)
    unfinished = _unfinished(player)
    if unfinished and stop.requested:
        print(f"{unfinished} of {options.episodes} episodes had not ended; those above are the shorter ones")
    elif unfinished:
        print(f"{unfinished} of {options.episodes} episodes did not end")
    if stop.requested:
        raise KeyboardInterrupt


def _show(make_player: Callable[[], Player], options: EvalOptions, display: _Display, seed: int, name: str) -> None:
    player = make_player()
    side_by_side = min(options.grid, player.vecenv.num_envs)
    play = WatchedPlay(make_player, make_scene, *_quotas(player, options), seed, side_by_side)

    rendering = RenderOptions(
        lambda scene: options.fps or _frame_rate(scene, display),
        display.in_window,
        display.video,
        name,
        options.panel,
        options.speed,
    )
    with RecordingLine() as line:
        show = Show(play, rendering, lambda video: line.update(video, play.player))
        try:
            show.run()
        except DisplayError as error:
            remedy = "unset it, or pass --headless or --video play.gif, to go without a window"
            raise DisplayError(f"no window can be opened, as {display_trouble()}; {remedy}") from error
        except KeyboardInterrupt:
            line.clear()
            _print_outcome(play, show, options)
            raise
    _print_outcome(play, show, options)


def _print_outcome(play: WatchedPlay, show: Show, options: EvalOptions) -> None:
    _print_scores(play.sheet)
    unfinished = _unfinished(play.player)
    if unfinished:
        reason = "had not ended when the window was closed" if show.is_left else "did not end"
        print(f"{unfinished} of {options.episodes} episodes {reason}")
    if play.is_helped:
        print("a person took part, so these are not the scores of the policy alone")
    if show.video is not None:
        print(printable(_described(show.video)))


def _frame_rate(scene: Scene, display: _Display) -> float:
    return scene.frames_per_second if display.video is not None else max(scene.frames_per_second, LEAST_PICTURES)


def _quotas(player: Player, options: EvalOptions) -> tuple[np.ndarray, int]:
    quotas = episodes_per_agent(options.episodes, player.vecenv)
    return quotas, options.max_steps * int(quotas.max())


def _unfinished(player: Player) -> int:
    if counts_by_agent(player.vecenv.driver_env):
        return int(player.remaining.sum())
    return int(player.remaining.reshape(player.vecenv.num_envs, -1).max(1).sum())


def _print_scores(sheet: ScoreSheet) -> None:
    for name, score in sheet.scores().items():
        print(printable(f"{name:<16} {score}"))


def _described(video: VideoWriter) -> str:
    if not video.path.exists():
        return f"no video was written to {video.path}, as there was nothing to show"
    width, height = video.size
    fps, megabytes = float(video.fps), video.path.stat().st_size / 1e6
    return (
        f"{video.path}: {video.frames:,} frames, {video.frames / fps:.2f} s at {fps:g} frames a second, "
        f"{width} x {height}, {megabytes:.2f} MB"
    )
