"""A policy with its environment as a page: one file of HTML that plays in a browser, and asks for nothing else."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from torch import nn
from typing_extensions import override

from pufferlib import ocean
from pufferlib.dashboard.output import page_template, printable
from pufferlib.environment import Keys
from pufferlib.errors import ExportError, MissingExtraError
from pufferlib.export import c_format
from pufferlib.export.c_layers import CNetwork, network_of
from pufferlib.export.c_source import HeaderWriter
from pufferlib.export.one_step import ROWS, TOLERANCE, OneStep, check_agreement
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.screen import FONT

WEB = c_format.HERE / "web"
OF_LIBC = ("math.h", "string.h", "stdio.h", "stdlib.h", "assert.h")
FLAGS = (
    *("-std=c11", "-O3", "-ffreestanding", "-nostdlib", "-fno-builtin-printf", "-ffp-contract=off", "-fno-math-errno"),
    *("-Werror=implicit-function-declaration", "-Wno-unknown-attributes"),
    *("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--gc-sections", "-Wl,-z,stack-size=1048576"),
)
SHORT_TOLERANCE = 0.05  # of results with weights of 16 bits, relative to 1: a twentieth of a probability
LARGEST = np.iinfo(np.int16).max
MOST_PLAYERS = 8  # agents of a game that has a bot as well, by its argument `agents` in C
UNKNOWN = re.compile(  # in the words of older and newer versions of clang
    r"^(?:.*/)?([^/\n:]+):(\d+):\d+: error: .*(?:implicit|undeclared).* function '(\w+)'", re.MULTILINE
)


class PackedWriter(HeaderWriter):
    """Writes the header of a network whose weights lie in one array, which the page fills.

    Attributes:
        packed: of each table that was written its offset in the array, its scale, and the numbers: integers of 16 bits
            which the scale makes weights, or with a scale of 0 the weights themselves.
        is_apart: whether `text` leaves the numbers out.
    """

    def __init__(self, network: CNetwork, is_short: bool, is_apart: bool = True):
        self.is_short, self.is_apart = is_short, is_apart
        self.packed: list[tuple[int, float, np.ndarray]] = []
        self.size = 0
        super().__init__("web", network)

    @override
    def weights(self, name: str, values: np.ndarray) -> Iterator[str]:
        scale = np.float32(np.abs(values).max(initial=0.0) / LARGEST) if self.is_short else np.float32(0.0)
        numbers = values if scale == 0.0 else np.rint(values / scale).clip(-LARGEST, LARGEST).astype(np.int16)
        self.packed.append((self.size, float(scale), numbers))
        if not self.is_apart:
            yield from super().weights(name, values if scale == 0.0 else numbers.astype(np.float32) * scale)
        else:
            yield f"#define {name} (web_weights + {self.size})"
        self.size += -(-values.size // 16) * 16  # aligned

    @override
    def text(self, notes: Mapping[str, str]) -> str:
        array = f"__attribute__((aligned(64))) static float web_weights[{self.size}];\n"
        return (array if self.is_apart else "") + super().text(notes)


def web_page(step: OneStep, policy: nn.Module, env: object, title: str, observations: np.ndarray | None) -> str:
    """The content of the page; arguments as for `c_files`, and any text for its title."""
    name = type(env).__module__.split(".")[2] if isinstance(env, OceanEnv) else ""
    folder = Path(ocean.__file__).parent / name
    if not (name and (folder / f"{name}_render.h").exists()):
        raise ExportError(
            f"a page plays an environment in C that has a picture, such as puffer_breakout, got {type(env).__name__}; "
            "`puffer new` begins one, and the other formats write the policy alone"
        )
    network = network_of(policy, env)
    command = wasm_compiler()
    writer = PackedWriter(network, is_short=_is_enough(step, network, observations))
    module = compiled(command, folder, {"web_policy.h": writer.text({})}, env.arguments, env.agents_per_env)
    return page(title, module, writer, _facts(env))


def _is_enough(step: OneStep, network: CNetwork, observations: np.ndarray | None) -> bool:
    # Whether weights of 16 bits decide as the policy does; where no compiler can show it they are not.
    if c_format.compiler() is None:
        return False
    rows = ROWS if observations is None else max(ROWS, observations.shape[1])
    for is_short, tolerance in ((False, TOLERANCE), (True, SHORT_TOLERANCE)):
        writer = PackedWriter(network, is_short, is_apart=False)
        files = {f"{writer.name}.h": writer.text({}), "puffernet.h": c_format.PUFFERNET.read_text()}
        with c_format.running(files, writer, rows) as probe:
            try:
                check_agreement(step, probe.run, "the C of puffernet.h", observations, tolerance)
            except ExportError:
                if not is_short:
                    raise
                return False
    return True


def wasm_compiler() -> list[str]:
    """The command that compiles C for WebAssembly: clang with its linker, or that of the package ziglang."""
    for version in ("", *(f"-{number}" for number in range(30, 12, -1))):
        linker = shutil.which(f"wasm-ld{version}")
        if shutil.which(f"clang{version}") and linker:
            flags = "--target=wasm32", "-msimd128", "-mbulk-memory", "-nostdlibinc", f"-fuse-ld={linker}"
            return [f"clang{version}", *flags]
    if importlib.util.find_spec("ziglang") is not None:
        target = "-target", "wasm32-freestanding", "-mcpu=generic+simd128+bulk_memory"
        return [sys.executable, "-m", "ziglang", "cc", *target]
    raise MissingExtraError(
        "a page needs a compiler for WebAssembly, found none; run `pip install 'pufferlib[web]'`, or install clang and "
        "lld, as by `apt install clang lld`"
    )


def compiled(
    command: list[str], folder: Path, policy: Mapping[str, str], arguments: Mapping[str, float], agents: int
) -> bytes:
    """The module of an environment in a folder with a policy, which is the header web_policy.h by its name."""
    settings = "".join(f'{{"{key}", {float(value):.17g}}}, ' for key, value in arguments.items())
    files = {**policy, **dict.fromkeys(OF_LIBC, '#include "libc.h"\n'), "raylib.h.modified": '#include "screen.h"\n'}
    files["puffer_binding.h"] = (c_format.HERE / "play_binding.h").read_text()
    files["settings.h"] = f"#define SETTINGS {settings}\n"
    with tempfile.TemporaryDirectory(prefix="pufferlib_web_") as made:
        for name, text in files.items():
            Path(made, name).write_text(text)
        most = max(agents, MOST_PLAYERS) if "agents" in arguments else agents
        defines = (f"-DAGENTS={most}", f'-DRENDER_HEADER="{folder.name}_render.h"', f'-DBINDING="{folder}/binding.c"')
        includes = (f"-I{path}" for path in (made, WEB, folder, c_format.INCLUDE, c_format.PUFFERNET.parent))
        module = Path(made, "web.wasm")
        words = [*command, *FLAGS, *defines, *includes, "-include", "settings.h", str(WEB / "web.c")]
        done = subprocess.run([*words, "-o", str(module)], cwd=made, capture_output=True, text=True)
        if done.returncode == 0:
            return module.read_bytes()
    lacking = UNKNOWN.search(done.stderr)
    if lacking:
        file, line, function = lacking.groups()
        raise ExportError(
            f"a page has no function {function}, which {file} calls in line {line}; see export/web/libc.h and screen.h "
            "for those that there are, or write it in the header"
        )
    raise ExportError(f"{command[0]} cannot compile {folder.name} for a page: {printable(done.stderr.strip()[:2000])}")


def _facts(env: OceanEnv) -> dict[str, Any]:
    # What the page knows of spaces and keys.
    observation, action = env.single_observation_space, env.single_action_space
    has_bot = {"opponent", "partner"} & signature(type(env)).parameters.keys()
    facts: dict[str, Any] = {
        "observation": {"type": str(observation.dtype), "shape": list(observation.shape)},
        "parts": [],
        "is_box": isinstance(action, Box),
        "keys": None,
        "players": env.arguments.get("agents") if has_bot else None,
    }
    if isinstance(action, Box):
        facts["low"], facts["high"] = (np.nan_to_num(bound).ravel().tolist() for bound in (action.low, action.high))
    else:
        facts["parts"] = [int(action.n)] if isinstance(action, Discrete) else [int(n) for n in np.ravel(action.nvec)]
    keys = getattr(env, "keys", None)
    if isinstance(keys, Keys) and (env.agents_per_env == 1 or facts["players"] is not None):
        idle = keys.idle if isinstance(keys.idle, list) and isinstance(action, Discrete) else [keys.idle]
        facts["keys"] = {
            "actions": [[chord.split("+"), np.ravel(row).tolist()] for chord, row in keys.actions.items()],
            "idle": [np.ravel(row).tolist() for row in idle if row is not None],
            "waits": keys.waits,
        }
    return facts


def page(title: str, module: bytes, writer: PackedWriter, facts: Mapping[str, Any]) -> str:
    """The HTML of a compiled module and its weights."""
    shorts = [numbers.ravel() for _, scale, numbers in writer.packed if scale]
    whole = [numbers.ravel().astype("<f4") for _, scale, numbers in writer.packed if not scale]
    short = np.concatenate([np.zeros(0, "<i2"), *shorts]).astype("<i2").view(np.uint8).reshape(-1, 2)
    parts = [module, FONT.read_bytes(), short[:, 0].tobytes(), short[:, 1].tobytes(), b"".join(map(bytes, whole))]
    facts = {
        **facts,
        "sizes": [len(part) for part in parts],
        "tables": [[offset, numbers.size, scale] for offset, scale, numbers in writer.packed],
    }
    return page_template("pufferlib.export", "web/web.html").render(
        title=printable(title),
        facts=facts,
        payload=base64.b64encode(gzip.compress(b"".join(parts), 9, mtime=0)).decode(),
        script=(WEB / "web.js").read_text(),
    )
