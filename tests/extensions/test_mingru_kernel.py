import ctypes
import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from mingru_inputs import random_inputs, run_with_gradients

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.mingru import mingru_scan, mingru_step, reference_mingru

NAMES = ("gates", "x", "state", "reset")
SHAPES = [(1, 1, 1), (2, 1, 16), (3, 7, 5), (7, 31, 67), (64, 9, 32), (1, 130, 17)]  # batch, steps, hidden

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]


def assert_matches_truth(inputs, magnitude=1.0):
    """`magnitude` is that of the terms which may cancel in a small result."""
    copies = [tensor.clone() for tensor in inputs]
    results = run_with_gradients(mingru_scan, inputs)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(inputs, copies, strict=True))
    in_float64 = (*(tensor.double() for tensor in inputs[:3]), inputs[3])
    for result, expected in zip(results, run_with_gradients(reference_mingru, in_float64), strict=True):
        scale = expected.abs().max().clamp(min=magnitude).item()
        torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernel_and_its_gradients_match_the_float64_loop(shape, device):
    assert_matches_truth(random_inputs(shape, device=device))


@settings(deadline=None, max_examples=25)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 20), st.integers(1, 70)),
    reset_rate=st.sampled_from([0.0, 0.3, 1.0]),
    scale=st.sampled_from([0.1, 1.0, 10.0, 40.0]),
    seed=st.integers(0, 2**31),
)
def test_kernel_matches_the_loop_for_any_shape_and_size_of_gates(shape, reset_rate, scale, seed):
    assert_matches_truth(random_inputs(shape, seed, reset_rate, scale), max(scale, 1.0))


def test_the_reference_has_the_right_gradients():
    inputs = random_inputs((2, 5, 3))
    *tensors, reset = (*(tensor.double().requires_grad_() for tensor in inputs[:3]), inputs[3])
    assert torch.autograd.gradcheck(lambda *three: reference_mingru(*three, reset), tensors)


def test_the_kernel_refuses_a_second_gradient_which_plain_torch_has():
    gates, x, state, _ = random_inputs((2, 5, 3))
    by_kernel, by_torch = (mingru_scan(gates.requires_grad_(), x, state, kernel=kernel)[0] for kernel in (True, False))
    with pytest.raises(APIUsageError, match="kernel=False"):
        torch.autograd.grad(by_kernel.sum(), gates, create_graph=True)
    (gradient,) = torch.autograd.grad(by_torch.sum(), gates, create_graph=True)
    assert torch.autograd.grad(gradient.sum(), gates)[0].any()


def test_no_reset_is_the_same_as_none_set():
    gates, x, state, reset = random_inputs((3, 6, 10), reset_rate=0.0)
    for left, right in zip(mingru_scan(gates, x, state), mingru_scan(gates, x, state, reset), strict=True):
        assert torch.equal(left, right)


def test_a_reset_forgets_everything_even_nan():
    gates, x, state, reset = random_inputs((3, 6, 10), reset_rate=0.0)
    reset[:, 4] = True
    expected, final = mingru_scan(gates, x, state, reset)
    state[:] = torch.nan
    state.requires_grad_()
    output, found = mingru_scan(gates, x, state, reset)
    assert output[:, :4].isnan().all()
    assert torch.equal(output[:, 4:], expected[:, 4:]) and torch.equal(found, final)
    (output[:, 4:].sum() + found.sum()).backward()
    assert torch.equal(state.grad, torch.zeros_like(state))


def test_segments_can_be_continued():
    gates, x, state, reset = random_inputs((4, 12, 9))
    whole, final = mingru_scan(gates, x, state, reset)
    outputs = []
    for part in (slice(0, 5), slice(5, 12)):
        output, state = mingru_scan(gates[:, part].clone(), x[:, part].clone(), state, reset[:, part].clone())
        outputs.append(output)
    assert torch.equal(torch.cat(outputs, dim=1), whole) and torch.equal(state, final)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("with_reset", [True, False])
def test_steps_one_by_one_equal_the_scan(with_reset, device):
    gates, x, state, reset = random_inputs((5, 8, 13), device=device)
    reset = reset if with_reset else None
    expected, final = mingru_scan(gates, x, state, reset)
    for t in range(x.shape[1]):
        now = None if reset is None else reset[:, t].contiguous()
        output = mingru_step(gates[:, t].contiguous(), x[:, t].contiguous(), state, now)
        assert torch.equal(output, expected[:, t])
    assert torch.equal(state, final)


def test_a_gradient_that_needs_a_state_which_a_step_overwrote_is_refused():
    gates, x, state, _ = random_inputs((3, 4, 5))
    output, _ = mingru_scan(gates.requires_grad_(), x, state)
    mingru_step(gates[:, 0].detach().clone(), x[:, 0].clone(), state)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_plain_torch_on_request():
    inputs = random_inputs((3, 6, 10))
    double = (*(tensor.double() for tensor in inputs[:3]), inputs[3])
    output, final = mingru_scan(*double, kernel=False)
    assert output.dtype == final.dtype == torch.float64
    for plain, fused in zip((output, final), mingru_scan(*inputs), strict=True):
        torch.testing.assert_close(plain, fused.double(), rtol=1e-5, atol=1e-5)


def test_the_number_of_threads_does_not_change_the_result():
    inputs = random_inputs((301, 11, 24))
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            results.append(run_with_gradients(mingru_scan, inputs))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for result in results for a, b in zip(result, results[0], strict=True))


def test_exponential_keeps_its_word():
    x = -torch.cat((torch.linspace(0, 87, 1_000_003), torch.logspace(-30, 0, 10_007)))
    found = kernel_exp(x).double()
    assert ((found - x.double().exp()) / x.double().exp()).abs().max() <= 2e-7
    edges = kernel_exp(torch.tensor([-0.0, -87.5, -1e30, -math.inf, math.nan]))
    assert edges[0] == 1 and (edges[1:4] == kernel_exp(torch.tensor([-87.0]))).all() and edges[4].isnan()


def kernel_exp(x):
    result = torch.full_like(x, torch.nan)
    cpu_library.library().puffer_mingru_exp(x.data_ptr(), result.data_ptr(), ctypes.c_int64(x.numel()))
    return result


@pytest.mark.quick("mingru_backward")
@pytest.mark.parametrize("operator", ["mingru_forward", "mingru_step", "mingru_backward"])
def test_operators_obey_the_rules_of_torch(operator):
    gates, x, state, reset = random_inputs((3, 4, 5))
    arguments = {
        "mingru_forward": (*(tensor.clone().requires_grad_() for tensor in (gates, x, state)), reset),
        "mingru_step": (gates[:, 0].clone(), x[:, 0].clone(), state, None),
        "mingru_backward": (gates, x, state, reset, x.clone(), x.clone(), state.clone()),
    }
    torch.library.opcheck(getattr(torch.ops.pufferlib, operator).default, arguments[operator])


@pytest.mark.slow
def test_scan_compiles_into_one_graph_with_its_gradient():
    inputs = random_inputs((3, 4, 5))
    compiled = torch.compile(mingru_scan, fullgraph=True, backend="aot_eager")
    expected = run_with_gradients(mingru_scan, inputs)
    for found, wanted in zip(run_with_gradients(compiled, inputs), expected, strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    "name, spoil, sentence",
    [
        ("gates", lambda tensor: tensor.double(), r"gates must be contiguous float32 .* got contiguous float64"),
        ("gates", lambda tensor: tensor[..., :-1].contiguous(), r"gates must be .*\(3, 4, 15\).*got.*\(3, 4, 14\)"),
        ("x", lambda tensor: tensor[0], r"x must have shape \(batch, steps, hidden\) .*, got \(4, 5\)"),
        ("x", lambda tensor: tensor[:, :0], r"x must have .* at least one step .*, got \(3, 0, 5\)"),
        ("x", lambda tensor: tensor.transpose(0, 1).contiguous().transpose(0, 1), r"got strided \(5, 15, 1\)"),
        ("state", lambda tensor: tensor[:2], r"state must be .* of shape \(3, 5\) .* of shape \(2, 5\)"),
        ("state", lambda tensor: tensor.to("meta"), r"state must be .* on cpu, got .* on meta"),
        ("reset", lambda tensor: tensor.float(), r"reset must be contiguous bool .* got contiguous float32"),
        ("reset", lambda tensor: tensor[:, :2].contiguous(), r"reset must be .*\(3, 4\) .*\(3, 2\)"),
    ],
)
def test_an_unfit_tensor_raises(name, spoil, sentence):
    tensors = dict(zip(NAMES, random_inputs((3, 4, 5)), strict=True))
    tensors[name] = spoil(tensors[name])
    with pytest.raises(APIUsageError, match=sentence):
        mingru_scan(**tensors)


def test_a_step_with_unfit_tensors_raises():
    gates, x, state, reset = (tensor[:, 0].contiguous() for tensor in random_inputs((3, 4, 5)))
    with pytest.raises(APIUsageError, match=r"state must be .* of shape \(3, 5\) .* of shape \(3,\)"):
        mingru_step(gates, x, state, reset)
    with pytest.raises(APIUsageError, match=r"x must have shape \(batch, hidden\)"):
        mingru_step(gates, x[0], state, reset)
