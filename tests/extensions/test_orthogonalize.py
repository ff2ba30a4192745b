import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pufferlib.extensions.orthogonalize import _in_one_stack, orthogonalize_each, reference_orthogonalize

SHAPES = [(2, 192, 64), (1, 64, 118), (1, 4, 64), (3, 5, 3), (1, 1, 1), (2, 33, 70), (1, 16, 16), (1, 64, 2080)]
SHAPES += [(2, 1859, 33)]


def orthogonalize(matrices):
    return torch.stack(orthogonalize_each(matrices.unbind()))


def truth(matrices):
    matrices = matrices.double()
    is_tall = matrices.shape[1] > matrices.shape[2]
    return reference_orthogonalize(matrices.mT).mT if is_tall else reference_orthogonalize(matrices)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_kernel_matches_float64(shape):
    torch.manual_seed(0)
    matrices = torch.randn(shape)
    copy = matrices.clone()
    torch.testing.assert_close(orthogonalize(matrices).double(), truth(matrices), rtol=1e-5, atol=2e-5)
    assert torch.equal(matrices, copy)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values_come_near_one(shape):
    torch.manual_seed(1)
    matrices = torch.randn(shape)
    expected = torch.linalg.svdvals(matrices.double())
    found = torch.linalg.svdvals(orthogonalize(matrices).double())
    is_large = expected > 0.2 * expected[:, :1]  # five steps do not lift the smallest ones all the way
    assert ((found > 0.5) & (found < 1.3))[is_large].all()


def test_strided_matrices_and_those_of_any_size_are_welcome():
    torch.manual_seed(2)
    matrices = 1e-3 * torch.randn(2, 20, 30).mT
    torch.testing.assert_close(orthogonalize(matrices).double(), truth(matrices), rtol=1e-5, atol=2e-5)
    torch.testing.assert_close(orthogonalize(1e3 * matrices), orthogonalize(matrices), rtol=1e-4, atol=1e-4)


def test_singular_vectors_stay():
    matrix = torch.randn(5, 9, generator=torch.Generator().manual_seed(0))
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    rotated = u.T @ orthogonalize_each([matrix])[0] @ vh.T
    torch.testing.assert_close(rotated, rotated.diagonal().diag(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("smallest", [1e-2, 1e-4, 0.0])
def test_small_singular_values_of_a_wide_matrix_are_lifted_as_float64_does(smallest):
    torch.manual_seed(5)
    u, _, vh = torch.linalg.svd(torch.randn(64, 2080, dtype=torch.float64), full_matrices=False)
    values = torch.linspace(1.0, smallest, 64, dtype=torch.float64)
    matrix = (u * values @ vh).float()
    difference = orthogonalize(matrix[None])[0].double() - truth(matrix[None])[0]
    assert torch.linalg.matrix_norm(difference, 2) < 1e-4


def test_zeros_stay_zeros():
    assert (orthogonalize(torch.zeros(1, 5, 7)) == 0).all()
    assert (orthogonalize(torch.zeros(1, 40, 3000)) == 0).all()


def test_float64_keeps_its_precision():
    matrices = torch.randn(1, 5, 7, dtype=torch.float64)
    assert torch.equal(orthogonalize(matrices), truth(matrices))


MIXED = [(192, 64), (64, 118), (4, 64), (64, 64), (3, 500)]


def test_matrices_of_many_shapes_are_as_each_alone():
    torch.manual_seed(3)
    matrices = [torch.randn(shape) for shape in [*MIXED, (64, 64)]]
    alone = [orthogonalize(matrix[None])[0] for matrix in matrices]
    for found, expected in zip(orthogonalize_each(matrices), alone, strict=True):
        assert torch.equal(found, expected)


def test_threads_share_matrices_out_and_change_nothing():
    torch.manual_seed(3)
    matrices = [torch.randn(shape) for shape in [*MIXED, (0, 4), *MIXED, (4, 0)]]
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(orthogonalize_each(matrices))
    finally:
        torch.set_num_threads(threads)
    for one, two, three in zip(*results, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


def test_one_padded_stack_gives_what_each_matrix_alone_does():
    torch.manual_seed(4)
    matrices = [torch.randn(shape, dtype=torch.float64) for shape in MIXED]
    wide = [matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT for matrix in matrices]
    for found, matrix in zip(_in_one_stack(wide), wide, strict=True):
        torch.testing.assert_close(found, truth(matrix[None])[0], rtol=1e-12, atol=1e-12)


def test_off_the_cpu_the_operations_do_not_grow_with_the_shapes():
    counts = []
    for shapes in MIXED[:1], MIXED, [*MIXED, (600, 4)]:
        with CountedOperations() as counted:
            updates = orthogonalize_each([torch.zeros(shape, device="meta") for shape in shapes])
        assert [update.shape for update in updates] == [torch.Size(shape) for shape in shapes]
        counts.append(counted.number - len(shapes))  # without the zeros of this test
    assert counts[0] == counts[1] <= 20
    assert counts[1] < counts[2]  # a large matrix is not worth padding the others to its size


class CountedOperations(TorchDispatchMode):
    """Counts what torch computes; views cost nothing."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += not function.is_view
        return function(*args, **(kwargs or {}))
