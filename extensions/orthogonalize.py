"""The nearest matrix with all singular values near 1: what Muon makes of a gradient."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from pufferlib.extensions import cpu_library
from pufferlib.extensions.cpu_library import STRUCTURES, padded

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c of X <- aX + (bA + cA^2)X, A = XX^T
NEWTON_SCHULZ_STEPS = 5
PADDED_SIZE = 512  # rows or columns, up to which a GPU takes longer to begin a product than to compute it


def orthogonalize_each(matrices: Sequence[Tensor]) -> list[Tensor]:
    """For each matrix one with the same singular vectors and all singular values near 1 (0.7 to 1.2).

    The quintic Newton-Schulz iteration of Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon). Float32 on a
    CPU takes a kernel, whose threads share the matrices out; everything else torch. A GPU is then asked for 20
    operations in all and not for each shape: the matrices lie in one stack, laid flat and filled up with zeros, which
    the iteration keeps.

    Args:
        matrices: `(rows, columns)` each, of any shapes.

    Raises:
        PufferError: if the kernel was not built.
    """
    wide = [matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix for matrix in matrices]
    groups: dict[Literal["kernel", "stack"] | torch.Size, list[int]] = {}
    for index, matrix in enumerate(wide):
        is_small = matrix.device.type != "cpu" and matrix.shape[1] <= PADDED_SIZE
        group = "kernel" if _has_kernel(matrix) else "stack" if is_small else matrix.shape
        groups.setdefault(group, []).append(index)
    results = list(wide)
    for group, indices in groups.items():
        matrices_of_group = [wide[index] for index in indices]
        if group == "kernel":
            updates = _by_kernel(matrices_of_group)
        elif group == "stack":
            updates = _in_one_stack(matrices_of_group)
        else:
            updates = reference_orthogonalize(torch.stack(matrices_of_group)).unbind()
        for index, update in zip(indices, updates, strict=True):
            results[index] = update if wide[index] is matrices[index] else update.mT
    return results


def _has_kernel(matrix: Tensor) -> bool:
    return matrix.device.type == "cpu" and matrix.dtype == torch.float32


# Matrices of the next two have at most as many rows as columns.


def _by_kernel(matrices: list[Tensor]) -> list[Tensor]:
    results, scratches, structures = [], [], []
    for matrix in matrices:
        rows, columns = matrix.shape
        padded_rows, padded_columns = padded(rows), padded(columns)
        filled = functional.pad(matrix, (0, padded_columns - columns))
        result = filled.clone(memory_format=torch.contiguous_format)
        scratch = matrix.new_empty((padded_columns + 2 * rows) * padded_rows + rows * padded_columns)
        results.append(result[:, :columns])
        scratches.append(scratch)  # which must live until the kernel returns
        if matrix.numel():
            structures.append(
                STRUCTURES["MuonMatrix"](
                    x=result.data_ptr(),
                    rows=rows,
                    columns=columns,
                    padded_rows=padded_rows,
                    padded_columns=padded_columns,
                    scratch=scratch.data_ptr(),
                )
            )
    structures.sort(key=lambda each: each.rows * each.columns, reverse=True)  # threads take the largest first
    array = (STRUCTURES["MuonMatrix"] * len(structures))(*structures)
    cpu_library.library().puffer_orthogonalize(
        ctypes.addressof(array), len(array), NEWTON_SCHULZ_STEPS, *NEWTON_SCHULZ, cpu_library.parallel_for()
    )
    return results


def _in_one_stack(matrices: list[Tensor]) -> list[Tensor]:
    rows, columns = (max(sizes) for sizes in zip(*(matrix.shape for matrix in matrices), strict=True))
    stack = matrices[0].new_zeros(len(matrices), rows, columns)
    places = [filled[: len(matrix), : matrix.shape[1]] for filled, matrix in zip(stack, matrices, strict=True)]
    torch._foreach_copy_(places, matrices)
    updates = reference_orthogonalize(stack)
    return [update[: len(matrix), : matrix.shape[1]] for update, matrix in zip(updates, matrices, strict=True)]


def reference_orthogonalize(matrices: Tensor) -> Tensor:
    """Newton-Schulz in plain torch, in the precision of the matrices, `(count, rows, columns)` with rows <= columns."""
    # LaTeX: X = \frac{M}{\max(\lVert M \rVert_{\text{F}},\ 10^{-7})} ; X = x, M = matrices
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    return iterate(x)


def iterate(x: Tensor) -> Tensor:
    """Newton-Schulz on matrices of norm 1, as `reference_orthogonalize` takes them."""
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        # LaTeX: A = X X^\top ; A = square, X = x
        square = torch.bmm(x, x.mT)
        # LaTeX: X \leftarrow a X + (b A + c A^2)\, X
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x
