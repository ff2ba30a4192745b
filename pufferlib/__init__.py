"""PufferLib: reinforcement learning at millions of steps per second, on one machine.

The names below are imported when they are first used, so that `import pufferlib` does nothing: it takes no time, loads
no torch, and changes nothing in the program that imports it. Only Gymnasium comes to know ids such as
`pufferlib/breakout`, now or when the program imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pufferlib.agent.agent import Agent
    from pufferlib.agent.loading import load_agent
    from pufferlib.environment import Buffers, Keys, PufferEnv
    from pufferlib.errors import APIUsageError, PufferError
    from pufferlib.interop.making import make_gymnasium, make_gymnasium_vec, make_pettingzoo
    from pufferlib.loggers import JsonLogger, Loggers, NeptuneLogger, NoLogger, TensorBoardLogger, WandbLogger
    from pufferlib.metrics.score import Score
    from pufferlib.play.scores import evaluate
    from pufferlib.pufferl import PuffeRL
    from pufferlib.runs.early_notes import check_env
    from pufferlib.runs.making import make
    from pufferlib.sweep.protein import Protein
    from pufferlib.watch.recording import record

    __version__: str

_HOMES = {
    "APIUsageError": "pufferlib.errors",
    "Agent": "pufferlib.agent.agent",
    "Buffers": "pufferlib.environment",
    "JsonLogger": "pufferlib.loggers",
    "Keys": "pufferlib.environment",
    "Loggers": "pufferlib.loggers",
    "NeptuneLogger": "pufferlib.loggers",
    "NoLogger": "pufferlib.loggers",
    "Protein": "pufferlib.sweep.protein",
    "PuffeRL": "pufferlib.pufferl",
    "PufferEnv": "pufferlib.environment",
    "PufferError": "pufferlib.errors",
    "Score": "pufferlib.metrics.score",
    "TensorBoardLogger": "pufferlib.loggers",
    "WandbLogger": "pufferlib.loggers",
    "check_env": "pufferlib.runs.early_notes",
    "evaluate": "pufferlib.play.scores",
    "load_agent": "pufferlib.agent.loading",
    "make": "pufferlib.runs.making",
    "make_gymnasium": "pufferlib.interop.making",
    "make_gymnasium_vec": "pufferlib.interop.making",
    "make_pettingzoo": "pufferlib.interop.making",
    "record": "pufferlib.watch.recording",
}

__all__ = [
    "APIUsageError",
    "Agent",
    "Buffers",
    "JsonLogger",
    "Keys",
    "Loggers",
    "NeptuneLogger",
    "NoLogger",
    "Protein",
    "PuffeRL",
    "PufferEnv",
    "PufferError",
    "Score",
    "TensorBoardLogger",
    "WandbLogger",
    "__version__",
    "check_env",
    "evaluate",
    "load_agent",
    "make",
    "make_gymnasium",
    "make_gymnasium_vec",
    "make_pettingzoo",
    "record",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("pufferlib")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'pufferlib' has no attribute {name!r}")
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


importlib.import_module("pufferlib.interop.registration").register_when_gymnasium_is_there()
