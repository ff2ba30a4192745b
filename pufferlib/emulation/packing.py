"""Observations written into rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferlib.errors import APIUsageError
from pufferlib.spaces import Layout, Leaf, path_name

_INT64 = np.dtype(np.int64)
_INTEGERS = (int, np.int64)


def row_writer(layout: Layout, row: np.ndarray) -> Callable[[Any], None]:
    """Makes the function that writes an observation into one row, or many into rows; it is called at every step.

    What an environment returns is cast to the leaf's dtype where nothing but precision is lost: float64 to float32, and
    integers to smaller ones that hold them. Values outside a space's bounds are not looked for.

    Args:
        layout: of the observations.
        row: contiguous, with the shape and dtype of `layout.row_space`; the function keeps views of it. Rows have
            further dimensions before those, and so have all parts of the observations that go there.

    Returns:
        A function of one observation, or of many in one structure. It raises APIUsageError if a part of it is missing,
        or has another shape or kind than its space; the message names it.
    """
    leading = row.ndim - len(layout.row_space.shape)
    leaves = [replace(leaf, shape=row.shape[:leading] + leaf.shape) if leading else leaf for leaf in layout.leaves]
    slots = [(leaf.path, _view(row, leaf, leading), leaf.shape, leaf.dtype, leaf) for leaf in leaves]
    ndarray = np.ndarray

    def write(observation: Any) -> None:
        try:
            for path, view, shape, dtype, leaf in slots:
                value = observation
                for key in path:
                    value = value[key]
                if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
                    view[...] = value
                else:
                    _store(leaf, view, value)
        except (LookupError, TypeError) as error:
            raise _explained(layout, observation, error) from error

    def write_array(observation: ArrayLike) -> None:
        if type(observation) is ndarray and observation.dtype is dtype and observation.shape == shape:
            view[...] = observation
        else:
            _store(leaf, view, observation)

    if len(slots) == 1 and not slots[0][0]:
        _, view, shape, dtype, leaf = slots[0]
        return write_array
    return write


def _view(row: np.ndarray, leaf: Leaf, leading: int) -> np.ndarray:
    inside = np.empty(leaf.shape[leading:], leaf.dtype).strides
    return np.ndarray(leaf.shape, leaf.dtype, row, leaf.offset, row.strides[:leading] + inside)


def _store(leaf: Leaf, view: np.ndarray, value: ArrayLike) -> None:
    if type(value) in _INTEGERS and leaf.dtype is _INT64 and leaf.shape == ():  # a Discrete one
        view[()] = value
        return
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise _unfit(leaf, f"a {type(value).__name__} that is no array") from error
    if array.shape != leaf.shape:
        raise _unfit(leaf, f"{array.dtype} of shape {array.shape}")
    is_sure, is_possible = _casting(array.dtype, leaf.dtype)
    if not is_possible:
        raise _unfit(leaf, f"{array.dtype} of shape {array.shape}")
    view[...] = array
    if not is_sure and not np.array_equal(view, array):
        raise _unfit(leaf, f"{array.dtype} with values that do not fit, between {array.min()} and {array.max()}")


@functools.cache
def _casting(source: np.dtype, target: np.dtype) -> tuple[bool, bool]:
    is_sure = np.can_cast(source, target, "safe") or (source.kind == "f" and target.kind == "f")
    is_float = target.kind == "f"
    return is_sure or is_float, is_sure or (source.kind in "biu" and target.kind in "biuf")


def _unfit(leaf: Leaf, found: str) -> APIUsageError:
    return APIUsageError(
        f"{leaf.name} must be {leaf.dtype} of shape {leaf.shape}, got {found}; "
        "make the environment's observations fit its observation_space"
    )


def _explained(layout: Layout, observation: object, error: Exception) -> Exception:
    for leaf in layout.leaves:
        value = observation
        for depth, key in enumerate(leaf.path):
            try:
                value = value[key]
            except (LookupError, TypeError):
                return APIUsageError(
                    f"{path_name(leaf.path[:depth])} must have an entry {key!r}, got {_described(value)}; "
                    "make the environment's observations fit its observation_space"
                )
    return error


def _described(value: object) -> str:
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value))}" if value else "an empty dict"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")
