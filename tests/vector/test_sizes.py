"""Dividing environments among workers and batches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.errors import APIUsageError
from pufferlib.vector import recipe
from pufferlib.vector.recipe import Options


@settings(deadline=None, max_examples=60)
@given(num_envs=st.integers(1, 96), batches=st.integers(1, 96), cores=st.integers(1, 96))
def test_auto_workers_divide_the_environments_and_fit_into_batches(num_envs, batches, cores):
    if num_envs % batches:
        return
    batch_size = num_envs // batches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "usable_cores", lambda: cores)
        workers = recipe.count_workers(Options(batch_size=batch_size), num_envs)
    assert num_envs % workers == 0
    assert batch_size % (num_envs // workers) == 0
    assert workers <= max(cores, batches)


@settings(deadline=None, max_examples=60)
@given(num_envs=st.integers(1, 64), workers=st.integers(1, 64))
@pytest.mark.filterwarnings("ignore:num_workers")
def test_a_number_of_workers_is_taken_as_it_is_or_refused(num_envs, workers):
    options = Options(num_workers=workers)
    if num_envs % workers == 0:
        assert recipe.count_workers(options, num_envs) == workers
    else:
        with pytest.raises(APIUsageError, match="the nearest is"):
            recipe.count_workers(options, num_envs)


@pytest.mark.parametrize("workers", [0, -1, 1025, 100_000, 10**20, "many", True, 2.0])
def test_a_number_of_threads_is_one_that_a_machine_has(workers):
    with pytest.raises(APIUsageError, match="num_workers must be 'auto' or an integer from 1 to 1024, got"):
        recipe.count_threads(Options(num_workers=workers))
