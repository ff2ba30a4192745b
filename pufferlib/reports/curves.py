"""The metrics that are plotted, and their values over steps or seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pufferlib.errors import ConfigError, nearest
from pufferlib.dashboard.score import find_metric
from pufferlib.reports.recorded_run import labels
from pufferlib.reports.recorded_run import RETURN, RecordedRun, number

STEPS, SECONDS = "agent_steps", "uptime"
X_AXES = {STEPS: "agent steps", SECONDS: "time"}

TIME_SPLIT = "performance"
"""The name for `--metric` of the shares of time of all phases together."""

_BESIDE_SCORE = (RETURN, "episode/length_mean", "eval/return_mean", "sps")
_LOSSES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac", "explained_variance")
_NO_CURVES = frozenset({"step", "agent_steps", "epoch", "uptime"})  # what others are plotted over


@dataclass(frozen=True)
class Curve:
    """A metric of one run."""

    label: str
    xs: list[float]
    ys: list[float]


@dataclass(frozen=True)
class Panel:
    """One plot.

    Attributes:
        title: the metric.
        x: `agent_steps` or `uptime`.
        curves: one for each run that has the metric; or of the time split of a run, one for each phase.
        is_stacked: whether the curves are shares that add up to 1.
    """

    title: str
    x: str
    curves: list[Curve]
    is_stacked: bool = False


@dataclass(frozen=True)
class Split:
    """The split of the time of several runs, a bar for each."""

    title: str
    shares: dict[str, dict[str, float]]

    @property
    def phases(self) -> list[str]:
        """The phases of any run, the one that takes most first, `other` last."""
        names = dict.fromkeys(name for shares in self.shares.values() for name in shares)
        totals = {name: sum(shares.get(name, 0.0) for shares in self.shares.values()) for name in names}
        return sorted(names, key=lambda name: (name == "other", -totals[name]))


def panels(runs: Sequence[RecordedRun], patterns: Iterable[str] | None = None, x: str = STEPS) -> list[Panel | Split]:
    """The plots of runs.

    Args:
        runs: one at least.
        patterns: names of metrics, such as `losses/entropy` or `entropy`, or patterns such as `losses/*`, in the order
            of the plots; `performance` for the time split. None takes the score, returns, lengths, speed, losses and
            the time split.
        x: `agent_steps` or `uptime`.

    Raises:
        ConfigError: if a pattern fits no metric of any run, or the runs have logged nothing.
    """
    known = _known_metrics(runs)
    if not known:
        raise ConfigError(f"{' and '.join(run.name for run in runs)} logged nothing yet; there is nothing to plot")
    names = labels(list(runs))
    found: list[Panel | Split] = []
    for name in _standard(runs, known) if patterns is None else _asked(patterns, known):
        if name == TIME_SPLIT:
            found.append(time_split(runs[0], x) if len(runs) == 1 else time_splits(runs))
        else:
            curves = [_curve(run, name, x, names[run.folder]) for run in runs]
            found.append(Panel(name, x, [curve for curve in curves if curve.xs]))
    return found


def time_split(run: RecordedRun, x: str = STEPS) -> Panel:
    """Returns the split of a run's time, log by log: its phases stacked, the largest at the bottom."""
    curves = [_curve(run, name, x, name.partition("/")[2], missing=0.0) for name in _phase_metrics(run)]
    curves.sort(key=lambda curve: (curve.label == "other", -sum(curve.ys)))
    return Panel("time split", x, curves, is_stacked=True)


def time_splits(runs: Sequence[RecordedRun]) -> Split:
    """Returns the split of the time of several runs, each from its first log to its last."""
    names = labels(list(runs))
    shares = {}
    for run in runs:
        curves = [_curve(run, name, STEPS, name.partition("/")[2], missing=0.0) for name in _phase_metrics(run)]
        if curves:
            shares[names[run.folder]] = {curve.label: sum(curve.ys) / len(curve.ys) for curve in curves}
    return Split("time split", shares)


def _phase_metrics(run: RecordedRun) -> list[str]:
    return [name for name in _known_metrics([run]) if name.startswith(f"{TIME_SPLIT}/")]


def _known_metrics(runs: Sequence[RecordedRun]) -> list[str]:
    known = {name: None for run in runs for log in run.logs for name, value in log.items() if number(value) is not None}
    return [name for name in known if name not in _NO_CURVES]


def _standard(runs: Sequence[RecordedRun], known: Sequence[str]) -> list[str]:
    losses = [f"losses/{name}" for name in _LOSSES]
    wanted = dict.fromkeys([*(run.score_metric for run in runs), *_BESIDE_SCORE, *losses])
    has_split = any(name.startswith(f"{TIME_SPLIT}/") for name in known)
    return [*(name for name in wanted if name in known), *([TIME_SPLIT] if has_split else [])]


def _asked(patterns: Iterable[str], known: Sequence[str]) -> list[str]:
    asked: dict[str, None] = {}
    ends = {name.rpartition("/")[2]: name for name in known if not name.startswith("since_start/")}
    for pattern in patterns:
        named = TIME_SPLIT if pattern == TIME_SPLIT else find_metric(pattern, known) or ends.get(pattern)
        fitting = [named] if named else [name for name in known if fnmatchcase(name, pattern)]
        if not fitting:
            remedy = nearest(pattern, [*known, *ends]) or f"; there are {_listed(known)}"
            raise ConfigError(f"no run has a metric {pattern!r}{remedy}")
        asked.update(dict.fromkeys(fitting))
    return list(asked)


def _listed(known: Sequence[str]) -> str:
    return ", ".join([*(name for name in sorted(known) if not name.startswith("since_start/")), TIME_SPLIT])


def _curve(run: RecordedRun, metric: str, x: str, label: str, missing: float | None = None) -> Curve:
    group = f"{metric.partition('/')[0]}/"
    logs = [log for log in run.logs if metric in log or any(name.startswith(group) for name in log)]
    points = [(log.get(x), log.get(metric, missing)) for log in logs]
    whole = [(place, value) for place, value in points if number(place) is not None and number(value) is not None]
    return Curve(label, [float(place) for place, _ in whole], [float(value) for _, value in whole])
