"""Checkpoints that were cut or in which bits were flipped: refused in one sentence, or loaded as they were."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command
import torch
from fault_case import Fault, Outcome
from fault_run import HERE, PATIENCE_SECONDS, plant_all

from pufferlib import PuffeRL
from pufferlib.errors import CheckpointError
from pufferlib.runs import checkpoint

CUTS, FLIPS = 50, 200  # of each file, in the long version
FILES = ("trainer_state.pt", "model_puffer_squared_000004.pt")
SABOTEURS = {
    "checksums_unread": Fault.WEIGHTS,
    "refusals_half_done": Fault.WEIGHTS,
    "earlier_weights_unnamed": Fault.MESSAGE,
}


def survive_damage(folder: Path, name: str, cuts: int, flips: int, saboteur: str | None = None) -> Outcome:
    """Loads one of FILES damaged in so many ways, each into a trainer that has learnt something else meanwhile.

    Args:
        folder: an empty one.
        name: of the file.
        cuts: how often it is truncated, at offsets spread over its length.
        flips: how many single bits are flipped, anywhere in it.
        saboteur: a function of `saboteurs`, by which the library is broken.
    """
    process = command.context.Process(target=_main, args=(str(folder), name, cuts, flips, saboteur))
    process.start()
    process.join(PATIENCE_SECONDS)
    found = json.loads((folder / "found.json").read_text())
    complaints = tuple((Fault[kind], text) for kind, text in found["complaints"])
    resumed = f"{found['refused']} refused, {found['loaded']} loaded as they were"
    return Outcome(complaints, found["message"], found["seconds"], (), resumed, cuts + flips)


def _main(folder: str, name: str, cuts: int, flips: int, saboteur: str | None) -> None:
    sys.path[:0] = [str(HERE)]
    os.chdir(folder)
    plant_all([("saboteurs", saboteur)] if saboteur else [])
    trainer = PuffeRL("puffer_squared", num_envs=8, batch_size=256, device="cpu", checkpoint_interval=2)
    for _ in range(5):  # of which the second and the fourth are saved
        trainer.evaluate(), trainer.train()
    path = trainer.run_folder / name
    judge = Judge(trainer, path)
    for what, damaged in damages(judge.content, cuts, flips):
        path.write_bytes(damaged)
        judge.look(what)
    Path("found.json").write_text(json.dumps(judge.found))
    os._exit(0)


class Judge:
    """Loads a checkpoint again and again, and keeps what was wrong about it."""

    def __init__(self, trainer: PuffeRL, path: Path):
        self.trainer, self.path, self.content = trainer, path, path.read_bytes()
        self.saved = checkpoint.load(path)
        self.weights = dict(checkpoint.load(path.with_name("model_puffer_squared_000004.pt")))
        earlier = 4 if path.name == FILES[0] else 2
        self.remedy = f"model_puffer_squared_{earlier:06d}.pt, from whose weights --load-model-path begins a new run"
        self.found = {"complaints": [], "refused": 0, "loaded": 0, "message": "", "seconds": 0.0}

    def look(self, what: str) -> None:
        before = self.learnt()
        began = time.monotonic()
        try:
            self.trainer.load_checkpoint(self.trainer.run_folder)
        except CheckpointError as error:
            told = str(error)
            self.found["refused"] += 1
            self.found["seconds"] = max(self.found["seconds"], time.monotonic() - began)
            self.found["message"] = f"puffer: {told}"
            if "\n" in told or self.path.name not in told or not told.endswith(self.remedy):
                self.complain(Fault.MESSAGE, f"{what}: {told}")
            if not is_same(self.learnt(), before) or self.trainer.epoch != 5:
                self.complain(Fault.WEIGHTS, f"{what}: it was refused, and changed the trainer")
        except Exception as error:
            self.complain(Fault.MESSAGE, f"{what}: {type(error).__name__}: {error}")
        else:
            self.found["loaded"] += 1
            is_exact = is_same(checkpoint.load(self.path), self.saved) and is_same(self.learnt(), self.weights)
            if not is_exact:
                self.complain(Fault.WEIGHTS, f"{what}: something else was loaded")
            self.begin_anew()

    def learnt(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self.trainer.policy.state_dict().items()}

    def begin_anew(self) -> None:
        """Brings the trainer to where it was."""
        self.path.write_bytes(self.content)
        self.trainer.load_checkpoint(self.trainer.run_folder)
        self.trainer.evaluate(), self.trainer.train()

    def complain(self, fault: Fault, text: str) -> None:
        self.found["complaints"].append((fault.name, text))


def is_same(first: Any, second: Any) -> bool:
    """Whether two checkpoints hold the same."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(is_same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(is_same, first, second))
    return first == second or first != first  # NaN


def damages(content: bytes, cuts: int, flips: int) -> Iterator[tuple[str, bytes]]:
    """The content damaged in every way, with what was done."""
    for index in range(cuts):
        length = index * (len(content) - 1) // max(cuts - 1, 1)
        yield f"cut after {length} of {len(content)} bytes", content[:length]
    rng = random.Random(0)
    for _ in range(flips):
        position, bit = rng.randrange(len(content)), rng.randrange(8)
        flipped = bytearray(content)
        flipped[position] ^= 1 << bit
        yield f"bit {bit} of byte {position} flipped", bytes(flipped)
