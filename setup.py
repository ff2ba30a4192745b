"""Finds and compiles the native modules; everything else is declared in pyproject.toml.

Every `ocean/<name>/binding.c` and `render.c` is an extension module of its own, so editing one environment rebuilds
that one alone. `PUFFER_PORTABLE=1` builds for any machine of this architecture instead of this very one.
"""

import importlib.util
import os
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
FOLDERS = ("ocean", "vector", "extensions")  # mapped to pufferlib.<folder>
INCLUDE = "ocean/include"

compile_args = ["-O3", "-fno-math-errno", "-Wall", "-Wextra", "-Wno-unused-parameter"]
compile_args += [] if os.environ.get("PUFFER_PORTABLE") == "1" else ["-march=native"]
compile_args += ["-Werror"] if os.environ.get("PUFFER_WERROR") == "1" else []


def headers(*folders):
    return [str(path) for folder in folders for path in sorted(Path(folder).glob("*.h"))]


def environment_modules(source, include_dirs, link_args=()):
    """One extension for every ocean/*/<source>, rebuilt when its folder's or the common headers change."""
    return [
        Extension(
            f"pufferlib.ocean.{path.parent.name}.{path.stem}",
            [str(path)],
            include_dirs=[INCLUDE, *include_dirs],
            depends=headers(INCLUDE, path.parent),
            extra_compile_args=["-std=c11", *compile_args],
            extra_link_args=list(link_args),
        )
        for path in sorted(Path("ocean").glob(f"*/{source}"))
    ]


def render_modules():
    """The modules that draw; they find raylib's symbols at run time. None without raylib's header."""
    spec = importlib.util.find_spec("raylib")
    if spec is None:
        print("raylib is not installed: building without render modules", file=sys.stderr)
        return []
    link_args = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    return environment_modules("render.c", [str(Path(spec.origin).parent)], link_args)


class ParallelBuild(build_ext):
    """build_ext on all cores."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()


os.chdir(ROOT)
packages = find_packages(include=["pufferlib", "pufferlib.*"])
for folder in FOLDERS:
    packages += [f"pufferlib.{folder}", *(f"pufferlib.{folder}.{name}" for name in find_packages(folder))]

setup(
    packages=packages,
    package_dir={"pufferlib": "pufferlib", **{f"pufferlib.{folder}": folder for folder in FOLDERS}},
    package_data={"": ["*.ini", "*.h", "*.md", "py.typed"], "pufferlib.ocean": ["include/*.h"]},
    ext_modules=environment_modules("binding.c", []) + render_modules(),
    cmdclass={"build_ext": ParallelBuild},
)
