"""Pages of environments with their agents, made for tests, and what they carry run in Node."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path

import golden
import pytest
import torch
from checked_headers import params

from pufferlib import ocean
from pufferlib.config import load_config
from pufferlib.errors import MissingExtraError
from pufferlib.export import web_format
from pufferlib.export.c_layers import network_of
from pufferlib.runs.description import model_settings, pretrained_names, pretrained_path
from pufferlib.runs.loaders import load_policy

IN_NODE = Path(__file__).parent / "export" / "page_in_node.js"
DRAWN = [name for name in golden.compiled_names() if [*ocean.config_path(name).parent.glob("*_render.h")]]
QUICK = ("puffer_breakout", "puffer_target")
every_drawn = pytest.mark.parametrize(
    "name",
    [
        pytest.param(*each.values, marks=() if each.values[0] in QUICK else (pytest.mark.slow, *each.marks))
        for each in params(DRAWN)
    ],
)


def has_compiler():
    try:
        return bool(web_format.wasm_compiler())
    except MissingExtraError:
        return False


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="needs a compiler for WebAssembly")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


def trained(name, seed=5, num_envs=4):
    """Environments of one kind with the settings of its agent, and the agent; an untrained one where none is there."""
    args = load_config(name)
    if name in pretrained_names():
        args["load_model_path"] = str(pretrained_path(name))
        args = model_settings(name, args, False)
    torch.manual_seed(0)
    env = ocean.env_class(name)(**{**args["env"], "num_envs": num_envs, "seed": seed})
    return env, load_policy({**args, "train": {**args["train"], "device": "cpu"}}, env, name).eval()


def made(name, folder):
    """The page of an environment with its trained agent; four such environments, and the agent's network."""
    env, policy = trained(name)
    path = folder / "page.html"
    path.write_text(page_of(name))
    return path, env, network_of(policy, env)


@functools.cache
def page_of(name, title=None):
    env, policy = trained(name)
    writer = web_format.PackedWriter(network_of(policy, env), is_short=True)
    files, folder = {"web_policy.h": writer.text({})}, Path(env.binding.__file__).parent
    module = web_format.compiled(web_format.wasm_compiler(), folder, files, env.arguments, env.agents_per_env)
    env.close()
    return web_format.page(title or name, module, writer, web_format._facts(env))


def in_node(page, **request):
    """What page_in_node.js prints of a request."""
    done = subprocess.run(["node", IN_NODE, page, json.dumps(request)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)
