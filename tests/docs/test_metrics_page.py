"""The page of metrics names what a run logs, all of it and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pufferlib import PuffeRL

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
ELSEWHERE = {  # what a single process on a CPU, without opponents, does not log
    *(f"selfplay/{name}" for name in ("elo", "elo_interval", "win_rate", "win_rate/<member>", "members")),
    "performance/communicate",
    "device/<phase>",
    "hardware/gpu",
    "hardware/gpu_memory",
    "hardware/gpu_memory_bytes",
}


@pytest.fixture
def told():
    return set(re.findall(r"^`([^`]+)`\n: ", PAGE.read_text(), re.MULTILINE))


@pytest.fixture
def logged(in_tmp_path):
    trainer = PuffeRL(
        "puffer_squared",
        num_envs=64,
        total_timesteps=3 * 64 * 128,
        batch_size=64 * 128,
        evaluations=1,
        evaluation_envs=2,
        skip_nonfinite=True,
        final_episodes=2,
    )
    trainer.score_finally(lambda: True)
    trainer.learn(dashboard=False)
    trainer.close()
    lines = (trainer.run_folder / "metrics.jsonl").read_text().splitlines()
    return {name for line in lines for name in json.loads(line)}


def name_on_the_page(name: str) -> str:
    name = re.sub(r"^(since_start/\w+)/.*", r"\1/...", name)
    name = re.sub(r"^final/(?!(n|return_mean|length_mean)$).*", "final/<name>", name)
    return re.sub(r"^environment/(?!n$).*", "environment/<name>", name)


def test_the_page_names_every_metric_that_is_logged_and_no_other(logged, told):
    assert {name_on_the_page(name) for name in logged} == told - ELSEWHERE
    assert told >= ELSEWHERE
