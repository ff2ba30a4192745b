"""The nearest matrix with all singular values near 1: what Muon makes of a gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.cpu_library import padded

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c of X <- aX + (bA + cA^2)X, A = XX^T
NEWTON_SCHULZ_STEPS = 5
PADDED_SIZE = 512  # rows or columns, up to which a GPU takes longer to begin a product than to compute it


def orthogonalize(matrices: Tensor) -> Tensor:
    """A matrix with the same singular vectors and all singular values near 1 (0.7 to 1.2), for each of a stack.

    The quintic Newton-Schulz iteration of Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon). Float32 on a
    CPU takes a kernel, everything else torch.

    Args:
        matrices: `(count, rows, columns)`.

    Raises:
        APIUsageError: if they are not that.
        PufferError: if the kernel was not built.
    """
    if matrices.dim() != 3:
        raise APIUsageError(f"matrices must be of shape (count, rows, columns), got {tuple(matrices.shape)}")
    wide = _laid_flat(matrices)
    has_kernel = wide.device.type == "cpu" and wide.dtype == torch.float32
    result = _orthogonalize(wide) if has_kernel else reference_orthogonalize(wide)
    return result if wide is matrices else result.mT


def orthogonalize_each(matrices: Sequence[Tensor]) -> list[Tensor]:
    """`orthogonalize` of matrices of several shapes.

    Where torch computes, a GPU is asked for 20 operations in all and not for each shape: the matrices lie in one stack,
    laid flat and filled up with zeros, which the iteration keeps.

    Args:
        matrices: `(rows, columns)` each.
    """
    stacks: dict[torch.Size | None, list[int]] = {}
    for index, matrix in enumerate(matrices):
        is_padded = matrix.device.type != "cpu" and max(matrix.shape) <= PADDED_SIZE
        stacks.setdefault(None if is_padded else matrix.shape, []).append(index)
    results = list(matrices)
    for shape, indices in stacks.items():
        stack = [matrices[index] for index in indices]
        updates = _orthogonalize_padded(stack) if shape is None else orthogonalize(torch.stack(stack)).unbind()
        for index, update in zip(indices, updates, strict=True):
            results[index] = update
    return results


def _orthogonalize_padded(matrices: Sequence[Tensor]) -> list[Tensor]:
    flat = [_laid_flat(matrix) for matrix in matrices]
    rows, columns = (max(sizes) for sizes in zip(*(matrix.shape for matrix in flat), strict=True))
    stack = flat[0].new_zeros(len(flat), rows, columns)
    places = [padded[: len(matrix), : matrix.shape[1]] for padded, matrix in zip(stack, flat, strict=True)]
    torch._foreach_copy_(places, flat)
    updates = reference_orthogonalize(stack)
    inner = [update[: len(matrix), : matrix.shape[1]] for update, matrix in zip(updates, flat, strict=True)]
    return [
        update.mT if matrix.shape[0] > matrix.shape[1] else update
        for update, matrix in zip(inner, matrices, strict=True)
    ]


def _laid_flat(matrix: Tensor) -> Tensor:
    return matrix.mT if matrix.shape[-2] > matrix.shape[-1] else matrix


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


def _orthogonalize(matrices: Tensor) -> Tensor:
    _, rows, columns = matrices.shape
    a, b, c = NEWTON_SCHULZ
    padded_rows, padded_columns = padded(rows), padded(columns)
    x = functional.pad(matrices, (0, padded_columns - columns)).clone(memory_format=torch.contiguous_format)
    scratch = x.new_empty((padded_columns + 2 * rows) * padded_rows + rows * padded_columns)
    orthogonalize_one = cpu_library.library().puffer_orthogonalize
    for matrix in x.unbind() if matrices.numel() else ():
        orthogonalize_one(  # x, scratch, then as named
            *(matrix.data_ptr(), scratch.data_ptr()),
            *(rows, columns, padded_rows, padded_columns, NEWTON_SCHULZ_STEPS, a, b, c),
        )
    return x[:, :, :columns]
