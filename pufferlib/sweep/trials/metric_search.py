"""The search for a sweep's metric in the logs of a trial."""

from __future__ import annotations

from collections.abc import Mapping

from pufferlib.errors import nearest
from pufferlib.metrics.metric_name import GROUPS, find_metric

_PATIENT_LOGS, _PATIENT_STEPS = 5, 1000  # with finished episodes that the environment has not reported yet


class MetricSearch:
    """Looks for a metric in one log after the other.

    Attributes:
        name: its whole name, None while no log has had it.
    """

    def __init__(self, wanted: str, env_name: str, has_evaluations: bool, is_known: bool = False):
        """Prepares the search.

        Args:
            wanted: the metric, as for `find_metric`.
            env_name: for messages.
            has_evaluations: whether some logs will be of evaluations.
            is_known: whether another trial has had the metric, so that it may still come.
        """
        self.name: str | None = None
        self._wanted, self._env_name = wanted, env_name
        self._has_evaluations, self._is_known = has_evaluations, is_known
        self._seen: dict[str, None] = {}  # names, in their order
        self._reports = self._silent_logs = 0
        self._silent_steps = 0.0

    def score(self, metrics: Mapping[str, float], steps: float) -> float | None:
        """Returns the metric in a log, or None; `steps` are those of each environment since the log before."""
        self._seen.update(dict.fromkeys(metrics))
        if self.name is None:
            self.name = find_metric(self._wanted, metrics)
        if "environment/n" in metrics:
            self._reports += 1
        elif "episode/count" in metrics:
            self._silent_logs += 1
            self._silent_steps += steps
        return None if self.name is None else metrics.get(self.name)

    @property
    def is_hopeless(self) -> bool:
        """Whether enough was logged to tell that the metric does not exist.

        Two logs in which the environment reports its episodes are enough, or many steps where it reports nothing.
        """
        if self.name is not None or self._is_known:
            return False
        if self._wanted.startswith("eval/") and self._has_evaluations and not self._has_seen("eval/"):
            return False
        is_silent = self._silent_logs >= _PATIENT_LOGS and self._silent_steps >= _PATIENT_STEPS
        return self._reports >= 2 or is_silent

    def missing_text(self) -> str:
        """Returns a sentence that the metric is missing, with the metrics that exist."""
        remedy = self._remedy()
        if not self.is_hopeless:
            return f"[sweep] metric {self._wanted!r} was not logged before the training ended; train for more steps"
        listed = [name for name in self._seen if name.split("/")[0] in GROUPS]
        others = sorted({name.split("/")[0] for name in self._seen if name not in listed and "/" in name})
        return (
            f"[sweep] metric must be one that {self._env_name} logs, got {self._wanted!r}{remedy or ';'} "
            f"{'There' if remedy else 'there'} are {', '.join(listed)}, and those of {', '.join(others)}"
        )

    def _remedy(self) -> str:
        short = {name.partition("/")[2] for name in self._seen if name.split("/")[0] in GROUPS}
        return nearest(self._wanted, [*self._seen, *short])

    def _has_seen(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self._seen)
