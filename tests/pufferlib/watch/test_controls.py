import pytest

from pufferlib.ocean.screen import raylib
from pufferlib.watch.controls import KEYS, KeyState, ViewerCommand


class Pressed:
    """Stands in for raylib's window."""

    def __init__(self, keys=(), characters="", held=()):
        self.keys, self.characters, self.held = [*keys], [*characters], {*held}
        for name in dir(raylib()):
            if name.startswith("KEY_"):
                setattr(self, name, getattr(raylib(), name))

    def GetKeyPressed(self):  # noqa: N802 - as raylib calls it
        return getattr(self, f"KEY_{self.keys.pop(0)}") if self.keys else 0

    def GetCharPressed(self):  # noqa: N802
        return ord(self.characters.pop(0)) if self.characters else 0

    def IsKeyDown(self, code):  # noqa: N802
        return code in {getattr(self, f"KEY_{name}") for name in self.held}


def commands(*arguments):
    return next(commands_of(Pressed(*arguments)))


def commands_of(window):
    state = KeyState(None, window)
    while True:
        state.poll()
        yield state.commands


@pytest.mark.parametrize(
    ("keys", "characters", "wanted"),
    [
        (["SPACE"], " ", [ViewerCommand.PAUSE]),
        (["P", "TAB", "F1"], "p", [ViewerCommand.PANEL, ViewerCommand.PANEL, ViewerCommand.HELP]),
        (["EQUAL"], "+", [ViewerCommand.FASTER]),  # wherever a keyboard has it
        ([], "--", [ViewerCommand.SLOWER, ViewerCommand.SLOWER]),
        (["A", "LEFT"], "a", []),
    ],
)
def test_keys_are_commands(keys, characters, wanted):
    assert commands(keys, characters) == wanted


def test_keys_belong_to_the_game_while_shift_is_held():
    assert commands(["S", "RIGHT", "SPACE"], "S", ["LEFT_SHIFT"]) == []
    assert commands(["EQUAL"], "+", ["LEFT_SHIFT"]) == [ViewerCommand.FASTER]  # it may need shift


def test_every_command_has_a_key_that_raylib_knows():
    assert {*KEYS.values()} | {ViewerCommand.FASTER, ViewerCommand.SLOWER} == {*ViewerCommand}
    assert all(hasattr(raylib(), f"KEY_{name.upper()}") for name in KEYS)


def test_keys_are_read_in_the_order_in_which_they_were_pressed():
    polls = commands_of(Pressed(["F1", "UP", "R"], "x+"))
    assert next(polls) == [ViewerCommand.HELP, ViewerCommand.RESTART, ViewerCommand.FASTER]
    assert next(polls) == []
    assert commands(["R"], "", ["RIGHT_SHIFT"]) == []
