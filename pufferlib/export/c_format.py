"""A policy as a folder of C: its weights and layers, puffernet.h, and a program that plays the environment."""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from torch import nn

from pufferlib import extensions, ocean
from pufferlib.errors import APIUsageError, ExportError
from pufferlib.export.c_layers import network_of
from pufferlib.export.c_source import HeaderWriter
from pufferlib.export.one_step import ROWS, OneStep, check_agreement
from pufferlib.ocean.environment import OceanEnv
from pufferlib.runs.folder import write_atomically

HERE = Path(__file__).parent
INCLUDE = Path(ocean.__file__).with_name("include")
PUFFERNET = Path(extensions.__file__).with_name("puffernet.h")
WARNINGS = ("-Wall", "-Wextra", "-Werror")

_PROBE = """
#include "{name}.h"
{type} policy;
void forward(const {type}Observation* observations, int agents) {{
    {name}_forward(&policy, observations, agents);
}}
"""


def c_files(
    step: OneStep, policy: nn.Module, env: object, name: str, notes: Mapping[str, str], observations: np.ndarray | None
) -> dict[str, str]:
    """The content of the folder by file name, compiled and compared where this machine has a compiler.

    For an environment of Ocean's, which has a `name` in C, there is a program that plays it, unless it has such a
    policy inside, as its opponent. The policy is compared on `observations` of real play, besides random ones; an
    ExportError if C cannot express it, or its results differ.
    """
    writer = HeaderWriter(name, network_of(policy, env))
    files = {f"{writer.name}.h": writer.text(notes), "puffernet.h": PUFFERNET.read_text()}
    if compiler() is not None:
        rows = ROWS if observations is None else max(ROWS, observations.shape[1])
        with running(files, writer, rows) as probe:
            check_agreement(step, probe.run, "the C of puffernet.h", observations)
    if type(env).__module__.startswith("pufferlib.ocean.") and isinstance(env, OceanEnv):
        program = play_files(env, name, writer)
        files |= program if files.keys().isdisjoint(program) else {}
    return files


def compiler() -> str | None:
    """The C compiler of this machine, or None."""
    return next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def compile_command(name: str) -> str:
    """The command that compiles the program in its folder."""
    return f"cc -O3 -march=native {' '.join(WARNINGS)} {name}_play.c -o {name}_play -lm"


class Probe:
    """The policy in C, compiled and loaded for a number of agents."""

    def __init__(self, library: ctypes.CDLL, writer: HeaderWriter, agents: int):
        self.library, self._writer = library, writer
        states = {name: row for name, (row, _) in writer.states.items()}
        rows = {"logits": writer.rows[writer.layers.decision], "values": 1, **states}  # as the header's struct begins
        fields = [(name, ctypes.c_float * row * agents) for name, row in rows.items()]
        masks = [("masks", ctypes.c_void_p)] * writer.network.has_masks
        self._policy = type("Policy", (ctypes.Structure,), {"_fields_": [*fields, *masks]}).in_dll(library, "policy")

    def run(self, observations: np.ndarray, *states: np.ndarray) -> list[np.ndarray]:
        """One step, with results in the order of `OneStep.output_names`."""
        rows, network, policy = len(observations), self._writer.network, self._policy
        if network.has_masks:
            *states, masks = states
            masks = np.ascontiguousarray(masks)
            policy.masks = masks.ctypes.data
        after = [np.array(state, order="C") for state in states]
        copies = []  # of each state the part of its entry in Python, and the same numbers in C
        for (name, (_, size)), (entry, first) in zip(self._writer.states.items(), network.state_places, strict=True):
            outside = after[entry].reshape(rows, -1)[:, first : first + size]
            copies.append((outside, np.asarray(getattr(policy, name))[:rows, :size]))
        for outside, inside in copies:
            inside[:] = outside
        observations = np.ascontiguousarray(observations)
        self.library.forward(observations.ctypes, rows)
        for outside, inside in copies:
            outside[:] = inside
        logits, values = np.array(policy.logits)[:rows], np.array(policy.values)[:rows, 0]
        results = []
        for part, place, _, number in self._writer.parts():
            results.append(logits[:, place : place + part.outputs])
            if part.choices is None:
                deviations = network.deviations[number : number + part.width]
                results.append(np.broadcast_to(np.log(deviations), (rows, part.width)))
        return [*results, values, *after]


@contextlib.contextmanager
def running(files: Mapping[str, str], writer: HeaderWriter, agents: int, *flags: str) -> Iterator[Probe]:
    """Compiles the policy of some files for `agents` agents, in a temporary folder; an ExportError if that fails."""
    with tempfile.TemporaryDirectory(prefix="pufferlib_export_") as folder:
        for file, text in {**files, "probe.c": _PROBE.format(name=writer.name, type=writer.type_name)}.items():
            Path(folder, file).write_text(text)
        command = [compiler(), *(flags or ("-O1",)), *WARNINGS, "-shared", "-fPIC", "-o", "probe.so", "probe.c"]
        define = f"-D{writer.name.upper()}_AGENTS={agents}"
        done = subprocess.run([*command, define, "-lm"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise ExportError(f"{command[0]} cannot compile the policy: {done.stderr.strip()}")
        yield Probe(ctypes.CDLL(str(Path(folder, "probe.so"))), writer, agents)


def play_files(env: OceanEnv, name: str, writer: HeaderWriter) -> dict[str, str]:
    """The content of the program, and of the environment with its includes, by file name."""
    folder, agents = Path(str(env.binding.__file__)).parent, env.agents_per_env
    headers = [path for path in sorted(folder.glob("*.h")) if not path.name.endswith("_render.h")]
    files = {path.name: path.read_text() for path in headers}
    files[f"{name}_binding.h"] = (folder / "binding.c").read_text()
    files["puffer_binding.h"] = (HERE / "play_binding.h").read_text()
    include = re.compile(r'^#include "(puffer_\w+\.h)"', re.MULTILINE)
    while missing := {*include.findall("\n".join(files.values()))} - files.keys():
        files |= {header: (INCLUDE / header).read_text() for header in sorted(missing)}
    settings = "".join(f'{{"{key}", {float(value):.17g}}}, ' for key, value in env.arguments.items())
    text = (HERE / "play.c").read_text()
    for old, new in (
        *(("game", name), ("GamePolicy", writer.type_name), ("GAME_POLICY", writer.name.upper())),
        ("AGENTS_PER_ENV = 1,", f"AGENTS_PER_ENV = {agents},"),
        ("EPISODES_PER_ENV = 1 ", f"EPISODES_PER_ENV = {agents if env.counts_episodes_by_agent else 1} "),
        ("settings[] = {{NULL, 0}};", f"settings[] = {{{settings}{{NULL, 0}}}};"),  # last: its words are the user's
    ):
        text = text.replace(old, new)
    return {f"{name}_play.c": text, **files}


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Writes files into a folder in place of an earlier export, with what was compiled from that.

    Raises an APIUsageError if the folder has anything else in it, and a StorageError if it cannot be written.
    """
    if folder.is_file():
        raise APIUsageError(f"C is written into a folder, and {folder} is a file; name another by --output")
    programs = {name.removesuffix(".c") for name in files if name.endswith(".c")}  # what was compiled there
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    others = sorted(present - {*files, *programs})
    if others:
        raise APIUsageError(
            f"{folder} has other things in it, such as {others[0]}; name an empty or a new folder by --output"
        )
    for name, text in files.items():
        write_atomically(folder / name, text.encode())
    for name in programs & present:
        (folder / name).unlink()
