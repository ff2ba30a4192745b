import sys
import threading

import pytest
import torch

from pufferlib.runs.loaders import borrowed_generator

THREADS, REPEATS = 4, 200


@pytest.fixture
def eager_threads():
    """Threads that take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def draws(seed):
    with borrowed_generator(seed):
        return torch.cat([torch.rand(2) for _ in range(4)])


def test_a_seed_gives_its_numbers_and_the_generator_is_put_back():
    before = torch.get_rng_state()
    first, again, other = draws(1), draws(1), draws(2)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_it_goes_on_and_is_put_back_also_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(KeyError), borrowed_generator():
        inside = torch.rand(3)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.rand(3), inside)


def test_threads_get_the_numbers_of_their_own_seeds(eager_threads):
    expected, wrong = [draws(seed) for seed in range(THREADS)], [0] * THREADS
    before = torch.get_rng_state()

    def body(seed):
        for _ in range(REPEATS):
            wrong[seed] += not torch.equal(draws(seed), expected[seed])

    threads = [threading.Thread(target=body, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * THREADS
    assert torch.equal(torch.get_rng_state(), before)
