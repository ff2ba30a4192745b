"""Every environment header is C11, C++17 and CUDA, and touches nothing but its struct."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from checked_headers import params, quick_params

from pufferlib import ocean

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "ocean" / "include"
HEADERS = {folder.name: folder / f"{folder.name}.h" for folder in sorted((ROOT / "ocean").iterdir())}
HEADERS = {name: path for name, path in HEADERS.items() if path.exists()}
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
FLOAT_WARNINGS = ["-Wdouble-promotion", "-Wunsuffixed-float-constants"]  # doubles are slow on a GPU
STANDARD_HEADERS = {"<math.h>", "<stdbool.h>", "<stdint.h>", "<string.h>"}
COMMON_HEADERS = {"puffer_env.h", "puffer_bits.h", "puffer_window.h", "puffer_paths.h"}
COMMON_HEADERS |= {"puffer_alphabeta.h", "puffer_bot.h", "puffer_turns.h"}
MEMORY_FUNCTIONS = {"memcpy", "memmove", "memset", "memcmp"}
MATH = """
    sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 expm1 log log2 log10 log1p pow sqrt cbrt hypot
    floor ceil round rint nearbyint trunc lround lrint fabs fmod remainder fmin fmax fma copysign ldexp
"""
FLOAT_MATH = {f"{function}f" for function in MATH.split()}


@functools.cache
def is_gcc() -> bool:
    if shutil.which("gcc") is None or shutil.which("g++") is None or shutil.which("nm") is None:
        return False
    return "Free Software Foundation" in subprocess.check_output(["gcc", "--version"], text=True)


needs_gcc = pytest.mark.skipif(not is_gcc(), reason="needs GCC and nm")
every_header = pytest.mark.parametrize("name", HEADERS)


def headers_of(choose):
    """The headers for `parametrize`, marked as `choose` marks their environments."""
    marked = choose(f"{ocean.PREFIX}{name}" for name in HEADERS)
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=each.marks) for name, each in zip(HEADERS, marked, strict=True)]
    )


every_built_header = headers_of(quick_params)


def check(command, **kwargs):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


def source_with(name, tmp_path, suffix, body=""):
    source = tmp_path / f"{name}{suffix}"
    source.write_text(f'#include "{HEADERS[name]}"\n{body}')
    return source


def struct_name(name):
    return re.search(r"^typedef (\w+) Env;", (HEADERS[name].parent / "binding.c").read_text(), re.MULTILINE)[1]


@pytest.mark.quick("go", "target")
@needs_gcc
@every_built_header
def test_a_header_is_clean_c11_without_doubles(name, tmp_path):
    source = source_with(name, tmp_path, ".c", "void step(void* env) { c_step(env); }\n")
    flags = ["-std=c11", "-pedantic-errors", "-O2", *WARNINGS, *FLOAT_WARNINGS]
    check(["gcc", *flags, "-I", INCLUDE, "-c", source, "-o", tmp_path / "out.o"])


@pytest.mark.quick("snake", "template")
@needs_gcc
@every_built_header
def test_a_header_is_clean_cpp17(name, tmp_path):
    env = struct_name(name)
    source = source_with(name, tmp_path, ".cpp", f"void step({env}* env) {{ c_reset(env); c_step(env); }}\n")
    check(["g++", "-std=c++17", "-O2", *WARNINGS, "-I", INCLUDE, "-c", source, "-o", tmp_path / "out.o"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc; no GPU is needed")
@headers_of(params)
def test_a_header_is_cuda_device_code(name, tmp_path):
    env = struct_name(name)
    kernel = f"""
__global__ void step({env}* envs, int count) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    envs[i].rng = rng_seed(0, i);
    if (c_layout(&envs[i]).num_agents > 0 && c_accepts(&envs[i], &envs[i])) c_reset(&envs[i]);
    c_step(&envs[i]);
}}
"""
    source = source_with(name, tmp_path, ".cu", kernel)
    # 177: a function that is not called; headers have those
    flags = ["-std=c++17", "-Werror", "all-warnings", "-diag-suppress", "177", "-ptx"]
    check(["nvcc", *flags, "-I", INCLUDE, source, "-o", tmp_path / "out.ptx"])
    assert ".entry" in (tmp_path / "out.ptx").read_text()


@needs_gcc
@every_built_header
def test_a_header_has_no_state_and_calls_nothing_but_math_and_memory(name, tmp_path):
    """Read from the symbols of an object file in which every function and every static was kept."""
    source = source_with(name, tmp_path, ".c")
    flags = ["-std=c11", "-O0", "-fkeep-inline-functions", "-fno-toplevel-reorder", "-fno-stack-protector"]
    flags += ["-fno-pie"]  # else constants that hold addresses, as those of an exported policy, count as data
    check(["gcc", *flags, "-I", INCLUDE, "-c", source, "-o", tmp_path / "out.o"])
    symbols = [line.split()[-2:] for line in check(["nm", tmp_path / "out.o"]).splitlines()]
    assert ["t", "c_step"] in symbols
    assert [symbol for kind, symbol in symbols if kind in "bBdDcCsS"] == [], "mutable state outside the struct"
    called = {symbol for kind, symbol in symbols if kind == "U"} - {"_GLOBAL_OFFSET_TABLE_"}
    assert called - MEMORY_FUNCTIONS - FLOAT_MATH == set()


@every_header
def test_a_header_includes_and_declares_only_what_it_may(name):
    text = HEADERS[name].read_text()
    assert "#pragma once" in text
    included = set(re.findall(r"^\s*#\s*include\s+(\S+)", text, re.MULTILINE)) - STANDARD_HEADERS
    for header in {header.strip('"') for header in included} - COMMON_HEADERS:  # tables in a file of their own
        assert (HEADERS[name].parent / header).exists(), f"{name}.h must not include {header}"
    for number, line in enumerate(text.splitlines(), 1):
        assert not re.match(r"\s*(static|extern|inline)\b", line), f"{name}.h:{number}: use PUFFER_FN or PUFFER_TABLE"


def arguments_with_two_draws(text):
    """Argument lists that draw twice; C leaves open which is first, and compilers differ."""
    text, found, opened = re.sub(r"//.*", "", text), [], []
    for token in re.finditer(
        r"(?P<draw>\brng_(?:next|below|float|uniform)(?=\())|(?P<open>(?P<word>\w*) ?\()|[);]", text
    ):
        if token["draw"]:
            opened = [(start, word, draws + 1) for start, word, draws in opened]
        elif token["open"]:
            opened.append((token.start(), token["word"], 0))
        elif token[0] == ")" and opened:
            start, word, draws = opened.pop()
            if draws > 1 and word not in ("for", "while", "if"):
                found.append(text[start : token.end()])
    return found


@every_header
def test_a_header_draws_in_an_order_that_the_language_fixes(name):
    assert arguments_with_two_draws(HEADERS[name].read_text()) == []


def test_two_draws_in_one_list_of_arguments_are_seen():
    two = "cell(&grid, rng_below(rng, 3), 1 + rng_below(rng, 4))"
    one = "int y = rng_below(rng, 4), x = rng_below(rng, 3); cell(x, cell(x, rng_below(rng, 4)));"
    assert arguments_with_two_draws(f"at = {two};") == [two]
    assert arguments_with_two_draws(one) == []


def test_the_scan_finds_what_it_looks_for(tmp_path, monkeypatch):
    """The tests above must fail on a header that breaks the rules."""
    folder = tmp_path / "sinner"
    folder.mkdir()
    sins = {
        "static int counter;\nPUFFER_FN void c_step(int* env) { *env = ++counter; }": True,
        "PUFFER_FN void c_step(int* env) { static int calls = 1; *env = calls++; }": True,
        "#include <stdlib.h>\nPUFFER_FN void c_step(int* env) { *env = rand(); }": True,
        '#include <stdio.h>\nPUFFER_FN void c_step(int* env) { printf("%d", *env); }': True,
        "PUFFER_FN void c_step(int* env) { *env = (int)sin((double)*env); }": True,
        "PUFFER_TABLE int TABLE[2] = {1, 2};\nPUFFER_FN void c_step(int* env) { *env = TABLE[*env & 1]; }": False,
        "PUFFER_FN void c_step(float* env) { *env = sinf(*env); }": False,
    }
    monkeypatch.setitem(HEADERS, "sinner", folder / "sinner.h")
    if not is_gcc():
        pytest.skip("needs GCC and nm")
    for body, is_sin in sins.items():
        HEADERS["sinner"].write_text(f'#pragma once\n#include "puffer_env.h"\n{body}\n')
        if is_sin:
            with pytest.raises(AssertionError):
                test_a_header_has_no_state_and_calls_nothing_but_math_and_memory("sinner", tmp_path)
        else:
            test_a_header_has_no_state_and_calls_nothing_but_math_and_memory("sinner", tmp_path)
