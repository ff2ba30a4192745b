import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from network_truth import (
    CASES,
    COEFFICIENTS,
    FUNCTIONS,
    Truth,
    assert_learns_like_the_truth,
    assert_rounds_little,
    changed,
    is_well_conditioned,
    make_categories,
    masked,
    random_graph,
    random_layers,
    random_lstm,
    random_masks,
    random_minibatch,
    random_normalizer,
    random_observations,
)

from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.extensions import network, network_layers
from pufferlib.extensions.network import Network
from pufferlib.extensions.network_layers import Activation, Add, Convolution, Linear, MinGRU, Pool, StateLayer
from pufferlib.fast.learners import KernelAdam
from pufferlib.ppo.losses import normalize

needs_bfloat16 = pytest.mark.skipif(not network.has_bfloat16(), reason="needs a processor with AVX512-BF16")


@pytest.mark.quick("70")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [1, 13, 64, 70])
def test_the_gradients_of_the_loss_match_float64(case, steps):
    torch.manual_seed(0)
    layers = random_layers(**CASES[case])
    observations = random_observations(layers, 23, steps)
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, 23, 19, steps))


@pytest.mark.quick("13")
@pytest.mark.parametrize("case", [name for name, case in CASES.items() if not case.get("numbers")])
@pytest.mark.parametrize("steps", [1, 13, 64])
def test_the_gradients_with_masks_match_float64(case, steps):
    torch.manual_seed(40)
    layers = random_layers(**CASES[case])
    observations = random_observations(layers, 23, steps)
    minibatch = masked(layers, random_minibatch(layers, 23, 19, steps), 23)
    assert_learns_like_the_truth(layers, observations, minibatch)


def masked_act(layers, rows, seed):
    torch.manual_seed(seed)
    observations, masks = random_observations(layers, rows, 1)[:, 0], random_masks(layers.parts, rows)
    states = [torch.randn(rows, size) for size in layers.state_sizes()]
    results = torch.empty(rows, len(layers.parts), dtype=torch.int32), torch.empty(rows), torch.empty(rows)
    noise = torch.rand(rows, len(layers.parts))
    Network(layers).act(observations, [state.clone() for state in states], noise, *results, masks=masks)
    return observations, states, noise, masks, *results


@pytest.mark.quick("201")
@pytest.mark.parametrize("case", [name for name, case in CASES.items() if not case.get("numbers")])
@pytest.mark.parametrize("rows", [1, 64, 201])
def test_a_step_with_masks_draws_what_they_allow_with_the_probabilities_of_that(case, rows):
    layers = random_layers(**CASES[case])
    observations, states, _, masks, actions, logprobs, _ = masked_act(layers, rows, 41)
    for part, chosen in zip(masks.split(layers.parts, -1), actions.long().unbind(-1), strict=True):
        assert part.gather(-1, chosen.unsqueeze(-1)).all()
    truth = Truth(layers)
    decision, _, _ = truth.forward(observations[:, None], states, torch.zeros(rows, 1, dtype=torch.bool))
    expected, _ = truth.evaluate(decision, actions[:, None], masks[:, None])
    torch.testing.assert_close(logprobs.double(), expected[:, 0], rtol=1e-5, atol=2e-5)


def test_a_row_of_which_nothing_is_allowed_is_not_drawn_from():
    layers = random_layers(**CASES["many_choices"])
    rows, states = 3, [torch.zeros(3, size) for size in layers.state_sizes()]
    results = torch.full((rows, 2), 7, dtype=torch.int32), torch.empty(rows), torch.empty(rows)
    masks = torch.ones(rows, sum(layers.parts), dtype=torch.bool)
    masks[1, :131] = False
    with pytest.raises(DivergedError):
        Network(layers).act(
            random_observations(layers, rows, 1)[:, 0], states, torch.rand(rows, 2), *results, masks=masks
        )
    assert results[0][1, 0] == 0


@pytest.mark.parametrize("case", ["choices_by_masks", "choices_by_masks_and_critic"])
def test_what_few_choices_leave_out_is_not_computed(case):
    torch.manual_seed(46)
    layers, rows, segments = random_layers(**CASES[case]), 9, 5
    weight = layers.layers[layers.decision - 1].weight
    masks = torch.zeros(segments, 3, sum(layers.parts), dtype=torch.bool)
    firsts = [0, *itertools.accumulate(layers.parts)][: len(layers.parts)]
    masks[..., [first + each for first in firsts for each in (1, 4)]] = True
    with torch.no_grad():
        weight[: sum(layers.parts)][~masks[0, 0]] = torch.nan
    observations = random_observations(layers, segments, 3)
    actions = torch.ones(segments, 3, len(layers.parts), dtype=torch.int32).squeeze(-1)
    batch = random_minibatch(layers, segments, segments, 3)
    batch = dataclasses.replace(batch, actions=actions, masks=masks)
    learned = Network(layers).learn(observations, batch, **COEFFICIENTS)
    assert learned.ratios.isfinite().all()
    for parameter, gradient in zip(Network(layers).parameters, learned.gradients, strict=True):
        assert gradient.isfinite().all()
        assert parameter is not weight or not gradient[: sum(layers.parts)][~masks[0, 0]].any()
    results = torch.empty(rows, len(layers.parts), dtype=torch.int32), torch.empty(rows), torch.empty(rows)
    states = [torch.zeros(rows, size) for size in layers.state_sizes()]
    noise, observations = torch.rand(rows, len(layers.parts)), random_observations(layers, rows, 1)[:, 0]
    Network(layers).act(observations, states, noise, *results, masks=masks[0, 0].expand(rows, -1).contiguous())
    assert set(results[0].unique().tolist()) <= {1, 4} and results[1].isfinite().all()


def test_masks_must_be_for_choices_and_have_a_column_for_each():
    layers = random_layers(**CASES["critic"] | {"numbers": 0})
    rows, parts = 3, len(layers.parts)
    results = torch.empty(rows, parts, dtype=torch.int32), torch.empty(rows), torch.empty(rows)
    states = [torch.zeros(rows, size) for size in layers.state_sizes()]
    observations = random_observations(layers, rows, 1)[:, 0]
    with pytest.raises(APIUsageError, match="masks must be"):
        wrong = torch.ones(rows, sum(layers.parts) + 1, dtype=torch.bool)
        Network(layers).act(observations, states, torch.rand(rows, parts), *results, masks=wrong)
    batch = random_minibatch(layers, rows, 2, 4)
    of_the_minibatch = dataclasses.replace(batch, masks=random_masks(layers.parts, 2, 4))
    with pytest.raises(APIUsageError, match=r"masks must be \(3, 4, "):
        Network(layers).learn(random_observations(layers, rows, 4), of_the_minibatch, **COEFFICIENTS)


@settings(deadline=None, max_examples=25)
@given(
    inputs=st.integers(1, 40),
    width=st.integers(1, 80),
    encoder=st.integers(1, 3),
    recurrent=st.integers(0, 3),
    lstm=st.integers(0, 3),
    activation=st.sampled_from([*network_layers.ACTIVATIONS]),
    parts=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    numbers=st.integers(0, 4),
    critic=st.lists(st.just(41), max_size=3),
    is_normalized=st.booleans(),
    counts=st.lists(st.integers(1, 9), max_size=20),
    segments=st.integers(1, 40),
    steps=st.integers(1, 20),
    has_weights=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_the_gradients_match_for_any_shape(
    inputs,
    width,
    encoder,
    recurrent,
    lstm,
    activation,
    parts,
    numbers,
    critic,
    is_normalized,
    counts,
    segments,
    steps,
    has_weights,
    seed,
):
    torch.manual_seed(seed)
    is_normalized = is_normalized and not counts
    recurrent = 0 if lstm else recurrent
    layers = random_layers(
        inputs, width, encoder, recurrent, activation, parts, True, numbers, critic, is_normalized, counts, lstm=lstm
    )
    minibatch = random_minibatch(layers, segments, segments, steps, has_weights)
    observations = random_observations(layers, segments, steps)
    truth = Truth(layers)
    truth.loss(observations, minibatch)
    assume(truth.is_smooth())
    assert_learns_like_the_truth(layers, observations, minibatch)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    inputs=st.integers(1, 40),
    num_layers=st.integers(1, 12),
    recurrence=st.sampled_from([None, "mingru", "lstm", "gru", "state"]),
    segments=st.integers(1, 20),
    steps=st.integers(1, 12),
    frozen=st.sampled_from([0.0, 0.3, 0.8]),
    seed=st.integers(0, 2**31),
)
def test_the_gradients_of_any_graph_match_float64(data, inputs, num_layers, recurrence, segments, steps, frozen, seed):
    torch.manual_seed(seed)
    layers = random_graph(lambda lowest, end: data.draw(st.integers(lowest, end - 1)), inputs, num_layers, recurrence)
    constants = [tensor for tensor in layers.tensors()[1:] if torch.rand(()) < frozen]
    layers = dataclasses.replace(layers, constants=constants)
    assert layers.fit()
    observations, minibatch = torch.randn(segments, steps, inputs), random_minibatch(layers, segments, segments, steps)
    truth = Truth(layers)
    loss, _ = truth.loss(observations, minibatch)
    assume(truth.is_smooth() and math.isfinite(loss.total.item()))
    assume(is_well_conditioned(layers, observations, minibatch))
    assert_learns_like_the_truth(layers, observations, minibatch)


@pytest.mark.parametrize("recurrence", ["mingru", "lstm", "gru", "state"])
@pytest.mark.parametrize("rows", [1, 65])
def test_a_step_of_any_graph_matches_float64(recurrence, rows):
    torch.manual_seed(30)
    graphs = (random_graph(np.random.default_rng(seed).integers, 9, 24, recurrence) for seed in range(100))
    layers = next(layers for layers in graphs if layers.fit() and layers.num_states > 1)
    states = [torch.randn(rows, size) for size in layers.state_sizes()]
    before, observations = [state.clone() for state in states], torch.randn(rows, 9)
    _, logprobs, values = act(layers, observations, states, torch.rand(rows, 2))
    _, expected, finals = Truth(layers).forward(observations[:, None], before, torch.zeros(rows, 1, dtype=torch.bool))
    torch.testing.assert_close(values.double(), expected[:, 0], rtol=1e-5, atol=1e-5)
    for state, final in zip(states, finals, strict=True):
        torch.testing.assert_close(state.double(), final, rtol=1e-5, atol=1e-5)
    assert logprobs.isfinite().all()


@pytest.mark.parametrize("activation", [name for name in network_layers.ACTIVATIONS if name != "linear"])
def test_activations_are_exact_far_and_near(activation):
    points = torch.cat([torch.linspace(-30, 30, 1201), torch.linspace(-0.3, 0.3, 601), torch.tensor([-1e4, 1e4])])
    points = points[points != 0]
    one = torch.ones(1, 1)
    layers = [Linear((0,), one, None, activation), Linear((1,), torch.tensor([[0.0], [1.0]]), None)]
    layers = network_layers.Layers(layers, (1,), (1,), 2, 2, 1)
    values = torch.empty(len(points))
    Network(layers).value(points[:, None].contiguous(), [], values)
    expected = FUNCTIONS[activation](points.double())
    torch.testing.assert_close(values.double(), expected, rtol=2e-6, atol=3e-7)


IMAGES = {"image": (3, 6, 7), "convolutions": ((20, 3, 2), (7, 2, 1)), "width": 32}
PLANES = {"image": (2, 6, 7), "counts": (4, 3), "convolutions": ((20, 3, 1), (7, 2, 3)), "width": 32}


@st.composite
def images_and_convolutions(draw):
    """Convolutions that the image has room for."""
    image = tuple(draw(st.lists(st.integers(1, 9), min_size=3, max_size=3)))
    convolutions, (_, height, width) = [], image
    for _ in range(draw(st.integers(1, 3))):
        filters, stride = draw(st.integers(1, 40)), draw(st.integers(1, 4))
        size = draw(st.integers(1, min(height, width)))
        convolutions.append((filters, size, stride))
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
    return image, convolutions


@settings(deadline=None, max_examples=40)
@given(
    shapes=images_and_convolutions(),
    is_of_categories=st.booleans(),
    recurrence=st.sampled_from(["recurrent", "lstm"]),
    layers=st.integers(0, 2),
    segments=st.integers(1, 20),
    steps=st.integers(1, 12),
    has_bias=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_the_gradients_of_convolutions_match_for_any_shape(
    shapes, is_of_categories, recurrence, layers, segments, steps, has_bias, seed
):
    torch.manual_seed(seed)
    image, convolutions = shapes
    counts = tuple(int(count) for count in torch.randint(1, 6, (image[0],))) if is_of_categories else ()
    given = {"image": image, "convolutions": convolutions, "counts": counts, recurrence: layers, "has_bias": has_bias}
    layers = random_layers(activation="relu", **given)
    observations, minibatch = (
        random_observations(layers, segments, steps),
        random_minibatch(layers, segments, segments, steps),
    )
    truth = Truth(layers)
    truth.loss(observations, minibatch)
    assume(truth.is_smooth())
    assert_learns_like_the_truth(layers, observations, minibatch)


@settings(deadline=None, max_examples=60)
@given(
    image=st.tuples(st.integers(1, 5), st.integers(3, 9), st.integers(3, 9)),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 1)), min_size=3, max_size=3),
    filters=st.integers(1, 20),
    is_largest=st.booleans(),
    segments=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_padded_convolutions_pools_and_sums_of_images_match_float64(image, sizes, filters, is_largest, segments, seed):
    torch.manual_seed(seed)
    (size, stride, padding), (window, step, around), (second, _, _) = sizes
    padding, around = min(padding, size - 1), min(around, window // 2)
    first = torch.randn(filters, image[0], size, size) / (image[0] ** 0.5 * size)
    again = torch.randn(filters, filters, 3, 3) / (3 * filters**0.5)
    layers = [
        Convolution((0,), first, torch.randn(filters), stride, image[0], is_rectified=False, padding=padding),
        Activation((1,), "tanh"),
        Convolution((2,), again, None, 1, is_rectified=second > 1, padding=1),
        Add((1, 3)),
        Pool((4,), window, step, around, is_largest),
    ]
    shape = network_layers.Layers(layers, image, (1,), 1, 1, 0).shapes()[-1]
    assume(shape is not None and 0 not in shape)
    weight = torch.randn(4, math.prod(shape)) / math.prod(shape) ** 0.5
    layers = network_layers.Layers([*layers, Linear((5,), weight, torch.randn(4))], image, (3,), 6, 6, 3)
    assert layers.fit()
    observations, minibatch = torch.randn(segments, 2, *image), random_minibatch(layers, segments, segments, 2)
    truth = Truth(layers)
    truth.loss(observations, minibatch)
    assume(truth.is_smooth())
    assert_learns_like_the_truth(layers, observations, minibatch)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64]
)
def test_images_of_integers_are_brought_to_one_and_numbers_are_seen_as_they_are(dtype):
    torch.manual_seed(20)
    layers = random_layers(**IMAGES)
    low, high = (-128, 128) if dtype == torch.int8 else (0, 256)
    observations = torch.randint(low, high, (9, 4, 3, 6, 7)).to(dtype)
    if dtype.is_floating_point:
        observations /= 100
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, 9, 6, 4))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *itertools.product(("strides", "normalised_images"), (torch.uint8, torch.int64, torch.float32, torch.float64)),
        *itertools.product(("planes_of_channels", "planes_below_zero"), (torch.uint8, torch.int16, torch.int64)),
    ],
)
def test_images_whose_channels_are_last_match_float64(kind, dtype):
    torch.manual_seed(27)
    layers = dataclasses.replace(random_layers(**CASES[kind]), has_channels_last=True)
    channels, *edges = layers.shape
    low, high = (0, 256) if dtype == torch.uint8 or layers.categories is None else (-9, 30)
    observations = torch.randint(low, high, (9, 4, *edges, channels)).to(dtype)
    if dtype.is_floating_point:
        observations /= 100
    if layers.categories is not None:
        observations = observations.flatten(2)
    assert layers.fit()
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, 9, 6, 4))


def test_normalised_bytes_of_images_are_not_scaled_again():
    torch.manual_seed(21)
    layers = random_layers(**IMAGES, is_normalized=True)
    observations = torch.randint(0, 3, (9, 4, 3, 6, 7), dtype=torch.uint8)
    truth, minibatch = Truth(layers), random_minibatch(layers, 9, 6, 4)
    loss, _ = truth.loss(observations.float(), minibatch)
    learned = Network(layers).learn(observations, minibatch, **COEFFICIENTS)
    torch.testing.assert_close(learned.metrics.double(), torch.stack([*loss.metrics.values()]), rtol=1e-5, atol=1e-5)


def test_planes_that_are_never_seen_get_no_gradient_at_all():
    torch.manual_seed(22)
    layers = random_layers(image=(1, 6, 6), counts=(6,), convolutions=((20, 3, 1), (9, 3, 1)))
    observations = torch.randint(0, 2, (40, 5, 36), dtype=torch.uint8)
    gradients = Network(layers).learn(observations, random_minibatch(layers, 40, 40, 5), **COEFFICIENTS).gradients
    assert (gradients[0][:, 2:] == 0).all()
    assert (gradients[0][:, :2] != 0).float().mean() > 0.8  # a filter may be 0 on every board


def test_observations_of_bytes_in_any_layout():
    torch.manual_seed(1)
    layers = random_layers(inputs=35, recurrent=1)
    minibatch = random_minibatch(layers, 9, 6, 4)
    observations = torch.randint(0, 256, (9, 4, 5, 7), dtype=torch.uint8)
    small = changed(layers, 0, weight=layers.layers[0].weight / 256)
    assert_learns_like_the_truth(small, observations, minibatch)
    time_major = observations.transpose(0, 1).contiguous().transpose(0, 1)
    found, expected = (Network(small).learn(each, minibatch, **COEFFICIENTS) for each in (time_major, observations))
    assert all(torch.equal(left, right) for left, right in zip(found.gradients, expected.gradients, strict=True))


def test_observations_of_signed_bytes_are_seen_with_their_signs():
    torch.manual_seed(11)
    layers = random_layers(inputs=5)
    observations = torch.randint(-4, 5, (9, 4, 5), dtype=torch.int8)
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, 9, 6, 4))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_any_integer_leads_to_a_category(dtype):
    """256 of them for cells of few categories; nearest counts, as in the policy of torch."""
    torch.manual_seed(12)
    layers = random_layers(counts=(3, 1, 200), lowest=(2, 120, 30 if dtype == torch.uint8 else -100))
    observations = torch.arange(256).to(dtype)[:, None, None].expand(256, 2, 3).contiguous()
    if dtype not in (torch.uint8, torch.int8):
        observations = observations * 100 - 9_000
        observations[0], observations[1] = torch.iinfo(dtype).min % -(2**31), min(torch.iinfo(dtype).max, 2**31 - 1)
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, 256, 256, 2))


def test_integers_beyond_all_others_are_those_that_torch_makes_of_them():
    layers = random_layers(counts=(3, 4), lowest=(-(2**29), 2**29))
    numbers = torch.tensor([2**63 - 1, -(2**63), 2**31, 2**40 + 2**29 + 1, -1, 0])
    found, expected = torch.empty(2, 6)
    Network(layers).value(numbers[:, None].expand(6, 2).contiguous(), [], found)
    Network(layers).value(numbers.int()[:, None].expand(6, 2).contiguous(), [], expected)
    assert torch.equal(found, expected)


def test_categories_that_are_never_seen_get_no_gradient_at_all():
    """An optimizer that divides by the size of gradients would blow up what is not quite zero."""
    torch.manual_seed(13)
    layers = random_layers(counts=(6,) * 7, width=48, recurrent=1)
    observations = torch.randint(0, 2, (40, 5, 7), dtype=torch.uint8)
    gradients = Network(layers).learn(observations, random_minibatch(layers, 40, 40, 5), **COEFFICIENTS).gradients
    of_columns = gradients[0].view(48, 7, 6)
    assert (of_columns[:, :, 2:] == 0).all() and (of_columns[:, :, :2] != 0).all()


def test_categories_are_those_that_the_network_was_made_for():
    """Whoever changes them later changes nothing: they lead into memory."""
    layers = random_layers(counts=(3, 4))
    net, observations = Network(layers), torch.tensor([[2, 3]], dtype=torch.uint8)
    before, after = torch.empty(1), torch.empty(1)
    net.value(observations, [], before)
    layers.categories.lowest.fill_(-(2**20))
    layers.categories.counts.fill_(2**20)
    net.value(observations, [], after)
    assert torch.equal(before, after)


def test_values_that_are_not_clipped():
    torch.manual_seed(9)
    layers = random_layers(**CASES["critic"])
    minibatch = random_minibatch(layers, 64, 64, 1)
    coefficients = {**COEFFICIENTS, "vf_clip_coef": math.inf, "ent_coef": 0.0}
    assert_learns_like_the_truth(layers, torch.randn(64, 1, 17), minibatch, coefficients)


@pytest.mark.parametrize("is_normalized", [False, True])
def test_observations_of_double_precision_lose_it_after_the_mean_is_subtracted(is_normalized):
    torch.manual_seed(10)
    layers = random_layers(inputs=11, numbers=2, critic=(16,), is_normalized=is_normalized)
    observations = torch.randn(9, 4, 11, dtype=torch.float64)
    if is_normalized:
        layers.normalizer.mean.copy_((1e4 * layers.normalizer.mean).float())
        observations += layers.normalizer.mean
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, 9, 6, 4))


def test_the_normalizer_is_taken_as_it_is_at_the_last_refresh():
    layers = random_layers(is_normalized=True)
    net, observations = Network(layers), torch.randn(2, 7)
    first, second, third = torch.empty(2), torch.empty(2), torch.empty(2)
    net.value(observations, [], first)
    layers.normalizer.mean.add_(0.5)
    net.value(observations, [], second)
    net.refresh()
    net.value(observations, [], third)
    assert torch.equal(first, second) and not torch.equal(first, third)


@pytest.mark.parametrize(
    "case",
    [
        {"inputs": 20, "width": 32, "recurrent": 2},
        {"inputs": 20, "numbers": 3, "critic": (16, 16)},
        {"counts": (5,) * 20, "width": 80, "recurrent": 1},
        {"inputs": 20, "width": 32, "lstm": 2},
        {"inputs": 20, "width": 17, "loops": 2},
        {**IMAGES, "recurrent": 1},
        PLANES,
    ],
)
def test_the_number_of_threads_does_not_change_the_gradients(case, monkeypatch):
    monkeypatch.setattr(network, "PACK_NUMBERS", 64)  # so that threads share the packing
    torch.manual_seed(2)
    layers = random_layers(**case)
    observations, minibatch = random_observations(layers, 150, 8), random_minibatch(layers, 150, 150, 8)
    results = [Network(layers, threads).learn(observations, minibatch, **COEFFICIENTS) for threads in (1, 2, 3, 7)]
    first = results[0]
    for other in results[1:]:
        assert all(torch.equal(left, right) for left, right in zip(other.gradients, first.gradients, strict=True))
        for name in ("metrics", "ratios", "values"):
            assert torch.equal(getattr(other, name), getattr(first, name))


@pytest.mark.parametrize("rows", [1, 8, 13, 70])
@pytest.mark.parametrize("case", [IMAGES, PLANES], ids=["numbers", "categories"])
def test_the_number_of_threads_does_not_change_what_images_decide(case, rows):
    torch.manual_seed(2)
    layers = random_layers(**case)
    observations, noise = random_observations(layers, rows, 1)[:, 0].contiguous(), torch.rand(rows, len(layers.parts))
    found = []
    for threads in (1, 2, 7):
        actions = torch.empty(rows, len(layers.parts), dtype=torch.int32)
        found.append((actions, torch.empty(rows), torch.empty(rows)))
        Network(layers, threads).act(observations, [], noise, *found[-1])
    for other in found[1:]:
        assert all(torch.equal(left, right) for left, right in zip(other, found[0], strict=True))


@pytest.mark.parametrize(("numbers", "has_masks"), [(0, False), (0, True), (2, False)])
def test_absent_rows_decide_nothing_and_change_no_other(numbers, has_masks):
    torch.manual_seed(31)
    layers, rows = random_layers(numbers=numbers) if numbers else random_layers(parts=(2, 4)), 70
    observations, parts = torch.randn(rows, 7), len(layers.parts)
    noise, present = torch.rand(rows, parts), torch.rand(rows, 3)[:, 1] < 0.8
    observations[~present] = torch.nan  # what is not there is not read for a decision
    masks = (torch.rand(rows, 6) < 0.5).index_fill(1, torch.tensor([1, 3]), True) if has_masks else None
    if has_masks:
        masks[~present] = False  # nor is anything allowed
    found, expected = [
        (torch.full((count, parts), -1, dtype=Network(layers).action_dtype), torch.empty(count), torch.empty(count))
        for count in (rows, int(present.sum()))
    ]
    Network(layers).act(observations, [], noise, *found, masks=masks, present=present)
    others = masks[present] if has_masks else None
    Network(layers).act(observations[present], [], noise[present], *expected, masks=others)
    for result, of_present in zip(found, expected, strict=True):
        assert torch.equal(result[present], of_present) and not result[~present].any()
    values = torch.empty(rows)
    Network(layers).act(observations, [], None, None, None, values, present=present)  # nobody decides
    assert torch.equal(values, found[2])


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (1, 64), (3, 5), (7, 129), (16, 9), (37, 3), (129, 2), (200, 1)])
def test_an_lstm_learns_from_any_number_of_segments(count, steps):
    """They go through the layers in groups of about one size."""
    torch.manual_seed(14)
    layers = random_layers(width=32, lstm=2)
    observations = torch.randn(count, steps, 7)
    assert_learns_like_the_truth(layers, observations, random_minibatch(layers, count, count, steps))


@pytest.mark.parametrize("is_reset", [False, True])
def test_an_lstm_learns_from_segments_without_resets_and_of_resets_alone(is_reset):
    torch.manual_seed(15)
    layers = random_layers(lstm=2)
    minibatch = random_minibatch(layers, 11, 11, 6)
    minibatch.resets.fill_(is_reset)
    assert_learns_like_the_truth(layers, torch.randn(11, 6, 7), minibatch)


def test_an_lstm_whose_gates_are_closed_or_wide_open_stays_exact():
    torch.manual_seed(16)
    layers = random_layers(lstm=1)
    for weight in layers.layers[1].parameters()[:2]:
        weight.mul_(30.0)
    minibatch = random_minibatch(layers, 11, 11, 3)
    minibatch.states[1].mul_(30.0)
    assert_learns_like_the_truth(layers, torch.randn(11, 3, 7), minibatch)


@pytest.mark.parametrize("bias", ["input_bias", "hidden_bias"])
def test_an_lstm_may_lack_one_of_its_biases(bias):
    torch.manual_seed(17)
    layers = random_layers(lstm=2)
    for index in (1, 2):
        layers = changed(layers, index, **{bias: None})
    assert_learns_like_the_truth(layers, torch.randn(9, 4, 7), random_minibatch(layers, 9, 6, 4))


@pytest.mark.parametrize("recurrence", [{"recurrent": 2}, {"lstm": 2}, {"loops": 2}], ids=str)
def test_nothing_flows_over_a_reset_not_even_nan(recurrence):
    torch.manual_seed(18)
    layers = random_layers(**recurrence)
    observations, minibatch = torch.randn(5, 4, 7), random_minibatch(layers, 5, 5, 4)
    minibatch.resets[:, 0] = True
    zeros = dataclasses.replace(minibatch, states=[torch.zeros_like(state) for state in minibatch.states])
    broken = dataclasses.replace(minibatch, states=[state + torch.nan for state in minibatch.states])
    net = Network(layers)
    expected = [gradient.clone() for gradient in net.learn(observations, zeros, **COEFFICIENTS).gradients]
    found = net.learn(observations, broken, **COEFFICIENTS).gradients
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))


@pytest.mark.parametrize("case", [{"recurrent": 2}, {"lstm": 2}, {"loops": 2}, IMAGES, {**PLANES, "lstm": 1}], ids=str)
def test_nothing_is_left_over_from_the_minibatch_before(case):
    torch.manual_seed(19)
    layers = random_layers(**case)
    observations, minibatch = random_observations(layers, 21, 9), random_minibatch(layers, 21, 21, 9)
    net = Network(layers)
    expected = [gradient.clone() for gradient in net.learn(observations, minibatch, **COEFFICIENTS).gradients]
    for memory in (net._scratch, net._gradients, net._metrics, net.gradient):
        memory.fill_(torch.nan)
    found = net.learn(observations, minibatch, **COEFFICIENTS).gradients
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))


@pytest.mark.quick("any_width", "planes", "lstm", "loops", "convolutions", "categories", "critic", "recurrent_numbers")
@needs_bfloat16
@pytest.mark.parametrize("case", CASES)
def test_rounded_products_stay_near_the_truth(case):
    torch.manual_seed(20)
    layers = random_layers(**CASES[case])
    observations = random_observations(layers, 150, 13)
    assert_rounds_little(layers, observations, random_minibatch(layers, 150, 150, 13))


@needs_bfloat16
def test_what_is_seen_and_what_is_decided_is_not_rounded():
    torch.manual_seed(21)
    layers = random_layers(inputs=118, width=40, numbers=3, critic=(24,), is_normalized=True)
    observations, minibatch = torch.randn(9, 4, 118), random_minibatch(layers, 9, 9, 4)
    found, expected = (
        Network(layers, products=products).learn(observations, minibatch, **COEFFICIENTS).gradients
        for products in ("bfloat16", "float32")
    )
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))


@needs_bfloat16
def test_bytes_lose_nothing_where_they_are_rounded():
    torch.manual_seed(21)
    layers = dataclasses.replace(random_layers(inputs=300, width=40), are_bytes=True)
    first = layers.layers[0].weight
    first.copy_(first.bfloat16() / 128)  # of as few digits
    minibatch = random_minibatch(layers, 9, 9, 4)

    def difference(observations):
        by_bfloat16, exact = (
            Network(layers, products=products).learn(observations, minibatch, **COEFFICIENTS).values
            for products in ("bfloat16", "float32")
        )
        return (by_bfloat16 - exact).abs().max()

    of_bytes = torch.randint(0, 256, (9, 4, 300), dtype=torch.uint8)
    assert difference(of_bytes) < 1e-5 < 1e-3 < difference(of_bytes + torch.rand(9, 4, 300))


@needs_bfloat16
def test_categories_are_not_bytes_that_are_rounded():
    torch.manual_seed(21)
    layers = dataclasses.replace(random_layers(**CASES["planes"]), are_bytes=True)
    observations = random_observations(layers, 150, 13)
    assert_rounds_little(layers, observations, random_minibatch(layers, 150, 150, 13))


def test_products_that_there_are_not_are_refused(monkeypatch):
    with pytest.raises(APIUsageError, match="got 'float16'"):
        Network(random_layers(), products="float16")
    monkeypatch.setattr(network, "has_bfloat16", lambda: False)
    with pytest.raises(APIUsageError, match="got 'bfloat16' on one that does not; take float32"):
        Network(random_layers(), products="bfloat16")


def test_torchs_defaults_change_nothing():
    torch.manual_seed(47)
    layers = random_layers(numbers=2, recurrent=1, is_normalized=True)
    observations, minibatch = random_observations(layers, 5, 3), random_minibatch(layers, 5, 4, 3)
    expected = Network(layers).learn(observations, minibatch, **COEFFICIENTS)
    torch.set_default_dtype(torch.float64)
    try:
        found = [Network(layers).learn(observations, minibatch, **COEFFICIENTS)]
        with torch.device("meta"):
            found += [Network(layers).learn(observations, minibatch, **COEFFICIENTS)]
    finally:
        torch.set_default_dtype(torch.float32)
    for each in found:
        assert all(map(torch.equal, (*each.gradients, each.values), (*expected.gradients, expected.values)))


def test_learning_works_with_the_parameters_as_they_are():
    torch.manual_seed(3)
    layers = random_layers(recurrent=1)
    observations, minibatch = torch.randn(4, 3, 7), random_minibatch(layers, 4, 4, 3)
    net = Network(layers)
    net.learn(observations, minibatch, **COEFFICIENTS)
    for weight in layers.parameters():
        weight.mul_(0.5)
    ratios = net.learn(observations, minibatch, **COEFFICIENTS).ratios
    torch.testing.assert_close(ratios.double(), Truth(layers).loss(observations, minibatch)[0].ratio)


# Counts of parts: one of many chunks, one of none, one of a single row.
@pytest.mark.quick("counts0")
@pytest.mark.parametrize("counts", [[5, 0, 7, 1], [70, 70, 23], [33]])
@pytest.mark.parametrize("case", [name for name in CASES if Network(random_layers(**CASES[name])).can_train])
@pytest.mark.parametrize("is_normalized", [False, True])
def test_parts_in_one_call_are_minibatches_with_steps_between(case, counts, is_normalized):
    """In torch's arithmetic for advantages, the norm and Adam."""
    results = []
    for in_one_call in (True, False):
        torch.manual_seed(44)
        layers, total = random_layers(**CASES[case]), sum(counts)
        observations = random_observations(layers, total, 1)
        batch = random_minibatch(layers, total, total, 1, has_weights=False)
        batch = masked(layers, batch, len(observations)) if layers.log_std is None else batch
        net = Network(layers, num_threads=2)
        for parameter, gradient in zip(net.parameters, net.gradients, strict=True):
            parameter.grad = gradient
        net.gradient.fill_(torch.nan)
        settings = {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-3, "weight_decay": 0.1}
        if in_one_call:
            adam = KernelAdam(net.parameters, **settings).steps_of_one_batch()
            limits = {"max_norm": 0.3, "is_normalized": is_normalized}
            sums = net.train(observations, batch, counts, adam, **limits, **COEFFICIENTS)
        else:
            optimizer, sums = torch.optim.AdamW(net.parameters, **settings), torch.zeros(network.NUM_METRICS)
            for begin, end in itertools.pairwise(itertools.accumulate(counts, initial=0)):
                net.gradient.zero_()
                if begin < end:
                    part = rows_of(batch, slice(begin, end))
                    if is_normalized:
                        part = dataclasses.replace(part, advantages=normalize(part.advantages, None))
                    sums += net.learn(observations, part, **COEFFICIENTS).metrics
                torch.nn.utils.clip_grad_norm_(net.parameters, 0.3)
                optimizer.step()
        results.append((sums, [parameter.clone() for parameter in net.parameters]))
    (found_sums, found), (sums, expected) = results
    torch.testing.assert_close(found_sums, sums, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def rows_of(batch, part):
    names = {field.name for field in dataclasses.fields(batch)} - {"masks"}  # those of all segments
    tensors = ((name, getattr(batch, name)) for name in names)
    return dataclasses.replace(
        batch, **{name: each[part].contiguous() for name, each in tensors if torch.is_tensor(each)}
    )


def test_parts_that_do_not_fit_are_refused():
    layers = random_layers()
    net, batch = Network(layers), random_minibatch(layers, 6, 6, 1, has_weights=False)
    for parameter, gradient in zip(net.parameters, net.gradients, strict=True):
        parameter.grad = gradient
    settings = {"max_norm": 1.0, "is_normalized": True, **COEFFICIENTS}
    adam, observations = KernelAdam(net.parameters).steps_of_one_batch(), random_observations(layers, 6, 1)
    with pytest.raises(APIUsageError, match="of 6 segments in all and without weights"):
        net.train(observations, batch, [3, 2], adam, **settings)
    with pytest.raises(APIUsageError, match="without weights"):
        net.train(observations, dataclasses.replace(batch, weights=torch.ones(6, 1)), [6], adam, **settings)
    before = [parameter.clone() for parameter in net.parameters]
    outside = dataclasses.replace(batch, segments=torch.full((6,), 6))
    with pytest.raises(APIUsageError, match="segments must be rows of observations"):
        net.train(observations, outside, [6], adam, **settings)
    torch.testing.assert_close(net.parameters, before)


# ---------------------------------------------------------------------------------------------------------- acting


def act(layers, observations, states, noise):
    """Into poisoned results that lie as a column of a rollout does."""
    rows, parts = len(observations), len(layers.parts)
    actions = torch.full((rows, 5, parts), -1, dtype=torch.int32 if layers.log_std is None else torch.float32)
    logprobs, values = (torch.full((rows, 3), torch.nan) for _ in range(2))
    Network(layers).act(observations, states, noise, actions[:, 2], logprobs[:, 1], values[:, 2])
    assert (actions[:, [0, 1, 3, 4]] == -1).all() and logprobs[:, [0, 2]].isnan().all() and values[:, :2].isnan().all()
    return actions[:, 2], logprobs[:, 1], values[:, 2]


@pytest.mark.quick("201")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 64, 201])
def test_a_step_matches_float64(case, rows):
    torch.manual_seed(4)
    layers = random_layers(**CASES[case])
    observations = random_observations(layers, rows)
    states = [torch.randn(rows, size) for size in layers.state_sizes()]
    before = [state.clone()[:, None] for state in states]
    noise = (torch.rand if layers.log_std is None else torch.randn)(rows, len(layers.parts))
    actions, logprobs, values = act(layers, observations, states, noise)

    truth = Truth(layers)
    decision, expected_values, finals = truth.forward(
        observations[:, None], [state[:, 0] for state in before], torch.zeros(rows, 1, dtype=torch.bool)
    )
    torch.testing.assert_close(values.double(), expected_values[:, 0], rtol=1e-5, atol=1e-5)
    for state, final in zip(states, finals, strict=True):
        torch.testing.assert_close(state.double(), final, rtol=1e-5, atol=1e-5)
    expected, _ = truth.evaluate(decision, actions[:, None])
    torch.testing.assert_close(logprobs.double(), expected[:, 0], rtol=1e-5, atol=1e-5)
    if layers.log_std is not None:
        drawn = decision[:, 0] + layers.log_std.double().exp() * noise
        torch.testing.assert_close(actions.double(), drawn, rtol=1e-5, atol=1e-5)


def test_actions_are_drawn_as_often_as_the_policy_says():
    torch.manual_seed(5)
    layers = random_layers(parts=(4, 2))
    observation = torch.randn(7)
    rows = 40_000
    actions, _, _ = act(layers, observation.expand(rows, 7).contiguous(), [], torch.rand(rows, 2))
    logits, _, _ = Truth(layers).forward(observation[None, None], [], None)
    for part, action in zip(logits, actions.long().unbind(-1), strict=True):
        found = torch.bincount(action, minlength=part.shape[-1]) / rows
        torch.testing.assert_close(found.double(), part[0, 0].softmax(-1), rtol=0, atol=0.01)


@pytest.mark.parametrize(("uniform", "expected"), [(0.0, 1), (0.999999, 2), (1.0, 2)])
def test_the_edges_of_the_uniform_numbers_never_draw_the_impossible(uniform, expected):
    layers = random_layers(inputs=1, parts=(4,))
    layers.layers[layers.decision - 1].weight.zero_()
    layers.layers[layers.decision - 1].bias.copy_(torch.tensor([-torch.inf, 0.0, 0.0, -torch.inf, 0.0]))
    actions, logprobs, _ = act(layers, torch.randn(3, 1), [], torch.full((3, 1), uniform))
    if uniform < 1.0:  # 1.0 itself is outside of what uniform numbers can be: only the range counts
        assert (actions == expected).all()
        torch.testing.assert_close(logprobs, torch.full((3,), 0.5).log())
    assert ((actions >= 0) & (actions < 4)).all()


def test_a_copy_of_the_observations_is_left_where_it_is_wanted():
    layers = random_layers(inputs=12)
    for dtype in (torch.float32, torch.float64, torch.uint8, torch.int8):
        observations = torch.randint(0, 100, (70, 3, 4)).to(dtype)
        stored = torch.full_like(observations, 101)
        results = torch.empty(70, dtype=torch.int32), torch.empty(70), torch.empty(70)
        Network(layers).act(observations, [], torch.rand(70, 1), *results, stored=stored)
        assert torch.equal(stored, observations)
    with pytest.raises(APIUsageError, match="stored"):
        Network(layers).act(observations, [], torch.rand(70, 1), *results, stored=stored.float())


def test_a_step_that_was_prepared_is_computed_from_whatever_it_is_called_with():
    torch.manual_seed(43)
    layers = random_layers(inputs=12, recurrent=1)
    net, state, noise = Network(layers), torch.randn(70, 16), torch.empty(70, 1)
    stored, *results = torch.zeros(70, 12), torch.empty(70, dtype=torch.int32), torch.empty(70), torch.empty(70)
    step = net.prepare_act(stored, [state], noise, *results, stored=stored)
    for turn in range(3):
        noise.uniform_()
        observations = torch.randn(70, 12) if turn else stored  # which are not copied onto themselves
        expected_state, expected = state.clone(), [torch.empty_like(each) for each in results]
        Network(layers).act(observations, [expected_state], noise, *expected)
        step(observations)
        assert all(map(torch.equal, [*results, state, stored], [*expected, expected_state, observations]))
    for wrong in (observations[:69], observations.double(), torch.randn(12, 70).T, observations.to("meta")):
        with pytest.raises(APIUsageError, match="strides"):
            step(wrong)
    with pytest.raises(DivergedError):
        step(observations * torch.nan)
    state.zero_()
    step(observations)


def test_values_alone_leave_no_decision():
    torch.manual_seed(6)
    layers = random_layers(recurrent=1)
    observations, values, others = torch.randn(5, 7), torch.empty(5), torch.empty(5)
    net = Network(layers)
    net.value(observations, [torch.zeros(5, 16)], values)
    actions, logprobs = torch.empty(5, dtype=torch.int32), torch.empty(5)
    net.act(observations, [torch.zeros(5, 16)], torch.rand(5, 1), actions, logprobs, others)
    assert torch.equal(values, others)


def test_acting_keeps_the_parameters_of_the_last_refresh():
    torch.manual_seed(7)
    layers = random_layers()
    net, observations = Network(layers), torch.randn(2, 7)
    first, second, third = torch.empty(2), torch.empty(2), torch.empty(2)
    net.value(observations, [], first)
    layers.layers[layers.decision - 1].weight.mul_(2)
    net.value(observations, [], second)
    net.refresh()
    net.value(observations, [], third)
    assert torch.equal(first, second) and not torch.equal(first, third)


def test_nan_of_an_image_is_not_lost_in_the_convolutions():
    layers = random_layers(**IMAGES)
    observations = torch.randn(4, 126)
    observations[2, 5] = torch.nan
    with pytest.raises(ValueError, match="logits contain NaN"):
        act(layers, observations, [], torch.rand(4, 1))


def test_nan_logits_raise():
    layers = random_layers()
    layers.layers[layers.decision - 1].weight[1, 3] = torch.nan
    with pytest.raises(ValueError, match="logits contain NaN"):
        act(layers, torch.randn(4, 7), [], torch.rand(4, 1))


@pytest.mark.parametrize("broken", ["head", "log_std", "observation"])
def test_nan_numbers_raise(broken):
    layers, observations = random_layers(numbers=2, critic=(16,), is_normalized=True), torch.randn(4, 7)
    broken = {
        "head": layers.layers[layers.decision - 1].weight,
        "log_std": layers.log_std,
        "observation": observations,
    }[broken]
    broken.view(-1)[1] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        act(layers, observations, [], torch.randn(4, 2))


# -------------------------------------------------------------------------------------------------------- mistakes


def with_layer(index, layer):
    """Layers of which one is another."""
    layers = random_layers()
    found = list(layers.layers)
    found[index : index + 1] = [layer] if layer else []
    return dataclasses.replace(layers, layers=found)


def behind_the_encoder(*recurrent):
    """Recurrent layers before the head."""
    layers = random_layers()
    encoder, head = layers.layers
    found = [encoder, *(dataclasses.replace(layer, inputs=(index + 1,)) for index, layer in enumerate(recurrent))]
    found.append(dataclasses.replace(head, inputs=(len(found),)))
    return dataclasses.replace(layers, layers=found, decision=len(found), value=len(found))


def mingru(*shape, dtype=torch.float32):
    return MinGRU((1,), torch.zeros(*shape, dtype=dtype))


@pytest.mark.parametrize(
    "layers",
    [
        changed(random_layers(), 0, activation="mish"),
        with_layer(0, None),
        dataclasses.replace(random_layers(), layers=[]),
        dataclasses.replace(random_layers(), parts=(4,)),
        behind_the_encoder(mingru(16, 16)),
        behind_the_encoder(*[mingru(48, 16)] * 63),
        behind_the_encoder(mingru(48, 16, dtype=torch.float64)),
        behind_the_encoder(random_lstm(64, 32)),
        behind_the_encoder(random_lstm(48, 16)),
        behind_the_encoder(*[random_lstm(64, 16)] * 33),
        behind_the_encoder(dataclasses.replace(random_lstm(64, 16), hidden_bias=torch.zeros(1))),
        behind_the_encoder(dataclasses.replace(random_lstm(64, 16), hidden_weight=torch.zeros(16, 64).T)),
        behind_the_encoder(random_lstm(64, 16), mingru(48, 16)),
        changed(random_layers(), 1, weight=torch.zeros(16, 4).T),
        changed(random_layers(), 1, bias=torch.zeros(1)),  # torch adds one number to all
        changed(random_layers(), 1, bias=torch.zeros(4, 1)),
        changed(random_layers(), 1, inputs=(2,)),
        changed(random_layers(), 1, inputs=(-1,)),
        changed(random_layers(), 1, inputs=(0,)),
        changed(random_layers(), 0, bias=torch.zeros(1)),
        changed(random_layers(), 0, bias=torch.zeros(1).expand(16)),
        changed(random_layers(), 0, bias=torch.zeros(16, 1)),
        changed(random_layers(), 0, weight=torch.zeros(16)),
        dataclasses.replace(random_layers(), log_std=torch.zeros(1), parts=(1, 1, 1)),
        dataclasses.replace(random_layers(), log_std=torch.zeros(3)),
        dataclasses.replace(random_layers(), value=0),
        dataclasses.replace(random_layers(), value_place=4),
        dataclasses.replace(random_layers(), normalizer=random_normalizer(8)),
        dataclasses.replace(random_layers(), categories=make_categories([3, 4])),
        dataclasses.replace(random_layers(counts=(3, 4)), categories=None),
        dataclasses.replace(random_layers(counts=(3, 4)), categories=make_categories([3, 3])),
        dataclasses.replace(random_layers(counts=(3, 4)), categories=make_categories([3, 5, -1])),
        dataclasses.replace(random_layers(counts=(7,)), categories=make_categories([7], [2**30])),
        dataclasses.replace(random_layers(counts=(7,)), categories=make_categories([7], [0, 0])),
        dataclasses.replace(random_layers(counts=(7,)), categories=make_categories([])),
        dataclasses.replace(random_layers(counts=(3, 4)), normalizer=random_normalizer(2)),
    ],
)
def test_layers_that_do_not_fit_are_refused(layers):
    assert not layers.fit()
    with pytest.raises(APIUsageError, match="use the torch modules instead"):
        Network(layers)


def of_images(**change):
    """Layers on images, some of whose convolutions are others."""
    return changed(random_layers(**IMAGES), 0, **change)


@pytest.mark.parametrize(
    "layers",
    [
        dataclasses.replace(random_layers(**IMAGES), shape=(3, 6, 9)),
        dataclasses.replace(random_layers(**IMAGES), shape=(2, 6, 7)),
        dataclasses.replace(random_layers(**IMAGES), shape=(3, 2, 7)),
        changed(random_layers(**IMAGES), 2, inputs=(1,)),
        of_images(observed=2),
        of_images(is_of_categories=True),
        dataclasses.replace(random_layers(**IMAGES), normalizer=random_normalizer(125)),
        dataclasses.replace(random_layers(**PLANES), categories=make_categories((4, 2))),
        dataclasses.replace(random_layers(**PLANES), categories=make_categories((7,))),
        dataclasses.replace(random_layers(**PLANES), normalizer=random_normalizer(84)),
        of_images(stride=1),
        of_images(stride=0),
        of_images(weight=torch.zeros(20, 3, 3, 4)),
        of_images(weight=torch.zeros(20, 27)),
        of_images(weight=torch.zeros(20, 3, 3, 3, dtype=torch.float64)),
        of_images(weight=torch.zeros(20, 3, 3, 3).contiguous(memory_format=torch.channels_last)),
        of_images(bias=torch.zeros(1)),
    ],
)
def test_convolutions_that_do_not_fit_are_refused(layers):
    assert random_layers(**IMAGES).fit() and random_layers(**PLANES).fit()
    assert not layers.fit()
    with pytest.raises(APIUsageError, match="use the torch modules instead"):
        Network(layers)


def test_too_many_layers_are_refused():
    assert random_layers(image=(1, 3, 3), convolutions=((4, 1, 1),) * 62).fit()
    assert not random_layers(image=(1, 3, 3), convolutions=((4, 1, 1),) * 63).fit()


LOOP = random_layers(loops=1)


@pytest.mark.parametrize(
    "layers",
    [
        changed(LOOP, 1, units=15),
        changed(LOOP, 1, inputs=(99,)),
        changed(LOOP, 1, inputs=(len(LOOP.layers),)),  # of another size
        behind_the_encoder(StateLayer((3,), 16), mingru(48, 16)),
        changed(LOOP, 4, inputs=(7,)),  # no state breaks this circle
        dataclasses.replace(LOOP, layers=[*LOOP.layers[:-1], StateLayer((1,), 16), LOOP.layers[-1]]),
        changed(random_layers(recurrent=1, loops=1), 2, units=16),
        changed(random_layers(lstm=1, loops=1), 1, inputs=(11,)),  # an LSTM in a loop
    ],
)
def test_states_that_do_not_fit_are_refused(layers):
    assert LOOP.fit()
    assert not layers.fit()


def test_layers_of_a_loop_are_put_side_by_side():
    torch.manual_seed(31)
    layers = random_layers(loops=2)
    order = sorted(range(len(layers.layers)), key=lambda index: not isinstance(layers.layers[index], StateLayer))
    places = {0: 0, **{index + 1: place + 1 for place, index in enumerate(order)}}
    mixed = [layers.layers[index] for index in order]
    mixed = [dataclasses.replace(layer, inputs=tuple(places[value] for value in layer.inputs)) for layer in mixed]
    mixed = dataclasses.replace(layers, layers=mixed, decision=places[layers.decision], value=places[layers.value])
    assert not mixed.fit()
    found, minibatch = mixed.in_loops(), random_minibatch(layers, 9, 9, 4)
    assert found.fit() and sorted(found.loops()) == sorted(layers.loops())
    assert_learns_like_the_truth(found, torch.randn(9, 4, 7), minibatch)


def test_layers_that_nothing_reads_are_refused():
    layers = random_layers(critic=(16,))
    assert layers.fit()
    assert not dataclasses.replace(layers, value=layers.decision).fit()


def test_parameters_that_grew_since_are_refused():
    layers, wider = random_layers(recurrent=1), random_layers(width=32, recurrent=1)
    net, minibatch = Network(layers), random_minibatch(layers, 4, 2, 3)
    for tensor, other in zip(layers.parameters(), wider.parameters(), strict=True):
        tensor.data = other
    assert layers.fit()
    with pytest.raises(APIUsageError, match="make another network"):
        net.learn(torch.randn(4, 3, 7), minibatch, **COEFFICIENTS)
    with pytest.raises(APIUsageError, match="make another network"):
        net.refresh()


@pytest.mark.parametrize("name", ["head", "log_std"])
def test_parameters_that_were_converted_since_are_refused(name):
    layers = random_layers(numbers=2, critic=(16,))
    net, minibatch = Network(layers), random_minibatch(layers, 4, 2, 3)
    converted = {"head": layers.layers[layers.decision - 1].weight, "log_std": layers.log_std}[name]
    converted.data = converted.double()
    for _ in range(2):
        with pytest.raises(APIUsageError, match="float32"):
            net.learn(torch.randn(4, 3, 7), minibatch, **COEFFICIENTS)
        with pytest.raises(APIUsageError, match="float32"):
            net.refresh()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("segments", torch.tensor([0, 4])),
        ("segments", torch.tensor([-1, 0])),
        ("segments", torch.tensor([0, 1], dtype=torch.int32)),
        ("actions", torch.zeros(2, 3)),
        ("actions", torch.zeros(2, 2, dtype=torch.int32)),
        ("segments", torch.tensor([2**40, 0])),
        ("resets", torch.zeros(2, 3)),
        ("states", []),
        ("states", [torch.zeros(2, 17)]),
        ("old_logprobs", torch.zeros(6)),
        ("old_logprobs", torch.zeros(0, 3)),
        ("old_values", torch.zeros(3, 2).T),
        ("returns", torch.zeros(2, 3, dtype=torch.float64)),
        ("returns", torch.zeros(2, 3, device="meta")),
        ("states", [torch.zeros(2, 16, device="meta")]),
        ("weights", torch.zeros(1)),
    ],
)
def test_a_minibatch_of_another_form_is_refused(name, wrong):
    layers = random_layers(recurrent=1)
    minibatch = dataclasses.replace(random_minibatch(layers, 4, 2, 3), **{name: wrong})
    with pytest.raises(APIUsageError, match=name.removesuffix("s")):
        Network(layers).learn(torch.randn(4, 3, 7), minibatch, **COEFFICIENTS)


@pytest.mark.parametrize(
    "observations",
    [
        *(torch.randn(4, 3, 8), torch.randn(4, 3, 7).half(), torch.randn(4, 7, 3).mT, torch.randn(4, 2, 7)),
        torch.empty(4, 3, 7, device="meta"),
    ],
)
def test_observations_of_another_form_are_refused(observations):
    layers = random_layers()
    with pytest.raises(APIUsageError, match="observations"):
        Network(layers).learn(observations, random_minibatch(layers, 4, 2, 3), **COEFFICIENTS)


@pytest.mark.parametrize(
    "observations",
    [torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.float64), torch.zeros(4, 7, dtype=torch.uint8)],
)
def test_categories_of_another_form_are_refused(observations):
    with pytest.raises(APIUsageError, match="2 numbers, of one of the types uint8, int8"):
        Network(random_layers(counts=(3, 4))).value(observations, [], torch.empty(4))


def test_results_of_another_form_are_refused():
    net, observations = Network(random_layers(parts=(3, 2))), torch.randn(4, 7)
    good = {"actions": torch.zeros(4, 2, dtype=torch.int32), "logprobs": torch.zeros(4), "values": torch.zeros(4)}
    wrong = [
        ("actions", torch.zeros(4, 2)),
        ("actions", torch.zeros(4, dtype=torch.int32)),
        ("actions", torch.zeros(2, 4, dtype=torch.int32).T),
        ("logprobs", torch.zeros(5)),
        ("values", torch.zeros(4, 1)),
        ("values", torch.zeros(4, device="meta")),
        ("present", torch.ones(4, dtype=torch.bool, device="meta")),
    ]
    for name, tensor in wrong:
        with pytest.raises(APIUsageError, match=name):
            net.act(observations, [], torch.rand(4, 2), **{**good, name: tensor})
    with pytest.raises(APIUsageError, match="noise"):
        net.act(observations, [], torch.rand(4, 1), **good)
