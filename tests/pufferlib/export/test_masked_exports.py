"""Exports of policies for environments with action masks."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest
import torch

from pufferlib import models, vector
from pufferlib.export import export_policy, exporting
from pufferlib.ocean.connect4.connect4 import Connect4
from pufferlib.ocean.squared.squared import Squared
from pufferlib.ppo.sampling import mask_logits

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc")


@pytest.fixture
def env():
    env = Connect4(num_envs=6, bot_depth=0)
    env.reset(0)
    env.action_masks[:] = np.random.default_rng(0).random((6, 7)) < 0.4
    env.action_masks[:, 3] = True
    return env


def policy_of(env, is_recurrent=False):
    torch.manual_seed(0)
    policy = models.Default(env, hidden_size=16)
    return models.MinGRUWrapper(env, policy, input_size=16, hidden_size=16) if is_recurrent else policy


@torch.no_grad()
def expected_logits(policy, env):
    logits, _ = policy(torch.from_numpy(env.observations))
    return mask_logits(logits, torch.from_numpy(env.action_masks)).numpy()


@pytest.mark.slow
def test_onnx_has_the_masks_as_an_input(env, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'pufferlib[export]'")
    policy = policy_of(env)
    path = export_policy(policy, env, tmp_path / "policy.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(path))
    assert [each.name for each in session.get_inputs()] == ["observations", "action_masks"]
    logits, _ = session.run(None, {"observations": env.observations, "action_masks": env.action_masks})
    assert np.isneginf(logits[~env.action_masks]).all()
    np.testing.assert_allclose(logits, expected_logits(policy, env), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("is_recurrent", [False, True])
def test_torchscript_has_the_masks_as_its_last_argument(env, tmp_path, is_recurrent):
    policy = policy_of(env, is_recurrent)
    path = export_policy(policy, env, tmp_path / "policy.pt", "torchscript")
    files = {"notes.json": ""}
    loaded = torch.jit.load(str(path), _extra_files=files)
    names = json.loads(files["notes.json"])["arguments"]
    assert names[0] == "observations" and names[-1] == "action_masks"
    states = [torch.zeros(6, 16) for _ in names[1:-1]]
    logits, *_ = loaded(torch.from_numpy(env.observations), *states, torch.from_numpy(env.action_masks))
    assert logits[~torch.from_numpy(env.action_masks)].isneginf().all()
    if not is_recurrent:
        torch.testing.assert_close(logits, torch.from_numpy(expected_logits(policy, env)), rtol=1e-4, atol=1e-5)


@needs_compiler
def test_c_plays_by_the_masks(env, tmp_path):
    """A draw of illegal columns would lose; the greedy player of an untrained policy ends all games regularly."""
    folder = export_policy(policy_of(env), env, tmp_path / "connect4_c", "c")
    header = (folder / "connect4.h").read_text() if (folder / "connect4_policy.h").exists() is False else ""
    text = header or (folder / "connect4_policy.h").read_text()
    assert "CONNECT4_POLICY_CHOICES = 7" in text and "puffernet_forbid" in text
    program = next(folder.glob("*_play.c"))
    watched = program.read_text().replace("        c_step(&envs[i]);", WATCH)
    program.write_text(watched)
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", program.name, "-o", "play", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    for mode in ([], ["sample"]):
        done = subprocess.run([folder / "play", "400", *mode], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "n = 400" in done.stdout


WATCH = """
        if (!action_masks[i * CONNECT4_POLICY_CHOICES + actions[i]]) exit(3);
        c_step(&envs[i]);"""


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_policy_of_an_environment_without_masks_keeps_its_form(tmp_path):
    env = Squared(num_envs=2)
    path = export_policy(models.Default(env, hidden_size=8), env, tmp_path / "policy.pt", "torchscript")
    files = {"notes.json": ""}
    torch.jit.load(str(path), _extra_files=files)
    assert json.loads(files["notes.json"])["arguments"] == ["observations"]
    if shutil.which("cc"):
        folder = export_policy(models.Default(env, hidden_size=8), env, tmp_path / "squared_c", "c")
        assert "masks" not in (folder / "squared_policy.h").read_text()


class Waiting(Connect4):
    """An agent whose turn it is not has no choice."""

    def reset(self, seed=None):
        results = super().reset(seed)
        self.action_masks &= self.masks[:, None]
        return results

    def step(self, actions):
        results = super().step(actions)
        self.action_masks &= self.masks[:, None]
        return results


def test_play_before_an_export_asks_no_agent_that_waits():
    with vector.make(Waiting, env_kwargs={"num_envs": 2, "opponent": "self"}, backend="Serial") as vecenv:
        seen = exporting._observations_of_play(vecenv, policy_of(vecenv.driver_env))
    assert seen.shape[:2] == (exporting.STEPS, 4)
