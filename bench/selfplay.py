"""How well a policy plays that only met itself, or a pool of what it was: trains games from several seeds, then plays.

    python bench/selfplay.py puffer_connect4 --minutes 3 -- --train.ent-coef 0.2 --train.total-timesteps 90_000_000
    python bench/selfplay.py puffer_connect4 --minutes 3 -- --train.ent-coef 0.15 --selfplay.pool-size 4
    python bench/selfplay.py puffer_chess --minutes 30 --bots 0 1 --then="--env.bot-random 85" -- --env.bot-random 40

What follows `--` are settings as `puffer train` takes them, over those of the game's ini; `opponent` is `self`. The
clock starts before the first step and stops when the minutes or the steps of the schedule are over. Then the policy
plays 1,000 games against the game's bot, by the likeliest actions and by drawn ones, and 1,000 against the agent that
comes with the package, by drawn ones, half of them from each side. With `--bots` it trains against the game's bot in
place of itself, and plays 3,000 games against the bot of each of these depths, none of whose moves are by chance but
those of depth 0. With `--from-package` it begins with the weights of the package's
agent, which met the bot. With `--then` the policy is trained further, by these settings over the others, in what is
left of the minutes.
"""

from __future__ import annotations

import argparse
import shlex
import time

import torch
from seeds import Rows, make_trainer, measure, parse

from pufferlib import evaluate
from pufferlib.config import load_config
from pufferlib.families import catalog
from pufferlib.play.agent import load_agent
from pufferlib.play.matches import play_match
from pufferlib.play.scores import MAX_STEPS, ConfiguredEnv, episodes_per_agent, play_to_the_end, player_in

GAMES, BOT_GAMES = 1_000, 3_000
SEED = 1_000_003  # of the games


def train(
    env_name: str, args: dict, minutes: float, weights: dict[str, torch.Tensor] | None = None
) -> tuple[torch.nn.Module, float, int]:
    """Trains until the schedule or the minutes are over; the policy, the seconds and the steps of the policy."""
    trainer = make_trainer(env_name, args)
    if weights is not None:
        trainer.policy.load_state_dict(weights)
    begin = time.perf_counter()
    try:
        while trainer.epoch < trainer.total_epochs and time.perf_counter() - begin < 60 * minutes:
            trainer.evaluate()
            trainer.train()
        return trainer.policy.cpu(), time.perf_counter() - begin, trainer.global_step
    finally:
        trainer.release()


def play(env_name: str, policy: torch.nn.Module) -> Rows:
    """What the policy scores: 1 for a game won, 0.5 for one drawn."""
    found = [
        (f"against the bot, {way}", evaluate(policy, env_name, GAMES, is_drawn, SEED)["perf"].mean, "perf")
        for way, is_drawn in (("likeliest", False), ("drawn", True))
    ]
    entry = catalog.find(env_name)
    points = play_match(policy, load_agent(env_name).policy, entry, {}, GAMES, SEED)
    return [*found, ("against the agent of the package, drawn", sum(points) / len(points), "points a game")]


def play_bots(env_name: str, policy: torch.nn.Module, depths: list[int]) -> Rows:
    """The share of the games that the policy wins against bots."""
    found = []
    for depth in depths:
        env = ConfiguredEnv(catalog.find(env_name), {"bot_depth": depth, "bot_random": 0})
        for way, is_drawn in (("likeliest", False), ("drawn", True)):
            with player_in(env, lambda vecenv: policy, BOT_GAMES, SEED, is_drawn) as player:
                sheet = play_to_the_end(player, episodes_per_agent(BOT_GAMES, player), MAX_STEPS)
            scores = sheet.numbers("score")
            won = sum(score == 1.0 for score in scores) / len(scores)
            found.append((f"against the bot of depth {depth}, {way}", won, "won"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="+")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--bots", type=int, nargs="+", default=[])
    parser.add_argument("--from-package", action="store_true")
    parser.add_argument("--then")
    options, settings = parse(parser)
    opponent = "bot" if options.bots else "self"

    def run(env_name: str, seed: int, folder: str) -> Rows:
        given, seconds, steps = [*settings, "--env.opponent", opponent], 0.0, 0
        policy = load_agent(env_name).policy if options.from_package else None
        for part in [[]] if options.then is None else [[], shlex.split(options.then)]:
            args = load_config(env_name, argv=[*given, *part])
            args["train"].update(seed=seed, data_dir=folder)
            weights = None if policy is None else policy.state_dict()
            policy, part_seconds, part_steps = train(env_name, args, options.minutes - seconds / 60, weights)
            seconds, steps = seconds + part_seconds, steps + part_steps
        played = play_bots(env_name, policy, options.bots) if options.bots else play(env_name, policy)
        found = [("time", seconds, "s"), ("throughput", steps / seconds, "steps/s"), *played]
        members = args["selfplay"]["pool_size"]
        way = "its bot" if options.bots else f"a pool of {members}" if members else "self-play"
        beginning = " from the package's agent" if options.from_package else ""
        case = f"{env_name}, seed {seed}, by {way}{beginning}"
        return [(f"{case}: {name}", value, unit) for name, value, unit in found]

    measure("selfplay", options.games, options.seeds, run)


if __name__ == "__main__":
    main()
