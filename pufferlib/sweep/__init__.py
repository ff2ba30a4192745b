"""Hyperparameter search: `driver` is a sweep from its first trial to its last, `protein` all of it from Python.

`search/` proposes trials, `trials/` runs each in a process of its own, `study/` keeps what is known where other drivers
find it, `showing/` is what one sees. None of this is imported without the extra `sweep`.
"""

from pufferlib.extras import require_extra

for _package in ("optuna", "sklearn", "plotly"):
    require_extra(_package, "sweep")
