import io
import math
import re
import subprocess
import sys
import threading
import time

import pytest
import torch
from hypothesis import given, settings, strategies as st
from rich.console import Console
from terminal import SHOW_CURSOR, run_on_terminal

from pufferlib import machine
from pufferlib.dashboard import panel
from pufferlib.dashboard.panel import (
    Dashboard,
    count_text,
    duration_text,
    number_text,
    percent_text,
    remaining_seconds,
)
from pufferlib.metrics.measures import HardwareMeter

METRICS = {
    "agent_steps": 4_200_000,
    "epoch": 64,
    "sps": 450_000.0,
    "uptime": 12.3,
    "learning_rate": 0.0147,
    "performance/environment": 0.12,
    "performance/update": 0.53,
    "losses/policy_loss": -0.0123,
    "losses/explained_variance": 0.88,
    "episode/return_mean": 150.25,
    "episode/return_min": -3.0,
    "episode/return_max": 864.0,
    "episode/length_mean": 1234.5,
    "episode/count": 5678,
    "hardware/cpu": 0.98,
    "hardware/memory": 0.25,
    "hardware/memory_bytes": 2 * 2**30,
    "environment/score": 211.25,
    "environment/[red]odd[/red]": 3.0,
}
SCRIPT = f"""
import sys
from pufferlib.dashboard.panel import Dashboard
dashboard = Dashboard("puffer_squared", {{"Device": "cpu"}}, 90_000_000)
for _ in range(2):
    dashboard.show({METRICS!r})
"""


def panel_text(metrics, total_steps=90_000_000, width=80, height=24):
    console = Console(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(panel.render("puffer_squared", {"Device": "cpu"}, metrics, total_steps, console))
    return console.export_text()


# --- the panel


def test_the_panel_shows_all_there_is_to_know():
    text = panel_text(METRICS)
    for words in (
        *("PufferLib puffer_squared", "Steps 4.2M / 90M", "Remaining 3m 10s", "Steps/s 450K", "Epoch 64"),
        *("Learning rate 0.0147", "CPU 98%", "Memory 2.0 GiB (25%)", "Device cpu", "Uptime 12s"),
        *("Return 150.2 (-3 to 864)", "Length 1234", "Episodes 5.68K"),
        *("Time", "Losses", "Environment", "[red]odd[/red]"),
    ):
        assert words in text
    for name, number in (("environment", "12%"), ("update", "53%"), ("policy_loss", "-0.0123"), ("score", "211.2")):
        assert re.search(rf"{name} +{re.escape(number)}", text)


def test_a_gpu_has_its_place_where_there_is_one():
    gpu = {"hardware/gpu": 0.87, "hardware/gpu_memory": 0.14, "hardware/gpu_memory_bytes": 20 * 2**30}
    line = next(line for line in panel_text({**METRICS, **gpu}).splitlines() if "CPU" in line)
    assert "CPU 98%   Memory 2.0 GiB (25%)   GPU 87%   GPU memory 20.0 GiB (14%)" in line
    assert "GPU" not in panel_text(METRICS)


def test_a_plain_line_speaks_of_an_evaluation_once_and_the_panel_until_the_next_one():
    numbers = {"return_mean": 1234.5, "return_std": 67.8, "return_min": -2, "return_max": 1300, "length_mean": 99.5}
    evaluated = {**METRICS, **{f"eval/{name}": value for name, value in numbers.items()}}
    assert "evaluation 1234" in panel.plain_line("puffer_squared", evaluated, 10)
    assert "evaluation" not in panel.plain_line("puffer_squared", METRICS, 10)
    words = "Evaluation 1234 ± 67.8 (-2 to 1300)   Length 99.5"
    assert words in panel_text(evaluated)
    assert len(panel_text(evaluated).splitlines()) == len(panel_text(METRICS).splitlines())
    code, written = run_on_terminal(SCRIPT.replace("for _ in", f"dashboard.show({evaluated!r})\nfor _ in"))
    assert code == 0 and "1234 ± 67.8" in written.rsplit("PufferLib", 1)[1]


def test_a_plain_line_says_of_how_many_episodes_it_speaks():
    line = panel.plain_line("puffer_squared", {"environment/perf": 0.5, "environment/n": 1234.0}, 10)
    assert line.endswith("1.23K episodes ended  perf 0.5")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (60, 16)])
def test_the_panel_fits_the_terminal_whatever_the_environment_reports(width, height):
    many = {f"environment/statistic_number_{index}": float(index) for index in range(100)}
    lines = panel_text({**METRICS, **many}, width=width, height=height).splitlines()
    assert len(lines) <= height and all(len(line) <= width for line in lines)
    assert "more" in "".join(lines)


def test_the_panel_is_drawn_before_there_is_anything_to_show():
    text = panel_text({})
    assert "Remaining -" in text and "Steps 0 / 90M" in text and "CPU -" in text and "Return -" in text
    assert len(text.splitlines()) < 24


@pytest.mark.parametrize(("steps", "fraction"), [(0, 0.0), (45_000_000, 0.5), (90_000_000, 1.0), (90_100_000, 1.0)])
def test_the_bar_is_filled_as_far_as_the_run_is(steps, fraction):
    line = panel_text({**METRICS, "agent_steps": steps}).splitlines()[1]
    filled, ahead = line.count("━"), line.count("─")
    assert filled + ahead > 20 and filled / (filled + ahead) == pytest.approx(fraction, abs=0.02)
    assert ("Remaining 0s" in line) == (fraction == 1.0)


# --- the terminal


def test_closing_leaves_the_last_panel_and_gives_the_terminal_back():
    code, written = run_on_terminal(SCRIPT + "dashboard.close(); dashboard.close(); print('after')")
    assert code == 0
    assert written.rindex(SHOW_CURSOR) < written.rindex("after")
    assert "PufferLib" in written


@pytest.mark.parametrize("end", ["raise KeyError('a bug')", "sys.exit(1)", "del dashboard; sys.exit(1)"])
def test_the_terminal_is_given_back_when_the_program_fails(end):
    code, written = run_on_terminal(SCRIPT + end)
    assert code == 1
    assert written.count("\x1b[?25l") == 1 and SHOW_CURSOR in written.split("\x1b[?25l")[1]
    assert ("KeyError: 'a bug'" in written) == ("KeyError" in end)


# --- plain lines


def test_without_a_terminal_every_show_is_one_plain_line():
    stream = io.StringIO()
    shown = Dashboard("puffer_squared", {}, 90_000_000, stream)
    shown.show(METRICS)
    shown.show({})
    shown.close()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("puffer_squared  4.2M/90M steps  5% done  450K steps/s  remaining 3m 10s  epoch 64")
    assert "return 150.2  score 211.2" in first and "[red]odd[/red] 3" in first and "\x1b" not in first
    assert "remaining -" in second


@pytest.mark.parametrize("variable", [("TERM", "dumb"), ("JPY_PARENT_PID", "1")], ids=["dumb", "a command in a cell"])
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(variable, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(*variable)
    Dashboard("run", {}, 10, stream).show({"agent_steps": 5})
    assert stream.getvalue().startswith("run  5/10 steps  50% done")


# --- texts


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (80, "1m 20s"),
        (7380, "2h 03m"),
        (3 * 86_400 + 5, "3d 00h"),
        (math.inf, "-"),
        (-5, "0s"),
    ],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**12), st.floats(-1, 1e9), st.integers(1, 10**12))
def test_the_remaining_time_is_never_negative(steps, speed, total):
    assert remaining_seconds({"agent_steps": steps, "sps": speed}, total) >= 0


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1234, "1.23K"), (4.2e6, "4.2M"), (999_900, "1000K"), (2e13, "20T")]
)
def test_counts(count, text):
    assert count_text(count) == text


@settings(deadline=None, max_examples=100)
@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_number_has_a_short_text(value):
    assert len(number_text(value)) <= 11
    assert percent_text(value).endswith("%") and len(percent_text(value)) <= 4


# --- use of the machine


def test_use_of_the_cpu_is_relative_to_the_cores_that_may_be_used():
    meter = HardwareMeter(torch.device("cpu"))
    stop = threading.Event()
    spinners = [threading.Thread(target=lambda: any(stop.is_set() for _ in iter(int, 1))) for _ in range(2)]
    for spinner in spinners:
        spinner.start()
    begin = time.process_time()
    while time.process_time() - begin < 0.2:
        time.sleep(0.01)
    stop.set()
    for spinner in spinners:
        spinner.join()
    sample = meter.sample()
    assert 0 < sample["cpu"] <= 1
    assert 2**20 < sample["memory_bytes"] < machine.usable_memory_bytes()
    assert 0 < sample["memory"] < 1
    time.sleep(0.2)
    assert meter.sample()["cpu"] < sample["cpu"]


def test_a_worker_that_ended_does_not_make_the_use_negative():
    child = subprocess.Popen([sys.executable, "-c", "sum(range(10**7)); input()"], stdin=subprocess.PIPE)
    meter = HardwareMeter(torch.device("cpu"))
    child.communicate(b"\n")
    assert 0 <= meter.sample()["cpu"] <= 1
