"""The process of a trial: one training, watched by the driver that started it."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from pufferlib.errors import PufferError

if TYPE_CHECKING:
    from pufferlib.sweep.trial_config import TrialTask

ORPHAN_SECONDS = 1  # after the driver is gone, until the process is killed


def main(connection_fd: int) -> None:
    """Trains as the driver at the other end of the connection asks, and sends it messages, which are JSON objects.

    `{"log": ...}` has progress, cost, and where there is a new score: score, weight, which is its number of episodes,
    and the name of the metric. `episode_steps` may be there too: the agent steps in which every agent plays one
    episode. `{"folder": ..., "fitted": ...}` has the folder of the run, and the `[train]` settings that it had to fit
    to the number of agents. The last is `{"end": ...}`: `done`, `stopped` after SIGTERM, or with a sentence in `error`:
    `failed`, `metric` where the metric does not exist, `unscored` where it may exist but no log had it.

    Args:
        connection_fd: the descriptor of the connection, which this process inherited.
    """
    os.set_inheritable(connection_fd, False)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # says where it hangs
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(connection_fd)
    import cloudpickle

    try:
        task = cloudpickle.loads(connection.recv_bytes())
    except EOFError:
        return
    from pufferlib.vector._native import end_with_parent

    end_with_parent(ORPHAN_SECONDS)
    _run(task, lambda message: connection.send_bytes(json.dumps(message).encode()))


def _run(task: TrialTask, send: Callable[[dict[str, Any]], None]) -> None:
    try:
        from pufferlib.sweep.trial_training import train_watched

        train_watched(task, send)
        end = {"end": "done"}
    except KeyboardInterrupt:
        end = {"end": "stopped"}
    except BrokenPipeError:
        raise
    except BaseException as error:  # of the user's environment, too, which may raise anything
        kind = getattr(error, "ending", "failed")
        if kind == "failed":
            traceback.print_exc()
        first, *rest = str(error).strip().splitlines() or [""]
        sentence = f"{type(error).__name__}: {first}".rstrip(": ")
        if isinstance(error, PufferError):  # one that ends with a traceback ends with what it is about
            sentence = " ".join([first, *rest[-1:]])
        end = {"end": kind, "error": sentence}
    with contextlib.suppress(BrokenPipeError):
        send(end)
