"""`puffer new`: copies ocean/template under another name, in a checkout: the build and the tests find it there."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pufferlib import ocean
from pufferlib.config.flags import NewOptions
from pufferlib.dashboard.output import say
from pufferlib.errors import APIUsageError, MissingExtraError
from pufferlib.runs.folder import write_atomically

BUILD = ("setup.py", "-q", "build_ext", "--inplace")

# Names that are taken besides the words of Python: those of C and its limits, and of headers and types beside it.
TAKEN = """
    auto bool break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    intmax intptr llong ptrdiff schar sig_atomic size uchar uintmax ullong ulong wchar wint assert ctype errno features
    limits locale math python raylib rlgl sched setjmp signal stdarg stdbool stddef stdint stdio string time

    audio_stream automation_event automation_event_list binding blend_mode bone_info bounding_box box c camera camera2_d
    camera3_d camera_mode camera_projection client color config_flags cubemap_layout env file_path_list font font_type
    gamepad_axis gamepad_button gesture glyph_info image keyboard_key keys log material material_map material_map_index
    matrix mesh model model_animation model_skeleton mouse_button mouse_cursor music n_patch_info n_patch_layout
    ocean_env pixel_format quaternion ray ray_collision rectangle render render_texture render_texture2_d rng shader
    shader_attribute_data_type shader_location_index shader_uniform_data_type shared sound texture texture2_d
    texture_cubemap texture_filter texture_wrap trace_log_level transform vector2 vector3 vector4 vr_device_info
    vr_stereo_config wave
"""

# Sentences about the template that would be wrong about a copy.
REWORDED = {
    " - a quiz, the shortest complete environment.": " - a quiz, until you write your game here.",
    "To begin your own, copy this folder by `puffer new`: README.md says what is where.": (
        "ocean/template/README.md says what is where."
    ),
    "the shortest complete environment, which `puffer new` copies.": "a quiz, until you write your game.",
}


def new_command(name: str, options: NewOptions) -> None:
    """Makes an environment, compiles it if asked to, and prints what comes next; see `make` and `compile_it`."""
    root = checkout()
    folder, test = make(root, name)
    say(f"made {os.path.relpath(folder)} and {os.path.relpath(test)}, a quiz to begin with")
    command = " ".join(["python", *BUILD])
    steps = {
        command: f"compiles it, after every edit of {name}.h",
        f"puffer train puffer_{name}": "trains an agent on it, in seconds",
        f"pytest -n0 tests/ocean -k {name}": "tests what holds for all environments, and its own rules",
        f"puffer export puffer_{name} --load-model-path latest --format web": "puts it on a page, with the agent",
    }
    if options.build:
        say(f"compiling it: {command}")
        compile_it(root)
        steps[command] = steps.pop(command)  # the last of what comes next
    say("next:" if Path.cwd() == root else f"next, in {root}:")
    width = max(map(len, steps))
    say("\n".join(f"  {step:<{width}}  {meaning}" for step, meaning in steps.items()))
    say(f"{os.path.relpath(root / 'ocean/template/README.md')} says what is where")


def checkout() -> Path:
    """Returns the root of the checkout that this package is imported from; APIUsageError if there is none."""
    root = ocean.config_path("puffer_template").resolve().parents[2]
    if all((root / path).exists() for path in ("setup.py", "ocean/include", "tests/ocean/test_template.py")):
        return root
    raise APIUsageError(
        f"puffer new makes environments in a checkout, found pufferlib installed without one in {root}; "
        "clone its repository and run `pip install -e .` there"
    )


def make(root: Path, name: str) -> tuple[Path, Path]:
    """Copies the template of a checkout and its tests under another name; returns the folder and the file of the tests.

    Raises APIUsageError, before anything is written, if the name cannot be one or is taken, and StorageError if a file
    cannot be written.
    """
    check_name(name)
    folder, test = root / "ocean" / name, root / "tests" / "ocean" / f"test_{name}.py"
    for taken in (folder, folder.with_suffix(".py"), test):
        if taken.exists():
            raise APIUsageError(f"puffer new needs a name that is free, got {name!r} of {taken}; choose another")
    template = root / "ocean" / "template"
    sources = [path for path in sorted(template.iterdir()) if path.suffix in (".c", ".h", ".py", ".ini")]
    copies = {folder / path.name.replace("template", name): path for path in sources}
    copies[test] = test.with_name("test_template.py")
    for copy, path in copies.items():
        write_atomically(copy, renamed(path.read_text(), name).encode())
    _format([*copies])
    return folder, test


def check_name(name: str) -> None:
    """Raises APIUsageError for what cannot be the name of a folder, a Python module, a C type and a header at once."""
    remedy = ""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        rule = "be lower-case letters, digits and single underscores and begin with a letter, such as my_game"
    elif name.startswith("puffer"):
        rule, remedy = "not begin with puffer, which is put before it", "; leave it out"
    elif keyword.iskeyword(name) or keyword.iskeyword(_camel_case(name)) or name in TAKEN.split():
        rule, remedy = "mean nothing in Python, C or here", f"; add a word, such as {name}_game"
    else:
        return
    raise APIUsageError(f"the name of an environment must {rule}, got {name!r}{remedy}")


def renamed(text: str, name: str) -> str:
    """Returns a text of the template as that of another environment."""
    for ours, theirs in REWORDED.items():
        text = text.replace(ours, theirs)
    text = text.replace("PufferLib template", f"PufferLib {name.replace('_', ' ')}")  # a window's title
    for word, other in (("template", name), ("TEMPLATE", name.upper()), ("Template", _camel_case(name))):
        text = re.sub(rf"{word}(?!/README)", other, text)  # those instructions are not copied
    return text


def _camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _format(paths: list[Path]) -> None:
    # Breaks lines and sorts imports for the length of the name, where the formatters are installed.
    python = [str(path) for path in paths if path.suffix == ".py"]
    for tool, *arguments in (
        ("ruff", "check", "--quiet", "--select", "I", "--fix", *python),
        ("ruff", "format", "--quiet", *python),
        ("clang-format", "-i", *(str(path) for path in paths if path.suffix in (".c", ".h"))),
    ):
        found = shutil.which(tool)
        if found is not None:
            subprocess.run([found, *arguments], check=False, capture_output=True)


def compile_it(root: Path) -> None:
    """Runs the build; the compiler's messages go to stderr. Raises MissingExtraError if it fails."""
    environment = {**os.environ, "PUFFER_CUDA": "0"}
    done = subprocess.run([sys.executable, *BUILD], cwd=root, env=environment, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise MissingExtraError(
            f"`python {' '.join(BUILD)}` must end without an error, got exit status {done.returncode}; see above, or "
            "run `pip install -e .`, which brings the tools of the build"
        )
