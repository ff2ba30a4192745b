"""Pages: what they carry, stepped in Node, is what Python steps; what cannot be made is refused in a sentence."""

import contextlib
import json
import re
from inspect import signature
from pathlib import Path

import golden
import numpy as np
import pytest
import torch
from checked_headers import quick_params
from made_pages import DRAWN, every_drawn, in_node, made, needs_compiler, needs_node, page_of
from policies_to_export import CHOICE, VECTOR, spaces_of
from rollouts import random_actions

from pufferlib import cli, ocean
from pufferlib.environment import EpisodeTracker, Keys
from pufferlib.errors import ExportError, MissingExtraError
from pufferlib.export import c_format, export_policy, web_format
from pufferlib.export.c_layers import network_of
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.play.player import clear_states
from pufferlib.policy import acting_forward
from pufferlib.ppo.sampling import greedy_action
from pufferlib.runs.description import pretrained_names
from pufferlib.seeding import mix_seed
from pufferlib.watch.controls import Keyboard
from pufferlib.watch.stage import as_picture

# --- the same episodes


@pytest.mark.slow
@needs_compiler
@needs_node
@every_drawn
def test_rollouts_in_node_have_the_golden_hashes(name, tmp_path):
    page, env, _ = made(name, tmp_path)
    inside = max(3, golden.NUM_AGENTS // env.agents_per_env)
    seeds = [[str(mix_seed(3, index)), i] for index in range(2) for i in range(inside)]
    random, rows = np.random.default_rng(0), len(seeds) * env.agents_per_env
    drawn = [random_actions(random, env.single_action_space, rows) for _ in range(golden.STEPS)]
    np.stack(drawn).astype(env.actions.dtype).tofile(tmp_path / "actions")
    found = in_node(page, does="rollout", seeds=seeds, steps=golden.STEPS, actions=str(tmp_path / "actions"))
    content = json.loads(golden.FILE.read_text())
    if content["library"] == golden.library_fingerprint() or not golden.calls_the_library(name):
        assert found == content["hashes"][name]
    env.close()


@pytest.mark.quick("puffer_breakout")
@needs_compiler
@needs_node
@pytest.mark.skipif(c_format.compiler() is None, reason="needs a C compiler")
@every_drawn
def test_a_thousand_steps_of_its_agent_are_those_of_c_and_of_python(name, tmp_path):
    page, env, network = made(name, tmp_path)
    in_node(page, does="play", seed=5, count=4, steps=1000, output=str(tmp_path / "played"))
    writer = web_format.PackedWriter(network, is_short=True, is_apart=False)
    files = {f"{writer.name}.h": writer.text({}), "puffernet.h": c_format.PUFFERNET.read_text()}
    width, action = env.observations[0].nbytes, env.actions[0].nbytes
    played = np.fromfile(tmp_path / "played", np.uint8).reshape(1000, env.num_agents, width + action)
    states = [np.zeros((env.num_agents, size), np.float32) for _, size in writer.states.values()]
    env.reset(seed=5)
    with c_format.running(files, writer, env.num_agents) as probe:
        for moment in played:
            assert env.observations.tobytes() == np.ascontiguousarray(moment[:, :width]).tobytes()
            actions = np.ascontiguousarray(moment[:, width:]).view(env.actions.dtype).reshape(env.actions.shape)
            results = probe.run(env.observations, *states, *[env.action_masks] * network.has_masks)
            check_actions(actions.reshape(env.num_agents, -1), results, network)
            states = [np.array(state) for state in results[len(results) - len(states) :]]
            env.step(actions)
            for state in states:
                state[env.terminals | env.truncations] = 0.0
    env.close()


@pytest.mark.slow
@needs_compiler
@needs_node
@pytest.mark.parametrize(
    "name", quick_params([name for name in DRAWN if "opponent" in signature(ocean.env_class(name)).parameters])
)
def test_agents_play_against_each_other_as_they_do_in_python(name, tmp_path):
    page, bot_env, _ = made(name, tmp_path)
    bot_env.close()
    env = ocean.env_class(name)(num_envs=4, opponent="self", seed=5)
    in_node(page, does="play", seed=5, count=4, steps=200, output=str(tmp_path / "played"), players=2)
    width = env.observations[0].nbytes
    played = np.fromfile(tmp_path / "played", np.uint8).reshape(200, env.num_agents, width + env.actions[0].nbytes)
    env.reset(seed=5)
    for moment in played:
        assert env.observations.tobytes() == np.ascontiguousarray(moment[:, :width]).tobytes()
        env.step(np.ascontiguousarray(moment[:, width:]).view(env.actions.dtype).reshape(env.actions.shape))
    env.close()


@needs_compiler
@needs_node
def test_who_waits_when_a_game_begins_moves_first_without_memory(tmp_path):
    make, page = ocean.env_class("puffer_connect4"), tmp_path / "page.html"
    torch.manual_seed(3)
    with contextlib.closing(make(num_envs=4)) as env:
        policy = MinGRUWrapper(env, Default(env, 16), 16, 16)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.normal_()  # so that memory counts
        export_policy(policy, env, page, format="web")
    env = make(num_envs=4, opponent="self", seed=5)
    agents, width = env.num_agents, env.observations[0].nbytes
    in_node(page, does="play", seed=5, count=4, steps=120, output=str(tmp_path / "played"), players=2)
    played = np.fromfile(tmp_path / "played", np.uint8).reshape(120, agents, width + env.actions[0].nbytes)
    env.reset(seed=5)
    tracker, state, games = EpisodeTracker(agents), policy.initial_state(agents, torch.device("cpu")), 0
    for moment in played:
        starts = tracker.begin(slice(0, agents), env.terminals | env.truncations, env.masks)
        clear_states(state, torch.from_numpy(starts))
        with torch.no_grad():
            logits, _ = acting_forward(policy)(torch.from_numpy(env.observations), state)
        expected = greedy_action(logits, torch.from_numpy(env.action_masks | ~env.masks[:, None])).numpy()
        actions = np.ascontiguousarray(moment[:, width:]).view(env.actions.dtype).reshape(env.actions.shape)
        np.testing.assert_array_equal(actions[env.masks], expected[env.masks])
        env.step(actions)
        games += env.terminals.any()
    assert games > 2
    env.close()


def check_actions(actions, results, network):
    """Choices are the same; numbers are so to the last bits, as a multiplication may be fused with an addition."""
    results = iter(results)
    for part in network.parts:
        logits = next(results)
        if part.choices is not None:
            assert (logits.argmax(1) == actions[:, part.columns.start]).all()
        else:
            next(results)
            np.testing.assert_allclose(actions[:, part.columns], logits, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@needs_compiler
@needs_node
@pytest.mark.parametrize("name", quick_params([name for name in pretrained_names() if name in DRAWN]))
def test_its_agent_scores_what_it_scored_in_python(name, tmp_path):
    page, env, _ = made(name, tmp_path)
    env.close()
    known = json.loads((ocean.config_path(name).parent / "pretrained.json").read_text())["score"]["sampled"]
    found = in_node(page, does="scores", seed=1, episodes=20, isSampled=True, mostSteps=200_000)
    means = {metric: np.array([each[metric] for each in found["logged"]]) for metric in known}
    if (
        env.agents_per_env > 1 and found["logged"][0]["n"] < env.agents_per_env
    ):  # of agents that end apart, short ones first
        known, means = {"episode_return": known["episode_return"]}, {"episode_return": np.array(found["returns"])}
    for metric, score in known.items():
        # One of the two spreads may be 0 by chance, where most episodes end alike.
        spread = max(score["standard_error"] * score["episodes"] ** 0.5, means[metric].std())
        assert len(means[metric]) >= 16
        difference = abs(means[metric].mean() - score["mean"])
        assert difference <= 4.5 * spread / len(means[metric]) ** 0.5 + 1e-6 * abs(score["mean"]), metric


# --- what a page is


@needs_compiler
@needs_node
def test_weights_of_16_bits_are_what_the_scale_makes_of_them(tmp_path):
    env = ocean.env_class("puffer_squared")(num_envs=1)
    network = network_of(Default(env, 32), env)
    short, whole = (web_format.PackedWriter(network, is_short) for is_short in (True, False))
    for (offset, scale, numbers), (other, none, weights) in zip(short.packed, whole.packed, strict=True):
        assert offset == other and none == 0.0
        np.testing.assert_allclose(numbers * np.float32(scale), weights, atol=0.51 * scale)
    env.close()


@needs_compiler
@needs_node
def test_numbers_are_written_as_c_writes_them(tmp_path):
    page, env, _ = made("puffer_template", tmp_path)
    env.close()
    cases = [("%d", "i", -5), ("%05.1f|", "d", 3.14159), ("%+.1f°", "d", 2.35), ("%3d|%-4d|", "ii", 7, 8), ("%%", "")]
    cases += [("%g", "d", value) for value in (0.0, 1e-7, 0.0001, 123456.0, 1234567.0, 0.5, 100.0, -2.5)]
    cases += [("%c%c %d:%02d", "iiii", 65, 66, 3, 4), ("%x", "i", 255), ("%.0f %%", "d", 12.6), ("%+d", "i", 3)]
    found = in_node(page, does="formats", cases=cases)
    expected = [format % tuple(values) for format, _, *values in cases]
    assert found == expected


@pytest.mark.quick("puffer_template")
@needs_compiler
@needs_node
@pytest.mark.parametrize("name", quick_params([name for name in DRAWN if name != "puffer_snake"]))
def test_keys_mean_what_they_mean_in_a_window(name, tmp_path):
    page, env, _ = made(name, tmp_path)
    is_alone = env.agents_per_env == 1 or "agents" in env.arguments
    if not isinstance(getattr(env, "keys", None), Keys) or not is_alone:
        assert '"keys": null' in page.read_text()
        return
    keyboard = Keyboard(env.single_action_space, env.keys)
    names = sorted(keyboard.names)
    held = [[], *([name] for name in names), *([names[i], names[-1 - i]] for i in range(min(len(names), 6)))]
    lasts = [None, keyboard.action(names[:1])]
    cases = [(keys, last) for keys in held for last in lasts]
    found = in_node(
        page, does="keyActions", cases=[(keys, None if x is None else np.ravel(x).tolist()) for keys, x in cases]
    )
    for (keys, last), row in zip(cases, found, strict=True):
        expected = keyboard.action(keys, last)
        assert (row is None) == (expected is None), keys
        assert expected is None or np.allclose(np.ravel(expected), row), keys
    env.close()


@needs_compiler
@needs_node
def test_observations_that_are_pictures_are_those_of_the_window(tmp_path):
    page, env, _ = made("puffer_template", tmp_path)
    env.close()
    shapes = [(20, 30), (11, 11), (20, 30, 1), (20, 30, 3), (3, 20, 30), (4, 20, 30), (1, 20, 30), (5, 20, 30), (900,)]
    cases = [(shape, "uint8") for shape in shapes] + [((20, 30), "float32"), ((2, 20, 30, 3), "uint8")]
    found = in_node(page, does="pictures", cases=[{"shape": shape, "type": kind} for shape, kind in cases])
    for (shape, kind), picture in zip(cases, found, strict=True):
        seen = np.random.default_rng(0).integers(0, 256, shape).astype(kind)
        expected = as_picture(seen)
        assert (picture is None) == (expected is None), shape
        if expected is not None:
            size = picture["rows"], picture["columns"], 3
            steps = zip(np.indices(size), (picture["row"], picture["column"], picture["channel"]), strict=True)
            assert (seen.ravel()[picture["begin"] + sum(index * step for index, step in steps)] == expected).all()


@needs_compiler
def test_a_page_is_one_small_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", "puffer_breakout", "--pretrained", "--format", "web"]) == 0
    assert "wrote breakout.html, which plays in a browser and needs nothing else" in capsys.readouterr().out
    page = Path("breakout.html")
    assert page.stat().st_size < 200_000
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')]*)""", page.read_text()) == ["data:,"]
    assert "default-src 'none'" in page.read_text()


@pytest.mark.slow
@needs_node
def test_zig_compiles_the_same_game(tmp_path, monkeypatch):
    pytest.importorskip("ziglang", reason="pip install -e '.[web]'")
    with monkeypatch.context() as only:
        only.setattr(web_format.shutil, "which", lambda name: None)
        command = web_format.wasm_compiler()
    assert command[1:4] == ["-m", "ziglang", "cc"]
    monkeypatch.setattr(web_format, "wasm_compiler", lambda: command)
    page_of.cache_clear()
    try:
        test_rollouts_in_node_have_the_golden_hashes("puffer_breakout", tmp_path)
    finally:
        page_of.cache_clear()


# --- what cannot be


def test_an_environment_that_is_not_in_c_is_refused(tmp_path):
    env = spaces_of(VECTOR, CHOICE)
    with pytest.raises(ExportError, match="an environment in C that has a picture, such as puffer_breakout"):
        export_policy(Default(env, 8), env, tmp_path / "page.html", "web")


@needs_compiler
@pytest.mark.parametrize("where", ["game.h", "game_render.h"])
def test_a_function_that_pages_lack_is_named_with_its_line(where, tmp_path):
    folder = tmp_path / "game"
    folder.mkdir()
    (folder / "game.h").write_text('#include "puffer_env.h"\n')
    (folder / "game_render.h").write_text('#include "game.h"\n')
    (folder / where).write_text((folder / where).read_text() + "static int f(void) {\n    return strtol(0);\n}\n")
    with pytest.raises(ExportError, match=rf"no function strtol, which {where} calls in line 3;"):
        web_format.compiled(web_format.wasm_compiler(), folder, {"web_policy.h": ""}, {}, 1)


def test_without_a_compiler_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"found none; run `pip install 'pufferlib\[web\]'`"):
        web_format.wasm_compiler()
