"""The search space: dimensions, the settings that they come from, and those of a trial."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from pufferlib.config import VecConfig, check_config, resolve_env_count, sections
from pufferlib.config.configuration import policy_classes
from pufferlib.config.flags import apply_flags
from pufferlib.config.schema import require_known
from pufferlib.errors import ConfigError, nearest
from pufferlib.families.catalog import find
from pufferlib.runs.calls import ALIASES
from pufferlib.runs.loaders import resolve_device
from pufferlib.setting import Setting, class_settings, fits

_CURVES: dict[str, tuple[Callable, Callable]] = {  # from a value to what its coordinate is linear in, and back
    "uniform": (float, float),
    "int_uniform": (float, float),
    "uniform_pow2": (math.log2, lambda curved: 2.0**curved),
    "log_normal": (math.log, math.exp),
    "logit_normal": (lambda value: math.log(value / (1 - value)), lambda curved: 1 / (1 + math.exp(-curved))),
}
DISTRIBUTIONS = tuple(_CURVES)
_DIGITS = 10  # of a value: a coordinate gives back no more
AUTO_SCALE = 0.3  # of the range: two thirds of the first trials lie within this of the centre


@dataclass(frozen=True)
class Dimension:
    """A number that a sweep may vary.

    A coordinate in [0, 1] stands for the value: linearly, or of its logarithm (`log_normal`, `uniform_pow2`), or of its
    log-odds (`logit_normal`, for values such as a discount close to 1).
    """

    name: str  # of the setting, such as `train.learning_rate`
    distribution: str  # one of DISTRIBUTIONS
    min: float  # the least value
    max: float  # the largest one
    mean: float | None = None  # where the search starts; None is the middle of the coordinate
    scale: float = AUTO_SCALE  # standard deviation of the first trials around it, in coordinates
    # whether only whole numbers are values; those of `int_uniform` and `uniform_pow2` always are
    is_integer: bool = False

    def __post_init__(self):
        if self.distribution in ("int_uniform", "uniform_pow2"):
            object.__setattr__(self, "is_integer", True)
        problem = self._problem()
        if problem is not None:
            raise ConfigError(f"[sweep.{self.name}] {problem}")

    def _problem(self) -> str | None:
        low, high, kind = self.min, self.max, self.distribution
        if kind not in DISTRIBUTIONS:
            remedy = nearest(str(kind), DISTRIBUTIONS) or f"; there are {', '.join(DISTRIBUTIONS)}"
            return f"has the distribution {kind!r}, which does not exist{remedy}"
        if not low < high:
            return f"needs min below max, got {low} and {high}"
        if not (math.isfinite(low) and math.isfinite(high)):
            return f"needs a finite range, got {low} to {high}"
        if kind in ("log_normal", "uniform_pow2") and low <= 0:
            return f"is {kind}, so min must be above 0, got {low}"
        if kind == "logit_normal" and not 0 < low < high < 1:
            return f"is logit_normal, so min and max must be within (0, 1), got {low} and {high}"
        if self.is_integer and math.floor(high) <= math.ceil(low):
            return f"needs two whole numbers in its range, got {low} to {high}"
        for bound in (low, high) if kind == "uniform_pow2" else ():
            if bound < 1 or not math.log2(bound).is_integer():
                return f"is uniform_pow2, so min and max must be powers of two, 1 or more, got {bound}"
        if self.mean is not None and not low <= self.mean <= high:
            return f"needs a mean within [{low}, {high}], got {self.mean}"
        return None if 0 < self.scale <= 1 else f"needs a scale in (0, 1], a part of the range, got {self.scale}"

    @property
    def centre(self) -> float:
        """The coordinate where the search starts."""
        return 0.5 if self.mean is None else self.coordinate(self.mean)

    def coordinate(self, value: float) -> float:
        """Returns the coordinate of a value, which is first clipped to the range."""
        curve, _ = _CURVES[self.distribution]
        low, high = curve(self.min), curve(self.max)
        return (curve(min(max(value, self.min), self.max)) - low) / (high - low)

    def value(self, coordinate: float) -> float | int:
        """Returns the value of a coordinate, within the range."""
        curve, inverse = _CURVES[self.distribution]
        low, high = curve(self.min), curve(self.max)
        curved = low + min(max(coordinate, 0.0), 1.0) * (high - low)
        if self.distribution == "uniform_pow2":
            return 2 ** round(curved)
        rounded = float(f"{inverse(curved):.{_DIGITS}g}")  # 0.01 is not 0.010000000000000004
        found = min(max(rounded, self.min), self.max)
        return min(max(round(found), math.ceil(self.min)), math.floor(self.max)) if self.is_integer else found


class Categorical:
    """One of several values, in no order: its coordinate is the value's place among them."""

    def __init__(self, name: str, choices: Sequence[Any]):
        plain = tuple(choice.item() if isinstance(choice, np.generic) else choice for choice in choices)
        are_kept = all(choice is None or isinstance(choice, (bool, int, float, str)) for choice in plain)  # by a study
        if not plain or not are_kept or len({*plain}) < len(plain):  # True is 1
            raise ConfigError(f"{name} needs a list of different numbers, texts, booleans or None, got {list(plain)}")
        self.name, self.choices = name, plain  # of the setting, such as `train.optimizer`, and its values
        self.centre = float(len(plain) // 2)  # the coordinate where the search starts

    def coordinate(self, value: object) -> float:
        """Returns the place of a value among the choices; ValueError if it is none of them."""
        return float(self.choices.index(value))

    def value(self, coordinate: float) -> Any:
        """Returns the choice at a place."""
        return self.choices[int(coordinate)]


class SearchSpace:
    """All that a sweep may vary.

    Points are rows of coordinates, one for each dimension. Features, for the models, are the coordinates, but with a
    column for each value of a categorical dimension.
    """

    def __init__(self, dimensions: Sequence[Dimension | Categorical]):
        self.dimensions = tuple(dimensions)
        self.names = tuple(dimension.name for dimension in dimensions)  # of the settings
        self.centre = np.array([dimension.centre for dimension in dimensions])  # the point where the search starts
        # The number of values of each categorical dimension, int64; 0 for a number.
        self.choices = np.array([len(getattr(dimension, "choices", ())) for dimension in dimensions], dtype=np.int64)
        # Optuna's, by name; it has no log-odds and no powers of two, see `settled`.
        self.distributions: dict[str, BaseDistribution] = {}
        for each in dimensions:
            is_log = isinstance(each, Dimension) and each.distribution in ("log_normal", "uniform_pow2")
            if isinstance(each, Categorical):
                self.distributions[each.name] = CategoricalDistribution(each.choices)
            elif each.is_integer:
                self.distributions[each.name] = IntDistribution(each.value(0.0), each.value(1.0), log=is_log)
            else:
                self.distributions[each.name] = FloatDistribution(each.min, each.max, log=is_log)

    def point(self, values: Mapping[str, Any]) -> np.ndarray:
        """Returns the coordinates of a value of every dimension, float64 of shape `[dimensions]`."""
        return np.array([dimension.coordinate(values[dimension.name]) for dimension in self.dimensions])

    def values(self, point: Sequence[float] | np.ndarray) -> dict[str, Any]:
        """Returns the values of a point, by name."""
        return {
            dimension.name: dimension.value(float(coordinate))
            for dimension, coordinate in zip(self.dimensions, point, strict=True)
        }

    def settled(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of an Optuna trial's parameters: those of `uniform_pow2` are the nearest power of two."""
        return self.values(self.point(params))

    def snapped(self, points: np.ndarray) -> np.ndarray:
        """Returns the nearest points whose coordinates are exactly those of a value, of shape `[n, dimensions]`."""
        rounded = points.copy()
        for column, dimension in enumerate(self.dimensions):
            if getattr(dimension, "is_integer", False):
                rounded[:, column] = [dimension.coordinate(dimension.value(each)) for each in points[:, column]]
        return rounded

    def features(self, points: np.ndarray) -> np.ndarray:
        """Returns the features of points `[n, dimensions]`, float64 of shape `[n, sum of widths]`."""
        columns = []
        for column, dimension in enumerate(self.dimensions):
            coordinates = points[:, column]
            if isinstance(dimension, Categorical):
                columns += [(coordinates == place).astype(float) for place in range(len(dimension.choices))]
            else:
                columns.append(coordinates)
        return np.stack(columns, axis=1)


_SEARCH_ORDER = ("train", "env", "policy", "rnn", "vec", "base")  # where a name without a section is looked for


def space_of(args: Mapping[str, Any], search_space: Mapping[str, Any] | None = None) -> SearchSpace:
    """Returns the space of the sections `[sweep.SECTION.SETTING]`, or of a search space in Python.

    A search space has lists of values and ranges by the names of settings, as `resolved_name` takes them. Raises
    ConfigError if a setting does not exist, is named twice, a value does not fit it, there is nothing to vary, or a run
    would be resumed.
    """
    if args.get("resume") is not None:
        raise ConfigError(f"the trials of a sweep are new runs, got --resume {args['resume']}; leave it out")
    found: dict[str, Dimension | Categorical] = {}
    for given_name, given in (sections.dimensions_of(args["sweep"]) if search_space is None else search_space).items():
        name = resolved_name(args, given_name)
        if name in found:
            raise ConfigError(f"{given_name!r} is {name}, which the search space names twice; name it once")
        if isinstance(given, (list, tuple)):
            setting = _setting(args, name)
            found[name] = Categorical(name, [setting.check(value) for value in given])
        elif not isinstance(given, Mapping):
            raise ConfigError(f"{given_name!r} must be a list of values or a dict of a range, got {given!r}")
        elif given.get("distribution", "") is not None:
            found[name] = _range(args, name, given)
    if not found:
        raise ConfigError("a sweep needs something to vary, found no dimension; add a section [sweep.SECTION.SETTING]")
    if (count := args["train"].get("num_iterations")) is not None and "train.total_timesteps" in found:
        raise ConfigError(
            f"[train] num_iterations {count} would count in place of the total_timesteps that the sweep varies; leave "
            "it out, or take these out by --sweep.train.total-timesteps.distribution none"
        )
    return SearchSpace([*found.values()])


def resolved_name(args: Mapping[str, Any], name: str) -> str:
    """Returns the full name of a setting, such as `train.learning_rate` for `learning_rate`.

    `n_epochs` and `num_steps`, as keywords of PuffeRL, are known too. Raises ConfigError if there is no such setting.
    """
    if "." in name:
        return name
    found = {key: section for section in reversed(_SEARCH_ORDER) for key in _settings(args, section)}
    if name in found:
        return f"{found[name]}.{name}"
    if name in ALIASES:
        return f"train.{ALIASES[name]}"
    remedy = nearest(name, found) or "; `puffer train --help` lists all"
    raise ConfigError(f"there is no setting {name!r} that a sweep could vary{remedy}")


def _range(args: Mapping[str, Any], name: str, given: Mapping[str, Any]) -> Dimension:
    setting, checked = _setting(args, name), sections.check_section(f"{sections.PREFIX}{name}", given, args["env_name"])
    missing = [key for key in ("distribution", "min", "max") if checked.get(key) is None]
    if missing:
        raise ConfigError(f"[sweep.{name}] needs {', '.join(missing)}; a range has distribution, min and max")
    distribution = checked["distribution"]
    configured = _section(args, setting.section).get(setting.name, setting.default)
    has_number = fits(configured, float) and math.isfinite(configured)

    def bound(key: str) -> float:
        if not isinstance(checked[key], str):
            return checked[key]
        if not has_number:
            raise ConfigError(
                f"[sweep.{name}] {key} is {checked[key]} of the configured value, which is {configured!r}; write a "
                "number"
            )
        value = configured * sections.multiple(checked[key])
        is_power = distribution == "uniform_pow2" and value > 0
        return 2.0 ** round(math.log2(value)) if is_power else float(f"{value:.12g}")

    if not fits(0.0, setting.kind):
        raise ConfigError(
            f"[sweep.{name}] must be a number to have a range, and takes {setting.allowed}; sweep another"
        )
    is_any_integer = setting.kind is Any and has_number and isinstance(configured, int)
    is_integer = is_any_integer or not fits(0.5, setting.kind)
    low, high = bound("min"), bound("max")
    if is_integer:
        low, high = math.ceil(low), math.floor(high)
    mean, scale = checked.get("mean"), checked.get("scale", "auto")
    if mean is None and has_number and low <= configured <= high:
        mean = configured
    scale = AUTO_SCALE if scale == "auto" else scale
    return Dimension(name, distribution, setting.check(low), setting.check(high), mean, scale, is_integer)


def _setting(args: Mapping[str, Any], name: str) -> Setting:
    section, key = sections.split_name(name)
    known = _settings(args, section)
    if key not in known and section == "env" and find(args["env_name"]).takes_any_setting:
        return Setting(section, key)
    require_known(section, [key], known)
    return known[key]


def _settings(args: Mapping[str, Any], section: str) -> Mapping[str, Setting]:
    found = sections.section_settings(section, find(args["env_name"]))
    if found is not None:
        return found
    kind = policy_classes(args)[section == "rnn"]
    return {} if kind is None else class_settings(section, kind)


_EVALUATIONS = 10  # of a trial that is scored by them and configured to have none
_WIDTHS = ("policy.hidden_size", "rnn.hidden_size", "rnn.input_size")  # which a recurrent layer needs to be the same


def trial_args(args: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a trial without `[sweep]`, in which settings that others need are repaired.

    `values` are the proposal, by names such as `train.learning_rate`. The trial calls `fit_sizes` once it has made its
    environments. Raises ConfigError if it cannot run.
    """
    trial = copy.deepcopy({name: value for name, value in args.items() if name != "sweep"})
    apply_flags(((Setting(*sections.split_name(name)), value) for name, value in values.items()), trial)
    train = trial["train"]
    width = next((values[name] for name in _WIDTHS if name in values), None)
    if width is not None and trial["rnn_name"] is not None:
        trial["policy"]["hidden_size"] = width
        trial["rnn"].update({key: width for key in ("hidden_size", "input_size") if key in trial["rnn"]})
    if (args["sweep"].get("metric") or "").startswith("eval/"):
        train["evaluations"] = train["evaluations"] or _EVALUATIONS

    check_config(trial)
    if train["batch_size"] != "auto" and trial["env"].get("num_envs") == "auto":
        trial["env"]["num_envs"] = _env_count(trial)
    return trial


def _env_count(args: Mapping[str, Any]) -> int | Literal["auto"]:
    # As many C environments as a batch has room for, if these are fewer than `auto` is.
    agents_per_env = find(args["env_name"]).agents_per_env
    device_type = resolve_device(args["train"]["device"]).type
    buffers = VecConfig.from_dict(args["vec"]).keywords(device_type, 0)["num_envs"]
    segments = round(args["train"]["batch_size"] / args["train"]["bptt_horizon"])
    count = max(1, segments // (buffers * agents_per_env))
    return count if count < resolve_env_count("auto", device_type, buffers, agents_per_env) else "auto"


def trial_settings(args: Mapping[str, Any], trial: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns the settings of a trial that are not those of `args`, and those of certain names, by section."""
    chosen = {sections.split_name(name) for name in names}
    found: dict[str, dict[str, Any]] = {}
    for section in (*sections.SWEPT, "selfplay"):
        before, now = _section(args, section), _section(trial, section)
        for key in ("policy_name", "rnn_name", "load_model_path") if section == "base" else now:
            is_changed = key != "data_dir" and (key not in before or before[key] != now[key])
            if is_changed or (section, key) in chosen:
                found.setdefault(section, {})[key] = now[key]
    return found


def _section(args: Mapping[str, Any], section: str) -> dict[str, Any]:
    return args if section == "base" else args[section]
