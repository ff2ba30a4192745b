"""The commands on the page reference/command_line.md, from the program's own table of verbs and their options."""

from __future__ import annotations

import inspect
from pathlib import Path

from pufferlib import cli
from pufferlib.cli import VERBS, Verb
from pufferlib.config.flags import CONFIG_FILE, options_of

from .configuration import settings_text
from .filling import code, fill

PAGE = Path("reference/command_line.md")

EXIT_CODES = {
    cli.OK: "The command did what it was asked for.",
    1: "An error of PufferLib's own, with its traceback: please report it.",
    cli.MISTAKE: "A mistake in the command, or something the machine lacks, such as memory or room on the disk: one "
    "sentence on stderr says what was expected, what was found and what to do. Also an environment that raised, with "
    "its traceback, and a training that diverged.",
    cli.INTERRUPTED: "Ctrl-C; `puffer train` has saved a checkpoint before.",
    cli.PIPE_CLOSED: "Who read the output is gone, as in `puffer runs | head -1`.",
}

OF_USERS = {
    "PUFFER_FLAGS": "Flags that every command with an environment takes before those of its line, and so must know: "
    "`export PUFFER_FLAGS='--train.total-timesteps 500_000'`.",
}
OF_THE_BUILD = {
    "PUFFER_PORTABLE": "`1` builds for any machine of this architecture, without `-march=native`.",
    "PUFFER_CUDA": "`0` leaves the CUDA kernels to be compiled at their first use, even where `nvcc` is found.",
    "PUFFER_WERROR": "`1` makes warnings of the C compiler errors.",
    "PUFFER_SANITIZE": "Sanitizers to build with, such as `address,undefined`; `make sanitize` does so in a copy.",
}
OF_OTHERS = {
    "OMP_NUM_THREADS": "Threads of torch on a CPU. torchrun sets 1; then each process takes its share of the cores. "
    "A sweep sets it for trials side by side, with LOCAL_WORLD_SIZE.",
    "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE": "What torchrun tells each of its "
    "processes; where the first four are set they train together.",
    "DISPLAY, WAYLAND_DISPLAY": "Without one of them on Linux there is no window: `puffer eval` prints scores alone.",
    "SDL_VIDEO_DRIVER": "`dummy` or `offscreen`: as if there were no display.",
    "SDL_FRAMEBUFFER_ACCELERATION": "How SDL hands pictures to the display; `0` unless it is set.",
    "TERM": "`dumb` has the dashboard print lines in place of a panel.",
    "JPY_PARENT_PID": "Set by Jupyter in a notebook: a `!puffer train` of a cell prints lines, too.",
    "XDG_CACHE_HOME": "Where compiled CUDA kernels are kept, in `pufferlib`; else `~/.cache`.",
    "XDG_DATA_HOME": "On Linux, where high scores are kept, in `pufferlib/high_scores`; else `~/.local/share`.",
    "WANDB_API_KEY, WANDB_MODE": "The key of Weights & Biases, and `offline` for files alone.",
    "NEPTUNE_API_TOKEN, NEPTUNE_PROJECT, NEPTUNE_MODE": "The same for Neptune, and the project.",
    "RAY_ADDRESS": "The Ray cluster that the backend `Ray` joins; without it one is started on this machine.",
}


def write(source: Path) -> None:
    """Fills the page in `source`, the folder that Sphinx reads."""
    page = source / PAGE
    fill(page, "commands", "\n\n".join(verb_text(name, verb) for name, verb in VERBS.items()))
    fill(page, "exit codes", _definitions({str(number): meaning for number, meaning in EXIT_CODES.items()}))
    fill(page, "variables of users", _definitions(OF_USERS))
    fill(page, "variables of the build", _definitions(OF_THE_BUILD))
    fill(page, "variables of others", _definitions(OF_OTHERS))


def usage(name: str, verb: Verb) -> str:
    """The line that `puffer NAME --help` begins with."""
    if verb.argument is None:
        return f"puffer {name} ENV [--section.key value ...]"
    own = options_of(name).settings()
    return " ".join(filter(None, ["puffer", name, verb.argument, own and "[--option value ...]"]))


def verb_text(name: str, verb: Verb) -> str:
    """A command: its line, what it does, its own options."""
    parts = [
        f"### puffer {name}",
        f"```text\n{usage(name, verb)}\n```",
        f"{verb.summary[:1].upper()}{verb.summary[1:]}.",
    ]
    declared = options_of(name)
    if verb.argument is not None and declared.settings():
        parts.append(inspect.cleandoc(declared.__doc__ or "").partition("\n\n")[2])
    if verb.argument is None:
        parts.append(
            "Besides `--config` and every [setting](configuration.md) it takes:" if declared.settings() else ""
        )
        parts.append("" if declared.settings() else "It takes `--config` and every [setting](configuration.md).")
    parts.append(settings_text(declared.settings().values(), name))
    if name == "train":
        parts.append(settings_text([CONFIG_FILE]))
    return "\n\n".join(filter(None, parts))


def _definitions(meanings: dict[str, str]) -> str:
    return "\n".join(f"{', '.join(map(code, names.split(', ')))}\n: {meaning}\n" for names, meaning in meanings.items())
