import math
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn
from torch.distributions import Normal

import pufferlib.emulation
from pufferlib import models
from pufferlib.errors import APIUsageError
from pufferlib.models import Convolutional, Default, LSTMWrapper, MinGRUWrapper, recur
from pufferlib.ppo.sampling import sample_logits

OBSERVATIONS = Box(-1.0, 1.0, (7,), np.float32)
PIXELS = Box(0, 255, (3, 40, 44), np.uint8)
ROWS, HORIZON = 5, 12


def env(action_space=None, observation_space=OBSERVATIONS):
    return SimpleNamespace(single_observation_space=observation_space, single_action_space=action_space or Discrete(4))


def recurrent(name, hidden=16, **keywords):
    torch.manual_seed(0)
    policy = Default(env(), hidden)
    if name == "LSTM":
        return LSTMWrapper(env(), policy, hidden, hidden, **keywords)
    return MinGRUWrapper(env(), policy, hidden, hidden, **keywords)


def random_observations(space, *leading):
    random = np.random.default_rng(0)
    shape = (*leading, *space.shape)
    if np.issubdtype(space.dtype, np.integer):
        return torch.from_numpy(random.integers(0, 2, shape).astype(space.dtype))
    return torch.from_numpy(random.standard_normal(shape).astype(space.dtype))


# --- shapes


@pytest.mark.parametrize("leading", [(5,), (5, 12)])
@pytest.mark.parametrize(
    "observation_space",
    [OBSERVATIONS, Box(0, 9, (3, 4), np.int32), Box(0, 255, (2, 3, 4), np.uint8), Discrete(6), MultiBinary(5)],
    ids=["vector", "grid", "bytes", "discrete", "bits"],
)
def test_observations_of_any_shape_and_dtype_are_encoded(observation_space, leading):
    policy = Default(env(observation_space=observation_space), 16)
    logits, values = policy(random_observations(observation_space, *leading))
    assert logits.shape == (*leading, 4) and values.shape == leading
    assert logits.dtype == values.dtype == torch.float32


@pytest.mark.parametrize("name", ["CartPole-v1", "Taxi-v4", "Pendulum-v1"])
def test_environments_of_gymnasium_are_taken_as_they_are(name):
    env = gymnasium.make(name)
    emulated = pufferlib.emulation.GymnasiumPufferEnv(gymnasium.make(name))
    policy, expected = (MinGRUWrapper(each, Default(each, 8), 8, 8) for each in (env, emulated))
    expected.load_state_dict(policy.state_dict())
    observations, _ = emulated.reset(0)
    found, wanted = (
        each.forward_eval(torch.from_numpy(observations), each.initial_state(1)) for each in (policy, expected)
    )
    assert torch.equal(found[1], wanted[1])


def test_what_has_no_spaces_is_told():
    with pytest.raises(APIUsageError, match="a policy needs an environment with single_observation_space, got int"):
        Default(3)


BOARD = Box(0, 4, (3, 5), np.uint8)


@pytest.mark.parametrize("leading", [(5,), (5, 12)])
def test_categories_are_seen_as_one_hot_numbers_would_be(leading):
    policy = Default(env(observation_space=BOARD), 16, num_layers=2, one_hot=True)
    plain = Default(env(observation_space=Box(0, 1, (75,), np.float32)), 16, num_layers=2)
    plain.load_state_dict(policy.state_dict())
    observations = torch.from_numpy(np.random.default_rng(0).integers(0, 5, (*leading, 3, 5)).astype(np.uint8))
    numbers = nn.functional.one_hot(observations.long(), 5).flatten(-3)
    for found, expected in zip(policy(observations), plain(numbers), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("space", [OBSERVATIONS, Box(0, 10**6, (3,), np.int32)])
def test_categories_of_other_spaces_are_refused(space):
    with pytest.raises(APIUsageError, match="one_hot needs .* switch it off"):
        Default(env(observation_space=space), 16, one_hot=True)


def test_categories_of_structures_are_refused():
    structured = pufferlib.emulation.GymnasiumPufferEnv(env=Hands())
    with pytest.raises(APIUsageError, match="one_hot needs .* without it"):
        Default(structured, 16, one_hot=True)


class Hands(gymnasium.Env):
    """Observations that are packed."""

    observation_space = Dict({"cards": MultiDiscrete([4, 4])})
    action_space = Discrete(2)


def test_action_spaces_give_the_logits_that_sampling_takes():
    observations = random_observations(OBSERVATIONS, ROWS)
    logits, _ = Default(env(MultiDiscrete([2, 3, 4])))(observations)
    assert [part.shape for part in logits] == [(ROWS, 2), (ROWS, 3), (ROWS, 4)]
    assert sample_logits(logits)[0].shape == (ROWS, 3)
    logits, _ = Default(env(Box(-1.0, 1.0, (3,))))(observations)
    assert isinstance(logits, Normal)
    actions, logprobs, _ = sample_logits(logits)
    assert actions.shape == (ROWS, 3) and logprobs.shape == (ROWS,)
    assert sample_logits(Default(env(MultiDiscrete([3])))(observations)[0])[0].shape == (ROWS, 1)


@pytest.mark.parametrize("space", [Box(0, 3, (2,), np.int32), Box(-1.0, 1.0, (2, 2)), Dict({"a": Discrete(2)})])
def test_other_action_spaces_are_refused(space):
    with pytest.raises(APIUsageError, match="Discrete, MultiDiscrete.* one-dimensional float"):
        Default(env(space))


@pytest.mark.parametrize("leading", [(2,), (2, 3)])
def test_images_are_encoded(leading):
    policy = Convolutional(env(observation_space=PIXELS), 32)
    observations = random_observations(PIXELS, *leading)
    hidden = policy.encode_observations(observations)
    logits, values = policy.decode_actions(hidden)
    assert hidden.shape == (*leading, 32) and logits.shape == (*leading, 4) and values.shape == leading
    torch.testing.assert_close(
        hidden[-1, ...].reshape(-1, 32)[-1], policy.encode_observations(observations.reshape(-1, *PIXELS.shape)[-1:])[0]
    )


def test_images_of_floats_are_seen_as_they_are():
    policy = Convolutional(env(observation_space=PIXELS), 32)
    observations = random_observations(PIXELS, 3)
    expected = policy.encode_observations(observations)
    torch.testing.assert_close(policy.encode_observations(observations.double() / 255), expected)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((7,), {}),
        ((3, 35, 40), {}),
        ((35, 40), {}),
        ((42,), {"image_shape": [6, 8], "filters": [4], "sizes": [3], "strides": [1]}),
        ((42,), {"image_shape": [42], "filters": [4], "sizes": [1], "strides": [1]}),
        ((1, 1, 6, 7), {"filters": [4], "sizes": [3], "strides": [1]}),
    ],
)
def test_images_of_other_shapes_are_refused(shape, settings):
    with pytest.raises(APIUsageError, match=r"needs images .* of at least \d+ x \d+ .* image_shape they have"):
        Convolutional(env(observation_space=Box(0, 255, shape, np.uint8)), **settings)


def test_images_need_to_be_as_large_as_the_filters_reach():
    settings = {"filters": [4, 4], "sizes": [3, 2], "strides": [2, 3]}
    Convolutional(env(observation_space=Box(0, 255, (5, 6), np.uint8)), 8, **settings)
    with pytest.raises(APIUsageError, match="at least 5 x 5"):
        Convolutional(env(observation_space=Box(0, 255, (4, 6), np.uint8)), 8, **settings)


@pytest.mark.parametrize(
    "settings",
    [{"filters": []}, {"filters": [4]}, {"sizes": [3, 3]}, {"strides": [1, 1, 0]}, {"filters": [0, 4, 4]}],
    ids=str,
)
def test_convolutions_need_a_number_for_each(settings):
    with pytest.raises(APIUsageError, match="of at least 1 for every convolution"):
        Convolutional(env(observation_space=PIXELS), **settings)


BOARD_SETTINGS = {"filters": [5, 6], "sizes": [3, 1], "strides": [2, 1]}


@pytest.mark.parametrize("leading", [(5,), (5, 12)])
def test_boards_are_images_of_one_channel(leading):
    torch.manual_seed(0)
    space = Box(-1, 1, (6, 7), np.float32)
    policy = Convolutional(env(observation_space=space), 16, **BOARD_SETTINGS)
    flat = Convolutional(env(observation_space=Box(-1, 1, (42,), np.float32)), 16, image_shape=[6, 7], **BOARD_SETTINGS)
    image = Convolutional(env(observation_space=Box(-1, 1, (1, 6, 7), np.float32)), 16, **BOARD_SETTINGS)
    for other in (flat, image):
        other.load_state_dict(policy.state_dict())
    observations = random_observations(space, *leading)
    logits, values = policy(observations)
    assert policy.image_shape == (1, 6, 7) and logits.shape == (*leading, 4) and values.shape == leading
    assert torch.equal(flat(observations.flatten(-2))[0], logits)
    assert torch.equal(image(observations.unsqueeze(-3))[0], logits)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("leading", [(5,), (5, 12)])
def test_channels_may_be_last(leading, one_hot):
    torch.manual_seed(0)
    low, high = np.zeros((6, 7, 2)), np.broadcast_to([2, 4], (6, 7, 2))
    last = Box(low, high, dtype=np.uint8)
    first = Box(np.moveaxis(low, 2, 0), np.moveaxis(high, 2, 0), dtype=np.uint8)
    policy = Convolutional(env(observation_space=last), 16, one_hot=one_hot, channels_last=True, **BOARD_SETTINGS)
    same = Convolutional(env(observation_space=first), 16, one_hot=one_hot, **BOARD_SETTINGS)
    same.load_state_dict(policy.state_dict())
    observations = random_observations(last, *leading)
    assert policy.image_shape == same.image_shape == (2, 6, 7)
    for found, expected in zip(policy(observations), same(observations.movedim(-1, -3)), strict=True):
        torch.testing.assert_close(found, expected)


def test_channels_that_are_last_are_a_third_dimension():
    for shape in ((6, 7), (2, 7, 4)):
        with pytest.raises(APIUsageError, match=r"images \(height, width, channels\) of at least"):
            Convolutional(env(observation_space=Box(0, 1, shape)), 16, channels_last=True, **BOARD_SETTINGS)


@pytest.mark.parametrize("leading", [(5,), (5, 12)])
def test_categories_of_boards_are_seen_as_planes(leading):
    policy = Convolutional(env(observation_space=BOARD), 16, one_hot=True, **BOARD_SETTINGS)
    plain = Convolutional(env(observation_space=Box(0, 1, (5, 3, 5), np.float32)), 16, **BOARD_SETTINGS)
    plain.load_state_dict(policy.state_dict())
    observations = torch.from_numpy(np.random.default_rng(0).integers(0, 5, (*leading, 3, 5)).astype(np.uint8))
    planes = nn.functional.one_hot(observations.long(), 5).movedim(-1, -3).float()
    for found, expected in zip(policy(observations), plain(planes), strict=True):
        torch.testing.assert_close(found, expected)  # a convolution's order of sums follows the memory's layout


def test_planes_are_those_of_the_space_whatever_an_observation_holds():
    """Two channels of their own bounds, of which one differs from pixel to pixel; what lies beyond is the nearest."""
    low, high = np.array([[[0, 1]], [[-1, -1]]]), np.array([[[2, 3]], [[0, 0]]])
    settings = {"filters": [3], "sizes": [1], "strides": [1], "one_hot": True}
    policy = Convolutional(env(observation_space=Box(low, high, dtype=np.int8)), 16, **settings)
    assert policy.one_hot.lowest.tolist() == [0, -1] and policy.one_hot.highest.tolist() == [3, 0]
    planes = policy.one_hot(torch.tensor([[[[1, 9]], [[-5, 0]]]], dtype=torch.int8))
    assert planes.dtype == torch.float32
    assert planes[0, :, 0].T.tolist() == [[0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1]]
    assert not list(policy.one_hot.parameters()) and not policy.one_hot.state_dict()


def test_planes_of_other_spaces_are_refused():
    for space in (Box(0, 1, (6, 7), np.float32), Box(0, 10**6, (6, 7), np.int32)):
        with pytest.raises(APIUsageError, match="one_hot needs .* switch it off"):
            Convolutional(env(observation_space=space), 16, one_hot=True, **BOARD_SETTINGS)


@pytest.mark.parametrize("wrapper", [LSTMWrapper, MinGRUWrapper])
def test_boards_are_seen_through_recurrent_layers(wrapper):
    observation_env = env(observation_space=BOARD)
    torch.manual_seed(0)
    inner = Convolutional(observation_env, 16, one_hot=True, **BOARD_SETTINGS)
    policy = wrapper(observation_env, inner, 16, 16)
    observations, state = random_observations(BOARD, ROWS, HORIZON), policy.initial_state(ROWS)
    logits, values = policy(
        observations, {**policy.initial_state(ROWS), "resets": torch.zeros(ROWS, HORIZON, dtype=torch.bool)}
    )
    for step in range(HORIZON):
        stepped, value = policy.forward_eval(observations[:, step], state)
        torch.testing.assert_close(stepped, logits[:, step])
        torch.testing.assert_close(value, values[:, step])


def test_the_parameters_of_images_have_the_names_and_shapes_that_they_had():
    """Checkpoints of earlier versions are loaded by them."""
    found = {
        name: tuple(tensor.shape) for name, tensor in Convolutional(env(observation_space=PIXELS)).state_dict().items()
    }
    assert found == {
        **{"encoder.0.0.weight": (32, 3, 8, 8), "encoder.0.0.bias": (32,)},
        **{"encoder.0.2.weight": (64, 32, 4, 4), "encoder.0.2.bias": (64,)},
        **{"encoder.0.4.weight": (64, 64, 3, 3), "encoder.0.4.bias": (64,)},
        **{"encoder.1.weight": (512, 128), "encoder.1.bias": (512,)},
        **{"head.linear.weight": (5, 512), "head.linear.bias": (5,)},
    }


# --- the start


def test_new_convolutions_keep_the_size_of_what_passes_them():
    torch.manual_seed(0)
    policy = Convolutional(env(observation_space=PIXELS), 256)
    observations = random_observations(PIXELS, 64)
    size = (observations.float() / 255).square().mean()
    assert size / 10 < policy.encode_observations(observations).square().mean() < size * 10


@pytest.mark.parametrize("action_space", [Discrete(6), MultiDiscrete([3, 4]), Box(-1.0, 1.0, (4,))])
def test_a_new_policy_explores_evenly_and_values_at_gain_one(action_space):
    policy = Default(env(action_space), 64)
    logits, value = policy.head.linear.weight[:-1].detach(), policy.head.linear.weight[-1].detach()
    torch.testing.assert_close(torch.linalg.svdvals(logits), torch.full((len(logits),), 0.01))
    assert value.norm().item() == pytest.approx(1)
    if isinstance(action_space, Box):
        assert policy.head.log_std.abs().max() == 0


@pytest.mark.parametrize("is_mixed", [False, True])
def test_numbers_whose_bounds_leave_0_out_begin_in_their_middle(is_mixed):
    box = Box(np.array([-7, 0, 5, 100], np.float32), np.array([7, 1, np.inf, 200], np.float32))
    head = Default(env(Tuple([Discrete(3), box, Discrete(2)]) if is_mixed else box)).head
    numbers = [0, 0, 5, 150]
    assert head.linear.bias.tolist() == ([0, 0, 0, *numbers, 0, 0, 0] if is_mixed else [*numbers, 0])
    assert head.log_std.exp().tolist() == pytest.approx([1, 1, 1, 50])


@pytest.mark.parametrize(("activation", "gain"), [("gelu", math.sqrt(2)), ("linear", 1.0)])
def test_layers_begin_orthogonal(activation, gain):
    policy = Default(env(), 32, num_layers=2, activation=activation)
    for layer in (policy.encoder[0], policy.encoder[2]):
        values = torch.linalg.svdvals(layer.weight.detach())
        torch.testing.assert_close(values, torch.full_like(values, gain))


@pytest.mark.parametrize("name", ["LSTM", "MinGRU"])
def test_a_recurrent_layer_leaves_the_head_as_it_was(name):
    policy = recurrent(name)
    assert policy.policy.head.linear.weight[:-1].norm().item() == pytest.approx(0.01 * 2, rel=1e-5)


def test_an_unknown_activation_is_refused():
    with pytest.raises(APIUsageError, match="gelu, relu, tanh, linear"):
        Default(env(), activation="selu")


# --- recurrence


@pytest.mark.parametrize(
    ("name", "keywords"),
    [("LSTM", {}), ("LSTM", {"num_layers": 2}), ("MinGRU", {"num_layers": 1}), ("MinGRU", {"num_layers": 3})],
)
def test_a_segment_equals_steps_with_the_state_cleared_at_episode_starts(name, keywords):
    policy = recurrent(name, **keywords)
    observations = random_observations(OBSERVATIONS, ROWS, HORIZON)
    resets = torch.rand(ROWS, HORIZON, generator=torch.Generator().manual_seed(1)) < 0.25
    resets[0], resets[1, 0], resets[2, 0] = False, True, False
    state = {key: torch.randn_like(value) for key, value in policy.initial_state(ROWS).items()}
    logits, values = policy(observations, {**state, "resets": resets})
    for step in range(HORIZON):
        state = {key: value * ~resets[:, step, None] for key, value in state.items()}
        step_logits, step_values = policy.forward_eval(observations[:, step], state)
        torch.testing.assert_close(logits[:, step], step_logits, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(values[:, step], step_values, atol=1e-5, rtol=1e-5)


RESETS = {
    "none": lambda resets: None,
    "all": lambda resets: resets.fill_(True),
    "first": lambda resets: resets[:, 0].fill_(True),
    "last": lambda resets: resets[1, -1].fill_(True),
    "few": lambda resets: resets[[0, 3, 3], [5, 20, 21]].fill_(True),
    "many": lambda resets: resets.bernoulli_(0.2, generator=torch.Generator().manual_seed(1)),
}
MODULES = {
    **{kind.__name__: lambda kind=kind: kind(3, 7) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)},
    "LSTMCell without biases": lambda: nn.LSTMCell(3, 7, bias=False),
    "LSTM of two layers": lambda: nn.LSTM(3, 7, num_layers=2),
    "GRU of batches": lambda: nn.GRU(3, 7, batch_first=True),
}


def stepped(module, inputs, states, resets):
    """What `recur` returns, by single steps."""
    outputs, is_cell = [], isinstance(module, nn.RNNCellBase)
    for step in range(inputs.shape[1]):
        states = [state * ~resets[:, step, None] for state in states]
        row = inputs[:, step] if is_cell else inputs[:, step].unsqueeze(int(module.batch_first))
        after = module(row, tuple(states) if len(states) == 2 else states[0])
        output, after = (after, after) if is_cell else after
        states = after if isinstance(after, tuple) else (after,)
        outputs.append(states[0] if is_cell else output.flatten(0, 1))
    return torch.stack(outputs, 1), *states


@pytest.mark.quick("many")
@pytest.mark.parametrize("resets", RESETS)
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("is_training", [True, False])
def test_a_recurrent_module_runs_over_segments_as_step_by_step(module, resets, is_training):
    torch.manual_seed(0)
    module, change, resets = MODULES[module]().train(is_training), RESETS[resets], torch.zeros(5, 40, dtype=torch.bool)
    change(resets)
    inputs = torch.randn(5, 40, 3, requires_grad=True)
    shape = (5, 7) if isinstance(module, nn.RNNCellBase) else (module.num_layers, 5, 7)
    count = 2 if isinstance(module, (nn.LSTMCell, nn.LSTM)) else 1
    states = [torch.randn(shape, requires_grad=True) for _ in range(count)]
    output, after = recur(module, inputs, tuple(states) if count == 2 else states[0], resets)
    found, expected = (output, *(after if count == 2 else [after])), stepped(module, inputs, states, resets)
    given = [inputs, *states, *module.parameters()]
    results = []
    for result in (found, expected):
        loss = sum((each.square() * torch.linspace(0.1, 1, each.numel()).view_as(each)).mean() for each in result)
        results.append((*result, *torch.autograd.grad(loss, given)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(recur(module, inputs, tuple(states) if count == 2 else states[0], resets)[0], output)


def test_steps_between_episodes_are_one_call_and_hooks_see_every_step(monkeypatch):
    calls, cell = [], nn.GRUCell(3, 7)
    monkeypatch.setitem(
        models._FUSED, nn.GRUCell, lambda steps, *rest: calls.append(len(steps)) or torch.gru(steps, *rest)
    )
    resets = torch.zeros(5, 40, dtype=torch.bool)
    resets[2, [10, 11, 13, 20]] = True
    given = torch.randn(5, 40, 3), torch.randn(5, 7), resets
    expected, _ = recur(cell, *given)
    assert calls == [10, 3, 4, 12, 8]  # of 0, 10, 11, 13, 16, 20, 32
    hidden = []
    cell.register_forward_hook(lambda module, inputs, output: hidden.append(output))
    found, _ = recur(cell, *given)
    assert len(calls) == 5 and torch.equal(torch.stack(hidden, 1), found)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["LSTM", "MinGRU"])
def test_nothing_flows_into_an_episode_from_the_one_before(name):
    policy = recurrent(name)
    observations = random_observations(OBSERVATIONS, ROWS, HORIZON).requires_grad_()
    resets = torch.zeros(ROWS, HORIZON, dtype=torch.bool)
    resets[:, 6] = True
    state = policy.initial_state(ROWS)
    _, values = policy(observations, {**state, "resets": resets})
    (gradient,) = torch.autograd.grad(values[:, 7].sum(), observations)
    assert gradient[:, :6].abs().max() == 0
    assert (gradient[:, 6:8].abs().sum(-1) > 0).all() and gradient[:, 8:].abs().max() == 0


@pytest.mark.parametrize(("name", "is_in_place"), [("LSTM", False), ("MinGRU", True)])
def test_acting_replaces_or_overwrites_the_state(name, is_in_place):
    policy = recurrent(name)
    state = policy.initial_state(ROWS)
    before = dict(state)
    policy.forward_eval(random_observations(OBSERVATIONS, ROWS), state)
    assert state.keys() == before.keys()
    for key, value in before.items():
        assert (state[key] is value) == is_in_place and (value.abs().max() == 0) != is_in_place
        assert state[key].shape == value.shape and state[key].abs().max() > 0


@pytest.mark.parametrize("name", ["LSTM", "MinGRU"])
def test_every_parameter_learns(name):
    policy = recurrent(name)
    observations = random_observations(OBSERVATIONS, ROWS, HORIZON)
    state = {**policy.initial_state(ROWS), "resets": torch.zeros(ROWS, HORIZON, dtype=torch.bool)}
    logits, values = policy(observations, state)
    (logits.square().sum() + values.sum()).backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in policy.parameters())


@pytest.mark.parametrize("name", ["LSTM", "MinGRU"])
def test_the_recurrent_layers_run_under_bfloat16(name):
    policy = recurrent(name)
    observations = random_observations(OBSERVATIONS, ROWS, HORIZON)
    state = {**policy.initial_state(ROWS), "resets": torch.zeros(ROWS, HORIZON, dtype=torch.bool)}
    exact = policy(observations, state)[1]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = policy(observations, state)[1]
        policy.forward_eval(observations[:, 0], state)
    torch.testing.assert_close(rounded.float(), exact, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("wrapper", [LSTMWrapper, MinGRUWrapper])
@pytest.mark.parametrize("sizes", [(16, 32), (32, 16), (32, 32)])
def test_sizes_that_do_not_fit_the_policy_are_refused(wrapper, sizes):
    with pytest.raises(APIUsageError, match="policy.hidden_size 16, got"):
        wrapper(env(), Default(env(), 16), *sizes)


def test_mingru_needs_equal_sizes_whatever_the_policy():
    class Anonymous(torch.nn.Module):
        pass

    with pytest.raises(APIUsageError, match="input_size"):
        MinGRUWrapper(env(), Anonymous(), 16, 32)


@pytest.mark.parametrize("sizes", [{"hidden_size": 0}, {"hidden_size": -3}, {"num_layers": 0}])
def test_policies_without_units_are_refused(sizes):
    with pytest.raises(APIUsageError, match="at least 1, got"):
        Default(env(), **sizes)


@pytest.mark.parametrize("name", ["LSTM", "MinGRU"])
def test_a_recurrent_layer_of_no_layers_is_refused(name):
    with pytest.raises(APIUsageError, match="num_layers must be at least 1, got 0"):
        recurrent(name, num_layers=0)
