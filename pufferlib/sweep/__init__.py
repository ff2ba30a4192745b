"""Hyperparameter search: `driver` runs a sweep, `protein` is its interface in Python.

Nothing of it is imported without the extra `sweep`.
"""

from pufferlib.errors import require_extra

for _package in ("optuna", "sklearn", "plotly"):
    require_extra(_package, "sweep")
