"""The sources of the CUDA kernels. setup.py runs this file by itself, so it needs Python's library alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

# NVRTC knows the functions of C's library that the headers use, but has no headers for them.
STANDARD_HEADERS = {
    "math.h": b"#pragma once\n#define INFINITY __int_as_float(0x7f800000)\n",
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


def read_sources(folder: Path, name: str) -> tuple[bytes, dict[str, bytes]]:
    """The kernel file `<name>.cu` of a folder, and by name all headers beside it, any of which it may include."""
    return (folder / f"{name}.cu").read_bytes(), read_headers(folder)


def read_headers(folder: Path) -> dict[str, bytes]:
    """All headers of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.h"))}


def hash_sources(source: bytes, headers: dict[str, bytes], others: str = "") -> str:
    """A name for what these and `others`, such as a compiler's version, are compiled into."""
    ingredients = [f"{others} {list(headers)}".encode(), source, *headers.values()]
    return hashlib.sha256(b"\0".join(ingredients)).hexdigest()[:16]


def fatbin_name(folder: Path, name: str) -> str:
    """The file that nvcc's machine code of a kernel file is in: another one whenever a source is changed."""
    return f"{name}-{hash_sources(*read_sources(folder, name))}.fatbin"
