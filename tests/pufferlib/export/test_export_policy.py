"""Policies written as ONNX and TorchScript, read back by what other people would read them with."""

import copy
import json
import logging
import math
import os
import re
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from policies_to_export import CASES, CHOICE, NUMBERS, VECTOR, flat_results, spaces_of, spread
from torch import nn
from torch.distributions import Normal

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.errors import APIUsageError, ExportError, StorageError
from pufferlib.export import FORMATS, export_policy, one_step
from pufferlib.export.one_step import OneStep
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.policy import acting_forward
from pufferlib.spaces import Layout
from pufferlib.wrappers import ClipReward, FrameStack

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install -e '.[test]'")
slow, weekly = pytest.mark.slow, pytest.mark.weekly
QUICK = ["mingru"]
EVERY_FORMAT = [pytest.param("onnx", marks=slow), "torchscript", "c"]
DAILY = ["mixed", "mingru", "categories", "image_mingru", "cells", "wrapped"]  # as ONNX, by an exporter that is torch's
every_case = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=slow) for name in CASES]
)
few_cases = pytest.mark.parametrize(
    "name", [pytest.param(case, marks=[slow] * (case not in QUICK) + [weekly] * (case not in DAILY)) for case in CASES]
)


class Own(nn.Module):
    """What a user writes: nothing of this package, a state, and a Normal."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(7, 5)
        self.mean, self.value = nn.Linear(5, 2), nn.Linear(5, 1)

    def initial_state(self, batch, device):
        return {"memory": torch.zeros(batch, 5, device=device)}

    def forward_eval(self, observations, state):
        state["memory"] = self.cell(observations, state["memory"])
        return Normal(self.mean(state["memory"]), torch.ones(2).expand(observations.shape[0], 2)), self.value(
            state["memory"]
        )


class Peeking(nn.Module):
    """Reads a number out of a tensor and decides by it, which no graph can hold."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(7, 3)

    def forward(self, observations):
        logits = self.linear(observations)
        return (logits if float(logits.sum()) > 0 else logits * 0), logits.sum(-1)


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def steps_of(policy, env, rows, steps=4):
    """Observations, and what the policy returns for each: its own forward, with its own kernels."""
    forward = acting_forward(policy)
    state = dict(policy.initial_state(rows, torch.device("cpu"))) if hasattr(policy, "initial_state") else {}
    env.single_observation_space.seed(5)
    for _ in range(steps):
        observations = np.stack([env.single_observation_space.sample() for _ in range(rows)])
        with torch.no_grad():
            logits, values = forward(torch.from_numpy(observations), state)
        yield observations, logits, values, state


def assert_same(found, logits, values, state):
    """Compares results by name with what the policy returned; the names follow from its kinds of logits."""
    expected = dict(zip(found, flat_results(logits, values, state), strict=True))
    assert list(found)[len(found) - len(state) :] == [f"next_{name}" for name in state]
    for name, tensor in expected.items():
        result = torch.as_tensor(found[name])
        torch.testing.assert_close(result, tensor, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@few_cases
def test_onnxruntime_does_what_the_policy_does(name, tmp_path):
    policy, env = CASES[name]()
    path = export_policy(policy, env, tmp_path / "policy.onnx")
    other = session(path)
    names = [output.name for output in other.get_outputs()]
    for rows in (1, 6):
        states = {each.name: None for each in other.get_inputs()[1:]}
        for observations, logits, values, state in steps_of(policy, env, rows):
            given = {key: np.zeros_like(state[key]) if kept is None else kept for key, kept in states.items()}
            found = dict(zip(names, other.run(None, {"observations": observations, **given}), strict=True))
            assert_same(found, logits, values, state)
            states = {key: found[f"next_{key}"] for key in states}
    assert [dimension for each in other.get_inputs() for dimension in each.shape[:1]] == ["rows"] * (1 + len(states))


@every_case
def test_torchscript_does_what_the_policy_does(name, tmp_path):
    policy, env = CASES[name]()
    extra = {"notes.json": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's, of TorchScript
        loaded = torch.jit.load(export_policy(policy, env, tmp_path / "policy.pt", "torchscript"), _extra_files=extra)
    notes = json.loads(extra["notes.json"])
    for rows in (1, 6):
        states = None
        for observations, logits, values, state in steps_of(policy, env, rows):
            states = [torch.zeros_like(state[key]) for key in notes["arguments"][1:]] if states is None else states
            found = dict(zip(notes["results"], loaded(torch.from_numpy(observations), *states), strict=True))
            assert_same(found, logits, values, state)
            states = [found[f"next_{key}"] for key in notes["arguments"][1:]]


class Around(nn.Module):
    """A class of a user's own around a policy of the library's."""

    def __init__(self, policy):
        super().__init__()
        self.inner = policy
        self.initial_state = policy.initial_state

    def forward_eval(self, observations, state):
        return self.inner.forward_eval(observations, state)


@pytest.mark.parametrize("format", [pytest.param("onnx", marks=pytest.mark.slow), "torchscript"])
def test_the_kernel_of_a_layer_inside_of_another_class_is_exported_as_operations_of_torch(format, tmp_path):
    policy, env = CASES["mingru"]()
    path = export_policy(Around(policy), env, tmp_path / "policy", format)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's, of TorchScript
        assert format == "onnx" or "pufferlib::" not in str(torch.jit.load(path).inlined_graph)


@pytest.mark.slow
def test_torchscript_needs_nothing_but_torch(tmp_path):
    policy, env = CASES["mingru"]()
    path = export_policy(policy, env, tmp_path / "policy.pt", "torchscript")
    code = f"""
import sys, warnings, torch
sys.modules["pufferlib"] = None
warnings.simplefilter("ignore")
policy = torch.jit.load({str(path)!r})
results = policy(torch.ones(2, 7), torch.zeros(2, 33), torch.zeros(2, 33))
print([list(result.shape) for result in results])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("[[2, 2], [2, 2], [2], [2, 33], [2, 33]]\n", "")


@pytest.mark.slow
def test_a_file_tells_what_it_is_and_nothing_is_said_while_it_is_written(tmp_path, caplog, capfd):
    policy, env = CASES["continuous"]()
    path = export_policy(policy, env, tmp_path / "policy.onnx", notes={"model": "mine.pt"})
    # Of its logarithm of the deviation onnxscript warned.
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert capfd.readouterr() == ("", "")
    notes = session(path).get_modelmeta().custom_metadata_map
    assert notes["model"] == "mine.pt" and notes["environment"] == "simplenamespace"
    assert notes["action_space"] == "Box(-1.0, 1.0, (2,), float32)" and notes["pufferlib"]


@pytest.mark.slow
def test_a_policy_of_the_users_own_is_taken_as_it_is(tmp_path):
    policy, env = spread(Own()), spaces_of(VECTOR, NUMBERS)
    is_checked = Normal(0.0, 1.0)._validate_args  # other packages switch it off for the whole process
    export_policy(policy, env, tmp_path / "own.pt", "torchscript")
    assert Normal(0.0, 1.0)._validate_args == is_checked
    other = session(export_policy(policy, env, tmp_path / "own.onnx"))
    memory = np.zeros((3, 5), np.float32)
    for observations, logits, values, state in steps_of(policy, env, 3):
        names = ["mean", "log_deviation", "value", "next_memory"]
        found = dict(zip(names, other.run(names, {"observations": observations, "memory": memory}), strict=True))
        assert_same(found, logits, values, state)
        memory = found["next_memory"]


class Layered(Own):
    """A layer of torch over one step of time, and a state that is no float32."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(7, 5, batch_first=True)

    def initial_state(self, batch, device):
        warned = torch.zeros(batch, 1, dtype=torch.bool, device=device)
        return {"warned": warned, **super().initial_state(batch, device)}

    def forward_eval(self, observations, state):
        hidden, memory = self.cell(observations.unsqueeze(1), state["memory"].unsqueeze(0))
        state["memory"], state["warned"] = memory.squeeze(0), state["warned"] | (observations[:, :1] > 0.5)
        hidden = hidden.squeeze(1) + state["warned"]
        return Normal(self.mean(hidden), torch.ones_like(self.mean(hidden))), self.value(hidden)


@pytest.mark.parametrize("format", [pytest.param("onnx", marks=slow), "torchscript"])
def test_recurrent_layers_of_torch_and_states_of_bools_are_taken(format, tmp_path):
    assert export_policy(spread(Layered()), spaces_of(VECTOR, NUMBERS), tmp_path / "policy", format).exists()


def test_what_onnx_cannot_express_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ExportError, match="ONNX cannot express this policy .*data-dependent"):
        export_policy(spread(Peeking()), spaces_of(VECTOR, CHOICE), tmp_path / "policy.onnx")
    assert not os.listdir(tmp_path)


def test_a_trace_that_decides_otherwise_is_refused(tmp_path):
    with pytest.raises(
        ExportError, match="TorchScript cannot express this policy .Converting a tensor to a Python float"
    ):
        export_policy(spread(Peeking()), spaces_of(VECTOR, CHOICE), tmp_path / "policy.pt", "torchscript")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_observations_in_rows_of_bytes_are_refused(format, tmp_path):
    layout = Layout.of(Dict({"place": VECTOR, "hour": Discrete(24)}))
    env = spaces_of(layout.row_space, CHOICE, layout)
    parts = re.escape("got observation['hour'] of int64, observation['place'] of float32")
    with pytest.raises(ExportError, match=f"parts have different types, .* give all parts one type, .*{parts}"):
        export_policy(spread(Default(env, 8)), env, tmp_path / "policy", format)
    assert not os.listdir(tmp_path)


def test_a_policy_that_cannot_be_copied_is_refused(tmp_path):
    policy = Own()
    policy.file = open(os.devnull)  # noqa: SIM115
    with policy.file, pytest.raises(ExportError, match=r"Own cannot be copied \(cannot pickle"):
        export_policy(policy, spaces_of(VECTOR, NUMBERS), tmp_path / "policy.onnx")


def test_what_was_written_is_compared_with_the_policy():
    policy, env = CASES["mingru"]()
    step = OneStep(policy, env)

    def run(*arrays, error=0.0):
        results = [result.numpy() for result in step(*map(torch.from_numpy, arrays))]
        results[-1] = results[-1] + error  # of the last state, which the other results follow from
        return results

    one_step.check_agreement(step, run, "it")
    one_step.check_agreement(step, lambda *arrays: run(*arrays, error=1e-5), "it")
    with pytest.raises(ExportError, match="it must compute what the policy does to 0.0001, but next_mingru_1 differs"):
        one_step.check_agreement(step, lambda *arrays: run(*arrays, error=1e-3), "it")
    with pytest.raises(ExportError, match="differs by inf"):
        one_step.check_agreement(step, lambda *arrays: [each[:1] for each in run(*arrays)], "it")


@pytest.mark.parametrize(("error", "is_refused"), [(2e-4, False), (1e-3, True)])
def test_small_values_round_by_the_large_ones_of_their_row_and_no_more(error, is_refused):
    expected = np.array([[600.0, 0.8], [3.0, 0.8]], np.float32)
    found = expected + np.array([[0.0, error], [0.0, 0.0]], np.float32)
    assert (one_step._difference(expected, found) > one_step.TOLERANCE) == is_refused
    assert one_step._difference(expected[::-1], found[::-1]) == one_step._difference(expected, found)
    alone = expected + np.array([[0.0, 0.0], [0.0, error]], np.float32)
    assert one_step._difference(expected, alone) > one_step.TOLERANCE


@pytest.mark.quick("unbiased-c", "dropout-torchscript")
@pytest.mark.parametrize("format", EVERY_FORMAT)
@pytest.mark.parametrize("name", ["dropout", "unbiased"])
def test_layers_without_biases_and_with_dropout_are_in_every_format(name, format, tmp_path):
    policy, env = CASES[name]()
    assert export_policy(policy.train(), env, tmp_path / "policy", format).exists()


@pytest.mark.parametrize("format", EVERY_FORMAT)
def test_a_policy_of_float64_becomes_one_of_float32(format, tmp_path):
    env = spaces_of(VECTOR, CHOICE)
    policy = spread(Default(env, 16)).double()
    step = OneStep(policy, env)
    observations = step.random_observations(5, seed=1)
    export_policy(policy, env, tmp_path / "policy", format)  # which compares what it wrote with such a step
    with torch.no_grad():
        logits, values = policy.head(policy.encoder(observations.double()))
        for found, expected in zip(step(observations), (logits, values), strict=True):
            torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)
    assert next(policy.parameters()).dtype == torch.float64


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_weights_that_are_no_finite_numbers_are_refused_in_every_format(number, format, tmp_path):
    policy, env = CASES["mingru"]()
    policy.layers[1].weight.data[3, 2] = number
    expected = f"must have finite weights to be exported, but the weight 'layers.1.weight' is {number}; take an earlier"
    with pytest.raises(ExportError, match=expected):
        export_policy(policy, env, tmp_path / "policy", format)
    assert not os.listdir(tmp_path)


def test_observations_that_became_infinite_are_refused(tmp_path):
    policy, env = CASES["continuous"]()
    policy.variance[2] = math.inf
    with pytest.raises(ExportError, match="but its running mean and variance of observations are not finite"):
        export_policy(policy, env, tmp_path / "policy.pt", "torchscript")


def test_a_number_of_float64_that_float32_does_not_hold_is_refused(tmp_path):
    env = spaces_of(VECTOR, CHOICE)
    policy = spread(Default(env, 16)).double()
    policy.head.linear.bias.data[1] = 1e300
    with pytest.raises(ExportError, match="the weight 'head.linear.bias' is inf"):
        export_policy(policy, env, tmp_path / "policy.pt", "torchscript")


class Failing(nn.Module):
    """A policy that cannot act."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, observations):
        return self.linear(observations), observations[:, 0]


@pytest.mark.parametrize("format", FORMATS)
def test_a_policy_that_cannot_act_is_refused_in_every_format(format, tmp_path):
    for policy in (Failing(), Failing().double()):
        with pytest.raises(ExportError, match=r"Failing must act on observations .* and fails \(RuntimeError: mat1"):
            export_policy(policy, spaces_of(VECTOR, CHOICE), tmp_path / "policy", format)
    assert not os.listdir(tmp_path)


class Begun(Own):
    """A state that every reset would change."""

    def initial_state(self, batch, device):
        return {"memory": torch.ones(batch, 5, device=device)}


@pytest.mark.parametrize("format", FORMATS)
def test_a_policy_that_does_not_fit_the_environment_is_refused_in_every_format(format, tmp_path):
    wide = Default(spaces_of(VECTOR, Discrete(5)), 8)
    cases = (wide, Discrete(3), "logits"), (Begun(), NUMBERS, "initial_state must return zeros")
    for policy, actions, named in cases:
        with pytest.raises(APIUsageError, match=named):
            export_policy(spread(policy), spaces_of(VECTOR, actions), tmp_path / "policy", format)
    assert not os.listdir(tmp_path)


class Fifth(gymnasium.Env):
    observation_space, action_space = VECTOR, Discrete(3, start=5)


def test_a_file_tells_of_the_environments_own_spaces(tmp_path):
    policy, extra = Default(GymnasiumPufferEnv(Fifth()), 8), {"notes.json": ""}
    path = export_policy(policy, Fifth, tmp_path / "policy.pt", "torchscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's, of TorchScript
        torch.jit.load(path, _extra_files=extra)
    assert json.loads(extra["notes.json"])["action_space"] == "Discrete(3, start=5)"
    stacked = FrameStack(GymnasiumPufferEnv(Fifth()), 4)
    assert stacked.own_spaces == (stacked.single_observation_space, Discrete(3, start=5))
    assert ClipReward(GymnasiumPufferEnv(Fifth())).own_spaces == (VECTOR, Discrete(3, start=5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bound_that_is_the_largest_float_is_none(dtype, tmp_path):
    largest = np.finfo(dtype).max
    env = spaces_of(Box(-largest, largest, (7,), dtype), CHOICE)
    assert export_policy(spread(Default(env, 8, activation="relu")), env, tmp_path / "c", "c").exists()


def test_the_policy_and_the_space_stay_as_they_are(tmp_path):
    policy, env = CASES["mingru"]()
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    env.single_observation_space.seed(1)
    drawn = copy.deepcopy(env.single_observation_space)
    export_policy(policy.train(), env, tmp_path / "policy.pt", "torchscript")
    np.testing.assert_array_equal(env.single_observation_space.sample(), drawn.sample())
    assert type(policy) is MinGRUWrapper and policy.training
    assert all(torch.equal(before[name], tensor) for name, tensor in policy.state_dict().items())


def test_there_must_be_such_a_format_and_such_a_place(tmp_path):
    policy, env = spread(Default(spaces_of(VECTOR, CHOICE), 8)), spaces_of(VECTOR, CHOICE)
    with pytest.raises(APIUsageError, match=r"format must be onnx, .*, got 'onx'; did you mean 'onnx'\?"):
        export_policy(policy, env, tmp_path / "policy.onnx", "onx")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        export_policy(policy, env, tmp_path / "file" / "policy.pt", "torchscript")
