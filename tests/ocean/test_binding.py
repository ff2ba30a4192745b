"""What a correct caller of a binding can rely on: surface, equivalence, ownership, threads."""

import contextlib
import gc
import itertools
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings

import numpy as np
import psutil
import pytest
from checked_headers import quick_params
from contract import COMPILED, OF_EACH_KIND
from game import Game

from pufferlib import ocean
from pufferlib.errors import PufferWarning
from pufferlib.ocean import rendering

FUNCTIONS = {
    "shared",
    *("env_init", "env_reset", "env_step", "env_render", "env_state", "env_get", "env_put", "env_close"),
    *("vectorize", "vec_init", "vec_reset", "vec_step", "vec_step_where", "vec_keep_final", "vec_log"),
    *("vec_snapshot", "vec_restore", "vec_structs", "vec_put_structs", "vec_shared", "vec_env", "vec_close"),
}


@pytest.fixture(scope="module", params=OF_EACH_KIND)
def game(request):
    return Game(request.param)


@pytest.fixture(scope="module", params=quick_params(COMPILED))
def every_game(request):
    """For logs and steps, which each environment writes itself."""
    return Game(request.param)


def rollout(game, arrays, step, steps=64, seed=0):
    """Bytes of everything that `step` writes under a fixed sequence of actions."""
    generator = np.random.default_rng(seed)
    written = []
    for _ in range(steps):
        game.fill_actions(arrays[1], generator)
        step()
        written += [arrays[i].tobytes() for i in (0, 2, 3, 4)]
    return b"".join(written)


def test_the_module_has_exactly_the_documented_functions(game):
    functions = {name for name in vars(game.binding) if not name.startswith("__")}
    assert functions == FUNCTIONS
    assert all(getattr(game.binding, name).__doc__ for name in functions)


def test_vec_init_and_vectorize_give_the_same_rollout(game):
    together, apart = game.arrays(3), game.arrays(3)
    vec = game.vec(3, seed=5, arrays=together)
    rows = [slice(i * game.agents, (i + 1) * game.agents) for i in range(3)]
    singles = [game.single(seed=9, arrays=[array[row] for array in apart]) for row in rows]
    joined = game.binding.vectorize(*singles)
    game.binding.vec_reset(vec, 7)
    game.binding.vec_reset(joined, 7)
    assert together[0].tobytes() == apart[0].tobytes()
    first = rollout(game, together, lambda: game.binding.vec_step(vec))
    assert first == rollout(game, apart, lambda: game.binding.vec_step(joined))


def test_a_seed_gives_one_rollout_and_another_seed_another(game):
    def run(seed):
        arrays = game.arrays(8)
        vec = game.vec(8, seed=seed, arrays=arrays)
        game.binding.vec_reset(vec)
        return arrays[0].tobytes() + rollout(game, arrays, lambda: game.binding.vec_step(vec), steps=256)

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_seeds_of_init_and_of_reset_begin_the_same_streams(game):
    first, second = game.arrays(4), game.arrays(4)
    game.binding.vec_reset(game.vec(4, seed=11, arrays=first))
    game.binding.vec_reset(game.vec(4, seed=0, arrays=second), 11)
    assert first[0].tobytes() == second[0].tobytes()


@pytest.mark.parametrize("kind", ["vec", "env"])
def test_reset_clears_the_rows_of_the_last_step(game, kind):
    arrays = game.arrays(1)
    handle = game.vec(1, arrays=arrays) if kind == "vec" else game.single(arrays=arrays)
    for array in arrays[2:]:
        array[:] = 1
    getattr(game.binding, f"{kind}_reset")(handle)
    assert not any(array.any() for array in arrays[2:])


def test_a_snapshot_continues_to_the_byte(game):
    arrays = game.arrays(3)
    vec = game.vec(3, arrays=arrays)
    game.binding.vec_reset(vec, 1)
    rollout(game, arrays, lambda: game.binding.vec_step(vec), steps=40)
    snapshot, rows = game.binding.vec_snapshot(vec), [array.copy() for array in arrays]
    first = rollout(game, arrays, lambda: game.binding.vec_step(vec), seed=2)
    game.binding.vec_restore(vec, snapshot)
    for i in (0, 2, 3, 4):
        np.testing.assert_array_equal(arrays[i], rows[i])
    assert rollout(game, arrays, lambda: game.binding.vec_step(vec), seed=2) == first


def test_a_snapshot_can_be_restored_into_a_vec_that_was_never_reset(game):
    vec, fresh = game.vec(2), game.vec(2, seed=8)
    game.binding.vec_reset(vec, 1)
    game.binding.vec_restore(fresh, game.binding.vec_snapshot(vec))
    game.binding.vec_step(fresh)
    single = game.single()
    game.binding.env_put(single, game.binding.env_get(game.binding.vec_env(vec, 1)))
    game.binding.env_step(single)


def test_snapshots_of_one_state_are_equal(game):
    def snapshot():
        vec = game.vec(2)
        game.binding.vec_reset(vec, 1)
        return game.binding.vec_snapshot(vec)

    assert snapshot() == snapshot()


def test_logs_are_sums_that_the_reader_clears(every_game):
    game = every_game
    vec = game.vec(4)
    assert game.binding.vec_log(vec)["n"] == 0
    game.binding.vec_reset(vec)
    arrays = game.arrays(4)
    vec = game.vec(4, arrays=arrays)
    game.binding.vec_reset(vec)
    ends = 0
    generator = np.random.default_rng(0)
    for _ in range(20_000):
        game.fill_actions(arrays[1], generator)
        game.binding.vec_step(vec)
        ends += np.count_nonzero(arrays[3] | arrays[4])
        if ends >= 4:
            break
    log = game.binding.vec_log(vec)
    assert log["n"] > 0
    assert all(isinstance(value, float) and np.isfinite(value) for value in log.values())
    assert game.binding.vec_log(vec)["n"] == 0


def test_handles_hold_their_arrays_until_they_are_closed(game):
    arrays = game.arrays(2)
    counts = [sys.getrefcount(array) for array in arrays]
    vec = game.vec(2, arrays=arrays)
    assert all(sys.getrefcount(array) > count for array, count in zip(arrays, counts, strict=True))
    game.binding.vec_close(vec)
    assert [sys.getrefcount(array) for array in arrays] == counts
    vec = game.vec(2, arrays=arrays)
    del vec
    assert [sys.getrefcount(array) for array in arrays] == counts


def test_a_failed_init_lets_go_of_the_arrays(game):
    arrays = game.arrays(2)
    bad = arrays[:4] + [arrays[3]]
    counts = [sys.getrefcount(array) for array in arrays]
    with pytest.raises(ValueError):
        game.vec(2, arrays=bad)
    assert [sys.getrefcount(array) for array in arrays] == counts


def test_arrays_outlive_their_python_names(game):
    vec = game.vec(64)
    game.binding.vec_reset(vec)
    gc.collect()
    ballast = [np.full(4096, 255, np.uint8) for _ in range(64)]  # takes freed memory, if there were any
    for _ in range(32):
        game.binding.vec_step(vec)
    assert all((block == 255).all() for block in ballast)


def test_a_view_keeps_its_vec_alive(game):
    view = game.binding.vec_env(game.vec(3), 2)
    game.binding.env_reset(view)
    gc.collect()
    assert game.binding.env_put(view, snapshot_of_single(game)) is None
    game.binding.env_close(view)
    game.binding.env_close(view)


def snapshot_of_single(game):
    single = game.single()
    game.binding.env_reset(single)
    return game.binding.env_get(single)


def test_any_order_of_deletion_is_harmless(game):
    for order in itertools.permutations(range(5)):
        arrays = game.arrays()
        single = game.single(arrays=arrays)
        joined = game.binding.vectorize(single)
        view = game.binding.vec_env(joined, 0)
        game.binding.vec_reset(joined)
        things = [arrays, single, joined, view, game.binding.vec_env(joined, 0)]
        del arrays, single, joined, view
        for i in order:
            things[i] = None


def test_members_are_free_again_when_their_vec_is_closed_or_gone(game):
    single = game.single()
    joined = game.binding.vectorize(single)
    game.binding.vec_reset(joined)
    game.binding.vec_close(joined)
    game.binding.env_step(single)
    joined = game.binding.vectorize(single)
    del joined
    game.binding.vec_step(game.binding.vectorize(single))
    game.binding.env_close(single)


def test_an_environment_that_is_dropped_while_it_is_drawn_lives_until_the_drawing_is_done(game, monkeypatch):
    """Drawing runs Python code, in which any thread may let go of the last reference to the vec."""
    single = game.single()
    held = [game.binding.vectorize(single)]
    game.binding.vec_reset(held[0])

    def render(name, env):
        held.clear()
        gc.collect()
        game.binding.env_step(env)
        return "frame"

    monkeypatch.setattr(rendering, "render", render)
    assert game.binding.env_render(single) == "frame"
    game.binding.vec_step(game.binding.vectorize(single))


@pytest.mark.quick("puffer_target")
def test_making_and_closing_leaks_nothing(game):
    process, probe = psutil.Process(), game.vec(1)
    game.binding.vec_reset(probe)
    count = min(512, 2 + (1 << 15) // len(game.binding.vec_snapshot(probe)))  # some tens of kilobytes
    game.binding.vec_close(probe)
    arrays = game.arrays(count)

    def cycle():
        vec = game.vec(count, arrays=arrays)
        game.binding.vec_env(vec, 1)
        game.binding.vec_reset(vec)
        game.binding.vec_restore(vec, game.binding.vec_snapshot(vec))
        game.binding.vec_log(vec)
        game.binding.vec_close(vec)
        for bad in ({"num_envs": 0}, {"unknown_keyword": 1}, {"seed": -1}):
            with contextlib.suppress(TypeError, ValueError):
                game.vec(**{"num_envs": count, "arrays": arrays, **bad})
        with contextlib.suppress(ValueError):
            game.binding.vectorize(*[game.single()] * 2)

    def growth():
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):  # each makes a vec, three that are refused, and a single
            cycle()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    for _ in range(100):
        cycle()
    gc.collect()
    resident = process.memory_info().rss
    tracemalloc.start()
    # Less than the smallest object in every cycle; once in a while a table of the interpreter's own grows.
    assert any(growth() < 500 * 32 for _ in range(3))
    tracemalloc.stop()
    assert process.memory_info().rss - resident < 8 << 20  # one vec in every cycle would be more than twice that


def test_two_threads_on_one_vec_are_told_so_or_served(game):
    vec = game.vec(512)
    game.binding.vec_reset(vec)
    refusals, failures = [], []

    def work(call):
        for _ in range(200):
            try:
                call()
            except RuntimeError as error:
                refusals.append(str(error))
            except Exception as error:  # anything else is a failure, whatever it is
                failures.append(error)

    view = game.binding.vec_env(vec, 0)
    calls = [
        lambda: game.binding.vec_step(vec),
        lambda: game.binding.vec_step(vec),
        lambda: game.binding.vec_log(vec),
        lambda: game.binding.vec_reset(vec, 1),
        lambda: game.binding.env_step(view),
    ]
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(refusals) <= {f"{game.name}: the vec is being stepped by another thread; wait for it first"}


def test_stepping_lets_other_threads_run():
    """Only while vec_step has let go of the GIL can another thread be told that the vec is in use."""
    game = Game("puffer_squared")
    vec = game.vec(1 << 16)
    game.binding.vec_reset(vec)
    refused = threading.Event()

    def look():
        while not refused.is_set():
            try:
                game.binding.vec_env(vec, 0)
            except RuntimeError:
                refused.set()

    thread = threading.Thread(target=look)
    thread.start()
    deadline = time.monotonic() + 600
    while not refused.is_set() and time.monotonic() < deadline:
        try:
            game.binding.vec_step(vec)
        finally:
            time.sleep(0)
    was_refused = refused.is_set()
    refused.set()
    thread.join()
    assert was_refused


FORGETFUL = """
import faulthandler, sys
faulthandler.enable()
sys.path.insert(0, {folder!r})
from game import Game
for name in {names!r}:
    game = Game(name)
    vec, single = game.vec(3), game.single()
    joined = game.binding.vectorize(single)
    view = game.binding.vec_env(joined, 0)
    game.binding.vec_reset(vec); game.binding.vec_reset(joined)
    game.binding.vec_step(vec); game.binding.vec_step(joined)
    globals()[name] = (vec, single, joined, view, game)
"""


def test_some_environments_step_and_the_rows_of_the_others_stay(every_game):
    game = every_game
    arrays, expected = game.arrays(5), game.arrays(5)
    vec, twin = game.vec(5, arrays=arrays), game.vec(5, arrays=expected)
    for each in (vec, twin):
        game.binding.vec_reset(each, 0)
    begun = [array.copy() for array in arrays]
    where = np.repeat([True, False, True, True, False], game.agents)
    generator = np.random.default_rng(0)
    for _ in range(50):
        game.fill_actions(arrays[1], generator)
        expected[1][:] = arrays[1]
        game.binding.vec_step_where(vec, where[:: game.agents].copy())
        game.binding.vec_step(twin)
        for array, full, old in zip(arrays, expected, begun, strict=True):
            np.testing.assert_array_equal(array[where], full[where])
            assert array is arrays[1] or np.array_equal(array[~where], old[~where])
    game.binding.vec_step_where(vec, np.zeros(5, bool))
    for wrong in (np.zeros(4, bool), np.zeros(5, np.int32)):
        with pytest.raises(ValueError, match="where must hold one bool for each of 5"):
            game.binding.vec_step_where(vec, wrong)
    with pytest.raises(TypeError):
        game.binding.vec_step_where(vec, None)


def test_what_is_never_closed_is_silent_at_exit(request):
    code = FORGETFUL.format(folder=str(request.path.parent), names=COMPILED)
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_module_that_does_not_follow_its_sources_any_more_is_told_of(game, monkeypatch):
    env_class = ocean.env_class(f"puffer_{game.name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env_class(num_envs=1).close()
    assert len(game.binding.__sources__) == 16
    monkeypatch.setattr(game.binding, "__sources__", "of an earlier day")
    with pytest.warns(PufferWarning, match="changed since it was compiled, and the old one is what runs; compile it"):
        env_class(num_envs=1).close()
