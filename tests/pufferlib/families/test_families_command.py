"""The command line with names that are no file names."""

import json

import pytest
from command import run

from pufferlib.families import catalog

PONG = "ALE/Pong-v5"
SMALL = [
    *("--vec.num-envs", 1, "--vec.backend", "Serial", "--train.bptt-horizon", 8, "--train.minibatch-size", 8),
    *("--train.update-epochs", 1, "--policy.hidden-size", 8, "--train.log-interval", 1, "--train.final-episodes", 0),
]


@pytest.fixture(autouse=True)
def _has_atari():
    if not next(family for family in catalog.families() if family.name == "atari").is_installed:
        pytest.skip("needs ale_py and cv2")


@pytest.mark.slow
def test_a_name_with_a_slash_trains_resumes_and_is_evaluated(tmp_path):
    assert run(tmp_path, "train", PONG, *SMALL, "--train.num-iterations", 2) == (0, "")
    (folder,) = (tmp_path / "experiments").iterdir()
    assert folder.name.startswith("ALE_Pong-v5_") and (folder / "model_ALE_Pong-v5_000002.pt").exists()
    settings = json.loads((folder / "config.json").read_text())["settings"]
    assert (settings["env_name"], settings["package"]) == (PONG, "atari")

    assert run(tmp_path, "train", PONG, "--resume", "latest", "--train.num-iterations", 3) == (0, "")
    assert [path.name for path in (tmp_path / "experiments").iterdir()] == [folder.name]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["agent_steps"] for line in lines] == [8, 16, 24]

    play = ("--load-model-path", "latest", "--headless", "--episodes", 1, "--max-steps", 5)
    assert run(tmp_path, "eval", PONG, *play) == (0, "")
    assert "1 of 1 episodes did not end" in (tmp_path / "stdout").read_text()


def test_bench_and_help_know_other_families(tmp_path):
    assert run(tmp_path, "bench", "CartPole-v1", "--seconds", "0.05") == (0, "")
    assert "CartPole-v1: agent steps per second" in (tmp_path / "stdout").read_text()
    assert run(tmp_path, "train", PONG, "--help") == (0, "")
    assert "--env.repeat-action-probability 0.0" in (tmp_path / "stdout").read_text()
