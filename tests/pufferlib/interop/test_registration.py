"""The ids that Gymnasium knows, in whatever order the two libraries are imported."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest
from contract import OF_ONE_AGENT

import pufferlib.interop  # noqa: F401 - registers the ids, also where pufferlib was imported before gymnasium

MAKE = "env = gymnasium.make('pufferlib/squared', size=5); assert env.reset(seed=1)[0].shape == (25,)"
FREE = "assert not {'torch', 'numpy', 'gymnasium'} & {*sys.modules}"


def run(code, folder):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.quick("code0", "code5")
@pytest.mark.parametrize(
    "code",
    [
        f"import gymnasium; import pufferlib; {MAKE}",
        f"import sys, pufferlib; {FREE}; import gymnasium, pufferlib.interop; {MAKE}",
        "import pufferlib, gymnasium; gymnasium.make('pufferlib.interop:pufferlib/squared', size=5)",
        f"import gymnasium; import pufferlib; gymnasium.register_envs(pufferlib); {MAKE}",
        "import gymnasium; gymnasium.make('pufferlib:pufferlib/squared', size=5)",
        "import gymnasium, pufferlib; assert gymnasium.make_vec('pufferlib/pong', 3).reset()[0].shape == (3, 8)",
        "import gymnasium, pufferlib, sys; assert not {'torch', 'pufferlib.ocean'} & {*sys.modules}",
        "import sys; finders = [*sys.meta_path]; import pufferlib, gymnasium; assert sys.meta_path == finders",
    ],
)
def test_gymnasium_knows_the_ids(code, tmp_path):
    run(code, tmp_path)


@pytest.mark.parametrize("name", OF_ONE_AGENT)
def test_every_environment_is_registered(name):
    spec = gymnasium.spec("pufferlib/" + name.removeprefix("puffer_"))
    assert spec.kwargs == {"name": name} and spec.namespace == "pufferlib"
    env = spec.make()
    assert env.spec.id == spec.id
    env.close()
