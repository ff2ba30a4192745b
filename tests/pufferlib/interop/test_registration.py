"""The ids that Gymnasium knows, in whatever order the two libraries are imported."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest
from contract import OF_ONE_AGENT

MAKE = "env = gymnasium.make('pufferlib/squared', size=5); assert env.reset(seed=1)[0].shape == (25,)"
FREE = "assert not {'torch', 'numpy', 'gymnasium'} & {*sys.modules}"


def run(code, folder):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "code",
    [
        f"import gymnasium; import pufferlib; {MAKE}",
        f"import sys, pufferlib; {FREE}; import gymnasium; {MAKE}",
        "import gymnasium; gymnasium.make('pufferlib:pufferlib/squared', size=5)",
        f"import pufferlib, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium; {MAKE}",
        "import gymnasium, pufferlib; assert gymnasium.make_vec('pufferlib/pong', 3).reset()[0].shape == (3, 8)",
        "import gymnasium, pufferlib, sys; assert not {'torch', 'pufferlib.ocean'} & {*sys.modules}",
        f"from pufferlib import ocean; import gymnasium; {MAKE}",
        f"from pufferlib import vector; import gymnasium; {MAKE}",
        "import sys, pufferlib; sys.modules.pop('pufferlib'); import pufferlib, gymnasium; assert not any("
        "'pufferlib' in type(finder).__module__ for finder in sys.meta_path)",
    ],
)
def test_gymnasium_knows_the_ids(code, tmp_path):
    run(code, tmp_path)


def test_a_program_without_gymnasium_has_a_failing_import_as_ever(tmp_path):
    (tmp_path / "gymnasium.py").write_text("raise ImportError('broken')")
    code = (
        f"import sys, pufferlib; sys.path.insert(0, {str(tmp_path)!r})\n"
        "for _ in range(2):\n"
        "    try:\n        import gymnasium\n        raise AssertionError\n"
        "    except ImportError as error:\n        assert str(error) == 'broken'"
    )
    run(code, tmp_path)


@pytest.mark.parametrize("name", OF_ONE_AGENT)
def test_every_environment_is_registered(name):
    spec = gymnasium.spec("pufferlib/" + name.removeprefix("puffer_"))
    assert spec.kwargs == {"name": name} and spec.namespace == "pufferlib"
    env = spec.make()
    assert env.spec.id == spec.id
    env.close()
