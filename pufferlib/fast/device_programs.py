"""The kernels of an environment: its own header, compiled for a GPU, alone or together with a policy.

The code is the beginning of the environment's binding.c, which includes its header and names its struct, followed by
puffer_device.h or puffer_play.h in place of puffer_binding.h. An environment needs no code of its own to run on a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from pufferlib.errors import PufferError
from pufferlib.extensions.cuda_library import FOLDER, OPTIONS, Program
from pufferlib.extensions.cuda_sources import read_headers

BINDING = '#include "puffer_binding.h"'
DEVICE = '#include "puffer_device.h"'
PLAY = '#include "puffer_play.h"'
EXACT = (*OPTIONS, "--fmad=false")
"""Products and sums round as on a CPU, so that episodes are the same."""

# NVRTC knows the functions of C's library that the headers use, but has no headers for them.
STANDARD_HEADERS = {
    "math.h": b"#pragma once\n",
    "stdbool.h": b"#pragma once\n",
    "stddef.h": b"#pragma once\n",
    "stdint.h": b"""#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
""",
    "string.h": b"#pragma once\n#ifndef NULL\n#define NULL 0\n#endif\n",
}


@functools.cache
def device_program(binding: ModuleType) -> Program:
    """The kernels of the environments of a compiled module."""
    folder = Path(binding.__file__).parent
    return Program(folder.name, device_code(folder).encode(), headers_of(folder) | STANDARD_HEADERS, EXACT)


def play_program(binding: ModuleType, macros: Mapping[str, str]) -> Program:
    """The kernel that plays the environments of a compiled module with a policy; the macros are of puffer_play.h."""
    folder = Path(binding.__file__).parent
    headers = read_headers(FOLDER) | headers_of(folder) | STANDARD_HEADERS
    return Program(f"{folder.name}-play", play_code(folder, macros).encode(), headers, EXACT)


def play_code(folder: Path, macros: Mapping[str, str]) -> str:
    """The CUDA code of the environment in a folder, and of a policy; see `play_program`."""
    defined = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return device_code(folder, f"{defined}{PLAY}")


def device_code(folder: Path, kernels: str = DEVICE) -> str:
    """The CUDA code of the environment in a folder, with these kernels behind it.

    Raises:
        PufferError: if its sources are not there.
    """
    try:
        beginning, _, _ = (folder / "binding.c").read_text().partition(BINDING)
    except OSError as error:
        raise PufferError(
            f"expected the source of the environment in {folder / 'binding.c'} to compile it for the GPU, found none; "
            "set [vec] backend to Native to step it on the CPU"
        ) from error
    return f"{beginning}{kernels}\n"


def headers_of(folder: Path) -> dict[str, bytes]:
    """The headers of the environment in a folder, and those that all environments share, by name."""
    places = (folder.parent / "include", folder)
    return {name: header for place in places for name, header in read_headers(place).items()}
