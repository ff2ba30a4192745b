import ctypes
import gc
import os
import threading

import pytest

from pufferlib.errors import PufferError
from pufferlib.extensions import cpu_library
from pufferlib.extensions.cpu_library import ThreadPool

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, TASK, ctypes.c_void_p, ctypes.c_int)


def run(pool, count):
    """How often each item was done."""
    done, lock = [0] * count, threading.Lock()

    @TASK
    def task(context, begin, end, thread):
        with lock:
            for item in range(begin, end):
                done[item] += 1

    handle = cpu_library.STRUCTURES["KernelThreads"].from_address(pool.address)
    RUN(handle.run)(handle.pool, task, None, count)
    return done


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 97])
def test_every_item_is_done_once(size, count):
    pool = ThreadPool(size)
    for _ in range(3):
        assert run(pool, count) == [1] * count


def thread_ids():
    return set(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc to see threads")
def test_threads_end_with_the_pool():
    before = thread_ids()  # of which some, of other tests, may end meanwhile
    pool = ThreadPool(4)
    own = thread_ids() - before
    assert len(own) == 3
    del pool
    gc.collect()
    assert not own & thread_ids()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_child_has_threads_of_its_own():
    pool = ThreadPool(3)
    run(pool, 10)
    child = os.fork()
    if child == 0:
        os._exit(0 if run(pool, 10) == [1] * 10 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(pool, 10) == [1] * 10


def test_a_pool_that_was_not_built_says_so(monkeypatch):
    monkeypatch.setattr(cpu_library.importlib.util, "find_spec", lambda name: None)
    cpu_library._thread_pool.cache_clear()
    with pytest.raises(PufferError, match="build_ext --inplace"):
        ThreadPool(1)
    cpu_library._thread_pool.cache_clear()
