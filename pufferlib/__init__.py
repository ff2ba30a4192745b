"""PufferLib: reinforcement learning at millions of steps per second, on one machine.

The names below are imported when they are first used, so that `import pufferlib` does nothing: it takes no time, loads
no torch, and changes nothing in the program that imports it. It only registers ids such as `pufferlib/breakout` with
Gymnasium, if the program imported that before; `import pufferlib.interop` does so in any case.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as in the table, for type checkers and editors
    from pufferlib.dashboard.score import Score as Score
    from pufferlib.environment import Buffers as Buffers, Keys as Keys, PufferEnv as PufferEnv
    from pufferlib.errors import APIUsageError as APIUsageError, PufferError as PufferError
    from pufferlib.interop.gymnasium_interop import (
        make_gymnasium as make_gymnasium,
        make_gymnasium_vec as make_gymnasium_vec,
        make_pettingzoo as make_pettingzoo,
    )
    from pufferlib.loggers.logger import JsonLogger as JsonLogger, Loggers as Loggers, NoLogger as NoLogger
    from pufferlib.loggers.services import (
        NeptuneLogger as NeptuneLogger,
        TensorBoardLogger as TensorBoardLogger,
        WandbLogger as WandbLogger,
    )
    from pufferlib.play.agent import Agent as Agent, load_agent as load_agent
    from pufferlib.play.scores import evaluate as evaluate
    from pufferlib.pufferl import PuffeRL as PuffeRL
    from pufferlib.runs.checks import check_env as check_env
    from pufferlib.runs.making import make as make
    from pufferlib.sweep.protein import Protein as Protein
    from pufferlib.watch.evaluating import record as record

    __version__: str

_NAMES = {  # by the module that they come from
    "pufferlib.play.agent": "Agent load_agent",
    "pufferlib.environment": "Buffers Keys PufferEnv",
    "pufferlib.errors": "APIUsageError PufferError",
    "pufferlib.interop.gymnasium_interop": "make_gymnasium make_gymnasium_vec make_pettingzoo",
    "pufferlib.loggers.logger": "JsonLogger Loggers NoLogger",
    "pufferlib.loggers.services": "NeptuneLogger TensorBoardLogger WandbLogger",
    "pufferlib.dashboard.score": "Score",
    "pufferlib.play.scores": "evaluate",
    "pufferlib.pufferl": "PuffeRL",
    "pufferlib.runs.checks": "check_env",
    "pufferlib.runs.making": "make",
    "pufferlib.sweep.protein": "Protein",
    "pufferlib.watch.evaluating": "record",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_HOMES, "__version__"]


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


if "gymnasium" in sys.modules:
    importlib.import_module("pufferlib.interop")
