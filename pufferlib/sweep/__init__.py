"""Hyperparameter search: what may vary, what proposes the next trial, the processes that run trials, what one sees.

`space` says what may vary. `protein_sampler` proposes; `history`, `surrogate` and `front` are what it knows. `driver`
runs trials in processes of their own, and `study` keeps what is known where other drivers find it. `protein` is all of
it from Python. None of this is imported without the extra `sweep`.
"""

from pufferlib.extras import require_extra

for _package in ("optuna", "sklearn", "plotly"):
    require_extra(_package, "sweep")
