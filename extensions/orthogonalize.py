"""The nearest matrix with all singular values near 1: what Muon makes of a gradient."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.cpu_library import padded

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c of X <- aX + (bA + cA^2)X, A = XX^T
NEWTON_SCHULZ_STEPS = 5


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
    is_tall = matrices.shape[1] > matrices.shape[2]
    wide = matrices.mT if is_tall else matrices
    has_kernel = wide.device.type == "cpu" and wide.dtype == torch.float32
    result = _orthogonalize(wide) if has_kernel else reference_orthogonalize(wide)
    return result.mT if is_tall else result


def reference_orthogonalize(matrices: Tensor) -> Tensor:
    """Newton-Schulz in plain torch, in the precision of the matrices, `(count, rows, columns)` with rows <= columns."""
    a, b, c = NEWTON_SCHULZ
    # LaTeX: X = \frac{M}{\max(\lVert M \rVert_{\text{F}},\ 10^{-7})} ; X = x, M = matrices
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        # LaTeX: A = X X^\top ; A = square
        square = x @ x.mT
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
