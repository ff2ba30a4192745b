"""What Python makes of declarations in C, and that a compiler makes the same of cpu_kernels.h."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import pufferlib.extensions
from pufferlib.extensions import declarations
from pufferlib.extensions.cpu_library import CONSTANTS, STRUCTURES

FOLDER = Path(pufferlib.extensions.__file__).parent


def header(body):
    return f"#pragma once\n// BEGIN DECLARATIONS\n{body}\n// END DECLARATIONS\nint not_read(void);\n"


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_compiler_lays_the_structures_out_alike(tmp_path):
    expected, lines = [], []
    for name, structure in STRUCTURES.items():
        expected.append(ctypes.sizeof(structure))
        lines.append(f"sizeof({name})")
        for member, _ in structure._fields_:
            expected += getattr(structure, member).offset, getattr(structure, member).size
            lines += f"offsetof({name}, {member})", f"sizeof({name}::{member})"
    for name, value in CONSTANTS.items():
        expected.append(value)
        lines.append(f"(size_t){name}")
    source, program = tmp_path / "layout.cpp", tmp_path / "layout"
    prints = "".join(f'    printf("%zu\\n", {line});\n' for line in lines)
    source.write_text(f'#include <stddef.h>\n#include <stdio.h>\n#include "cpu_kernels.h"\nint main() {{\n{prints}}}\n')
    subprocess.run(["c++", "-std=c++17", "-I", FOLDER, source, "-o", program], check=True)
    assert [int(line) for line in subprocess.check_output([program], text=True).split()] == expected


def test_declarations_become_ctypes():
    found = declarations.read(
        header("""
enum { SIZE = 3, NEXT };  // a comment; with a brace }
enum { FIRST, SECOND };
struct Inner {
    float x, y;
};
struct Outer {
    const float *a, b;  // only the first is a pointer
    double* const* c;
    Inner inner[SIZE];
    uint8_t flag;
};
void run(const Outer* outer, int64_t count,
         double limit);
""")
    )
    assert found.constants == {"SIZE": 3, "NEXT": 4, "FIRST": 0, "SECOND": 1}
    pointer, inner = ctypes.c_void_p, found.structures["Inner"]
    assert inner._fields_ == [("x", ctypes.c_float), ("y", ctypes.c_float)]
    members = [("a", pointer), ("b", ctypes.c_float), ("c", pointer), ("inner", inner * 3), ("flag", ctypes.c_uint8)]
    assert found.structures["Outer"]._fields_ == members
    assert found.functions == {"run": [pointer, ctypes.c_int64, ctypes.c_double]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("union Either { float a; };", "expected an enum, a struct or a void function, found 'union Either"),
        ("int count(float x);", "found 'int count"),
        ("void sum(float x[3]);", "found 'void sum"),
        ("struct Nested { struct { float a; } b; };", "found 'struct Nested"),
        ("struct Wide { unsigned a; };", "expected a type out of float, .*, found 'unsigned'"),
        ("struct Early { Late late; }; struct Late { float a; };", "found 'Late'"),
        ("struct Call { void (*run)(int); };", "expected a declarator, found '[(]"),
        ("struct Bits { int32_t a : 3; };", "expected a declarator, found 'a : 3'"),
        ("struct Sized { float a[SIZE]; };", "expected a constant as the size of a, found 'SIZE'"),
        ("enum { A = 1 + 1 };", "expected a constant, found 'A = 1 [+] 1'"),
    ],
)
def test_what_is_not_understood_is_cited(body, message):
    with pytest.raises(ValueError, match=message):
        declarations.read(header(body))


def test_a_header_without_the_marks_is_refused():
    with pytest.raises(ValueError, match="expected declarations between the lines '// BEGIN DECLARATIONS'"):
        declarations.read("enum { A };")


def test_a_structure_takes_each_of_its_members():
    point = declarations.read(header("struct Point { float x, y; };")).structures["Point"]
    assert (point(y=2.0, x=1.0).x, point(y=2.0, x=1.0).y) == (1.0, 2.0)
    with pytest.raises(TypeError, match="Point must be given all its members, missing are y"):
        point(x=1.0)
    with pytest.raises(AttributeError, match="z"):
        point(x=1.0, y=2.0, z=3.0)


def test_only_what_is_declared_counts_for_the_fingerprint():
    first = declarations.fingerprint(header("struct Point { float x, y; };"))
    assert declarations.fingerprint(header("struct Point {  // of the plane\n    float x,\n  y;\n};")) == first
    assert declarations.fingerprint(header("struct Point { float y, x; };")) != first
