"""Makes the trained agents that come with the package, `ocean/<name>/pretrained.pt` and `.json`.

    python bench/pretrain.py puffer_breakout
    python bench/pretrain.py puffer_pong --seed 7

Trains by the settings and the seed in RECIPES, plays 1,000 episodes by the likeliest actions and 1,000 by drawn ones in
environments of another seed, and writes both files if either way reaches what the recipe asks for. Drawn actions are
the harder test: breakout serves in two directions, and by the likeliest ones it is two games again and again. To find a
better agent, try other seeds: the command that made the agent, seed included, is in its file.

Computes on one thread, wherever it runs: gradients of several threads are summed in another order, which makes another
agent. So the command writes the same bytes again where the versions in the file are the same.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from pufferlib import NoLogger, PuffeRL, evaluate, ocean, pufferl
from pufferlib.config import load_config
from pufferlib.families import catalog
from pufferlib.play.scores import counts_by_agent
from pufferlib.runs import checkpoint, description
from pufferlib.runs.description import WEIGHTS
from pufferlib.runs.folder import write_atomically

EPISODES = 1_000
THREADS = 1
_OTHER_SEED = 1_000_003  # of the environments and the actions of the play
_SWEPT = Path(__file__).parent / "swept"


@dataclass(frozen=True)
class Recipe:
    """How one agent is made.

    Attributes:
        least: mean of the environment's `[solve]` metric that it must reach, in every of the `ways`.
        seed: of the training.
        config: an ini of settings over those of the environment; None for none.
        train: `[train]` settings over both.
        env: `[env]` settings over both, for the training alone.
        ways: of choosing actions: by the likeliest, `greedy`, and by drawn ones, `sampled`.
    """

    least: float
    seed: int = 1
    config: Path | None = None
    train: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    ways: tuple[str, ...] = ("greedy", "sampled")


RECIPES = {
    "puffer_backgammon": Recipe(0.7),
    "puffer_bandit": Recipe(0.95),
    "puffer_breakout": Recipe(860, config=_SWEPT / "breakout.ini"),
    "puffer_cartpole": Recipe(0.999),
    "puffer_checkers": Recipe(0.85),
    "puffer_chess": Recipe(0.75, train={"total_timesteps": 200_000_000}, env={"bot_random": 45, "draw_penalty": 1.0}),
    "puffer_connect4": Recipe(0.98),
    "puffer_drone": Recipe(0.97),
    "puffer_enduro": Recipe(3_600, seed=42),
    "puffer_freeway": Recipe(18),
    "puffer_g2048": Recipe(25_000, train={"total_timesteps": 300_000_000, "minibatch_size": 16_384, "ent_coef": 0.005}),
    "puffer_go": Recipe(0.95, train={"total_timesteps": 200_000_000}),
    "puffer_hex": Recipe(0.95),
    "puffer_maze": Recipe(0.9),
    "puffer_memory": Recipe(0.98),
    "puffer_multiagent": Recipe(0.98),
    "puffer_othello": Recipe(0.8),
    "puffer_overcooked": Recipe(230),
    "puffer_pacman": Recipe(0.95, train={"total_timesteps": 300_000_000, "precision": "float32"}),
    "puffer_password": Recipe(0.98),
    "puffer_pendulum": Recipe(0.91),
    "puffer_poker": Recipe(0.4),
    "puffer_pong": Recipe(20.9, config=_SWEPT / "pong.ini"),
    "puffer_rware": Recipe(66),
    "puffer_slimevolley": Recipe(0.95),
    "puffer_snake": Recipe(45, seed=42, train={"total_timesteps": 8_000_000}),
    "puffer_spaces": Recipe(0.9),
    "puffer_squared": Recipe(0.999, seed=2, train={"total_timesteps": 30_000_000}),
    "puffer_stochastic": Recipe(0.83, ways=("sampled",)),  # the likeliest action is what it tests against
    "puffer_target": Recipe(0.45),
    "puffer_template": Recipe(0.98),  # drawn actions, that is: of the likeliest all are right
    "puffer_tetris": Recipe(80),
    "puffer_tower_climb": Recipe(0.95),
    "puffer_trash_pickup": Recipe(0.98),
    "puffer_tron": Recipe(0.6, train={"total_timesteps": 100_000_000}),
}


def train(env_name: str, args: dict[str, Any]) -> tuple[torch.nn.Module, int]:
    """Trains to the end; the policy and the steps that it took."""
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    with tempfile.TemporaryDirectory() as folder:
        trainer = PuffeRL({**args["train"], "data_dir": folder, "env": env_name}, vecenv, policy, NoLogger())
        while trainer.epoch < trainer.total_epochs:
            trainer.evaluate()
            trainer.train()
            trainer.print_dashboard()
        trainer.close()
    return trainer.policy.cpu(), trainer.global_step


def make(env_name: str, seed: int | None) -> None:
    """Trains, plays, and writes the agent of an environment."""
    torch.set_num_threads(THREADS)
    recipe = RECIPES[env_name]
    args = load_config(env_name, config=recipe.config)
    args["train"].update(recipe.train, seed=recipe.seed if seed is None else seed)
    policy, steps = train(env_name, {**args, "env": {**args["env"], **recipe.env}})
    entry = catalog.find(env_name)
    agents = entry.agents_per_env
    # Of each agent; evaluate() asks for those of all where they begin and end apart.
    episodes = math.ceil(EPISODES / agents) * (agents if counts_by_agent(entry.creator) else 1)
    score = {
        name: {key: asdict(one) for key, one in evaluate(policy, env_name, episodes, sample, _OTHER_SEED).items()}
        for name, sample in (("greedy", False), ("sampled", True))
    }
    for name, found in score.items():
        print(
            f"{name}: "
            + ", ".join(f"{key} {one['mean']:.3f} +- {one['standard_error']:.3f}" for key, one in found.items())
        )
    metric = args["solve"]["metric"]
    for name in recipe.ways:
        found = score[name]
        reached, ended = found[metric]["mean"], found[metric]["episodes"]
        if reached < recipe.least or ended < EPISODES:
            sys.exit(
                f"{env_name}: {metric} must be {recipe.least} over {EPISODES} episodes, got {reached:.3f} over {ended} "
                f"{name} ones; try another seed"
            )
    described = description.describe_run(args)
    facts = {
        "settings": described["settings"],
        **({"training_env": recipe.env} if recipe.env else {}),  # beside the settings, by which it plays
        "command": shlex.join(["python", *sys.argv]),
        "steps": steps,
        "seed": args["train"]["seed"],
        "threads": THREADS,
        "score": score,
        "versions": described["versions"],
    }
    path = ocean.config_path(env_name).resolve().with_name(WEIGHTS)
    checkpoint.save(path, {name: tensor.float() for name, tensor in policy.state_dict().items()})
    text = json.dumps(facts, indent=2) + "\n"
    write_atomically(path.with_suffix(".json"), text.encode())
    print(f"{path}: {path.stat().st_size:,} bytes, {steps:,} steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", choices=RECIPES)
    parser.add_argument("--seed", type=int, help="of the training, in place of the recipe's")
    options = parser.parse_args()
    make(options.environment, options.seed)


if __name__ == "__main__":
    main()
