"""The package as others get it: what importing does, what a wheel holds, what a build rebuilds."""

import ast
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import pufferlib

ROOT = Path(__file__).parents[1]
MAPPED = ("ocean", "vector", "extensions")
ONE_INSTRUCTION_SET = "-DKERNEL_BASELINE"  # which compiles in a quarter of the time
BUILD_PRODUCTS = shutil.ignore_patterns(
    *("*.so", "*.o", "*.fatbin", "*.pyc", "__pycache__", "*.egg-info", "build", "dist"), *(".*", "experiments", "tests")
)


def run(*command, **kwargs):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **kwargs)


def test_import_is_free(tmp_path):
    code = (
        "import os, signal, sys, warnings; handler = signal.getsignal(signal.SIGINT); filters = warnings.filters[:];"
        "out = sys.stdout; import pufferlib;"
        "assert signal.getsignal(signal.SIGINT) is handler and not os.listdir() and sys.stdout is out;"
        "assert warnings.filters == filters; assert not {'torch', 'numpy', 'gymnasium', 'rich'} & {*sys.modules}"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", pufferlib.__all__)
def test_a_public_name_is_found_when_it_is_used(name):
    assert getattr(pufferlib, name) is getattr(pufferlib, name)
    assert name in dir(pufferlib)


def test_type_checkers_see_the_public_names():
    tree = ast.parse(Path(pufferlib.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("puff")]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == {name: pufferlib._HOMES[name] for name in pufferlib.__all__ if name != "__version__"}


def test_environments_need_no_torch(tmp_path):
    code = "import sys; from pufferlib import PufferEnv, ocean; ocean.names(); assert 'torch' not in sys.modules"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_looking_names_up_needs_nothing_that_is_optional_or_slow(tmp_path):
    code = (
        "import sys; from pufferlib.families import catalog; assert not {'torch', 'gymnasium'} & {*sys.modules};"
        "import pufferlib.vector; catalog.families();"
        "assert not {'torch', 'ray', 'ale_py', 'pettingzoo', 'minigrid', 'mujoco', 'rich'} & {*sys.modules}"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pufferlib' has no attribute 'PufferEnvironment'"):
        pufferlib.PufferEnvironment  # noqa: B018
    with pytest.raises(ImportError):
        from pufferlib import no_such_name  # noqa: F401


def test_the_version_is_written_once():
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert pufferlib.__version__ == version
    sources = [path for folder in ("pufferlib", *MAPPED) for path in (ROOT / folder).rglob("*.[pc]*y*")]
    assert sources
    assert [path for path in sources if path.suffix in (".py", ".c", ".pyx") and version in path.read_text()] == []


def test_the_folders_are_mapped_into_the_package():
    for folder in MAPPED:
        module = importlib.import_module(f"pufferlib.{folder}")
        assert Path(module.__file__).resolve() == (ROOT / folder / "__init__.py").resolve()
        inside = ROOT / "pufferlib" / folder  # an editable install links it
        assert inside.is_symlink() or not inside.exists(), f"pufferlib/{folder} would hide {folder}/"
    wrong = re.compile(rf"^\s*(from|import) ({'|'.join(MAPPED)})\b", re.MULTILINE)
    sources = [path for folder in ("pufferlib", "tests", "bench", *MAPPED) for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in sources if wrong.search(path.read_text())] == []


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A clean copy of the sources with two environments, squared and its copy twin; quick to build."""
    for module in ("setuptools", "Cython"):
        pytest.importorskip(module, reason="building needs it; pip install -e '.[test]'")
    copy = tmp_path_factory.mktemp("build") / "tree"
    shutil.copytree(ROOT, copy, ignore=BUILD_PRODUCTS, symlinks=True)
    for name in MAPPED:
        (copy / "pufferlib" / name).unlink(missing_ok=True)  # links of an editable install of ROOT
    shutil.copy(ROOT / ".gitignore", copy)
    setup_file = copy / "setup.py"
    setup_file.write_text(setup_file.read_text().replace('"-O3"', '"-O1"'))  # which compiles in less than half the time
    for folder in (copy / "ocean").iterdir():
        if folder.is_dir() and folder.name not in ("squared", "include"):
            shutil.rmtree(folder)
    shutil.copytree(copy / "ocean" / "squared", copy / "ocean" / "twin")
    for path in (copy / "ocean" / "twin").glob("pretrained.*"):
        path.unlink()
    for path in (copy / "ocean" / "twin").iterdir():
        path.write_text(path.read_text().replace("squared", "twin"))
        path.rename(path.with_name(path.name.replace("squared", "twin")))
    return copy


def setup(folder, *command, **variables):
    """Runs setup.py with none of this project's variables but those given; returns what it printed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PUFFER_")}
    environment = clean | {"PUFFER_CUDA": "0"} | variables
    done = run(sys.executable, "setup.py", *command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Built:
    """What came out of an sdist: its folder with the build in it, the wheel, and the log of the compiler."""

    folder: Path
    wheel: Path
    log: str


@pytest.fixture(scope="module")
def built(tree, tmp_path_factory):
    """A portable wheel, built from an sdist: what the sdist lacks is missed here."""
    out = tmp_path_factory.mktemp("dist")
    setup(tree, "-q", "sdist", "-d", out)
    shutil.unpack_archive(next(out.glob("*.tar.gz")), out)
    folder = next(path for path in out.iterdir() if path.is_dir())
    variables = {"PUFFER_PORTABLE": "1", "PUFFER_WERROR": "1", "CPPFLAGS": ONE_INSTRUCTION_SET}
    log = setup(folder, "bdist_wheel", "-d", out, **variables)
    return Built(folder, next(out.glob("*.whl")), log)


@pytest.mark.slow
def test_a_wheel_holds_all_that_is_read_at_run_time(built, tree):
    names = set(zipfile.ZipFile(built.wheel).namelist())
    kept = {
        ".py",
        ".ini",
        ".h",
        ".cu",
        ".md",
        ".txt",
        ".ttf",
        ".typed",
        ".pt",
        ".json",
        ".bash",
        ".zsh",
        ".fish",
        ".html",
        ".js",
        ".jinja",
    }
    for folder in ("pufferlib", *MAPPED):
        for path in (tree / folder).rglob("*"):
            is_package = (path.parent / "__init__.py").exists() or path.parent.name in ("include", "assets")
            if path.suffix in kept and is_package:
                inside = path.relative_to(tree).as_posix()
                assert (inside if folder == "pufferlib" else f"pufferlib/{inside}") in names
    assert "pufferlib/py.typed" in names and "pufferlib/ocean/include/puffer_env.h" in names
    modules = {re.sub(r"\..*", "", name) for name in names if name.endswith(".so")}
    for short in ("squared", "twin"):
        assert f"pufferlib/ocean/{short}/binding" in modules
        assert f"pufferlib/ocean/{short}/render" in modules or importlib.util.find_spec("raylib") is None
    exported = {"pufferlib/export/play.c", "pufferlib/export/web/web.c"}
    exported |= {f"pufferlib/ocean/{short}/binding.c" for short in ("squared", "twin")}
    assert exported <= names
    others = names - exported
    assert not [name for name in others if name.endswith((".c", ".cpp", ".pyx")) or name.startswith("tests/")]


@pytest.mark.slow
def test_an_sdist_holds_no_tests(built):
    """setuptools takes some of them by itself, which do not run without the others."""
    assert not (built.folder / "tests").exists()


@pytest.mark.slow
def test_a_portable_build_asks_for_no_special_machine(built):
    assert "-std=c11" in built.log
    assert "-march=native" not in built.log


@pytest.mark.slow
def test_a_wheel_works_where_it_is_unpacked(built, tmp_path):
    zipfile.ZipFile(built.wheel).extractall(tmp_path)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder)]
from pufferlib import ocean
assert ocean.__file__.startswith({str(tmp_path)!r}), ocean.__file__
assert ocean.names() == ["puffer_squared", "puffer_twin"]
env = ocean.env_class("puffer_twin")(num_envs=2)
env.reset(seed=0)
env.step(env.actions)
"""
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def modules(folder):
    """When each native module under a folder was built."""
    return {f"{path.parent.name}/{path.name.split('.')[0]}": path.stat().st_mtime_ns for path in folder.rglob("*.so")}


def assert_only_what_changed_is_rebuilt(folder, products, *command):
    first = modules(products)
    assert {"squared/binding", "twin/binding", "vector/_native", "extensions/cpu_kernels"} <= set(first)
    setup(folder, *command)
    assert modules(products) == first
    os.utime(folder / "ocean" / "twin" / "twin.h", ns=(max(first.values()) + 10**9,) * 2)
    log = setup(folder, *command)
    rebuilt = {module for module, time in modules(products).items() if time != first[module]}
    assert rebuilt == {module for module in first if module.startswith("twin/")}
    assert "-march=native" in log  # the default is the machine at hand


@pytest.mark.slow
def test_only_what_changed_is_rebuilt(built):
    assert_only_what_changed_is_rebuilt(built.folder, built.folder / "build", "build_ext")


@pytest.fixture(scope="module")
def editable(tree, tmp_path_factory):
    """A copy of the sources after what `pip install -e .` does to it, and the wheel that it installs."""
    folder = tmp_path_factory.mktemp("editable")
    shutil.copytree(tree, folder / "tree", symlinks=True)
    code = f"from setuptools.build_meta import build_editable; build_editable({str(folder)!r})"
    variables = {"PUFFER_CUDA": "0", "CPPFLAGS": ONE_INSTRUCTION_SET}
    done = run(sys.executable, "-c", code, cwd=folder / "tree", env=os.environ | variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(folder / "tree", next(folder.glob("*.whl")), done.stdout)


@pytest.fixture(scope="module")
def python(editable, tmp_path_factory):
    """An interpreter with nothing but that wheel."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    path = folder / "bin" / "python"
    site = run(path, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    zipfile.ZipFile(editable.wheel).extractall(site)
    return path


@pytest.mark.slow
def test_an_editable_install_is_found_past_folders_of_its_name(editable, python, tmp_path):
    (tmp_path / "pufferlib" / "ocean").mkdir(parents=True)  # such as a clone, seen from its parent
    code = "from importlib.util import find_spec; print(find_spec('pufferlib.ocean').origin)"
    for folder in (tmp_path, editable.folder):
        done = run(python, "-c", code, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()).resolve() == editable.folder / "ocean" / "__init__.py"


@pytest.mark.slow
def test_a_type_checker_finds_an_editable_install(python, tmp_path):
    pytest.importorskip("mypy", reason="the type checker; pip install -e '.[test]'")
    types = {
        "PufferEnv.close": "def (self: pufferlib.environment.PufferEnv)",
        "ocean.names": "def () -> list[str]",
        "vector.Serial.close": "def (self: pufferlib.vector.base.Vector)",
        "cuda_library.Program.name": "str",
        "NoLogger()": "pufferlib.loggers.logger.NoLogger",
        "PufferEnv.observations": "Any",  # NumPy is not in that interpreter
    }
    program = tmp_path / "program.py"
    shown = "\n".join(f"reveal_type({name})" for name in types)
    imports = "from pufferlib import NoLogger, PufferEnv, ocean, vector\nfrom pufferlib.extensions import cuda_library"
    program.write_text(f"{imports}\n{shown}\n")
    done = run(sys.executable, "-m", "mypy", "--python-executable", python, program, cwd=tmp_path)
    assert re.findall('Revealed type is "(.+)"', done.stdout) == [*types.values()], done.stdout + done.stderr
    assert not re.findall("abstract|has no attribute", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_an_editable_install_leaves_nothing_for_git_to_add(editable, tree):
    def files(folder):
        run("git", "init", "-q", cwd=folder)
        return run("git", "ls-files", "--others", "--exclude-standard", cwd=folder).stdout.splitlines()

    assert files(editable.folder) == files(tree)


@pytest.mark.slow
def test_a_build_in_place_begins_with_what_an_editable_install_built(editable):
    assert_only_what_changed_is_rebuilt(editable.folder, editable.folder, "build_ext", "--inplace")
