"""No sequence of calls with any arguments crashes the process or raises anything but a plain sentence.

The fuzzers of tests/fuzz do the same for long, under AddressSanitizer.
"""

import datetime

import numpy as np
import pytest
from contract import each_name
from game import Game
from hypothesis import given, settings, strategies as st

FUNCTIONS = ("env_init", "env_reset", "env_step", "env_get", "env_put", "env_close", "vectorize", "vec_init") + (
    *("vec_reset", "vec_step", "vec_log", "vec_snapshot", "vec_restore", "vec_env", "vec_close", "shared"),
)
EXPECTED = (TypeError, ValueError, RuntimeError, IndexError, MemoryError)
ODDITIES = (None, 0, 1, 2, -1, 2**31, 2**64, 1.5, "text", b"PUFSNAP\0", (), datetime.datetime_CAPI, object)


class Caller:
    """Calls a binding with what earlier calls returned, sound arguments and odd ones."""

    def __init__(self, game: Game):
        self.game = game
        self.things = [*ODDITIES, *game.arrays(1), *game.arrays(2), game.vec(2), game.single(), game.shared]
        vec = game.vec(2)
        game.binding.vec_reset(vec)
        self.snapshots = game.binding.vec_snapshot(vec), game.binding.env_get(game.binding.vec_env(vec, 0))

    def thing(self, pick: int) -> object:
        return self.things[pick % len(self.things)]

    def sound_arguments(self, name: str, pick: int) -> tuple:
        if name == "env_init":
            return (*self.game.arrays(1), pick)
        if name == "vec_init":
            return (*self.game.arrays(2), 2, pick)
        if name in ("vec_restore", "env_put"):
            return self.thing(pick), self.snapshots[name == "env_put"]
        if name == "vec_env":
            return self.thing(pick), pick % 3
        if name == "shared":
            return ()
        return (self.thing(pick),)

    def call(self, function: int, picks: list[int], has_keywords: bool) -> None:
        """One call; its result joins the things that later calls may get."""
        name = FUNCTIONS[function % len(FUNCTIONS)]
        args = self.sound_arguments(name, picks[0]) if picks[0] % 3 else tuple(map(self.thing, picks))
        takes_keywords = has_keywords and name.endswith(("init", "shared"))
        kwargs = self.game.kwargs if takes_keywords and name != "shared" else {}
        if takes_keywords and picks[0] % 7 == 0:
            kwargs = {**kwargs, "surplus": self.thing(picks[-1])}
        try:
            result = getattr(self.game.binding, name)(*args, **kwargs)
        except EXPECTED as error:
            assert str(error) and "\n" not in str(error) or isinstance(error, MemoryError), repr(error)
        else:
            self.things[pick_slot(picks, len(self.things))] = result
            self.things.append(result)


def pick_slot(picks: list[int], count: int) -> int:
    """What a result replaces, so that earlier handles are dropped in any order."""
    return sum(picks) % count


numbers = st.integers(0, 10_000)
calls = st.lists(st.tuples(numbers, st.lists(numbers, min_size=1, max_size=8), st.booleans()), max_size=60)


@pytest.mark.quick("puffer_snake", "puffer_drone")
@each_name
@settings(max_examples=60, deadline=None)
@given(calls=calls)
def test_any_calls_in_any_order_are_served_or_refused(name, calls):
    caller = Caller(Game(name))
    for call in calls:
        caller.call(*call)


def test_the_fuzz_reaches_every_function():
    """A guard of the tests above: the seeds must lead to successes, not to refusals alone."""
    caller, successes = Caller(Game("puffer_squared")), set()
    binding = caller.game.binding

    class Spy:
        def __getattr__(self, name):
            def call(*args, **kwargs):
                result = getattr(binding, name)(*args, **kwargs)
                successes.add(name)
                return result

            return call

    caller.game.binding = Spy()
    generator = np.random.default_rng(0)
    for _ in range(20_000):
        picks = generator.integers(0, 10_000, generator.integers(1, 9)).tolist()
        caller.call(int(generator.integers(10_000)), picks, bool(generator.integers(2)))
        if len(caller.things) > 120:
            caller.things = caller.things[:60]
    assert successes == set(FUNCTIONS)
