"""Policies as C: compiled here, compared with torch, and played in a folder that is all there is."""

import ctypes
import math
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import test_traced_states as cases
import torch
from checked_headers import compiled_names, params
from gymnasium.spaces import Box, Dict, Discrete
from policies_to_export import CASES, CHOICE, OWN, VECTOR, Gated, flat_results, spaces_of, spread, wrapped
from torch import nn

import pufferlib
from pufferlib.errors import APIUsageError, ExportError
from pufferlib.export import c_format, export_policy
from pufferlib.export.c_layers import CNetwork, network_of
from pufferlib.export.c_source import HeaderWriter
from pufferlib.extensions.network_layers import Activation, Concatenate, Convolution, Layers, Linear
from pufferlib.models import Convolutional, Default, LSTMWrapper, MinGRUWrapper, recur
from pufferlib.policy import acting_forward
from pufferlib.ppo.sampling import greedy_action, sample_logits
from pufferlib.spaces import Layout, action_parts

pytestmark = pytest.mark.skipif(c_format.compiler() is None, reason="needs a C compiler")
every_case = pytest.mark.parametrize("name", CASES)
QUICK = ("mingru", "mixed")
every_kind = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
TESTS_IN_C = Path(__file__).parents[2] / "c"
INSTRUCTIONS = Path("/proc/cpuinfo")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def text_of(network, name="own"):
    writer = HeaderWriter(name, network)
    return writer, {f"{writer.name}.h": writer.text({}), "puffernet.h": c_format.PUFFERNET.read_text()}


def written(policy, env, name="own"):
    return text_of(network_of(policy, env), name)


def running_network(network, agents, *flags):
    writer, files = text_of(network)
    return c_format.running(files, writer, agents, *flags)


def running(policy, env, agents, *flags):
    return running_network(network_of(policy, env), agents, *flags)


def drawn(env, steps, rows, seed=3):
    env.single_observation_space.seed(seed)
    return np.stack([[env.single_observation_space.sample() for _ in range(rows)] for _ in range(steps)])


def assert_agrees(policy, env, sequence, *flags):
    """Plays observations `(steps, rows, ...)` through both, each with a state of its own."""
    forward, rows = acting_forward(policy), sequence.shape[1]
    state = dict(policy.initial_state(rows, "cpu")) if hasattr(policy, "initial_state") else {}
    states = [tensor.numpy().copy() for tensor in state.values()]
    with running(policy, env, rows, *flags) as probe, torch.no_grad():
        for observations in sequence:
            expected = flat_results(*forward(torch.from_numpy(observations), state), state)
            found = probe.run(observations, *states)
            states = found[len(found) - len(states) :]
            for result, tensor in zip(found, expected, strict=True):
                np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-4, atol=1e-4)


def check(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- the numbers


@pytest.mark.quick("continuous", "lstm", "mingru", "gated")
@every_case
def test_c_computes_what_the_policy_does(name):
    policy, env = CASES[name]()
    assert_agrees(policy, env, drawn(env, steps=4, rows=7))


def test_so_it_does_for_categories_that_are_none():
    policy, env = CASES["few categories"]()
    observations = np.random.default_rng(0).integers(0, 256, (4, 7, *env.single_observation_space.shape), np.uint8)
    assert_agrees(policy, env, observations)


class TurnedImage(nn.Module):
    """A user's own, of images whose channels are last."""

    def __init__(self):
        super().__init__()
        self.filters, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 3 * 4, CHOICE.n + 1)

    def forward(self, observations):
        image = self.filters(observations.permute(0, 3, 1, 2) / 255.0).relu()
        output = self.head(image.flatten(1))
        return output[:, :-1], output[:, -1]


@pytest.mark.quick("own")
@pytest.mark.parametrize("kind", ["amounts", "one_hot", "own"])
def test_so_it_does_for_images_whose_channels_are_last(kind):
    env = spaces_of(Box(0, 4 if kind == "one_hot" else 255, (5, 6, 3), np.uint8), CHOICE)
    settings = {"filters": [4], "sizes": [3], "strides": [1], "one_hot": kind == "one_hot", "channels_last": True}
    policy = spread(TurnedImage() if kind == "own" else Convolutional(env, 8, **settings))
    assert_agrees(policy, env, drawn(env, steps=2, rows=5))


@pytest.mark.slow
@every_case
@pytest.mark.parametrize(  # blocks, and what is left of them
    "rows", [*(pytest.param(rows, marks=pytest.mark.weekly) for rows in (1, 2, 48)), 101]
)
def test_so_it_does_at_full_speed_for_any_number_of_agents(name, rows):
    policy, env = CASES[name]()
    assert_agrees(policy, env, drawn(env, steps=4, rows=rows), "-O3", "-march=native")


@every_kind
@pytest.mark.parametrize("optimization", [pytest.param("-O1", marks=(pytest.mark.slow, pytest.mark.weekly)), "-O3"])
def test_so_it_does_row_by_row_where_memory_is_scarce(name, optimization):
    policy, env = CASES[name]()
    assert_agrees(policy, env, drawn(env, steps=4, rows=7), optimization, "-DPUFFERNET_BLOCK=1")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86-64")
@pytest.mark.skipif(not INSTRUCTIONS.exists() or " avx2 " not in INSTRUCTIONS.read_text(), reason="needs AVX2")
def test_so_it_does_with_registers_of_half_the_width():
    policy, env = CASES["mingru"]()
    assert_agrees(policy, env, drawn(env, steps=4, rows=21), "-O2", "-mavx2", "-mfma")


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", [LSTMWrapper, MinGRUWrapper])
def test_memory_stays_the_same_over_a_thousand_steps_of_play(wrapper):
    env = pufferlib.make("puffer_breakout", num_envs=3)
    policy = spread(wrapped(wrapper, env, Default(env, 24), num_layers=2))
    state = dict(policy.initial_state(3, "cpu"))
    seen, (observations, _) = [], env.reset(1)
    with torch.no_grad():
        for _ in range(1000):
            seen.append(observations.copy())
            logits, _ = policy.forward_eval(torch.from_numpy(seen[-1]), state)
            observations, *_ = env.step(greedy_action(logits).numpy())
    assert_agrees(policy, env, np.stack(seen))
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_policies_of_ones_own_stay_the_same_over_a_thousand_steps(name):
    policy, env = OWN[name]()
    assert_agrees(policy, env, drawn(env, steps=1000, rows=3))


def test_layers_may_be_called_as_functions_of_the_header_are():
    policy, env = OWN["residual"]()
    names = network_of(policy, env).names
    assert len(set(names) - {""}) == len([name for name in names if name]) and {"up", "act_layer"} <= set(names)
    policy, env = OWN["cells"]()
    assert network_of(policy, env).states == ("state_0", "memory", "state_2", "state_3")


def test_channels_of_images_side_by_side():
    torch.manual_seed(0)
    first, second, head = torch.randn(5, 2, 3, 3), torch.randn(20, 2, 3, 3), torch.randn(4, 7 * 2 * 3)
    layers = [
        Convolution((0,), first, None, 1, observed=2),
        Convolution((0,), second, None, 1, observed=2),
        Concatenate((2, 1), ((11, 4), (1, 3))),
        Linear((3,), head, None),
    ]
    env = spaces_of(Box(-1.0, 1.0, (2, 4, 5)), CHOICE)
    observations = drawn(env, steps=1, rows=5)[0]
    images = [torch.relu(nn.functional.conv2d(torch.from_numpy(observations), each)) for each in (second, first)]
    expected = torch.cat([images[0][:, 11:15], images[1][:, 1:4]], 1).flatten(1) @ head.T
    names = "convolution_0", "convolution_1", "", "head"
    network = CNetwork(
        Layers(layers, (2, 4, 5), [3], 4, 4, 3), names, (), (), env.single_observation_space, action_parts(CHOICE)
    )
    with running_network(network, 5) as probe:
        logits, values = probe.run(observations)
    np.testing.assert_allclose(np.column_stack([logits, values]), expected, rtol=1e-4, atol=1e-4)


ACT = """
void act(const {type}Observation* observations, int agents, int is_sampled, uint64_t seed, {action}* actions) {{
    static {type} actor;
    {name}_begin(&actor, seed);
    {name}_act(&actor, observations, agents, actions, is_sampled != 0);
}}
"""


def first_actions(policy, env, observations, is_sampled, seeds=(0,)):
    """The actions in C at the start of an episode, `(rows, numbers)` for each seed."""
    writer, files = written(policy, env)
    own, rows = f"{writer.name}.h", len(observations)
    files[own] += ACT.format(type=writer.type_name, action=writer.action_type, name=writer.name)
    dtype = np.float32 if writer.action_type == "float" else np.int32
    with c_format.running(files, writer, rows) as probe:
        for seed in seeds:
            actions = np.empty((rows, writer.network.parts[-1].columns.stop), dtype)
            addresses = [ctypes.c_void_p(array.ctypes.data) for array in (observations, actions)]
            probe.library.act(addresses[0], rows, int(is_sampled), ctypes.c_uint64(seed), addresses[1])
            yield actions


def test_the_likeliest_actions_are_those_of_torch():
    for name in ("default", "mixed"):
        policy, env = CASES[name]()
        observations = drawn(env, steps=1, rows=50)[0]
        (actions,) = first_actions(policy, env, observations, is_sampled=False)
        with torch.no_grad():
            expected = greedy_action(policy(torch.from_numpy(observations))[0]).reshape(50, -1)
        np.testing.assert_allclose(actions, expected, rtol=1e-4, atol=1e-4)


def test_actions_are_drawn_with_the_probabilities_of_torch():
    policy, env = CASES["mixed"]()  # a choice of three, and two numbers
    count = 40_000
    observation = drawn(env, steps=1, rows=1)[0]
    with torch.no_grad():
        logits, normal = policy(torch.from_numpy(observation))[0]
    actions, again, other = first_actions(policy, env, np.repeat(observation, count, 0), True, seeds=(1, 1, 2))
    probabilities = logits[0].softmax(-1).numpy()
    frequencies = np.bincount(actions[:, 0].astype(int), minlength=3) / count
    assert np.array_equal(actions, again) and not np.array_equal(actions, other)
    assert np.all(abs(frequencies - probabilities) < 4.5 * np.sqrt(probabilities * (1 - probabilities) / count))
    distances = (actions[:, 1:] - normal.mean.numpy()) / normal.stddev.numpy()
    assert np.all(abs(distances.mean(0)) < 4.5 / math.sqrt(count))
    assert np.all(abs(distances.var(0) - 1) < 4.5 * math.sqrt(2 / count))
    assert np.all(abs((abs(distances) < 1).mean(0) - 0.6827) < 4.5 * math.sqrt(0.22 / count))
    assert abs((distances[:, 0] * distances[:, 1]).mean()) < 4.5 / math.sqrt(count)


# --- the text


@pytest.mark.quick("mixed")
@every_kind
def test_it_is_clean_c11_and_cpp17_that_calls_nothing_but_math_and_memory(name, tmp_path):
    policy, env = CASES[name]()
    writer, files = written(policy, env)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    body = f"""#include "{writer.name}.h"
static {writer.type_name} policy;
void play(const {writer.type_name}Observation* observations, {writer.type_name}Action* actions) {{
    {writer.name}_begin(&policy, 7);
    {writer.name}_act(&policy, observations, 3, actions, true);
    {writer.name}_forget(&policy, 2);
}}
"""
    (tmp_path / "play.c").write_text(body)
    (tmp_path / "play.cpp").write_text(body)
    lines = [line for line in "".join(files.values()).splitlines() if not re.fullmatch(r" +[-\d.e+f, ]+,", line)]
    assert max(map(len, lines)) <= 120
    check(["cc", "-std=c11", "-O1", *WARNINGS, "-c", "play.c"], tmp_path)
    check(["c++", "-std=c++17", "-O1", *WARNINGS, "-c", "play.cpp"], tmp_path)
    if shutil.which("nm"):
        called = set(re.findall(r" U (\w+)", check(["nm", "play.o"], tmp_path)))
        allowed = {"memcpy", "memset", "cosf", "logf", "sqrtf", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
        assert called - allowed == set()


MATH = "float fabsf(float), copysignf(float, float), sqrtf(float), logf(float), cosf(float);"
STRING = "#include <stddef.h>\nvoid *memcpy(void*, const void*, size_t), *memset(void*, int, size_t);"


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang, which compiles for other machines")
def test_it_is_clean_where_a_processor_has_no_vectors(tmp_path):
    writer, files = written(*CASES["mingru"]())
    declarations = {"math.h": MATH, "string.h": STRING}  # of a libc, of which there is none for this machine
    body = f"""#include "{writer.name}.h"
{writer.type_name} policy;
void play(const {writer.type_name}Observation* observation, {writer.type_name}Action* action) {{
    {writer.name}_act(&policy, observation, 1, action, true);
}}
"""
    for file, text in {**files, **declarations, "play.c": body}.items():
        (tmp_path / file).write_text(text)
    command = ["clang", "--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-ffreestanding", "-Os", *WARNINGS]
    check([*command, "-isystem", ".", "-c", "play.c"], tmp_path)


# --- what it does not do


def _with(change, name="default"):
    policy, env = CASES[name]()
    change(policy)
    return policy.eval(), env


CHANGES = {
    "the policy Default, which has Bilinear as `encoder.0`": lambda policy: policy.encoder.insert(
        0, nn.Bilinear(2, 2, 2)
    ),
    "the policy Default, which returns something else": lambda policy: setattr(policy, "head", nn.Linear(20, 4)),
}


@pytest.mark.parametrize("part", [nn.ReLU(), nn.GELU("tanh"), nn.LayerNorm(20)], ids=str)
def test_a_policy_of_the_library_may_have_other_layers(part):
    policy, env = _with(lambda policy: policy.encoder.append(part))
    assert_agrees(policy, env, drawn(env, steps=4, rows=7))


@pytest.mark.parametrize("expected", CHANGES)
def test_a_policy_with_other_layers_is_refused_in_a_sentence(expected):
    policy, env = _with(CHANGES[expected])
    with pytest.raises(ExportError, match=rf"{expected}.*; use --format onnx or torchscript$"):
        network_of(policy, env)


def test_convolutions_without_biases_and_with_dropout():
    def change(policy):
        first, second, *rest = policy.encoder[0]
        bare = nn.Conv2d(first.in_channels, first.out_channels, first.kernel_size, first.stride, bias=False)
        policy.encoder[0] = nn.Sequential(spread(bare), second, nn.Dropout2d(), *rest)
        policy.encoder.append(nn.Dropout())

    policy, env = _with(change, "board")
    assert_agrees(policy, env, drawn(env, steps=4, rows=7))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(7, 3)

    def forward(self, observations):
        logits = self.linear(observations)
        return logits, logits.sum(-1)


def test_an_operation_that_c_does_not_have_is_named_with_its_line(tmp_path):
    expected = (
        r"policy Own, which has sum over something .* \(test_c_format.py, line \d+\); use --format onnx or torchscript$"
    )
    with pytest.raises(ExportError, match=expected):
        export_policy(Own(), spaces_of(VECTOR, CHOICE), tmp_path / "c", "c")
    assert not list(tmp_path.iterdir())


class Picturesque(nn.Module):
    """Whose logits are what a convolution gives."""

    def __init__(self):
        super().__init__()
        self.filters, self.value = nn.Conv2d(1, 3, 3), nn.Linear(3, 1)

    def forward(self, observations):
        logits = self.filters(observations).flatten(1)
        return logits, self.value(logits)


class Crowd(nn.Module):
    """It sees entities."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.value = nn.Linear(3, 4), nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, observations):
        hidden = self.body(observations).mean(dim=1)
        return self.head(hidden), self.value(hidden)


class Crowded(Crowd):
    """With a norm of each, the largest and the mean of all, parts, sums and a row of all of them."""

    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.all = nn.LayerNorm(4), nn.Linear(3, 4), nn.Linear(8, 4)

    def forward(self, observations):
        each = torch.relu(self.norm(self.body(observations)))
        each = each + self.inner(torch.tanh(each[..., 1:])) * 0.5
        hidden = each.amax(dim=1) + each.mean(dim=1) + self.all(each.flatten(1))
        return self.head(hidden), self.value(hidden)


class Attentive(Crowd):
    """Two heads of attention, whose queries are fewer than the keys in the second round."""

    def __init__(self):
        super().__init__()
        self.parts, self.query, self.keys = nn.Linear(4, 12), nn.Linear(4, 6), nn.Linear(4, 10)

    def forward(self, observations):
        body = self.body(observations)
        q, k, v = self.parts(body).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (2, 2)).transpose(1, 2) for each in (q, k, v))
        body = body + nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        q, (k, v) = self.query(body.mean(dim=1, keepdim=True)), self.keys(body).split([6, 4], -1)
        hidden = nn.functional.scaled_dot_product_attention(q, k, v).squeeze(1)
        return self.head(hidden), self.value(hidden)


@pytest.mark.quick("Attentive")
@pytest.mark.parametrize("kind", [Crowd, Crowded, Attentive])
def test_layers_over_entities_are_those_of_torch(kind):
    policy, env = spread(kind()), spaces_of(Box(-1.0, 1.0, (2, 3)), CHOICE)
    assert_agrees(policy, env, drawn(env, steps=2, rows=53))


def test_products_with_constants_are_refused_by_name():
    policy, env = cases.Slots(), spaces_of(*cases.Slots.spaces)
    with pytest.raises(ExportError, match="C has no layer for Scale; use --format onnx"):
        HeaderWriter("own", network_of(policy, env))


def test_logits_that_are_an_image_are_refused():
    expected = "in C images become rows for linear layers alone, got another Picturesque; use --form"
    with pytest.raises(ExportError, match=expected):
        network_of(Picturesque(), spaces_of(Box(-1.0, 1.0, (1, 3, 3)), CHOICE))


class Ordered(Gated):
    """Two cells whose entries of the state have the order `order`, or share one."""

    def __init__(self, order):
        super().__init__(None)
        self.order, self.second = order, nn.GRUCell(19, 19)

    def initial_state(self, batch, device="cpu"):
        size = (2, 19) if len(self.order) == 1 else (19,)
        return {name: torch.zeros(batch, *size, device=device) for name in self.order}

    def forward_eval(self, observations, state):
        is_one = len(self.order) == 1
        first, second = state["a"].unbind(1) if is_one else (state["a"], state["b"])
        first = self.cell(observations, first)
        second = self.second(first, second)
        state.update(a=torch.stack([first, second], 1)) if is_one else state.update(a=first, b=second)
        output = self.head(second)
        return output[:, :3], output[:, 3]

    def forward(self, observations, state):
        is_one = len(self.order) == 1
        first, second = state["a"].unbind(1) if is_one else (state["a"], state["b"])
        hidden, _ = recur(self.cell, observations, first, state["resets"])
        output = self.head(recur(self.second, hidden, second, state["resets"])[0])
        return output[..., :3], output[..., 3]


@pytest.mark.quick("names2")
@pytest.mark.parametrize(("order", "names"), [("ab", "ab"), ("ba", "ab"), ("a", ("a_0", "a_1"))])
def test_states_lie_where_the_layers_have_them(order, names):
    policy, env = spread(Ordered(tuple(order))), spaces_of(VECTOR, CHOICE)
    assert network_of(policy, env).states == tuple(names)
    assert_agrees(policy, env, drawn(env, steps=4, rows=7))


RECURRENT = [cases.GRU, cases.TimeFirstLSTM, cases.PackedState, cases.Remembers]
MORE_RECURRENT = [
    *(cases.StackedLSTM, cases.SeenGRU, cases.SeenCell, cases.SeenGRUCell, cases.HandGRU, cases.HandLSTM),
    *(cases.GateLSTM, cases.HandMinGRU, cases.TwoHands, cases.Shifts, cases.Numbers, cases.Shares, cases.LeavesALayer),
]


@pytest.mark.quick("TimeFirstLSTM", "Remembers")
@pytest.mark.parametrize("kind", [*RECURRENT, *(pytest.param(kind, marks=pytest.mark.slow) for kind in MORE_RECURRENT)])
def test_stacked_cells_and_those_by_hand_leave_what_torch_leaves(kind):
    policy, env = spread(kind()), spaces_of(*kind.spaces)
    assert_agrees(policy, env, drawn(env, steps=4, rows=7))


@pytest.mark.parametrize(
    "part",
    [
        *(nn.Conv2d(2, 4, (2, 3)), nn.Conv2d(2, 4, 3, (1, 2)), nn.Conv2d(2, 4, 3, padding=(0, 1))),
        *(nn.Conv2d(2, 4, 3, groups=2), nn.Conv2d(2, 4, 2, dilation=2)),
        *(nn.Sequential(nn.Conv2d(2, 4, 2), pool((1, 2))) for pool in (nn.MaxPool2d, nn.AvgPool2d)),
    ],
    ids=str,
)
def test_windows_that_are_not_square_are_refused(part):
    policy = Picturesque()
    count = part(torch.zeros(1, 2, 6, 7)).numel()
    policy.filters = nn.Sequential(part, nn.Flatten(), nn.Linear(count, 3))
    policy.value = nn.Linear(3, 1)
    with pytest.raises(ExportError, match="C has square windows without dilation and groups, got another .*; use --fo"):
        network_of(policy, spaces_of(Box(-1.0, 1.0, (2, 6, 7)), CHOICE))


@dataclass(frozen=True)
class Cubes(Activation):
    kind = "CUBES"


@pytest.mark.parametrize(("layer", "named"), [(Cubes((1,), "relu"), "Cubes relu"), (Activation((1,), "cube"), "cube")])
def test_a_kind_of_layer_that_is_newer_than_the_header_is_refused(layer, named):
    network = network_of(*CASES["choices"]())
    newer = replace(network, layers=replace(network.layers, layers=[network.layers.layers[0], layer]))
    with pytest.raises(ExportError, match=f"C has no layer for .*{named}; use --format onnx"):
        HeaderWriter("own", newer)


class Sees(nn.Module):
    def __init__(self):
        super().__init__()
        self.action, self.value = nn.Linear(7, 3), nn.Linear(7, 1)

    def forward(self, observations):
        return self.action(observations.float()), self.value(observations.float())


def test_observations_that_the_kernel_does_not_see_are_refused():
    with pytest.raises(ExportError, match=r"observations must .* torch.float16 .*; use --format onnx"):
        network_of(Sees(), spaces_of(Box(0, 1, (7,), np.float16), CHOICE))


def test_structured_observations_are_refused(tmp_path):
    layout = Layout.of(Dict({"camera": Box(0, 1, (4,), np.float32), "place": Box(0, 1, (2,), np.float32)}))
    env = spaces_of(layout.row_space, CHOICE, layout)
    parts = re.escape("observation['camera'] of float32, observation['place'] of float32")
    with pytest.raises(ExportError, match=f"C has no structured observations, got {parts}; use --format onnx"):
        export_policy(spread(Default(env, 8)), env, tmp_path / "c", "c")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    policy, env = CASES["mixed"]()
    policy.head.log_std.data[1] = 1000.0  # whose exponential is infinite
    with pytest.raises(ExportError, match="must be finite numbers, found infinity or NaN"):
        export_policy(policy, env, tmp_path / "c", "c")


# --- the folder


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path):
    policy, env = spread(Default(spaces_of(VECTOR, CHOICE), 8)), spaces_of(VECTOR, CHOICE)
    folder = export_policy(policy, env, tmp_path / "c", "c")
    assert sorted(path.name for path in folder.iterdir()) == ["puffernet.h", "simplenamespace_policy.h"]
    first = (folder / "simplenamespace_policy.h").read_text()
    export_policy(spread(Default(env, 9)), env, folder, "c")
    assert (folder / "simplenamespace_policy.h").read_text() != first
    (folder / "thesis.tex").touch()
    with pytest.raises(APIUsageError, match=r"has other things in it, such as thesis.tex"):
        export_policy(policy, env, folder, "c")
    with pytest.raises(APIUsageError, match="is a file; name another by --output"):
        export_policy(policy, env, folder / "thesis.tex", "c")
    assert [path.name for path in tmp_path.iterdir()] == ["c"] and len(list(folder.iterdir())) == 3


def means(output):
    found = re.findall(r"^(\w+) +(-?[\d.]+) \+- ([\d.]+) \(n = (\d+)\)$", output, re.MULTILINE)
    return {name: SimpleNamespace(mean=float(mean), error=float(error), n=int(n)) for name, mean, error, n in found}


def played(env, policy, folder, *words, flags=""):
    """Exports to a folder that is then moved, compiles by the command on top of the program, and runs it."""
    exported = export_policy(policy, env, folder / "exported", "c")
    (program,) = exported.glob("*_play.c")
    command = re.search(r"^// +(cc -O3 .*)$", program.read_text(), re.MULTILINE)[1]
    moved = exported.rename(folder / "elsewhere")
    check(["bash", "-c", f"{command} {flags}"], moved)
    return check([f"./{program.stem}", *map(str, words)], moved)


def lengths_in_python(policy, env, each=4):
    """Steps of the first episodes of every environment, with actions drawn by torch."""
    generator, lengths = torch.Generator().manual_seed(0), [[0] for _ in range(env.num_agents)]
    observations, _ = env.reset(5)
    while min(map(len, lengths)) <= each:
        with torch.no_grad():
            actions, _, _ = sample_logits(policy(torch.from_numpy(observations))[0], generator=generator)
        observations, _, terminals, truncations, _ = env.step(actions.numpy())
        for row, has_ended in zip(lengths, terminals | truncations, strict=True):
            row[-1] += 1
            if has_ended:
                row.append(0)
    return np.array([row[:each] for row in lengths]).ravel()


@pytest.mark.quick("True")
@pytest.mark.parametrize("continuous", [False, True])
def test_a_program_plays_what_python_plays(tmp_path, continuous):
    """A policy that now and then pushes towards where the pole falls: episodes of middle length."""
    env = pufferlib.make("puffer_cartpole", num_envs=256, continuous=continuous)
    policy = Default(env, 8, activation="linear")
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
        policy.encoder[0].weight[0, 2:] = torch.tensor([1.0, 0.3])
        policy.head.linear.weight[int(not continuous), 0] = 4.0
    output = played(env, policy, tmp_path, 1000, "sample")
    scores = means(output)
    assert scores.keys() == {"perf", "score", "episode_return", "episode_length"} and scores["score"].n == 1000
    expected = lengths_in_python(policy, env)
    env.close()
    error = math.hypot(scores["score"].error, expected.std() / math.sqrt(len(expected)))
    assert abs(scores["score"].mean - expected.mean()) < 4 * error and error < 0.05 * expected.mean()
    assert re.search(r"^[\d.]+ million steps a second of one core, \d+ steps$", output, re.MULTILINE)


QUIZ = spaces_of(Box(0, 3, (1,), np.uint8), Discrete(2))  # with a table for all, and a log of its own
DUEL = spaces_of(Box(0, 1, (2,)), Discrete(2))


@pytest.mark.quick("shared_quiz-env0-1-arguments0-mistakes-0.1-0.99")
@pytest.mark.parametrize(
    ("name", "env", "agents", "arguments", "statistic", "least", "most"),
    [
        ("shared_quiz", QUIZ, 1, {"rounds": 3}, "mistakes", 0.1, 0.99),
        ("duel", DUEL, 2, {"goal": 5, "leaves": False}, "episode_length", 5.1, 19.9),
    ],
)
def test_a_program_plays_environments_of_other_kinds(name, env, agents, arguments, statistic, least, most, tmp_path):
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.mkdir()
    shutil.copy(TESTS_IN_C / f"{name}.h", source)
    shutil.copy(TESTS_IN_C / f"{name}_binding.c", source / "binding.c")
    writer, files = written(spread(Default(env, 8)), env, name)
    playable = SimpleNamespace(
        binding=SimpleNamespace(__file__=str(source / "binding.so")),
        arguments=arguments,
        agents_per_env=agents,
        counts_episodes_by_agent=False,
    )
    files |= c_format.play_files(playable, name, writer)
    c_format.write_folder(folder, files)
    compile_quickly = ["bash", "-c", c_format.compile_command(name).replace("-O3", "-O1")]
    check(compile_quickly, folder)
    scores = means(check([f"./{name}_play", "300", "sample"], folder))
    assert scores[statistic].n == 300 and least < scores[statistic].mean < most
    assert f"{statistic:<16} " in check([f"./{name}_play", "1"], folder)
    done = subprocess.run([f"./{name}_play", "many"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"usage: ./{name}_play [EPISODES] [sample]\n")
    setting = next(iter(arguments))
    (folder / f"{name}_play.c").write_text(files[f"{name}_play.c"].replace(f'{{"{setting}", ', f'{{"{setting}", -'))
    check(compile_quickly, folder)
    done = subprocess.run([f"./{name}_play"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == f"{name}: {setting} must be a number from 1 to 1000\n"


def test_every_digit_of_a_setting_is_written():
    env = pufferlib.make("puffer_squared", num_envs=1)
    writer, _ = written(spread(Default(env, 8)), env, "squared")
    env.arguments = {"seed": 2147483647, "rate": 0.1}
    program = c_format.play_files(env, "squared", writer)["squared_play.c"]
    assert '{"seed", 2147483647}, {"rate", 0.10000000000000001}' in program
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["breakout", "pong", "squared", "template", "cartpole"])
def test_every_environment_is_played_cleanly_under_sanitizers(name, tmp_path):
    env = pufferlib.make(f"puffer_{name}", num_envs=1)
    policy = spread(wrapped(MinGRUWrapper, env, Default(env, 16)))
    flags = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert means(played(env, policy, tmp_path, 200, "sample", flags=flags))["score"].n == 200
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", params(compiled_names()))
def test_the_program_of_every_environment_plays_an_episode(name, tmp_path):
    env = pufferlib.make(name, num_envs=1)
    output = played(env, spread(Default(env, 8)), tmp_path, 1, "sample", flags="-O0")
    assert re.search(r"^score .* \(n = \d+\)$", output, re.MULTILINE)
    env.close()


def test_an_argument_named_as_the_template_is_keeps_its_name():
    env = pufferlib.make("puffer_poker", num_envs=1)
    writer, _ = written(spread(Default(env, 8)), env, "poker")
    text = c_format.play_files(env, "poker", writer)["poker_play.c"]
    assert '= {{"game", 1}, ' in text and "PokerPolicy policy;" in text
    env.close()


@pytest.mark.quick("multiagent")
@pytest.mark.parametrize(
    ("name", "kwargs"), [("snake", {"num_snakes": 64, "width": 128, "height": 64}), ("multiagent", {})]
)
def test_agents_that_end_apart_are_counted_as_in_python(name, kwargs, tmp_path):
    """The first to end among them say nothing of the others."""
    env = pufferlib.make(f"puffer_{name}", num_envs=1, **kwargs)
    policy = Default(env, 8)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    scores = means(played(env, policy, tmp_path, 400, "sample", flags="-O1"))
    expected = pufferlib.evaluate(policy, env, 400, sample=True)
    assert scores["score"].n == expected["score"].episodes == 400 * (1 if name == "snake" else 4)
    for statistic in ("score", "episode_return", "episode_length"):
        error = math.hypot(scores[statistic].error, expected[statistic].standard_error)
        assert abs(scores[statistic].mean - expected[statistic].mean) < 4 * error, statistic
    env.close()


def test_a_policy_that_the_environment_has_inside_is_not_taken_for_the_one_that_is_exported(tmp_path, monkeypatch):
    """An opponent of an earlier export lies beside the environment's header under the same name."""
    env = pufferlib.make("puffer_template", num_envs=1)
    source = tmp_path / "template"
    shutil.copytree(Path(env.binding.__file__).parent, source, ignore=shutil.ignore_patterns("*.so"))
    (source / "template_policy.h").write_text("// the opponent\n")
    with monkeypatch.context() as patched:
        patched.setattr(env, "binding", SimpleNamespace(__file__=str(source / "binding.so")))
        folder = export_policy(spread(Default(env, 8)), env, tmp_path / "exported", "c")
    env.close()
    assert "template_policy_forward" in (folder / "template_policy.h").read_text()
    assert {path.name for path in folder.iterdir()} == {"template_policy.h", "puffernet.h"}
