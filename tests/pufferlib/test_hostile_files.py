"""Files that are made to exhaust a machine: every door refuses them at once, in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import hostile_files
import pytest
import torch

from pufferlib.errors import PufferError

SECONDS, MEGABYTES = 4, 200  # half the seconds on a quiet machine
CASES = [name for name, *_ in hostile_files.cases()]
QUIET = {name for name in CASES if name.startswith("list_runs")}  # a table says what it cannot read among the rest


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What became of each case, by its name; all of them in one process, which has imported torch."""
    command = [sys.executable, hostile_files.__file__, str(tmp_path_factory.mktemp("hostile"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_hostile_file_is_refused_at_once(results, case):
    said, seconds, megabytes = results[case]
    kind, _, sentence = said.partition(": ")
    assert kind in ("CheckpointError", "ConfigError") or sentence.startswith("2: puffer: ") or case in QUIET, said
    assert "\n" not in said and len(said) < 600
    assert seconds < SECONDS and megabytes < MEGABYTES


# ----------------------------------------------------------------------------------- descriptions and weights of others


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a run of a few steps."""
    return hostile_files.make_run(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made, tmp_path):
    """A copy of it."""
    return shutil.copytree(made, tmp_path / hostile_files.RUN)


DOORS = (hostile_files.agent, hostile_files.resume, hostile_files.evaluate)


def assert_refused(door, run, words=""):
    """Has a door refuse a run by an error of the package, in one line."""
    with pytest.raises((PufferError, RuntimeError)) as raised:
        door(run)
    said = str(raised.value)
    assert isinstance(raised.value, PufferError) or said.startswith("2: puffer: "), said
    assert "\n" not in said and "Traceback" not in said and len(said) < 3000
    assert words in said


GONE = "what is not there"
SETTINGS = (
    [((), value) for value in (GONE, None, 3, [], "text", {}, [[]], True)]
    + [
        (("env_name",), value)
        for value in (GONE, None, 3, ["puffer_squared"], {}, "", "\0", "puffer_sqared", "../..", "nn")
    ]
    + [
        ((name,), value)
        for name in ("policy_name", "rnn_name")
        for value in (
            GONE,
            3,
            True,
            [],
            {},
            "",
            "Tensor",
            "nn",
            "Any",
            "MinGRUWrapper" if name == "policy_name" else "Default",
        )
    ]
    + [
        ((section,), value)
        for section in ("train", "policy", "rnn", "env", "vec", "log", "sweep")
        for value in (None, 3, "text", [], [1], {"": 1}, {"nested": [[[{}]]]})
        if (section, value) not in (("rnn", {"": 1}), ("rnn", {"nested": [[[{}]]]}))  # there is no recurrent layer
    ]
    + [
        (("policy", "hidden_size"), value)
        for value in (None, "64", -1, 0, 1.5, 10**9, 10**18, 2**62, 2**63, 2**100, True, [], float("nan"), float("inf"))
    ]
    + [
        (("policy", "num_layers"), 10**6),
        (("env", "size"), 10**12),
        (("env", "size"), "large"),
        (("train", "seed"), "x"),
        (("train", "bptt_horizon"), None),
        (("sweep", "train"), True),
        (("sweep", "train"), {"learning_rate": 3}),
        (("sweep", "train"), {"learning_rate": {"distribution": 3}}),
    ]
)


@pytest.mark.parametrize("door", [DOORS[0], *(pytest.param(door, marks=pytest.mark.slow) for door in DOORS[1:])])
@pytest.mark.parametrize(
    ("place", "value"), SETTINGS, ids=[f"{'.'.join(at)}-{str(value)[:30]!r}" for at, value in SETTINGS]
)
def test_a_description_of_other_types_is_refused_in_a_sentence(run, door, place, value):
    path = run / "config.json"
    described = json.loads(path.read_text())
    parent = described
    *above, last = ("settings", *place)
    for name in above:
        parent = parent[name]
    if value == GONE:
        del parent[last]
    else:
        parent[last] = value
    path.write_text(json.dumps(described))
    assert_refused(door, run)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b'"text"', b"null", b"\xff\xfe", b"[" * 100_000, b"\0" * 1000]
)
def test_a_description_of_other_text_is_refused_in_a_sentence(run, door, content):
    (run / "config.json").write_bytes(content)
    assert_refused(door, run, "config.json")


def nested():
    return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


WEIGHTS = {
    "integers as names": lambda weights: {number: tensor for number, tensor in enumerate(weights.values())},
    "an integer among the names": lambda weights: {**weights, 3: torch.zeros(1)},
    "None as a name": lambda weights: {**weights, None: torch.zeros(1)},
    "a tuple as a name": lambda weights: {**weights, ("a", 1): torch.zeros(1)},
    "a very long name": lambda weights: {**weights, "a" * 100_000: torch.zeros(1)},
    "dicts in dicts": lambda weights: {name: {"weight": tensor} for name, tensor in weights.items()},
    "lists of tensors": lambda weights: {name: [tensor] for name, tensor in weights.items()},
    "numbers": lambda weights: dict.fromkeys(weights, 1.0),
    "None": lambda weights: None,
    "a list": lambda weights: list(weights.values()),
    "a tensor": lambda weights: torch.zeros(3),
    "nothing": lambda weights: {},
    "another shape": lambda weights: {name: tensor[None] for name, tensor in weights.items()},
    "flat": lambda weights: {name: tensor.flatten() for name, tensor in weights.items()},
    "complex": lambda weights: {name: tensor.to(torch.complex64) for name, tensor in weights.items()},
    "sparse": lambda weights: {name: tensor.to_sparse() for name, tensor in weights.items()},
    "quantized": lambda weights: {
        name: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8) for name, tensor in weights.items()
    },
    "nested": lambda weights: {name: nested() for name in weights},
    "without memory": lambda weights: {name: tensor.to("meta") for name, tensor in weights.items()},
    "a policy of a key": lambda weights: {"policy": weights, "description": 3},
    "a policy that is a list": lambda weights: {"policy": list(weights), "description": {"settings": {}}},
}


@pytest.mark.quick("agent")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("door", DOORS)
def test_strange_weights_are_refused_in_a_sentence(run, door, name):
    path = run / "last.pt" if door is hostile_files.agent else hostile_files.model(run)
    strange = WEIGHTS[name](torch.load(path, weights_only=True))
    torch.save(strange, path)
    if name == "a policy of a key":  # as a file of save_checkpoint holds weights
        door(run)
    else:
        assert_refused(door, run, path.name)


METRICS = ["agent_steps", "uptime", "epoch", "episode/return_mean"]


@pytest.mark.quick("list_runs")
@pytest.mark.parametrize("door", [hostile_files.list_runs, hostile_files.plot])
def test_metrics_of_other_types_are_left_out(run, door):
    with (run / "metrics.jsonl").open("a") as file:
        for value in ("text", [], {"a": 1}, True, 2**100, float("inf"), None):
            file.write(json.dumps({"step": value, **dict.fromkeys(METRICS, value)}) + "\n" + "[" * 10_000 + "\n\xff\n")
    door(run)
