"""The settings on the page reference/configuration.md: every key as the schema, or the class behind it, declares it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from pufferlib import models, ocean
from pufferlib.config import automatic, env_settings
from pufferlib.config.automatic import BATCH_SIZE, NUM_STEPS
from pufferlib.config.flags import FIXED
from pufferlib.config.schema import BaseConfig, SolveConfig, TrainConfig
from pufferlib.config.sections import DEFAULT_DIMENSIONS, SECTIONS, dimension_keys
from pufferlib.families.atari import build_atari
from pufferlib.families.gymnasium_families import build
from pufferlib.runs.calls import ALIASES, DEFAULTS
from pufferlib.runs.description import CHANGEABLE
from pufferlib.setting import Setting, class_settings, format_value, signature_settings

from .filling import code, fill

PAGE = Path("reference/configuration.md")
_MEANT = re.compile(r"\[(?P<section>\w+)\] (?P<name>\w+)|(?<![\w./-])(?P<alone>[a-z]+(?:_[a-z0-9]+)+)(?![\w./])")
_FAMILIES = {  # what makes their environments, beside the keywords of each environment's own class
    "Any other environment of Gymnasium": build,
    "Atari games, beside render_mode": build_atari,
}


def write(source: Path) -> None:
    """Fills the page in `source`, the folder that Sphinx reads."""
    for section in SECTIONS:
        fill(source / PAGE, f"settings of {section}", settings_text(SECTIONS[section].settings().values()))
    fill(source / PAGE, "what follows from the environment", chosen_text())
    fill(source / PAGE, "what a sweep varies", dimensions_text())
    fill(source / PAGE, "arguments of policies", classes_text("policy", policy_classes("")))
    fill(source / PAGE, "arguments of recurrent layers", classes_text("rnn", policy_classes("Wrapper")))
    fill(source / PAGE, "arguments of environments", environments_text())


def target(setting: Setting, owner: str = "") -> str:
    """What a link to a setting ends with, such as `train-learning-rate`.

    Args:
        setting: which it is.
        owner: of a setting that only one environment or policy has.
    """
    return "-".join(filter(None, (setting.section, owner, setting.name))).replace("_", "-").replace(".", "-").lower()


def settings_text(settings: Iterable[Setting], owner: str = "") -> str:
    """A list of definitions: of each setting the line in an ini, its meaning, values and flag, and more.

    Args:
        settings: in the order of the page.
        owner: see `target`.
    """
    return "\n".join(_definition(setting, owner) for setting in settings)


def _definition(setting: Setting, owner: str) -> str:
    facts = [f"Takes {_in_words(setting)}." if setting.kind is not Any else "", _flag_text(setting)]
    facts += [_keyword_text(setting), _resume_text(setting)]
    sentences = " ".join(filter(None, (_linked(setting.meaning, setting), *facts)))
    written = f"{setting.name} =" if setting.section else setting.flag
    term = f"[{code(f'{written} {format_value(setting.default)}')}]{{#{target(setting, owner)}}}"
    return f"{term}\n: {sentences}\n"


def _in_words(setting: Setting) -> str:
    """The values of a setting, with choices as code."""
    return re.sub(r"'([^']+)'", r"`\1`", setting.allowed)


def _flag_text(setting: Setting) -> str:
    if not setting.section:
        return ""
    if setting.section == SolveConfig.section:
        return "Stands in an environment's ini; there is no flag."
    if setting.section == BaseConfig.section and setting.name in FIXED:
        return "On the command line the environment's name says it."
    return f"Flag: {code(setting.flag)}."


def _keyword_text(setting: Setting) -> str:
    """What `PuffeRL(env, policy, ...)` does otherwise."""
    if setting.section != TrainConfig.section:
        return ""
    aliases = [alias for alias, name in ALIASES.items() if name == setting.name]
    sizes = {"batch_size": BATCH_SIZE, "bptt_horizon": NUM_STEPS}
    default = {**DEFAULTS, **sizes}.get(setting.name, setting.default)
    called = f"Keyword of `PuffeRL`: also {code(aliases[0])}. " if aliases else ""
    return called + ("" if default == setting.default else f"By keyword the default is {code(format_value(default))}.")


def _resume_text(setting: Setting) -> str:
    return "A resumed run may have another value." if setting.name in CHANGEABLE.get(setting.section, ()) else ""


def _linked(meaning: str, setting: Setting) -> str:
    """A meaning whose names of settings lead to these."""

    def link(match: re.Match[str]) -> str:
        section = match["section"] or setting.section
        name = match["name"] or match["alone"]
        declared = SECTIONS.get(section)
        if declared is None or name not in declared.settings():
            return code(match[0])
        text = f"[{section}] {name}" if match["section"] and section != setting.section else name
        meant = declared.settings()[name]
        return code(text) if meant == setting else f"[{code(text)}](#{target(meant)})"

    return _MEANT.sub(link, meaning)


def chosen_text() -> str:
    """The table of settings that follow from what is seen of an environment."""
    rows = "".join(
        f"| {line.seen} | {', '.join(map(_chosen, line.settings.items()))} | {line.measured} |\n"
        for line in automatic.LINES
    )
    return f"| seen | chosen | measured |\n|---|---|---|\n{rows}"


def _chosen(setting: tuple[str, Any]) -> str:
    """A setting that was chosen, such as `[train] learning_rate 0.001`."""
    (section, _, name), value = setting[0].partition("."), format_value(setting[1])
    return code(f"{name} {value}" if section == TrainConfig.section else f"[{section}] {name} {value}")


def dimensions_text() -> str:
    """What every sweep varies, and the keys of one dimension."""
    rows = "".join(
        f"| [`{name}`](#{name.replace('.', '-').replace('_', '-')}) | {code(given['distribution'])} | {given['min']} "
        f"to {given['max']} |\n"
        for name, given in DEFAULT_DIMENSIONS.items()
    )
    keys = settings_text(dimension_keys("SECTION.SETTING").values())
    return f"| setting | distribution | range |\n|---|---|---|\n{rows}\n{keys}"


def policy_classes(suffix: str) -> list[type]:
    """The classes of pufferlib.models that `policy_name`, or with the suffix `Wrapper` `rnn_name`, may name."""
    own = [value for value in vars(models).values() if getattr(value, "__module__", None) == models.__name__]
    modules = [value for value in own if isinstance(value, type) and issubclass(value, nn.Module)]
    named = [value for value in modules if "env" in inspect.signature(value).parameters]
    return [value for value in named if value.__name__.endswith("Wrapper") == bool(suffix)]


def classes_text(section: str, classes: Iterable[type]) -> str:
    """The arguments of classes, each under its name."""
    return "\n".join(
        f"### {code(f'[{section}]')} of {code(cls.__name__.removesuffix('Wrapper'))}\n\n"
        f"{settings_text(class_settings(section, cls).values(), cls.__name__.removesuffix('Wrapper'))}"
        for cls in classes
    )


def environments_text() -> str:
    """The arguments of environments: those that most have once, then what each has of its own."""
    by_name = {name: env_settings(name) for name in ocean.names()}
    shared = _shared(by_name.values())
    parts = [f"### `[env]` of environments in C\n\n{settings_text(shared.values())}"]
    for name, settings in by_name.items():
        own = [one for one in settings.values() if one.name not in shared or one.meaning != shared[one.name].meaning]
        kept = [one for one in settings.values() if one not in own and one.default != shared[one.name].default]
        if own or kept:
            parts.append(f"### `[env]` of {code(name)}\n\n{settings_text([*kept, *own], name)}")
    for family, builder in _FAMILIES.items():
        parts.append(f"### {family}\n\n{settings_text(signature_settings('env', builder).values(), family.split()[0])}")
    return "\n\n".join(parts)


def _shared(found: Iterable[Mapping[str, Setting]]) -> dict[str, Setting]:
    """The settings that more than half of all environments declare with the same words."""
    by_words: dict[tuple[str, str], list[Setting]] = {}
    found = list(found)
    for settings in found:
        for one in settings.values():
            by_words.setdefault((one.name, one.meaning), []).append(one)
    common = {name: same for (name, _), same in by_words.items() if len(same) > len(found) / 2}
    return {name: max(same, key=lambda one: sum(one == other for other in same)) for name, same in common.items()}
