"""Each file of a family holds only what it changes."""

import itertools
from pathlib import Path

from pufferlib import families
from pufferlib.config import BaseConfig, LogConfig, SweepConfig, TrainConfig, VecConfig
from pufferlib.config.configuration import read_ini
from pufferlib.config.sections import DEFAULT_DIMENSIONS
from pufferlib.errors import MissingExtraError
from pufferlib.families import catalog
from pufferlib.setting import parse_value

FOLDER = Path(families.__file__).parent
OTHER_ACTIONS = ("MountainCarContinuous-v0", "pettingzoo:butterfly/pistonball_v6")  # than the family's example


def names():
    """One environment of every family and kind of actions, and every one that has a file of its own."""
    installed = [family for family in catalog.families() if family.is_installed and family.name != "gymnasium"]
    by_slug = {catalog.slug(name): name for family in installed for name in family.names()}
    tuned = [by_slug[path.stem] for path in FOLDER.glob("tuned/*.ini") if path.stem in by_slug]
    return [*(family.example for family in installed if family.name != "ocean"), *OTHER_ACTIONS, *tuned]


def lines_of(path):
    sections = read_ini(path)
    return [(path, section, key, parse_value(text)) for section in sections for key, text in sections[section].items()]


DEFAULTS = {
    (config.section, name): (None, config.section, name, one.default)
    for config in (BaseConfig, VecConfig, TrainConfig, LogConfig, SweepConfig)
    for name, one in config.settings().items()
}
DEFAULTS |= {
    (f"sweep.{name}", key): (None, f"sweep.{name}", key, value)
    for name, given in DEFAULT_DIMENSIONS.items()
    for key, value in given.items()
}


def counting_lines(paths):
    """The lines of some files, the later of which come after the earlier, without any of which something else holds."""
    held = dict(DEFAULTS)
    for path, section, key, value in itertools.chain.from_iterable(map(lines_of, paths)):
        if (section, key) not in held or held[section, key][-1] != value:
            held[section, key] = path, section, key, value
    return list(held.values())


def test_no_line_repeats_what_would_hold_without_it():
    used, counting = set(), []
    for name in names():
        try:
            paths = catalog.find(name).ini_files
        except MissingExtraError:
            continue
        used |= {*paths}
        counting += counting_lines(paths)
    assert {path.name for path in used} >= {"discrete.ini", "classic_control.ini", "CartPole-v1.ini"}
    idle = [line for path in sorted(used) for line in lines_of(path) if line not in counting]
    assert idle == [], "\n".join(f"{path.name}: [{section}] {key} = {value}" for path, section, key, value in idle)
