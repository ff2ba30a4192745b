"""How policies of one's own learn breakout by torch and by the kernel, from the same seeds.

    python bench/policy_curves.py CleanRL Normed Residual HandLSTM HandMinGRU
    python bench/policy_curves.py CleanRL --seeds 1 2 3 4 --steps 5_000_000 -- --train.learning-rate 0.01

Names are those of bench/policy_corpus.py. The score is its mean over the episodes that ended in each of eight equal
parts of the run; what follows `--` are settings as `puffer train` takes them, beside breakout's own, whose learning
rate is annealed over the run. Both compute in float32. From one seed both begin alike, until roundings part them: so
the curves agree where those of one lie among those of the other from other seeds.
"""

from __future__ import annotations

import argparse

import torch
from curves import in_parts, train
from policy_corpus import CORPUS
from seeds import Rows, measure, parse

from pufferlib.config import load_config

PARTS = 8
MINUTES = 10.0  # at most, of a run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="+")
    parser.add_argument("--steps", type=int, default=2_000_000)
    options, settings = parse(parser)

    def run(name: str, seed: int, folder: str) -> Rows:
        found: Rows = []
        for by in ("torch", "kernel"):
            args = load_config("puffer_breakout", argv=settings)
            length = {"total_timesteps": options.steps, "anneal_timesteps": options.steps}
            args["train"].update(seed=seed, data_dir=folder, fused=by == "kernel", precision="float32", **length)
            torch.manual_seed(seed)  # of the first weights
            case = f"{name} by {by}, seed {seed}"
            curve = in_parts(train("puffer_breakout", args, MINUTES, CORPUS[name].make_policy), PARTS)
            found += [(f"{case}, score at {steps} steps", value, "score") for steps, value in curve]
        return found

    measure("policy_curves", options.policies, options.seeds, run)


if __name__ == "__main__":
    main()
