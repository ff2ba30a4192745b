"""Whether nothing set learns: environments given as functions that no ini knows, and small tasks by the defaults.

    python bench/defaults.py                            all of them from seeds 1, 2 and 3
    python bench/defaults.py "200 actions" --no-times   the returns alone, where other programs share the cores
    python bench/defaults.py CartPole-v1 LunarLander-v3 --seeds 1 --beside
    python bench/defaults.py --withheld puffer_pong puffer_squared --seeds 1
    python bench/defaults.py catch recall --seeds 1
    python bench/defaults.py catch -- --train.learning-rate 0.01

An environment as a function is what a user brings: `PuffeRL(lambda: MyEnv()).learn(steps)`. The final policy then plays
50 episodes by actions that are drawn and 50 by the likeliest ones, from seeds that the training did not see. Six of the
environments are odd in one way each: those of odd_envs.py, whose `best_return` says what there is to reach.

With `--beside` Stable-Baselines3's PPO trains for as many steps in turn, by its own defaults, in 16 environments of the
same function in this process, and plays the same; with `--only-theirs` it does so alone. Both compute on the CPU, with
as many threads of torch as OMP_NUM_THREADS says. The time is from before the environments are made to the end of the
training, without what is imported.

With `--withheld` games of Ocean are trained by their class, as if they had no ini, for as many steps as their ini says;
the final policy plays 1,000 episodes in each way, and the mean of the metric in `[solve]` counts, whose threshold is
what the ini reaches.

A small task is a full vector, and has the default settings. It is learnt when the mean of its metric over the
last episodes reaches its threshold, and so does that over as many whole ones that the policy then plays. A run goes on
to the end of `total_timesteps` all the same, as its schedule does, and what it then plays counts; what follows `--` are
settings as `puffer train` takes them, for these tasks alone.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from odd_envs import ODD_ENVS
from recent_episodes import RecentEpisodes
from seeds import Rows, make_trainer, measure, parse
from small_tasks import Catch, Recall

import pufferlib
from pufferlib import NoLogger, PuffeRL, ocean
from pufferlib.config import load_config


@dataclass(frozen=True)
class Task:
    """What is trained, and when it counts as learnt."""

    make_creator: Callable[[], Callable]
    threshold: float
    metric: str = "perf"
    count: str = "n"
    episodes: int = 1_000  # in the mean that decides
    flags: tuple[str, ...] = ()  # what it cannot do without, or would take long without


def _ocean(name: str) -> Callable[[], Callable]:
    return lambda: ocean.env_class(f"puffer_{name}")


TASKS = {
    "template": Task(_ocean("template"), 0.95),
    "catch": Task(lambda: Catch, 0.95),
    "squared": Task(_ocean("squared"), 0.95),
    "cartpole": Task(_ocean("cartpole"), 0.95),
    "pong": Task(_ocean("pong"), 15.0, "score"),
    "recall": Task(lambda: Recall, 0.95, flags=("--rnn-name", "MinGRU")),
}


# -------------------------------------------------------------------------------------------- environments as functions

EPISODES = 50  # that a final policy plays in each way
_SEED = 1_000_003  # of these episodes
_OTHERS_ENVS = 16  # of Stable-Baselines3, as many as ours chooses


@dataclass(frozen=True)
class Given:
    """An environment that is given as a function, and how long it is trained."""

    make: Callable[[], Any]
    steps: int
    policy: str = "MlpPolicy"  # of Stable-Baselines3; empty where that cannot train it, as where a part is a Text


def _gymnasium(name: str, **keywords: Any) -> Callable[[], gymnasium.Env]:
    return lambda: gymnasium.make(name, **keywords)


def _minigrid() -> gymnasium.Env:
    importlib.import_module("minigrid")
    return gymnasium.make("MiniGrid-DoorKey-5x5-v0")


def _minigrid_pictures() -> gymnasium.Env:
    return importlib.import_module("minigrid.wrappers").ImgObsWrapper(_minigrid())  # 7 x 7 x 3, channels last


def _pong() -> gymnasium.Env:
    gymnasium.register_envs(importlib.import_module("ale_py"))
    env = gymnasium.make("ALE/Pong-v5", frameskip=1)
    return gymnasium.wrappers.FrameStackObservation(gymnasium.wrappers.AtariPreprocessing(env), 4)


def _knights_archers_zombies() -> Any:
    return importlib.import_module("pettingzoo.butterfly.knights_archers_zombies_v10").parallel_env()


GIVEN = {
    "CartPole-v1": Given(_gymnasium("CartPole-v1"), 200_000),
    "Acrobot-v1": Given(_gymnasium("Acrobot-v1"), 300_000),
    "MountainCar-v0": Given(_gymnasium("MountainCar-v0"), 1_000_000),
    "LunarLander-v3": Given(_gymnasium("LunarLander-v3"), 500_000),
    "Pendulum-v1": Given(_gymnasium("Pendulum-v1"), 300_000),
    "BipedalWalker-v3": Given(_gymnasium("BipedalWalker-v3"), 1_000_000),
    "HalfCheetah-v5": Given(_gymnasium("HalfCheetah-v5"), 1_000_000),
    "Hopper-v5": Given(_gymnasium("Hopper-v5"), 1_000_000),
    "Walker2d-v5": Given(_gymnasium("Walker2d-v5"), 1_000_000),
    "FrozenLake-v1": Given(_gymnasium("FrozenLake-v1", is_slippery=False), 100_000),
    "Taxi-v4": Given(_gymnasium("Taxi-v4"), 500_000),
    "MiniGrid-DoorKey-5x5": Given(_minigrid, 500_000, ""),
    "MiniGrid-DoorKey-5x5 pictures": Given(_minigrid_pictures, 300_000),
    "Atari Pong": Given(_pong, 2_000_000, "CnnPolicy"),
    "knights_archers_zombies": Given(_knights_archers_zombies, 300_000, ""),
    **{name: Given(make, steps) for name, (make, steps) in ODD_ENVS.items()},
}


@dataclass(frozen=True)
class Played:
    """What came of a training: the mean returns of the episodes afterwards, by actions drawn and by the likeliest."""

    sampled: float
    greedy: float
    steps: int
    seconds: float


def ours(task: Given, steps: int, seed: int, folder: str) -> Played:
    """Trains with nothing set but what says where, from which seed and on what."""
    begin = time.perf_counter()
    trainer = PuffeRL(lambda: task.make(), logger=NoLogger(), seed=seed, device="cpu", data_dir=folder)
    try:
        trainer.learn(steps, dashboard=False)
        seconds = time.perf_counter() - begin
        means = [_mean_return(trainer.policy, task.make, is_sampled) for is_sampled in (True, False)]
        return Played(*means, trainer.global_step, seconds)
    finally:
        trainer.release()


def _mean_return(policy: Any, make: Callable[[], Any], is_sampled: bool) -> float:
    return pufferlib.evaluate(policy, make, EPISODES, is_sampled, _SEED)["episode_return"].mean


def theirs(task: Given, steps: int, seed: int) -> Played:
    """Trains by the defaults of Stable-Baselines3's PPO."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    begin = time.perf_counter()
    envs = make_vec_env(task.make, n_envs=_OTHERS_ENVS, seed=seed)
    model = PPO(task.policy, envs, seed=seed, device="cpu")
    model.learn(steps)
    seconds = time.perf_counter() - begin
    envs.close()
    played = [_played_by(model, task.make, is_sampled) for is_sampled in (True, False)]
    return Played(*played, model.num_timesteps, seconds)


def _played_by(model: Any, make: Callable[[], gymnasium.Env], is_sampled: bool) -> float:
    env, returns = make(), []
    for seed in range(_SEED, _SEED + EPISODES):
        observation, _ = env.reset(seed=seed)
        total, is_over = 0.0, False
        while not is_over:
            action = model.predict(observation, deterministic=not is_sampled)[0]
            observation, reward, terminated, truncated, _ = env.step(action if action.ndim else action.item())
            total, is_over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns))


def played_rows(case: str, played: Played) -> Rows:
    """What is recorded of one side."""
    return [
        (f"{case}: {EPISODES} sampled episodes, mean", played.sampled, "return"),
        (f"{case}: {EPISODES} greedy episodes, mean", played.greedy, "return"),
        (f"{case}: steps", played.steps, "steps"),
        (f"{case}: time", played.seconds, "s"),
    ]


def given_rows(name: str, seed: int, folder: str, steps: int | None, trainers: Sequence[str]) -> Rows:
    """Trains an environment that is given as a function, by each of the trainers: `ours`, `theirs` or both."""
    task, rows = GIVEN[name], []
    steps = steps or task.steps
    case = f"{name}, seed {seed}"
    if "ours" in trainers:
        rows += played_rows(f"{case}, nothing set", ours(task, steps, seed, folder))
    if "theirs" in trainers and task.policy:
        rows += played_rows(f"{case}, Stable-Baselines3 by its defaults", theirs(task, steps, seed))
    return rows


# ------------------------------------------------------------------------------------ games of Ocean without their ini

_GAMES = 1_000  # that a final policy plays in each way


def withheld_rows(name: str, seed: int, folder: str, steps: int | None) -> Rows:
    """Trains a game of Ocean by its class with nothing set, and says what its ini reaches."""
    args, env_class = load_config(name), ocean.env_class(name)
    metric, threshold = args["solve"]["metric"], args["solve"]["threshold"]
    case = f"{name}, seed {seed}, ini withheld"
    begin = time.perf_counter()
    trainer = PuffeRL(env_class, logger=NoLogger(), seed=seed, device="cpu", data_dir=folder)
    try:
        trainer.learn(steps or args["train"]["total_timesteps"], dashboard=False)
        seconds = time.perf_counter() - begin
        found = [
            (
                f"{case}: {_GAMES} {kind} episodes, mean",
                pufferlib.evaluate(trainer.policy, env_class, _GAMES, kind == "sampled", _SEED)[metric].mean,
                metric,
            )
            for kind in ("sampled", "greedy")
        ]
        found.append((f"{case}: threshold of its ini", threshold, metric))
        return [*found, (f"{case}: steps", trainer.global_step, "steps"), (f"{case}: time", seconds, "s")]
    finally:
        trainer.release()


# -------------------------------------------------------------------------------------------- small tasks, many at once


@dataclass(frozen=True)
class Outcome:
    """How one run went."""

    learnt_steps: int | None  # when the threshold was reached first
    last_mean: float
    steps: int
    seconds: float


def learn(task: Task, seed: int, given: list[str], folder: str, stops: bool = False) -> Outcome:
    """Trains to the end, or where `stops` is set until the task is learnt; files go to the folder."""
    creator = task.make_creator()
    args = load_config(creator, argv=[*task.flags, *given])
    args["train"].update(seed=seed, data_dir=folder)
    recent = RecentEpisodes(task.metric, task.count, task.episodes)
    trainer = make_trainer(creator, args)
    learnt_steps, begin = None, time.perf_counter()
    try:
        while trainer.epoch < trainer.total_epochs and not (stops and learnt_steps):
            recent.add(trainer.evaluate())
            trainer.train()
            if learnt_steps is None and recent.reaches(task.threshold, trainer):
                learnt_steps = trainer.global_step
        seconds = time.perf_counter() - begin - recent.played_seconds
        last = recent.play(trainer)
        return Outcome(learnt_steps, recent.mean if last is None else last.mean, trainer.global_step, seconds)
    finally:
        trainer.release()


def rows(case: str, task: Task, outcome: Outcome) -> Rows:
    """What is recorded of a run."""
    words = "learnt" if outcome.last_mean >= task.threshold else "not learnt"
    case = f"{case}, {task.metric} >= {task.threshold:g}: {words}"
    found = [
        (f"{case}, last mean", outcome.last_mean, task.metric),
        (f"{case}, steps", outcome.steps, "steps"),
        (f"{case}, time", outcome.seconds, "s"),
    ]
    if outcome.learnt_steps is None:
        return found
    return [(f"{case}, first reached after", outcome.learnt_steps, "steps"), *found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join([*GIVEN, *TASKS])}; all when none is named")
    parser.add_argument(
        "--withheld", action="store_true", help="train games of Ocean by their class, without their ini"
    )
    parser.add_argument("--steps", type=int, help="in place of those of the environment; not of a small task")
    parser.add_argument("--beside", action="store_true", help="train Stable-Baselines3's PPO in turn")
    parser.add_argument("--only-theirs", action="store_true", help="train that alone, as our choices do not change it")
    parser.add_argument("--no-times", action="store_true", help="leave out times, which a busy machine spoils")
    parser.add_argument("--no-rows", action="store_true", help="only print, for a first look")
    options, given = parse(parser)
    trainers = ["theirs"] if options.only_theirs else ["ours", "theirs"] if options.beside else ["ours"]

    def run(name: str, seed: int, folder: str) -> Rows:
        if options.withheld:
            found = withheld_rows(name, seed, folder, options.steps)
        elif name in GIVEN:
            found = given_rows(name, seed, folder, options.steps, trainers)
        else:
            outcome = learn(TASKS[name], seed, given, folder)
            found = rows(", ".join(filter(None, [name, f"seed {seed}", " ".join(given)])), TASKS[name], outcome)
        return [row for row in found if row[2] != "s" or not options.no_times]

    every = ocean.names() if options.withheld else [*GIVEN, *TASKS]
    measure("defaults", options.tasks or every, options.seeds, run, is_kept=not options.no_rows)


if __name__ == "__main__":
    main()
