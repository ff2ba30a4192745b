"""Layers on the entities of an observation, tables, constants and rows of bytes, by the kernel and in float64."""

import dataclasses
import math

import pytest
import torch
from hypothesis import assume, given, reject, settings, strategies as st
from network_truth import (
    COEFFICIENTS,
    Truth,
    assert_learns_like_the_truth,
    assert_rounds_little,
    random_layers,
    random_minibatch,
    random_observations,
)

from pufferlib.errors import APIUsageError
from pufferlib.extensions.network import Network, has_bfloat16
from pufferlib.extensions.network_layers import (
    Activation,
    Add,
    Arrange,
    Attention,
    Compare,
    Concatenate,
    Convolution,
    Embedding,
    Features,
    Fields,
    Layers,
    Linear,
    Norm,
    Pool,
    Scale,
)


def random(*shape):
    return torch.randn(*shape) / math.prod(shape[1:]) ** 0.5


def with_head(layers, shape, **others):
    """A decision and a value that read the last layer."""
    numbers = math.prod(Layers(layers, shape, (1,), 1, 1, 0).shapes()[-1])
    head = Linear((len(layers),), random(4, numbers), torch.randn(4))
    return Layers([*layers, head], shape, (3,), len(layers) + 1, len(layers) + 1, 3, **others)


def check(layers, observations, segments, steps=2):
    """Against float64, and twice: memory that was used before leaves no trace."""
    assert layers.fit()
    minibatch, truth = random_minibatch(layers, segments, segments, steps), Truth(layers)
    truth.loss(observations, minibatch)
    if not truth.is_smooth():
        reject()  # at a kink two gradients are right
    assert_learns_like_the_truth(layers, observations, minibatch)
    network = Network(layers)
    first = [each.clone() for each in network.learn(observations, minibatch, **COEFFICIENTS).gradients]
    network._scratch.fill_(torch.nan)
    network._gradients.fill_(torch.nan)
    network.gradient.fill_(torch.nan)
    again = network.learn(observations, minibatch, **COEFFICIENTS).gradients
    assert all(torch.equal(*each) for each in zip(first, again, strict=True))


@settings(deadline=None, max_examples=40)
@given(
    entities=st.integers(1, 11),
    features=st.integers(2, 19),
    heads=st.integers(1, 3),
    sizes=st.tuples(st.integers(1, 18), st.integers(1, 18)),
    mask=st.sampled_from(["none", "keys", "pairs"]),
    hidden_score=st.sampled_from([-math.inf, -1e9]),
    is_largest=st.booleans(),
    segments=st.integers(1, 20),
    seed=st.integers(0, 2**31),
)
def test_attention_of_entities_matches_float64(
    entities, features, heads, sizes, mask, hidden_score, is_largest, segments, seed
):
    torch.manual_seed(seed)
    numbers, (key, value) = entities * features, sizes
    layers = [
        Arrange((0,), (features, entities)),
        Linear((1,), random(24, features), torch.randn(24), "tanh", of_each=True),
        Norm((2,), torch.rand(24), torch.randn(24), 1e-2, True, of_each=True),
        *(Linear((3,), random(heads * size, 24), None, of_each=True) for size in (key, key, value)),
    ]
    seen = ()
    if mask == "keys":
        layers += [Concatenate((1,), ((0, 1),)), Arrange((7,), (entities,)), Compare((8,), "GREATER", -0.5)]
        seen = (9,)
    if mask == "pairs":
        layers += [Concatenate((0,), ((0, 1),)), Linear((7,), torch.randn(entities**2, 1), None)]
        layers += [Arrange((8,), (entities, entities)), Compare((9,), "LESS_EQUAL", 0.5)]
        seen = (10,)
    layers.append(Attention((4, 5, 6, *seen), heads, key**-0.5, hidden_score, is_safe=True))
    layers.append(Linear((len(layers),), random(24, heads * value), torch.randn(24), of_each=True))
    layers.append(Add((2, len(layers))))
    layers.append(Norm((len(layers),), None, None, 1e-2, False, of_each=True))
    layers.append(Pool((len(layers),), (entities, 1), 1, 0, is_largest))
    constants = [layers[7].weight] if mask == "pairs" else []  # behind which there is no gradient
    check(with_head(layers, (numbers,), constants=constants), torch.randn(segments, 2, numbers), segments)


@pytest.mark.skipif(not has_bfloat16(), reason="needs a processor with AVX512-BF16")
def test_entities_in_bfloat16_round_little():
    torch.manual_seed(6)
    layers = [
        *(Arrange((0,), (6, 5)), Linear((1,), random(24, 6), torch.randn(24), "tanh", of_each=True)),
        *(Linear((2,), random(24, 24), None, of_each=True), Attention((3, 3, 2), 3, 0.3)),
        *(Linear((4,), random(33, 24), torch.randn(33), of_each=True), Pool((5,), (5, 1), 1, 0, False)),
    ]
    layers = with_head(layers, (30,))
    assert_rounds_little(layers, torch.randn(40, 2, 30), random_minibatch(layers, 40, 40, 2))


@pytest.mark.parametrize("is_safe", [False, True])
def test_a_query_that_sees_nothing_gets_what_torch_gives(is_safe):
    layers = [
        *(Arrange((0,), (4, 3)), Linear((1,), random(4, 4), None, of_each=True), Concatenate((1,), ((0, 1),))),
        *(Arrange((3,), (3,)), Compare((4,), "UNEQUAL", 0.0)),
    ]
    layers = with_head([*layers, Attention((2, 2, 2, 5), 2, 0.7, is_safe=is_safe)], (12,))
    values = torch.empty(2)
    observations = torch.randn(2, 12)
    observations[0, ::4] = 0
    Network(layers).value(observations, [], values)
    assert values.isnan().tolist() == [not is_safe, False]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    image=st.tuples(st.integers(1, 3), st.integers(2, 9), st.integers(1, 9)),
    size=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 3)),
    dilation=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    groups=st.integers(1, 3),
    filters=st.integers(1, 6),
    is_observed=st.booleans(),
    is_largest=st.booleans(),
    segments=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_rectangular_dilated_and_grouped_convolutions_match_float64(
    image, size, stride, padding, dilation, groups, filters, is_observed, is_largest, segments, seed
):
    torch.manual_seed(seed)
    channels, filters = image[0] * groups, filters * groups
    image = channels, *image[1:]
    weights = random(filters, channels // groups, *size), random(filters, filters // groups, 2, 3)
    shared = {"groups": groups, "is_rectified": False}
    first = {"padding": padding, "dilation": dilation, "observed": channels if is_observed else 0, **shared}
    layers = [] if is_observed else [Arrange((0,), image)]
    layers.append(Convolution((len(layers),), weights[0], None, stride, **first))
    layers.append(Convolution((len(layers),), weights[1], torch.randn(filters), (1, 2), padding=(1, 2), **shared))
    layers.append(Pool((len(layers),), (1, 2), (2, 1), (0, 1), is_largest))
    shape = image if is_observed else (math.prod(image),)
    found = Layers(layers, shape, (1,), 1, 1, 0).shapes()[-1]
    assume(found is not None and 0 not in found)
    layers = with_head(layers, shape)
    observations = torch.randn(segments, 2, *shape)
    check(layers, observations, segments)


def test_convolutions_of_one_line_match_float64():
    torch.manual_seed(0)
    first = Convolution((1,), random(5, 3, 4), torch.randn(5), (1, 2), padding=(0, 1), dilation=(1, 2))
    layers = with_head([Arrange((0,), (3, 1, 11)), first], (33,))
    check(layers, torch.randn(9, 2, 33), 9)


@settings(deadline=None, max_examples=25)
@given(
    units=st.integers(1, 35),
    pixels=st.integers(1, 4),
    is_one=st.tuples(st.booleans(), st.booleans()),
    power=st.sampled_from([1.0, -1.0]),
    sign=st.sampled_from([1.0, -1.0]),
    segments=st.integers(1, 70),
    seed=st.integers(0, 2**31),
)
def test_weights_and_biases_of_numbers_match_float64(units, pixels, is_one, power, sign, segments, seed):
    torch.manual_seed(seed)
    weight, bias = (0.5 + torch.rand(1 if one else units) for one in is_one)
    layers = [
        Scale((0,), torch.rand(units * pixels), None),
        Arrange((1,), (units, pixels) if pixels > 1 else (units,)),
        Scale((2,), weight, bias, power, sign),
        Scale((3,), None, bias),
        Activation((4,), "tanh"),
    ]
    check(with_head(layers, (units * pixels,)), torch.randn(segments, 2, units * pixels), segments)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32])
def test_tables_of_categories_match_float64(dtype):
    torch.manual_seed(1)
    layers = [
        *(Concatenate((0,), ((1, 3),)), Embedding((1,), torch.randn(5, 7)), Arrange((2,), (21,))),
        *(Concatenate((0,), ((0, 1),)), Embedding((4,), torch.randn(9, 17)), Concatenate((3, 5), ((0, 21), (2, 15)))),
    ]
    check(with_head(layers, (4,)), torch.randint(0, 5, (13, 2, 4)).to(dtype), 13)


@settings(deadline=None, max_examples=30)
@given(
    counts=st.lists(st.sampled_from([0, 0, 1, 2, 7, 16, 40]), min_size=1, max_size=20),
    dtype=st.sampled_from([torch.uint8, torch.int16, torch.int64, torch.float32]),
    segments=st.integers(1, 40),
    seed=st.integers(0, 2**31),
)
def test_numbers_and_categories_of_an_observation_match_float64(counts, dtype, segments, seed):
    torch.manual_seed(seed)
    counts = torch.tensor(counts).float()
    lowest = torch.randint(-3, 4, counts.shape).float()
    layers = [Features((0,), torch.rand(len(counts)), lowest, counts)]
    layers.append(Linear((1,), random(16, int(counts.clamp(min=1).sum())), torch.randn(16), "tanh"))
    # Some are none of the categories, which counts as zeros.
    observations = torch.randint(0 if dtype == torch.uint8 else -5, 45, (segments, 2, len(counts))).to(dtype)
    constants = layers[0].parameters()
    check(with_head(layers, (len(counts),), constants=constants), observations, segments)


def test_features_of_what_is_no_observation_or_of_other_sizes_are_refused():
    ones, head = torch.ones(3), (Linear((2,), random(4, 3), None), (3,), 3, 3, 3)
    layers = Layers([Linear((0,), random(3, 3), None), Features((0,), ones, ones, ones), head[0]], (3,), (3,), 3, 3, 3)
    assert not layers.fit()  # as nothing reads the first
    for inputs, counts in (((1,), ones), ((0,), ones[:2]), ((0,), -ones), ((0,), ones * 2.0**24)):
        assert Features(inputs, ones, ones, counts).result([(3,)]) is None
    assert Features((0,), ones, ones, torch.tensor([0.0, 4.0, 1.0])).result([(3,)]) == (6,)


def test_a_number_that_is_no_category_is_not_a_number_and_reads_no_other_memory():
    layers = with_head([Embedding((0,), torch.randn(3, 2))], (1,))
    numbers = torch.tensor([[0.0], [2.0], [3.0], [-1.0], [1e30], [math.nan]])
    values = torch.empty(len(numbers))
    Network(layers).value(numbers, [], values)
    assert values.isnan().tolist() == [False, False, True, True, True, True]


def test_constants_have_no_gradient_and_shared_parameters_have_the_sum_of_all():
    torch.manual_seed(2)
    shared, fixed, bias = random(6, 6), random(6, 5), torch.randn(6)
    layers = [
        *(Linear((0,), fixed, bias, "tanh"), Linear((1,), shared, bias), Linear((2,), shared, None, "relu")),
        *(Norm((3,), bias, None, 1e-2, True), Add((1, 4))),
    ]
    layers = with_head(layers, (5,), constants=(fixed,))
    check(layers, torch.randn(40, 3, 5), 40, 3)
    assert [each.shape for each in layers.parameters()] == [(6, 6), (4, 6), (6,), (4,)]


@pytest.mark.parametrize("kind", ["convolution", "image", "one_hot", "log_std"])
def test_any_layer_may_be_a_constant(kind):
    torch.manual_seed(3)
    cases = {"image": {"image": (2, 5, 6), "convolutions": ((7, 2, 1),), "width": 9}, "one_hot": {"counts": (3, 2, 4)}}
    layers = random_layers(**{**cases, "convolution": cases["image"], "log_std": {"numbers": 3}}[kind])
    first = layers.layers[0].parameters() if kind in ("convolution", "one_hot") else layers.layers[1].parameters()
    layers = dataclasses.replace(layers, constants=(layers.log_std,) if kind == "log_std" else first)
    assert len(layers.parameters()) < len(layers.tensors())
    assert_learns_like_the_truth(layers, random_observations(layers, 9, 2), random_minibatch(layers, 9, 9, 2))


def test_rows_of_bytes_hold_numbers_of_any_type():
    torch.manual_seed(4)
    parts = [torch.randn(7, 2, 3), torch.randint(0, 9, (7, 2, 1)), torch.randint(0, 255, (7, 2, 5)).byte()]
    parts += [torch.randn(7, 2, 2).double(), torch.randint(-99, 99, (7, 2, 2)).short()]
    offsets, row = [1, 13, 24, 31, 50], torch.zeros(7, 2, 57, dtype=torch.uint8)
    for part, offset in zip(parts, offsets, strict=True):
        as_bytes = part.contiguous().view(torch.uint8)
        row[:, :, offset : offset + as_bytes.shape[2]] = as_bytes
    places = [(part.dtype, offset, part.shape[2]) for part, offset in zip(parts, offsets, strict=True)]
    layers = [Scale((0,), torch.full((13,), 0.1), None), Linear((1,), random(8, 13), None, "tanh")]
    plain = with_head(layers, (13,))
    packed = dataclasses.replace(plain, fields=Fields(places, 57))
    minibatch = random_minibatch(plain, 7, 7, 2)
    numbers = torch.cat([part.float() for part in parts], 2)
    expected, found = (
        Network(each).learn(seen, minibatch, **COEFFICIENTS) for each, seen in ((plain, numbers), (packed, row))
    )
    assert all(torch.equal(*each) for each in zip(expected.gradients, found.gradients, strict=True))
    stored, results = torch.full_like(row[:, 0], 9), (torch.empty(7, dtype=torch.int32), torch.empty(7), torch.empty(7))
    Network(packed).act(row[:, 0], [], torch.rand(7, 1), *results, stored=stored)
    assert torch.equal(stored, row[:, 0])
    for wrong in (numbers, row[..., :56].contiguous(), row.char()):
        with pytest.raises(APIUsageError, match="rows of 57 numbers"):
            Network(packed).learn(wrong, minibatch, **COEFFICIENTS)


ENTITIES = [Arrange((0,), (4, 3)), Linear((1,), random(6, 4), None, of_each=True), Attention((2, 2, 2), 2, 1.0)]


def changed(index, **change):
    layers = list(ENTITIES)
    layers[index] = dataclasses.replace(layers[index], **change)
    return layers


@pytest.mark.parametrize(
    "layers",
    [
        [*ENTITIES[:2], Attention((2, 1, 2), 2, 1.0)],
        changed(0, shape=(4, 2)),
        changed(2, inputs=(2, 2, 0)),
        changed(2, inputs=(2, 2, 2, 2)),
        changed(2, heads=4),
        changed(1, weight=random(6, 12)),
        [*ENTITIES[:2], Pool((2,), 3, 1, 0, True)],
        [*ENTITIES[:2], Norm((2,), None, None, 1.0, True)],
        [*ENTITIES[:2], Scale((2,), torch.ones(3), None)],
        [*ENTITIES[:2], Arrange((2,), (3, 6))],
        [*ENTITIES[:2], Embedding((2,), torch.ones(3, 3))],
    ],
)
def test_layers_of_entities_that_do_not_fit_are_refused(layers):
    def whole(layers):
        head = Linear((len(layers),), random(4, 18), None)
        return Layers([*layers, head], (12,), (3,), len(layers) + 1, len(layers) + 1, 3)

    assert whole(ENTITIES).fit() and not whole(layers).fit()


@pytest.mark.parametrize(
    ("places", "row_bytes"),
    [([(torch.float32, 0, 12)], 47), ([(torch.float32, 0, 11)], 48), ([(torch.float32, -4, 12)], 48)],
)
def test_fields_beyond_their_row_are_refused(places, row_bytes):
    layers = with_head(ENTITIES, (12,), fields=Fields([(torch.float32, 0, 12)], 48))
    assert layers.fit() and not dataclasses.replace(layers, fields=Fields(places, row_bytes)).fit()
    assert not dataclasses.replace(layers, divides_integers=True).fit()
