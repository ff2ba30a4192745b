"""The verb `puffer sweep`."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping
from typing import Any

from pufferlib.metrics.output import say
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.showing.ending import finish
from pufferlib.sweep.showing.view import SweepView


def sweep_command(env_name: str, args: Mapping[str, Any]) -> None:
    """Sweeps until the trials or the minutes are used up, or it is interrupted.

    Raises:
        PufferError: if it cannot be done.
        KeyboardInterrupt: if it was interrupted.
    """
    sweep = Sweep(env_name, args)
    show_sweep(sweep, f"`{_again(sweep)}` with the same settings")


def show_sweep(sweep: Sweep, again: str, quiet: bool = False) -> None:
    """Runs a sweep, shows it and what it found, and writes its files.

    Args:
        sweep: that has not run yet.
        again: the call or command that continues it.
        quiet: whether nothing is shown.

    Raises:
        PufferError: if it cannot be done.
        KeyboardInterrupt: if it was interrupted.
    """
    if quiet:
        sweep.run()
        finish(sweep.state, io.StringIO())
        return
    say(_beginning(sweep, again))
    view = SweepView()
    try:
        sweep.run(view.show)
    except KeyboardInterrupt:
        view.close()
        finish(sweep.state)
        say(f"\ninterrupted; {again} continues it")
        raise
    finally:
        view.close()
    finish(sweep.state)


def _beginning(sweep: Sweep, again: str) -> str:
    state, config = sweep.state, sweep.config
    number = len(sweep.space.dimensions)
    known = f", {len(state.trials)} of them begun before" if state.trials else ""
    side = f", {config.workers} side by side" if config.workers > 1 else ""
    return (
        f"sweeping {number} settings of {state.env_name} to {config.goal} {state.metric}: "
        f"{config.num_trials} trials{known}{side}\n"
        f"the study {sweep.place.name!r} is in {sweep.place.storage}; {again} continues it or takes part"
    )


def _again(sweep: Sweep) -> str:
    return f"puffer sweep {shlex.quote(sweep.state.env_name)} {sweep.state.where}".rstrip()
