"""Code that was broken on purpose, for the fuzzers to find: one program, in which a number switches each fault on.

The faults of an environment are those of tests/c/faults.h, under the same numbers; those of the binding are changes of
a copy of its headers.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import fuzzers

HEADER = fuzzers.ROOT / "tests/c/faults.h"
BINDING = fuzzers.ROOT / "tests/c/faults_binding.c"
FACTS = fuzzers.Facts(
    keywords=[("longest", "INTEGER", 1, 200, 8, 1)], choices=2, lows=[0, 0], highs=[8, 1], any_low=0, any_high=200
)
FAULTS = {
    name: int(number) for name, number in re.findall(r"^#define ([A-Z_]+) (\d+)", HEADER.read_text(), re.MULTILINE)
}
BUILT_APART = ("LIBC_RAND", "STATE_OUTSIDE")  # which the preprocessor chooses

# Name of the fault: header, what stands there, what stands there in its place.
IN_THE_BINDING = {
    "CHECKSUM_NOT_COMPARED": (
        "puffer_snapshot.h",
        "|| snapshot_checksum(content, body) != found.checksum)",
        "|| (!IS_BROKEN && snapshot_checksum(content, body) != found.checksum))",
    ),
    "VERSION_NOT_COMPARED": (
        "puffer_snapshot.h",
        "if (found.version != expected.version) {",
        "if (IS_BROKEN) expected.version = found.version;\n    if (found.version != expected.version) {",
    ),
    "STRUCT_NOT_ASKED": (
        "puffer_snapshot.h",
        "return c_accepts(env, scratch) &&",
        "return (IS_BROKEN || c_accepts(env, scratch)) &&",
    ),
    "RESTORED_IN_PART": (
        "puffer_snapshot.h",
        "scratch, at + i * size)) return raise_unaccepted(i);",
        "scratch, at + i * size)) return raise_unaccepted(i);\n"
        "        if (IS_BROKEN) env_read_snapshot(set_at(set, i), &layout, scratch, at + i * size);",
    ),
    "RANGE_NOT_CHECKED": (
        "puffer_kwargs.h",
        "overflow == 0 && number >= low && number <= high",
        "overflow == 0 && (IS_BROKEN || (number >= low && number <= high))",
    ),
    "ROWS_NOT_COUNTED": (
        "puffer_arrays.h",
        "return view->len == rows * spec->row_size * spec->type.item_size &&",
        "return (IS_BROKEN || view->len == rows * spec->row_size * spec->type.item_size) &&",
    ),
    "OWNER_NOT_HELD": (
        "puffer_many.h",
        "handle->owner = Py_NewRef(capsule);",
        "handle->owner = IS_BROKEN ? capsule : Py_NewRef(capsule);",
    ),
}
NUMBERS = {**FAULTS, **{name: 100 + index for index, name in enumerate(IN_THE_BINDING)}}

SWITCH = """
#include <stdlib.h>
static int chosen_fault;
static inline int is_broken(int number) { return chosen_fault == number; }
__attribute__((constructor)) static void choose_fault(void) {
    const char* number = getenv("CHOSEN_FAULT");
    chosen_fault = number ? atoi(number) : 0;
}
"""


def broken_headers(folder: Path) -> Path:
    """A copy of the common headers with the changes above, each where its number is chosen."""
    copy = folder / "include"
    shutil.copytree(fuzzers.INCLUDE, copy)
    for name, (header, before, after) in IN_THE_BINDING.items():
        text = (copy / header).read_text()
        assert before in text, f"{header} has changed: what {name} breaks is no longer there"
        (copy / header).write_text(text.replace(before, after.replace("IS_BROKEN", f"is_broken({NUMBERS[name]})")))
    return copy


def build_broken(folder: Path) -> Path:
    """The program with all faults but those that are built apart."""
    include = broken_headers(folder)
    switch = folder / "switch.h"
    switch.write_text(SWITCH)
    flags = ["-include", str(switch), "-DFAULT=chosen_fault"]
    return fuzzers.build(BINDING, FACTS, folder, include=include, more_flags=flags, name="broken")


def build_apart(name: str, folder: Path) -> Path:
    """A program with one of the faults that are built apart."""
    return fuzzers.build(BINDING, FACTS, folder, more_flags=[f"-DFAULT={name}"], name=name.lower())
