"""The files of the best settings and of the cheapest that solve, for `puffer train ENV --config FILE`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pufferlib.config import load_config
from pufferlib.config.dimensions import split_name
from pufferlib.errors import ConfigError
from pufferlib.runs.whole_files import write_atomically
from pufferlib.sweep.showing.best_ini import best_ini
from pufferlib.sweep.showing.texts import winner_text
from pufferlib.sweep.state import SweepState
from pufferlib.sweep.study.confirmation import cheapest_solver, winner
from pufferlib.sweep.study.results import FoundTrial, Results, solve_threshold

BEST, CHEAPEST = "best.ini", "cheapest.ini"

_BASE = ("policy_name", "rnn_name")
_SECTIONS = ("vec", "env", "policy", "rnn", "train")
_PLACES = ("data_dir",)  # settings of where, not of how


def write_settings(state: SweepState, results: Results) -> dict[str, Path]:
    """Writes the settings of the winner, and of the cheapest trial past the threshold where that is another one.

    Returns the files by their kind: `best`, and `cheapest` where there is one.

    Raises:
        StorageError: if a file cannot be written.
    """
    best = winner(results, state.confirmations)
    cheapest = cheapest_solver(results, state.confirmations, solve_threshold(state.args, state.metric))
    found = {} if best is None else {"best": (best, BEST)}
    if best is not None and cheapest is not None and cheapest.trial.number != best.trial.number:
        found["cheapest"] = (cheapest, CHEAPEST)
    for kind, (trial, name) in found.items():
        comments = [
            f"The {kind} of {results.num_ended} trials of puffer sweep {state.env_name}, {winner_text(trial)}",
            f"{results.goal} {state.metric}, study {state.study.study_name}",
        ]
        text = best_ini(state.env_name, best_settings(state, trial.trial), comments)
        write_atomically(state.folder / name, text.encode())
    if "cheapest" not in found:  # one of an earlier call may have become the winner since
        (state.folder / CHEAPEST).unlink(missing_ok=True)
    return {kind: state.folder / name for kind, (_, name) in found.items()}


def best_settings(state: SweepState, best: FoundTrial) -> dict[str, dict[str, Any]]:
    """Returns the settings, by section, in which a trial or the sweep differs from the environment's own."""
    found = _given(state)
    for name, value in best.settings.items():
        section, key = split_name(name)
        found.setdefault(section, {})[key] = value
    return found


def _given(state: SweepState) -> dict[str, dict[str, Any]]:
    own = load_config(state.env_name)
    found: dict[str, dict[str, Any]] = {}
    for section, values in {"base": state.args, **{name: state.args[name] for name in _SECTIONS}}.items():
        before = own if section == "base" else own[section]
        for key, value in values.items():
            is_setting = section != "base" or key in _BASE
            if is_setting and key not in _PLACES and (key not in before or before[key] != value):
                with contextlib.suppress(ConfigError):
                    best_ini(state.env_name, {section: {key: value}}, ())
                    found.setdefault(section, {})[key] = value
    return found
