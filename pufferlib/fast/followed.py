"""Tells whether the kernels still compute what ppo/ says.

extensions/ppo_row.h and decision_row.h are losses.py and sampling.py once more, in C++ and CUDA and with derivatives by
hand; extensions/ppo.cu draws minibatches as advantages.py does. An edit of one of these files takes effect at once, by
torch. A test fails until the kernels follow it, which `python -m pufferlib.fast.followed` records: it updates the
hashes.
"""

from __future__ import annotations

import functools
import hashlib
import io
import tokenize
from pathlib import Path

from pufferlib.ppo import advantages, losses, sampling

HASHES = Path(__file__).with_name("followed.txt")
_MODULES = (advantages, losses, sampling)
_UNSEEN = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)


@functools.cache
def stale_files() -> tuple[str, ...]:
    """The files that changed since the kernels followed them, such as `ppo/losses.py`."""
    known = dict(line.split() for line in HASHES.read_text().splitlines())
    return tuple(name for name, found in hashes().items() if known.get(name) != found)


def hashes() -> dict[str, str]:
    """A hash of the code of each file, without its imports, comments and docstrings."""
    return {f"ppo/{Path(module.__file__).name}": _hash(Path(module.__file__)) for module in _MODULES}


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    line: list[str] = []  # the tokens of a statement, or of the head of a compound one
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NEWLINE:
            is_docstring = len(line) == 1 and line[0].startswith(('"', "'"))
            if line and line[0] not in ("import", "from") and not is_docstring:
                digest.update(" ".join(line).encode() + b"\n")
            line = []
        elif token.type not in _UNSEEN:
            line.append(token.string)
    return digest.hexdigest()[:16]


def update_hashes() -> None:
    """Records that the kernel computes what the files say now."""
    HASHES.write_text("".join(f"{name} {found}\n" for name, found in hashes().items()))


if __name__ == "__main__":
    update_hashes()
