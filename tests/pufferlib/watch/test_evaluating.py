import os
import re
import signal
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from torch import nn

from pufferlib import vector
from pufferlib.config import load_config
from pufferlib.config.flags import EvalOptions
from pufferlib.errors import APIUsageError, PufferError
from pufferlib.families import catalog
from pufferlib.ocean import screen
from pufferlib.play.matches import Versus
from pufferlib.runs import checkpoint
from pufferlib.runs.loaders import load_policy
from pufferlib.watch import evaluating
from pufferlib.watch.controls import HOLD_SECONDS
from pufferlib.watch.evaluating import evaluate_command
from pufferlib.watch.video import VideoWriter

CARTPOLE, SQUARED = "puffer_cartpole", "puffer_squared"


@pytest.fixture
def untrained(tmp_path, monkeypatch):
    """Settings and the path of an untrained policy of any environment, in a folder that is empty but for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()

    def save(env_name, **env):
        args = load_config(env_name)
        args["env"].update(env)
        args["train"]["device"] = "cpu"
        one = {"num_envs": 1} if env_name.startswith("puffer_") else {}
        creator, env_kwargs = catalog.find(env_name).creator, {**args["env"], **one}
        with vector.make(creator, env_kwargs=env_kwargs, backend="Serial") as vecenv:
            policy = load_policy(args, vecenv, env_name)
        checkpoint.save(tmp_path / "models" / "model.pt", policy.state_dict())
        return {**args, "load_model_path": "models/model.pt"}

    return save


@pytest.fixture
def played(untrained, capsys):
    """Plays with an untrained policy; returns the lines that are printed."""

    def play(env_name, env=None, **options):
        evaluate_command(env_name, untrained(env_name, **(env or {})), EvalOptions(**options))
        return capsys.readouterr().out.splitlines()

    return play


# --- scores alone


def test_a_line_for_every_statistic(played):
    beginning, *lines = played(SQUARED, {"size": 5}, episodes=3, headless=True)
    assert beginning == (
        "playing 3 episodes of puffer_squared, without a window, by models/model.pt, "
        "with the likeliest actions (--sample draws them)"
    )
    assert len(lines) >= 4 and all("+-" in line and line.endswith("(n = 3)") for line in lines)


def test_episodes_that_do_not_end_are_told(played):
    lines = played("CartPole-v1", {"max_episode_steps": 7}, episodes=40, headless=True)
    assert lines[1:] == ["episode_return   7.000 +- 0.000 (n = 40)", "episode_length   7.000 +- 0.000 (n = 40)"]
    lines = played("CartPole-v1", {"max_episode_steps": 7}, episodes=4, headless=True, max_steps=5)
    assert lines[1:] == ["4 of 4 episodes did not end"]


@pytest.mark.slow
def test_it_says_what_an_episode_of_several_agents_is(played):
    _, told, *lines = played("puffer_snake", {"num_snakes": 20}, episodes=30, headless=True)
    assert told == "an episode is one of a single agent: the 20 agents of an environment begin and end on their own"
    assert lines and all(line.endswith("(n = 30)") for line in lines)
    _, told, *lines = played("puffer_target", episodes=2, headless=True)
    assert told == "an episode is one of all 8 agents, so n is 16 where each of them is counted"
    assert lines and all(line.endswith("(n = 16)") for line in lines)


def test_a_long_play_says_how_many_episodes_ended(played, monkeypatch):
    monkeypatch.setattr(evaluating, "_PROGRESS_SECONDS", 0.0)
    lines = played("CartPole-v1", {"max_episode_steps": 3}, episodes=40, headless=True)
    assert lines[1:7] == [f"{count} of 40 episodes ended" for count in (0, 0, 32, 32, 32, 40)]
    assert len(lines) == 9


@pytest.mark.parametrize(("policy", "expected"), [(nn.Identity(), 7), (Versus(nn.Identity(), None, np.ones(4), 4), 2)])
def test_what_is_left_is_counted_in_games_where_there_is_an_opponent(policy, expected):
    driver = SimpleNamespace(counts_episodes_by_agent=True)
    vecenv = SimpleNamespace(driver_env=driver, num_envs=1)
    player = SimpleNamespace(policy=policy, vecenv=vecenv, remaining=np.array([2, 2, 2, 1]))
    assert evaluating._count_remaining(player) == expected


def test_an_interrupt_before_the_first_end_speaks_of_no_scores(played, capsys, monkeypatch):
    class Stopped(evaluating.StopRequest):
        def __enter__(self):
            stop = super().__enter__()
            stop.requested = True
            return stop

    monkeypatch.setattr(evaluating, "StopRequest", Stopped)
    with pytest.raises(KeyboardInterrupt):
        played("CartPole-v1", episodes=4, headless=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["4 of 4 episodes had not ended"]


def test_an_interrupt_prints_what_there_is_so_far(played, capsys, monkeypatch):
    add = evaluating.scores.ScoreSheet.add

    def add_and_interrupt(sheet, episodes):
        add(sheet, episodes)
        if len(episodes.returns):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(evaluating.scores.ScoreSheet, "add", add_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        played(SQUARED, {"size": 5}, episodes=1000, headless=True)
    _, *lines, ending = capsys.readouterr().out.splitlines()
    count = int(re.fullmatch(r"(\d+) of 1000 episodes had not ended; those above are the shorter ones", ending)[1])
    assert lines and all(line.endswith(f"(n = {1000 - count})") for line in lines)


@pytest.mark.parametrize(
    ("options", "is_greedy"),
    [
        ({}, True),
        ({"sample": True}, False),
        ({"deterministic": True}, True),
        ({"deterministic": False}, False),
        ({"deterministic": False, "sample": True}, False),
    ],
)
def test_actions_are_the_likeliest_unless_they_are_to_be_drawn(options, is_greedy):
    assert EvalOptions(**options).is_greedy == is_greedy
    beginning = evaluating._beginning(SQUARED, load_config(SQUARED), EvalOptions(**options), "")
    wanted = "the likeliest actions (--sample draws them)" if is_greedy else "actions that are drawn"
    assert beginning.endswith(f"with {wanted}")


@pytest.mark.parametrize(
    ("options", "has_display", "told"),
    [
        ({}, True, "playing 100 episodes of puffer_squared, by model.pt"),
        ({"episodes": 1, "headless": True}, True, "playing 1 episode of puffer_squared, without a window, by model.pt"),
        ({}, False, "playing 100 .*, without a window, as there is no display, by model.pt"),
        ({"video": "a.gif"}, False, "playing 100 episodes of puffer_squared into a.gif, by model.pt"),
    ],
)
def test_it_says_what_it_plays_and_why_nobody_sees_it(options, has_display, told, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluating, "has_display", lambda: has_display)
    options = EvalOptions(**options)
    why = evaluating._why_no_window(catalog.find(SQUARED), options)
    args = {**load_config(SQUARED), "load_model_path": "model.pt"}
    assert re.match(f"{told}, with", evaluating._beginning(SQUARED, args, options, why))
    args["load_model_path"] = None
    assert "an untrained policy (--load-model-path latest" in evaluating._beginning(SQUARED, args, options, why)


# --- videos


def video_of(path, width, height):
    """The frames of an mp4, and the seconds that it lasts."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    command = [ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    pixels = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(pixels, np.uint8).reshape(-1, height, width, 3), ffmpeg.count_frames_and_secs(path)[1]


@pytest.mark.slow
def test_a_video_shows_every_moment_at_its_time(played, tmp_path):
    lines = played(CARTPOLE, video="a.mp4", episodes=3)
    steps = 3 * float(re.search(r"episode_length +([\d.]+)", "\n".join(lines))[1])
    wanted = round((steps / 50 + HOLD_SECONDS) * 60)
    facts = re.fullmatch(r"a.mp4: (\d+) frames, ([\d.]+) s at 60 frames a second, (\d+) x (\d+), [\d.]+ MB", lines[-1])
    assert abs(int(facts[1]) - wanted) <= 1
    frames, seconds = video_of("a.mp4", int(facts[3]), int(facts[4]))
    assert len(frames) == int(facts[1]) and seconds == pytest.approx(len(frames) / 60, abs=0.02)
    moving = frames[: round(steps / 50 * 60) - 2 : 7].astype(int)
    assert all(abs(one - other).max() > 60 for one, other in zip(moving, moving[1:], strict=False))
    assert abs(frames[-1].astype(int) - frames[-25]).mean() < 0.5  # the last moment is held
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "models"]


@pytest.mark.slow
@pytest.mark.parametrize("sample", [False, True])
def test_episodes_are_the_same_however_they_are_shown(played, sample):
    given = {"episodes": 4, "sample": sample, "seed": 7}
    alone = played(CARTPOLE, headless=True, **given)[1:]
    assert played(CARTPOLE, video="a.gif", fps=10, **given)[1:-1] == alone
    assert played(CARTPOLE, video="a.gif", fps=10, grid=3, panel=True, **given)[1:-1] == alone
    assert played(CARTPOLE, headless=True, **{**given, "seed": 9})[1:] != alone


def picture_of(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def size_of(line):
    return tuple(map(int, re.search(r", (\d+) x (\d+), ", line).groups()))


@pytest.mark.slow
def test_environments_share_a_picture_and_the_panel_stands_beside_it(played):
    width, height = size_of(played(SQUARED, {"size": 5}, video="a.gif", fps=4, episodes=4)[-1])
    played(SQUARED, {"size": 5}, video="b.gif", fps=4, episodes=4, grid=4)
    grid = picture_of("b.gif")
    assert all(part[:100, :100].std() > 10 for half in np.array_split(grid, 2) for part in np.array_split(half, 2, 1))
    assert size_of(played(SQUARED, {"size": 5}, video="c.gif", fps=4, episodes=4, panel=True)[-1])[0] == width + 300
    pictures = [picture_of(name).astype(int) for name in ("a.gif", "c.gif")]
    begin = (pictures[1].shape[0] - height) // 2
    assert abs(pictures[1][begin : begin + height, :width] - pictures[0]).max() < 40  # colours of a palette
    assert len(np.unique(pictures[1][:, width:].reshape(-1, 3), axis=0)) > 10


def test_environments_of_gymnasium_are_shown_step_by_step(played):
    pytest.importorskip("pygame")
    lines = played("CartPole-v1", {"max_episode_steps": 8}, video="a.gif", episodes=2, panel=True)
    assert "episode_length   8.000 +- 0.000 (n = 2)" in lines
    assert re.match(r"a.gif: 41 frames, 0.82 s at 50 frames a second, ", lines[-1])


# --- mistakes


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"video": "a.avi"}, "must end in .mp4 or .gif"),
        ({"video": "nowhere/a.gif"}, "make the folder nowhere first"),
        ({"video": "a.gif", "grid": 4, "episodes": 3}, "--grid 4 needs an episode for each of .*, got 3; .* 4 or more"),
        ({"window": True}, "--window needs a display"),
        ({"sample": True, "deterministic": True}, "--sample and --deterministic ask for opposites"),
        ({"window": True, "headless": True}, "ask for opposites"),
        ({"opponent": "bot"}, "has no bot"),
        ({"opponent": "random"}, "needs games of 2 agents or more"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(untrained, options, told, monkeypatch, capsys):
    monkeypatch.setattr(evaluating, "has_display", lambda: False)
    args = untrained(SQUARED)
    with pytest.raises(PufferError, match=told):
        evaluate_command(SQUARED, args, EvalOptions(**options))
    assert capsys.readouterr().out == "" and screen.open_screen() is None


@pytest.mark.parametrize("options", [{"grid": 0}, {"fps": 0.0}, {"episodes": 0}])
def test_what_is_out_of_range_is_no_option(options):
    with pytest.raises(PufferError, match="must be"):
        EvalOptions(**options)


def test_no_screen_and_no_video_are_left_where_the_policy_does_not_load(untrained, tmp_path):
    args = {**untrained(SQUARED), "load_model_path": "missing.pt"}
    with pytest.raises(checkpoint.CheckpointError):
        evaluate_command(SQUARED, args, EvalOptions(video="a.gif"))
    assert [path.name for path in tmp_path.iterdir()] == ["models"] and screen.open_screen() is None


def test_an_environment_that_cannot_draw_says_so(untrained, monkeypatch):
    entry = catalog.find("CartPole-v1")
    monkeypatch.setattr(entry, "settings", {})
    with pytest.raises(APIUsageError, match="CartPole-v1 cannot be drawn"):
        evaluating._why_no_window(entry, EvalOptions(video="a.gif"))
    monkeypatch.setattr(evaluating, "has_display", lambda: True)
    assert evaluating._why_no_window(entry, EvalOptions())


@pytest.mark.quick("2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_video_that_can_be_watched_and_tells_what_there_is(untrained, monkeypatch, capsys, number):
    add = VideoWriter.add

    def end_after_30(video, frame):
        add(video, frame)
        if video.frames == 30:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(VideoWriter, "add", end_after_30)
    with pytest.raises(KeyboardInterrupt):
        evaluate_command(SQUARED, untrained(SQUARED), EvalOptions(episodes=100, video="cut.gif"))
    *_, told = capsys.readouterr().out.splitlines()
    assert told.startswith("cut.gif: 30 frames")
    with Image.open("cut.gif") as video:
        assert video.n_frames > 1
