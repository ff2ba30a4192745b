"""Every kind of bad call raises one sentence that names the environment and what was wrong; none crashes."""

import datetime
import itertools

import numpy as np
import pytest
from checked_headers import quick_params
from contract import COMPILED, OF_EACH_KIND
from game import ARRAYS, Game

from pufferlib import ocean


@pytest.fixture(scope="module", params=OF_EACH_KIND)
def game(request):
    return Game(request.param)


@pytest.fixture(scope="module", params=quick_params(COMPILED))
def every_game(request):
    """For keyword arguments, which each environment reads itself."""
    return Game(request.param)


@pytest.fixture(scope="module")
def other(game):
    """Another environment where there is one, so that its handles can be mixed up with the first one's."""
    names = [name for name in OF_EACH_KIND if name != ocean.PREFIX + game.name]
    if not names:
        pytest.skip("there is only one environment to mix up")
    return Game(names[0])


def sentence(raised):
    message = str(raised.value)
    assert message and "\n" not in message
    return message


def misaligned(like):
    memory = np.zeros(like.nbytes + 1, np.uint8)
    return memory[1:].view(like.dtype).reshape(like.shape)


def strided(like):
    return np.zeros((2 * like.shape[0], *like.shape[1:]), like.dtype)[::2]


def read_only(like):
    array = like.copy()
    array.flags.writeable = False
    return array


BAD_ARRAYS = {
    "float64": (lambda like: like.astype(np.float64), ValueError, "float64"),
    "uint16": (lambda like: like.astype(np.uint16), ValueError, "uint16"),
    "big-endian double": (lambda like: like.astype(np.dtype(">f8")), ValueError, ">f8"),
    "datetime": (lambda like: like.astype("datetime64[s]"), TypeError, "datetime64"),
    "objects": (lambda like: like.astype(object), ValueError, "object"),
    "structured": (lambda like: np.zeros(like.shape, [("a", "u1"), ("b", "f4")]), ValueError, "'a'"),
    "too few rows": (lambda like: like[:-1].copy(), ValueError, "of shape ("),
    "too many rows": (lambda like: np.concatenate([like, like]), ValueError, "of shape ("),
    "empty": (lambda like: like[:0], ValueError, "of shape ("),
    "scalar": (lambda like: np.zeros((), like.dtype), ValueError, "of shape ()"),
    "extra axis": (lambda like: np.zeros((*like.shape, 2), like.dtype), ValueError, "of shape ("),
    "non-contiguous": (strided, ValueError, "non-contiguous"),
    "Fortran order": (lambda like: np.zeros((*like.shape, 2), like.dtype, order="F"), ValueError, "non-contiguous"),
    "reversed": (lambda like: like[::-1], ValueError, "non-contiguous"),
    "broadcast": (lambda like: np.broadcast_to(like[:1], like.shape), ValueError, "read-only"),
    "read-only": (read_only, ValueError, "read-only"),
    "list": (lambda like: like.tolist(), TypeError, "list"),
    "None": (lambda like: None, TypeError, "NoneType"),
    "integer": (lambda like: 140_000_000, TypeError, "int"),
    "bytes": (lambda like: like.tobytes(), ValueError, "bytes"),
    "string": (lambda like: "array", TypeError, "str"),
    "class": (lambda like: np.ndarray, TypeError, "type"),
}


@pytest.mark.parametrize("index", range(5), ids=ARRAYS)
def test_an_array_that_does_not_fit_is_refused(game, index):
    for flaw, (make, exception, words) in BAD_ARRAYS.items():
        arrays = game.arrays(2)
        arrays[index] = make(arrays[index])
        with pytest.raises(exception) as raised:
            game.vec(2, arrays=arrays)
        message = sentence(raised)
        assert message.startswith(f"{game.name}: {ARRAYS[index]} must be a writable C-contiguous "), flaw
        assert words in message, flaw


@pytest.mark.parametrize("index", [0, 1, 2], ids=ARRAYS[:3])
def test_a_misaligned_array_is_refused(game, index):
    arrays = game.arrays(2)
    if arrays[index].itemsize == 1:
        pytest.skip("single bytes are always aligned")
    arrays[index] = misaligned(arrays[index])
    with pytest.raises(ValueError, match="misaligned"):
        game.vec(2, arrays=arrays)


def test_arrays_that_share_memory_are_refused(game):
    arrays = game.arrays(2)
    arrays[4] = arrays[3]
    with pytest.raises(ValueError, match="terminals and truncations must not share memory"):
        game.vec(2, arrays=arrays)
    memory = np.zeros(4 * game.agents, bool)
    arrays[3], arrays[4] = memory[: 2 * game.agents], memory[game.agents : 3 * game.agents]
    with pytest.raises(ValueError, match="terminals and truncations must not share memory"):
        game.vec(2, arrays=arrays)
    arrays[4] = memory[2 * game.agents :]  # neighbours are fine
    game.vec(2, arrays=arrays)


def test_any_writable_buffer_of_the_right_type_will_do(game):
    arrays = game.arrays(2)
    arrays[3] = memoryview(bytearray(2 * game.agents))
    arrays[4] = bytearray(2 * game.agents)
    vec = game.vec(2, arrays=arrays)
    game.binding.vec_reset(vec)
    with pytest.raises(BufferError):
        arrays[4].extend(b"would move the memory")
    with pytest.raises(BufferError):
        arrays[3].release()


class Index:
    """An integer whose evaluation runs code of the caller's."""

    def __init__(self, effect):
        self.effect = effect

    def __index__(self):
        self.effect()
        return 1


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "0", None, [], np.float32(1)], ids=repr)
def test_a_bad_seed_is_refused(game, seed):
    calls = [lambda: game.vec(seed=seed), lambda: game.single(seed=seed)]
    if seed is not None:  # a reset without a seed goes on with the stream
        vec, single = game.vec(), game.single()
        calls += [lambda: game.binding.vec_reset(vec, seed), lambda: game.binding.env_reset(single, seed)]
    for call in calls:
        with pytest.raises(ValueError) as raised:
            call()
        assert "seed must be an integer from 0 to 2**64 - 1, got" in sentence(raised)


@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.int64(3), np.uint64(2**63)], ids=repr)
def test_every_unsigned_64_bit_seed_is_taken(game, seed):
    game.binding.vec_reset(game.vec(seed=seed), seed)


def test_a_seed_that_closes_the_handle_is_noticed(game):
    """The seed is read first, so its code cannot pull the arrays away between the check and the reset."""
    vec, single = game.vec(), game.single()
    with pytest.raises(ValueError, match="closed"):
        game.binding.vec_reset(vec, Index(lambda: game.binding.vec_close(vec)))
    with pytest.raises(ValueError, match="closed"):
        game.binding.env_reset(single, Index(lambda: game.binding.env_close(single)))
    vec = game.vec()
    with pytest.raises(ValueError, match="closed"):
        game.binding.vec_env(vec, Index(lambda: game.binding.vec_close(vec)))


@pytest.mark.parametrize("count", [0, -1, 2**24 + 1, 2**31, 2**80, -(2**80), 1.0, True, None, "3"], ids=repr)
def test_a_bad_num_envs_is_refused(game, count):
    exception = ValueError if type(count) is int else TypeError
    with pytest.raises(exception) as raised:
        game.vec(count, arrays=game.arrays(1))
    assert sentence(raised).startswith(f"{game.name}: num_envs must be an integer from 1 to 16777216, got {count!r}")


@pytest.mark.parametrize("make", ["vec", "single"])
def test_unknown_and_missing_keywords_are_named(every_game, make):
    game = every_game
    with pytest.raises(TypeError, match=f"{game.name} does not know the keyword argument.*'no_such_thing'"):
        getattr(game, make)(no_such_thing=1)
    if make == "vec":
        with pytest.raises(TypeError, match="does not know the keyword argument.*5"):
            game.binding.vec_init(*game.arrays(), 1, 0, **game.kwargs, **{5: 1})
    for name in game.kwargs:
        rest = {key: value for key, value in game.kwargs.items() if key != name}
        with pytest.raises(TypeError, match=f"{game.name} needs the keyword argument '{name}'"):
            game.binding.vec_init(*game.arrays(), 1, 0, **rest)


def test_a_bad_keyword_value_is_refused_by_name(every_game):
    for name, value in itertools.product(
        every_game.kwargs, [None, "much", [], {}, b"", 1e999, float("nan"), -(10**30), 10**30]
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            every_game.vec(**{name: value})
        assert sentence(raised).startswith(f"{every_game.name}: {name} must be "), value


def test_calls_with_too_few_or_too_many_arguments_raise(game):
    handles = {"vec": game.vec(), "env": game.single()}
    for name in ("reset", "step", "close"):
        for kind, handle in handles.items():
            function = getattr(game.binding, f"{kind}_{name}")
            for args in [(), (handle, 1, 2)]:
                with pytest.raises(TypeError):
                    function(*args)
    for name in ("vec_init", "env_init"):
        with pytest.raises(TypeError, match=f"{name}"):
            getattr(game.binding, name)(*game.arrays(), **game.kwargs)
    with pytest.raises(TypeError):
        game.binding.vec_step(vec=handles["vec"])


def test_shared_takes_nothing_unknown(game):
    with pytest.raises(TypeError):
        game.binding.shared(1)
    with pytest.raises(TypeError, match="no_such_thing"):
        game.binding.shared(no_such_thing=1)
    for wrong in (5, "shared", datetime.datetime_CAPI, game.vec()):
        with pytest.raises(TypeError, match=r"shared must be the result of .*\.shared\(\)"):
            game.binding.vec_init(*game.arrays(), 1, 0, **game.kwargs, shared=wrong)


ENV_CALLS = {
    "env_reset": lambda binding, handle: binding.env_reset(handle),
    "env_step": lambda binding, handle: binding.env_step(handle),
    "env_render": lambda binding, handle: binding.env_render(handle),
    "env_state": lambda binding, handle: binding.env_state(handle),
    "env_get": lambda binding, handle: binding.env_get(handle),
    "env_put": lambda binding, handle: binding.env_put(handle, b""),
    "vectorize": lambda binding, handle: binding.vectorize(handle),
    "env_close": lambda binding, handle: binding.env_close(handle),
}
VEC_CALLS = {
    "vec_reset": lambda binding, handle: binding.vec_reset(handle),
    "vec_step": lambda binding, handle: binding.vec_step(handle),
    "vec_log": lambda binding, handle: binding.vec_log(handle),
    "vec_snapshot": lambda binding, handle: binding.vec_snapshot(handle),
    "vec_restore": lambda binding, handle: binding.vec_restore(handle, b""),
    "vec_env": lambda binding, handle: binding.vec_env(handle, 0),
    "vec_close": lambda binding, handle: binding.vec_close(handle),
}
CALLS = ENV_CALLS | VEC_CALLS


def test_what_is_no_handle_is_refused(game):
    for name, call in CALLS.items():
        kind, stranger = ("an environment", game.vec()) if name in ENV_CALLS else ("a vec", game.single())
        for wrong in (0, 1, -1, 2**63, None, "handle", b"", np.zeros(3), object(), datetime.datetime_CAPI, stranger):
            with pytest.raises(TypeError) as raised:
                call(game.binding, wrong)
            assert sentence(raised).startswith(f"{game.name}: expected {kind} handle from {game.name}."), name


def test_a_handle_of_another_environment_is_refused(game, other):
    single, vec = other.single(), other.vec()
    for name, call in CALLS.items():
        with pytest.raises(TypeError, match=other.name if name in ENV_CALLS else "another environment"):
            call(game.binding, single if name in ENV_CALLS else vec)


def test_a_closed_handle_is_refused(game):
    single, vec = game.single(), game.vec()
    for _ in range(2):  # twice is harmless
        game.binding.env_close(single)
        game.binding.vec_close(vec)
    for name, call in CALLS.items():
        if not name.endswith("close"):
            with pytest.raises(ValueError, match="closed; make (a )?new one"):
                call(game.binding, single if name in ENV_CALLS else vec)


def test_a_view_of_a_closed_vec_is_refused(game):
    vec = game.vec()
    view = game.binding.vec_env(vec, 0)
    game.binding.vec_reset(vec)
    game.binding.vec_close(vec)
    for name, call in ENV_CALLS.items():
        if name != "env_close":
            with pytest.raises(ValueError, match="the environments are closed"):
                call(game.binding, view)
    game.binding.env_close(view)


def test_what_was_never_reset_cannot_be_stepped_drawn_or_saved(game):
    for name in ("env_step", "env_get", "env_render", "env_state", "vec_step", "vec_snapshot"):
        handle = game.single() if name in ENV_CALLS else game.vec()
        with pytest.raises(RuntimeError, match=r"(was|were) never reset; call reset\(\) first"):
            CALLS[name](game.binding, handle)
        if name in ENV_CALLS:
            with pytest.raises(RuntimeError, match=r"were never reset; call reset\(\) first"):
                CALLS[name](game.binding, game.binding.vec_env(game.vec(), 0))


def test_a_vec_is_ready_when_all_its_members_are(game):
    singles = [game.single(), game.single()]
    game.binding.env_reset(singles[0])
    joined = game.binding.vectorize(*singles)
    with pytest.raises(RuntimeError, match="never reset"):
        game.binding.vec_step(joined)
    game.binding.vec_close(joined)
    game.binding.env_reset(singles[1])
    game.binding.vec_step(game.binding.vectorize(*singles))


def test_vectorize_takes_each_open_handle_once(game):
    vectorize, single = game.binding.vectorize, game.single()
    with pytest.raises(ValueError, match="takes 1 to 16777216 environment handles, got 0"):
        vectorize()
    with pytest.raises(ValueError, match="environment 1 is already part of a vec"):
        vectorize(single, single)
    with pytest.raises(TypeError, match="expected an environment handle"):
        vectorize(single, None)
    joined = vectorize(single)  # the failures above let go of it
    with pytest.raises(ValueError, match="environment 0 is already part of a vec"):
        vectorize(single)
    with pytest.raises(ValueError, match="environment 0 is already part of a vec"):
        vectorize(game.binding.vec_env(joined, 0))
    with pytest.raises(RuntimeError, match="part of a vec; call vec_close first"):
        game.binding.env_close(single)
    closed = game.single()
    game.binding.env_close(closed)
    with pytest.raises(ValueError, match="closed"):
        vectorize(closed)


def test_vectorize_wants_one_shape():
    game = Game("puffer_squared")
    observations = np.zeros((1, 25), np.uint8)
    small = game.single(arrays=[observations, *game.arrays()[1:]], size=5)
    with pytest.raises(ValueError, match="environment 1 has other array shapes than the first"):
        game.binding.vectorize(game.single(), small)


@pytest.mark.parametrize("index", [-1, 3, 2**31, 2**70])
def test_an_index_outside_the_vec_is_refused(game, index):
    with pytest.raises(IndexError):
        game.binding.vec_env(game.vec(3), index)


@pytest.mark.parametrize("index", [None, 1.0, "1"])
def test_an_index_that_is_no_integer_is_refused(game, index):
    with pytest.raises(TypeError):
        game.binding.vec_env(game.vec(3), index)


@pytest.fixture
def saved(game):
    vec = game.vec(2)
    game.binding.vec_reset(vec, 1)
    return game.binding.vec_snapshot(vec)


def test_a_snapshot_of_another_size_is_refused(game, saved):
    with pytest.raises(ValueError) as raised:
        game.binding.vec_restore(game.vec(3), saved)
    assert f"expected a snapshot of 3 environment(s) of {game.name}" in sentence(raised)
    assert f"got 2 of {game.name}" in sentence(raised)
    with pytest.raises(ValueError, match="expected a snapshot of 1 environment"):
        game.binding.env_put(game.single(), saved)


def test_a_snapshot_of_another_environment_is_refused(game, other, saved):
    with pytest.raises(ValueError, match=f"of {other.name} .* got 2 of {game.name}"):
        other.binding.vec_restore(other.vec(2), saved)


def test_a_snapshot_of_another_version_is_refused(game, saved):
    vec = game.vec(2)
    with pytest.raises(ValueError, match="expected a snapshot of version 0, got version 1; take it anew") as raised:
        game.binding.vec_restore(vec, saved[:7] + b"\1" + saved[8:])
    assert game.name in sentence(raised)


def test_a_damaged_snapshot_is_refused_and_changes_nothing(game, saved):
    vec = game.vec(2)
    game.binding.vec_restore(vec, saved)
    damaged = [saved[:length] for length in (0, 1, 8, 47, len(saved) - 1)] + [saved + b"\0"]
    for position in np.linspace(0, len(saved) - 1, 97).astype(int):
        flipped = bytearray(saved)
        flipped[position] ^= 0x10
        damaged.append(bytes(flipped))
    for snapshot in damaged:
        with pytest.raises(ValueError) as raised:
            game.binding.vec_restore(vec, snapshot)
        assert sentence(raised).startswith(f"{game.name}: ")
    assert game.binding.vec_snapshot(vec) == saved


@pytest.mark.parametrize(
    "wrong", [None, 5, "text", bytearray(b"PUFSNAP"), np.zeros(9, np.uint8)], ids=lambda value: type(value).__name__
)
def test_a_snapshot_must_be_bytes(game, wrong):
    with pytest.raises(TypeError, match="a snapshot must be bytes, got"):
        game.binding.vec_restore(game.vec(2), wrong)
    with pytest.raises(TypeError, match="a snapshot must be bytes, got"):
        game.binding.env_put(game.single(), wrong)
