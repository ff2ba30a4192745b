"""Pages of environments with their agents, on one core: seconds to make and to open, steps, decisions, frames a second.

    python bench/web.py                          breakout
    python bench/web.py puffer_go puffer_snake --no-record

A page is made as a user makes it, by `puffer export`. Its module steps 16 games in Node, beside `env.step` of the same
games and of 4,096 agents, by the same random actions. Then a headless Chromium, whose processes have one core together
and draw without a GPU, opens it from the disk: seconds from its last byte to the first picture, and frames a second of
1 and of 16 games, over four seconds. Rows go to bench/results/web.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from calibrate import calibration
from env import NUM_AGENTS, random_actions
from record import tell

from pufferlib import ocean
from pufferlib.runs.description import pretrained_names

TESTS = Path(__file__).parents[1] / "tests" / "pufferlib"
sys.path.insert(0, str(TESTS))
import browser  # noqa: E402  from the tests

GAMES = 16  # of a page, at most
STEPS, ROUNDS = 1 << 20, 3  # of all agents in a round, of which the best counts
FRAMES = """new Promise((done) => {
    const advance = puffer.advance.bind(puffer);
    let frames = -1, begin = 0;  // from a frame on
    puffer.advance = (seconds) => {
        advance(seconds);
        begin ||= performance.now();
        frames += 1;
        const passed = performance.now() - begin;
        if (passed > 4000) {
            puffer.advance = advance;
            done(1000 * frames / passed);
        }
    };
})"""
FIRST = """(performance.getEntriesByName("first picture")[0].startTime
    - performance.getEntriesByType("navigation")[0].responseEnd) / 1000"""


def made(name: str, folder: str) -> tuple[Path, float]:
    """The page of an environment, and the seconds that it took."""
    page = Path(folder, f"{name}.html")
    words = ["-m", "pufferlib", "export", name, "--pretrained", "--format", "web", "--output", str(page)]
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return page, time.perf_counter() - begin


def native_rate(name: str, num_envs: int) -> tuple[float, list[np.ndarray]]:
    """Steps a second of `env.step` on this thread, by random actions in turn, and the actions."""
    env = ocean.env_class(name)(num_envs=num_envs, report_interval=10**9)
    env.reset(seed=1)
    actions, seconds = random_actions(env.single_action_space, env.actions.shape, env.actions.dtype), []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        for step in range(STEPS // env.num_agents):
            env.step(actions[step % len(actions)])
        seconds.append(time.perf_counter() - begin)
    env.close()
    return STEPS // env.num_agents * env.num_agents / min(seconds[1:]), actions


def in_node(page: Path, actions: list[np.ndarray], folder: str) -> dict[str, float]:
    """Steps and decisions a second of the page's module."""
    file = Path(folder, "actions")
    np.stack(actions).tofile(file)
    request = {"does": "speeds", "steps": STEPS // len(actions[0]), "actions": str(file)}
    command = ["node", str(TESTS / "export" / "page_in_node.js"), str(page), json.dumps(request)]
    return json.loads(subprocess.check_output(command))


def in_browser(page: Path, folder: str) -> list[tuple[str, float, str]]:
    """Seconds from the whole file to the first picture, in a browser that has opened nothing yet; frames a second."""
    results = []
    with browser.open_browser(folder) as tab:
        tab.show(width=1280, height=1000)
        time.sleep(2)  # until the browser itself is there
        for games in (1, GAMES):
            tab.open(f"{page.as_uri()}#seed=1&games={games}")
            if games == 1:
                results.append(("first picture", tab.run(FIRST), "s"))
            time.sleep(1)
            results.append((f"{games} in Chromium", tab.run(FRAMES), "frames/s"))
    return results


def measured(name: str) -> list[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        page, seconds = made(name, folder)
        per_env = ocean.env_class(name).agents_per_env
        native, actions = native_rate(name, GAMES)
        most, _ = native_rate(name, max(GAMES, NUM_AGENTS // per_env))
        rates = in_node(page, actions, folder)
        results = [
            ("puffer export", seconds, "s"),
            ("page", page.stat().st_size / 1000, "kB"),
            (f"{GAMES} in Node", rates["steps"], "steps/s"),
            (f"{GAMES} by env.step", native, "steps/s"),
            (f"{NUM_AGENTS} agents by env.step", most, "steps/s"),
            (f"{GAMES} in Node, decisions", rates["decisions"], "decisions/s"),
            *in_browser(page, folder),
        ]
    return [(f"{name.removeprefix(ocean.PREFIX)}, {case}", value, unit) for case, value, unit in results]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["puffer_breakout"], help="environments that have agents")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    unknown = sorted({*options.names} - {*pretrained_names()})
    if unknown:
        parser.error(f"expected environments that come with an agent, got {unknown[0]}")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in options.names:
        before = calibration()
        tell("web", measured(name), before, not options.no_record)
