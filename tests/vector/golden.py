"""The golden hashes of all environments in C: `python tests/vector/golden.py [NAME...]`.

Adds to golden.json what it lacks, and makes those anew that are named. A change of an environment's rules, draws or
rows changes its hash; let it be meant.

An environment that computes with + - * / and square roots alone has the same bits on every machine, as the build fuses
no operations. Sines and exponentials are the C library's, whose last bits differ from one library to the next: so a
fingerprint of the library stands beside the hashes. Where another one is found, the environments that call it are held
to no golden hash, only to themselves on every backend.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
from rollouts import digest, make_quietly, rollout

from pufferlib import ocean
from pufferlib.ocean.environment import OceanEnv

FILE = Path(__file__).with_name("golden.json")
NUM_AGENTS = 131  # about, in each of two PufferEnvs: a prime number, so that shares are uneven
STEPS = 256
OF_ONE = "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p cbrt"  # arguments, in math.h
OF_TWO = "atan2 pow hypot"
INEXACT = re.compile(rf"\b({f'{OF_ONE} {OF_TWO}'.replace(' ', '|')})f\(")


def compiled_names() -> list[str]:
    return [name for name in ocean.names() if issubclass(ocean.env_class(name), OceanEnv)]


def fingerprint(name: str, **options) -> str:
    """The hash of one rollout of an environment, through a backend."""
    env_class = ocean.env_class(name)
    sizes = {"env_kwargs": {"num_envs": max(3, NUM_AGENTS // env_class.agents_per_env)}, "num_envs": 2, "seed": 3}
    return digest(rollout(make_quietly(env_class, **sizes, **options), steps=STEPS))


def calls_the_library(name: str) -> bool:
    """Whether an environment calls a function that rounds differently from one C library to the next."""
    headers = [path for path in ocean.config_path(name).parent.glob("*.h") if not path.stem.endswith("_render")]
    return any(INEXACT.search(path.read_text()) for path in headers)


def library_fingerprint() -> str:
    """The hash of what this machine's C library has for those functions, at many places."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    places = [ctypes.c_float(place) for place in np.random.default_rng(0).uniform(-8, 8, 500).tolist()]
    hashed = hashlib.sha256()
    for function in (*OF_ONE.split(), *OF_TWO.split()):
        call = getattr(library, f"{function}f")
        call.restype = ctypes.c_float
        more = [ctypes.c_float(1.7)] if function in OF_TWO.split() else []
        found = np.array([call(place, *more) for place in places], np.float32)
        hashed.update(np.nan_to_num(found).tobytes())  # the bits of a NaN mean nothing
    return hashed.hexdigest()[:16]


def main(anew: list[str]) -> None:
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    library, names = library_fingerprint(), compiled_names()
    is_same = content.get("library") == library  # else what that one rounded does not stand beside this one's
    kept = {
        name: value
        for name, value in content.get("hashes", {}).items()
        if name in names and name not in anew and (is_same or not calls_the_library(name))
    }
    added = {name: fingerprint(name, backend="Serial") for name in names if name not in kept}
    hashes = dict(sorted((kept | added).items()))
    content = {"made by": "python tests/vector/golden.py", "library": library, "hashes": hashes}
    FILE.write_text(json.dumps(content, indent=4) + "\n")
    print(f"{len(kept)} kept, made {', '.join(added) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
