import pytest
import torch
from advantage_inputs import PLAIN, random_segments, truth
from hypothesis import given, settings, strategies as st

from pufferlib.errors import APIUsageError
from pufferlib.extensions import compute_puff_advantage, reference_advantage

NAMES = ("values", "rewards", "terminals", "ratio", "advantages")
SHAPES = [(1, 1), (1, 2), (3, 7), (8, 64), (9, 65), (16, 66), (257, 31), (13, 131), (0, 5)]

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]


def assert_matches_truth(tensors, constants):
    *inputs, advantages = tensors
    copies = [tensor.clone() for tensor in inputs]
    result = compute_puff_advantage(*inputs, advantages, *constants)
    assert result is advantages
    torch.testing.assert_close(result.double(), truth(inputs, constants), rtol=1e-5, atol=2e-5)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(inputs, copies, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernel_matches_the_float64_loop(shape, device):
    assert_matches_truth(random_segments(shape, seed=0, device=device), (0.99, 0.95, 1.1, 0.9))


@settings(deadline=None, max_examples=60)
@given(
    segments=st.integers(1, 40),
    columns=st.integers(1, 140),
    gamma=st.floats(0, 1),
    gae_lambda=st.floats(0, 1),
    rho_clip=st.floats(0.1, 4),
    c_clip=st.floats(0.1, 1.2),
    terminal_rate=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_kernel_matches_the_loop_for_any_constants(
    segments, columns, gamma, gae_lambda, rho_clip, c_clip, terminal_rate, seed
):
    tensors = random_segments((segments, columns), seed, terminal_rate)
    assert_matches_truth(tensors, (gamma, gae_lambda, rho_clip, c_clip))


def test_a_hand_computed_example():
    values, rewards = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[9.0, 0.5, 1.0]])
    terminals, ratio = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[2.0, 0.5, 7.0]])
    # step 1 ends an episode: 0.5 * (1 - 2) = -0.5; step 0: 1.5 * (0.5 + 0.5 * 2 - 1) + 0.5 * 0.5 * 1 * -0.5
    result = compute_puff_advantage(values, rewards, terminals, ratio, torch.empty(1, 3), 0.5, 0.5, 1.5, 1.0)
    assert result.tolist() == [[0.625, -0.5, 0.0]]


def test_nothing_leaks_past_a_terminal():
    *inputs, advantages = random_segments((4, 20), seed=1, terminal_rate=0.0)
    inputs[2][:, 10] = 1.0
    before = compute_puff_advantage(*inputs, advantages, *PLAIN).clone()
    inputs[0][:, 10:] += 100.0
    inputs[1][:, 11:] -= 50.0
    after = compute_puff_advantage(*inputs, advantages, *PLAIN)
    assert torch.equal(after[:, :10], before[:, :10])
    assert not torch.equal(after[:, 10:], before[:, 10:])


@pytest.mark.parametrize("position", range(4))
def test_a_nan_is_not_hidden(position):
    *inputs, advantages = random_segments((3, 9), seed=2, terminal_rate=0.0)
    inputs[position][1, 5] = torch.nan
    result = compute_puff_advantage(*inputs, advantages, *PLAIN)
    assert result[1, 4:6].isnan().any()
    assert not result[[0, 2]].isnan().any()


def test_the_number_of_threads_does_not_change_the_result():
    tensors = random_segments((2003, 65), seed=3)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            results.append(compute_puff_advantage(*tensors, *PLAIN).clone())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(result, results[0]) for result in results)


def test_the_loop_in_float32_serves_devices_without_a_kernel():
    inputs = random_segments((5, 12), seed=4)
    expected = truth(inputs[:4], PLAIN)
    torch.testing.assert_close(reference_advantage(*inputs[:4], *PLAIN).double(), expected, rtol=1e-5, atol=2e-5)


def test_operator_obeys_the_rules_of_torch():
    torch.library.opcheck(torch.ops.pufferlib.advantage.default, (*random_segments((5, 12), seed=5), *PLAIN))


def test_operator_compiles_into_one_graph():
    compiled = torch.compile(compute_puff_advantage, fullgraph=True, backend="aot_eager")
    tensors = random_segments((5, 12), seed=6)
    expected = compute_puff_advantage(*tensors, *PLAIN).clone()
    tensors[4].fill_(torch.nan)
    assert torch.equal(compiled(*tensors, *PLAIN), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "spoil, sentence",
    [
        (lambda tensor: tensor.double(), "must be contiguous float32 .* got contiguous float64"),
        (lambda tensor: tensor.to("meta"), "on meta, got .* on cpu;|on cpu, got .* on meta;"),
        (lambda tensor: tensor.t().contiguous().t(), r"got strided \(1, 4\) float32"),
        (lambda tensor: tensor[:, :5].contiguous(), r"must be .* of shape \(4, [56]\) .*, got"),
        (lambda tensor: tensor[0], r"at least 1 column, got \(6,\)|of shape \(4, 6\) .* of shape \(6,\)"),
    ],
    ids=["dtype", "device", "contiguity", "shape", "dimensions"],
)
def test_an_unfit_tensor_raises(name, spoil, sentence):
    tensors = dict(zip(NAMES, random_segments((4, 6), seed=7), strict=True))
    tensors[name] = spoil(tensors[name])
    with pytest.raises(APIUsageError, match=sentence):
        compute_puff_advantage(*tensors.values(), *PLAIN)


def test_no_columns_raise():
    with pytest.raises(APIUsageError, match="at least 1 column"):
        compute_puff_advantage(*(torch.empty(3, 0) for _ in NAMES), *PLAIN)
