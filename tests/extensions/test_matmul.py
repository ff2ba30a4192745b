"""Products by themselves, against float64."""

import ctypes
import platform

import pytest
import torch
from hypothesis import given, settings, strategies as st

from pufferlib.extensions import cpu_library, network
from pufferlib.extensions.cpu_library import padded

needs_bfloat16 = pytest.mark.skipif(not network.has_bfloat16(), reason="needs a processor with AVX512-BF16")
each_kind = pytest.mark.parametrize("products", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
each_form = pytest.mark.parametrize("is_packed", [False, True], ids=["as it is", "packed"])
FRAME = 3  # rows and columns around every matrix, which nobody may read or write


def framed(matrix):
    """A copy with NaN all around, and the address of its first number."""
    memory = torch.full([size + 2 * FRAME for size in matrix.shape], torch.nan)
    inside = memory[FRAME:-FRAME, FRAME:-FRAME]
    inside.copy_(matrix)
    return memory, inside


def multiply(left, right, start, products, is_packed, is_transposed=False):
    """`start` plus the product by the kernel; the left matrix lies transposed in memory, or not."""
    _, inside = framed(left.T if is_transposed else left)
    inside = inside.T if is_transposed else inside
    flat = torch.full([right.numel() + 2 * 64], torch.nan)
    flat[64:-64] = right.flatten()
    result = torch.full([start.numel() + 2 * 64], torch.nan)
    result[64:-64] = start.flatten()
    rows, inner = left.shape
    cpu_library.library().puffer_multiply(
        *(inside.data_ptr(), *inside.stride(), flat[64:].data_ptr(), result[64:].data_ptr()),
        *(rows, right.shape[1], inner, network.PRODUCTS[products], is_packed),
    )
    assert result[:64].isnan().all() and result[-64:].isnan().all()
    return result[64:-64].view(start.shape)


def check(rows, inner, columns, products, is_packed, is_transposed):
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    start = torch.randn(rows, columns)
    found = multiply(left, right, start, products, is_packed, is_transposed)
    if products == "bfloat16":
        left, right = left.bfloat16(), right.bfloat16()
    expected = start.double() + left.double() @ right.double()
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * max(1.0, inner**0.5))


@each_kind
@each_form
@pytest.mark.parametrize("is_transposed", [False, True], ids=["rows", "transposed"])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 1, 16), (5, 3, 48), (6, 64, 64), (64, 118, 64), (97, 127, 80), (192, 129, 272), (131, 301, 336), (7, 512, 16)],
)
def test_a_product_matches_float64(rows, inner, columns, is_transposed, products, is_packed):
    torch.manual_seed(0)
    check(rows, inner, columns, products, is_packed, is_transposed)


@each_kind
@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 210),
    inner=st.integers(1, 280),
    columns=st.integers(1, 300).map(padded),
    is_packed=st.booleans(),
    is_transposed=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_a_product_of_any_shape_matches_float64(products, rows, inner, columns, is_packed, is_transposed, seed):
    torch.manual_seed(seed)
    check(rows, inner, columns, products, is_packed, is_transposed)


@each_kind
@each_form
@pytest.mark.parametrize("special", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_stays_none(special, products, is_packed):
    left, right = torch.ones(3, 5), torch.ones(5, 16)
    left[1, 2] = special
    found = multiply(left, right, torch.zeros(3, 16), products, is_packed)
    torch.testing.assert_close(found, left @ right, equal_nan=True)
    left[1, 2], right[4, 7] = 1.0, special
    found = multiply(left, right, torch.zeros(3, 16), products, is_packed)
    torch.testing.assert_close(found, left @ right, equal_nan=True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere they cost nothing")
@pytest.mark.parametrize(("left", "right"), [(1e-30, 1e-10), (1e-40, 1e10)])
def test_numbers_below_the_smallest_normal_one_are_zero_in_a_kernel_and_there_alone(left, right):
    left, right = torch.full((7, 5), left), torch.full((5, 16), right)
    assert not multiply(left, right, torch.zeros(7, 16), "float32", False).any()
    assert (left @ right).all()  # by torch, in the thread that called


def test_asking_for_bfloat16_does_not_crash():
    has, is_faster = ctypes.c_int32(-1), ctypes.c_int32(-1)
    cpu_library.library().puffer_has_bfloat16(ctypes.addressof(has), ctypes.addressof(is_faster))
    assert (has.value, is_faster.value) in ((0, 0), (1, 0), (1, 1))
