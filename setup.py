"""Finds and compiles the native modules; everything else is declared in pyproject.toml.

Every `ocean/<name>/binding.c` and `<name>_render.h` is an extension module of its own, so editing one environment
rebuilds that one alone. `PUFFER_PORTABLE=1` builds for any machine of this architecture instead of this very one. CUDA
kernels are compiled where nvcc is found, elsewhere at first use; `PUFFER_CUDA=0` leaves all of them to first use.
"""

import copy
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.editable_wheel import editable_wheel
from setuptools.errors import PlatformError

ROOT = Path(__file__).parent
FOLDERS = ("ocean", "vector", "extensions")  # mapped to pufferlib.<folder>
INCLUDE = "ocean/include"

compile_args = ["-O3", "-fno-math-errno", "-Wall", "-Wextra", "-Wformat-security", "-Wno-unused-parameter"]
compile_args += [] if os.environ.get("PUFFER_PORTABLE") == "1" else ["-march=native"]
compile_args += ["-Werror"] if os.environ.get("PUFFER_WERROR") == "1" else []

SANITIZERS = os.environ.get("PUFFER_SANITIZE")  # such as "address,undefined"; bench/sanitize.py builds so, in a copy

# So that a write beyond an array of the stack, or a library call beyond any whose size is known, ends the process, and
# tables of addresses cannot be written. Of each line the first that compiler and linker know; bench/NOTES.md has costs.
HARDENING = (
    ("-D_FORTIFY_SOURCE=3", "-D_FORTIFY_SOURCE=2"),
    ("-fstack-protector-strong",),
    ("-fstack-clash-protection",),
    ("-fcf-protection",),
)
HARDENED_LINK = (("-Wl,-z,relro",), ("-Wl,-z,now",), ("-Wl,-z,noexecstack",))


def headers(*folders):
    return [str(path) for folder in folders for path in sorted(Path(folder).glob("*.h"))]


def environments():
    return [path.parent for path in sorted(Path("ocean").glob("*/binding.c"))]


def environment_module(folder, name, source, **options):
    """A module of the environment in a folder, rebuilt when its folder's or the common headers change."""
    return Extension(
        f"pufferlib.ocean.{folder.name}.{name}",
        [str(source)],
        include_dirs=[INCLUDE, *options.pop("include_dirs", ())],
        depends=headers(INCLUDE, folder),
        # Without fused multiply-adds a rollout is the same on every machine.
        extra_compile_args=["-std=c11", "-ffp-contract=off", *compile_args],
        **options,
    )


def bindings():
    """The environments' modules, which know what they were compiled from."""
    fingerprint = runpy.run_path("ocean/sources.py")["fingerprint"]
    return [
        environment_module(
            folder,
            "binding",
            folder / "binding.c",
            define_macros=[("ENV_SOURCES", f'"{fingerprint(folder)}"')],
        )
        for folder in environments()
    ]


def render_modules():
    """The screen, and what draws on it; they find raylib's symbols at run time. None without its header."""
    spec = importlib.util.find_spec("raylib")
    if spec is None:
        print("raylib is not installed: building without render modules", file=sys.stderr)
        return []
    options = {
        "include_dirs": [str(Path(spec.origin).parent)],
        "extra_link_args": ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else [],
    }
    drawn = [folder for folder in environments() if (folder / f"{folder.name}_render.h").exists()]
    return [screen_module(**options), *(render_module(folder, **options) for folder in drawn)]


def screen_module(include_dirs, **options):
    """The window of raylib, its frames, the font."""
    return Extension(
        "pufferlib.ocean._screen",
        [f"{INCLUDE}/puffer_screen_module.c"],
        include_dirs=[INCLUDE, *include_dirs],
        depends=headers(INCLUDE),
        extra_compile_args=["-std=c11", *compile_args],
        **options,
    )


def render_module(folder, include_dirs, **options):
    """The module that draws the environment in a folder, one source for all."""
    return environment_module(
        folder,
        "render",
        f"{INCLUDE}/puffer_render_module.c",
        include_dirs=[str(folder), *include_dirs],
        define_macros=[("ENV_NAME", f'"{folder.name}"'), ("RENDER_HEADER", f'"{folder.name}_render.h"')],
        **options,
    )


def cpu_kernels():
    """A plain C library that pufferlib.extensions opens with ctypes: the build needs no torch."""
    read = runpy.run_path("extensions/declarations.py")
    fingerprint = read["fingerprint"](Path("extensions/cpu_kernels.h").read_text())
    return Extension(
        "pufferlib.extensions.cpu_kernels",
        sorted(map(str, Path("extensions").glob("*.cpp"))),
        depends=headers("extensions"),
        define_macros=[("KERNEL_DECLARATIONS", f'"{fingerprint}"')],
        extra_compile_args=["-std=c++17", "-fno-trapping-math", *compile_args],  # no trap, so a choice needs no branch
    )


def kernel_threads():
    """The vectors' thread pool once more, as a plain C library: kernels run on one of their own."""
    return Extension(
        "pufferlib.extensions.thread_pool",
        ["vector/src/thread_pool.c"],
        depends=headers("vector/src"),
        extra_compile_args=["-std=c11", *compile_args],
        extra_link_args=["-pthread"],
    )


def build_cuda_kernels(folder):
    """Compiles extensions/*.cu into `folder`/*.fatbin, named by a hash of their sources; others wait for first use."""
    nvcc = shutil.which("nvcc")
    if nvcc is None or os.environ.get("PUFFER_CUDA") == "0":
        return
    fatbin_name = runpy.run_path("extensions/cuda_sources.py")["fatbin_name"]
    for source in sorted(Path("extensions").glob("*.cu")):
        target = Path(folder, fatbin_name(source.parent, source.stem))
        if target.exists():
            continue
        for stale in (target.with_stem(source.stem), *target.parent.glob(f"{source.stem}-*.fatbin")):
            stale.unlink(missing_ok=True)
        unfinished = target.with_suffix(".tmp")
        command = [nvcc, "-fatbin", "-arch=all-major", "--threads=0", "-std=c++17", "-O3", str(source), "-o"]
        if subprocess.run([*command, str(unfinished)]).returncode == 0:
            unfinished.replace(target)
        else:
            print(f"nvcc could not compile {source}: leaving it to first use", file=sys.stderr)
            unfinished.unlink(missing_ok=True)


def vector_module():
    """The thread pool under its Cython class."""
    return Extension(
        "pufferlib.vector._native",
        ["vector/_native.pyx", "vector/src/thread_pool.c"],
        include_dirs=[INCLUDE, "vector/src"],
        depends=headers(INCLUDE, "vector/src"),
        extra_compile_args=["-std=c11", *compile_args],
        extra_link_args=["-pthread"],
    )


def sanitizing():
    """Flags for the compiler and for the linker; Python's own -fwrapv would hide what overflows."""
    names = f"-fsanitize={SANITIZERS}"
    return [names, "-O1", "-g1", "-fno-omit-frame-pointer", "-fno-wrapv", "-DKERNEL_OUTLINED"], [names]


def hardening(compiler):
    """The flags for a compiler and for its linker."""
    if shutil.which(compiler.compiler_so[0]) is None:
        raise PlatformError(
            f"the build needs a compiler for C and C++, and {compiler.compiler_so[0]} is not there; install "
            "build-essential and python3-dev (Debian, Ubuntu), gcc-c++ and python3-devel (Fedora), xcode-select (macOS)"
        )
    compile_command, link_command = [*compiler.compiler_so, "-O2", "-c"], compiler.linker_so
    return taken(compile_command, HARDENING), taken(link_command, HARDENED_LINK)


def taken(command, choices):
    """Of each choice the first flag with which a source that includes a header compiles without a warning."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("#include <string.h>\n")

        def is_taken(flag):
            whole = [*command, "-Werror", flag, str(source), "-o", f"{folder}/out"]
            return subprocess.run(whole, capture_output=True).returncode == 0

        return [flag for flags in choices for flag in [*filter(is_taken, flags)][:1]]


class ParallelBuild(build_ext):
    """build_ext on all cores, and the CUDA kernels."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        common = sanitizing() if SANITIZERS else hardening(self.compiler)
        for ext in self.extensions:
            ext.extra_compile_args += common[0]
            ext.extra_link_args += common[1]
        super().build_extensions()

    def build_extension(self, ext):
        # With object files of its own: one source makes several modules, at the same time.
        alone = copy.copy(self)
        alone.build_temp = str(Path(self.build_temp, ext.name))
        super(ParallelBuild, alone).build_extension(ext)

    def run(self):
        # Past setuptools' own run, which builds elsewhere and copies: in place, what lies there is compared with its
        # sources, whoever built it. An editable install would build in a folder that is then removed.
        super(build_ext, self).run()
        package = "pufferlib.extensions"
        folder = self.get_finalized_command("build_py").get_package_dir(package)
        build_cuda_kernels(folder if self.inplace else Path(self.build_lib, *package.split(".")))


class LinkedInstall(editable_wheel):
    """`pip install -e .` as one folder on the path: type checkers follow that, where they run no import hook.

    For this the mapped folders are linked into pufferlib/. Where a file system has no links, it is the hook.
    """

    def finalize_options(self):
        super().finalize_options()
        if self.mode is None and link_folders():
            self.distribution.package_dir = self.package_dir = {"": "."}


def link_folders():
    """Makes pufferlib/<folder> a link to each mapped folder; whether that was possible."""
    try:
        for folder in FOLDERS:
            link = Path("pufferlib", folder)
            if not link.is_symlink():
                link.symlink_to(Path("..", folder), target_is_directory=True)
    except OSError as error:
        print(f"type checkers will not find {', '.join(FOLDERS)}: {error}", file=sys.stderr)
        return False
    return True


os.chdir(ROOT)
links = [name for folder in FOLDERS for name in (f"pufferlib.{folder}", f"pufferlib.{folder}.*")]
packages = find_packages(include=["pufferlib", "pufferlib.*"], exclude=links)
for folder in FOLDERS:
    packages += [f"pufferlib.{folder}", *(f"pufferlib.{folder}.{name}" for name in find_packages(folder))]

setup(
    packages=packages,
    package_dir={"pufferlib": "pufferlib", **{f"pufferlib.{folder}": folder for folder in FOLDERS}},
    package_data={
        "": ["*.ini", "*.h", "*.cu", "*.md", "py.typed", "pretrained.*", "binding.c"],  # binding.c goes into exports
        "pufferlib.export": ["play.c", "policy.h.jinja", "web/*"],
        "pufferlib.fast": ["followed.txt"],
        "pufferlib.ocean": ["include/*.h", "assets/*"],
        "pufferlib.families": ["tuned/*.ini", "*.csv"],
        "pufferlib.completion": ["puffer.*"],
        "pufferlib.reports": ["*.html"],
        "pufferlib.sweep": ["*.html"],
    },
    ext_modules=[
        *bindings(),
        *render_modules(),
        *(cpu_kernels(), kernel_threads(), vector_module()),
    ],
    cmdclass={"build_ext": ParallelBuild, "editable_wheel": LinkedInstall},
)
