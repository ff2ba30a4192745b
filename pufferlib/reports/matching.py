"""`puffer match`: every player against every other one, a cross-table with intervals, and ratings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pufferlib import ocean
from pufferlib.config import check_section, load_config
from pufferlib.config.flags import MatchOptions
from pufferlib.dashboard.output import plain_table, printable
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.play.agent import training_settings
from pufferlib.play.matches import BOT, PRETRAINED, RANDOM, against, find_training, load_member, play_match
from pufferlib.play.scores import MAX_STEPS
from pufferlib.ppo.opponents import NORMAL_95, rate
from pufferlib.reports.figures import CYAN, SURFACE, WHITE, drawing
from pufferlib.reports.recorded_run import find_run
from pufferlib.runs.making import make


class Match:
    """The results of a match, the best player first.

    Attributes:
        env_name: the game.
        players: their names.
        points: `(players, players)`, what the row's player scored against the column's.
        ratings, rating_widths: `(players,)`, Elo's, and how far their 95 % intervals reach.
        shares, share_widths: `(players, players)`, of the points, and how far Wilson's 95 % intervals reach; NaN
            without games.
    """

    def __init__(self, env_name: str, players: Sequence[str], points: np.ndarray):
        ratings, widths = rate(points)
        order = np.argsort(-ratings, kind="stable")
        self.env_name, self.players = env_name, [players[each] for each in order]
        self.points, self.ratings, self.rating_widths = points[np.ix_(order, order)], ratings[order], widths[order]
        games = self.points + self.points.T
        games, z = np.where(games > 0, games, np.nan), NORMAL_95
        self.shares = self.points / games
        half = z * np.sqrt(self.shares * (1 - self.shares) / games + (z / (2 * games)) ** 2)
        self.share_widths = (half + abs(self.shares - 0.5) * z * z / games) / (1 + z * z / games)

    def text(self) -> str:
        """Returns the ratings and the cross-table."""
        rows = []
        for row, name in enumerate(self.players):
            shares = zip(self.shares[row], self.share_widths[row], strict=True)
            cells = ["-" if np.isnan(share) else f"{100 * share:.0f} ± {100 * width:.0f} %" for share, width in shares]
            rows.append((name, f"{self.ratings[row]:+.0f} ± {self.rating_widths[row]:.0f}", *cells))
        return plain_table(("player", "rating", *self.players), rows)

    def draw(self, path: Path) -> None:
        """Draws the cross-table and the ratings with their intervals into one picture."""
        with drawing(path) as figure:
            from matplotlib.colors import LinearSegmentedColormap

            names, count = list(map(printable, self.players)), len(self.players)
            figure.set_size_inches(7 + 0.9 * count, 2 + 0.6 * count)
            figure.suptitle(self.env_name, x=0.008, ha="left", fontsize=13)
            table, ratings = figure.subplots(1, 2, width_ratios=(count, 4), sharey=True)
            colors = LinearSegmentedColormap.from_list("points", (SURFACE, CYAN))
            table.imshow(self.shares, cmap=colors, vmin=0, vmax=1, aspect="auto")
            for row, column in np.argwhere(~np.isnan(self.shares)):
                share, width = self.shares[row, column], self.share_widths[row, column]
                color = "black" if share > 0.6 else WHITE
                words = f"{100 * share:.0f}\n± {100 * width:.0f}"
                table.text(column, row, words, ha="center", va="center", color=color, fontsize=8)
            table.set_xticks(range(count), names, rotation=30, ha="right")
            table.set_yticks(range(count), names)
            table.set_title("points of 100")
            table.grid(visible=False)
            ratings.errorbar(self.ratings, range(count), xerr=self.rating_widths, fmt="o", color=CYAN, capsize=4)
            ratings.set_title("rating, 95 % interval")


def play_all(
    words: Sequence[str],
    games: int,
    env_name: str | None = None,
    seed: int = 42,
    data_dir: str = "experiments",
    env_kwargs: Mapping[str, Any] | None = None,
) -> Match:
    """Plays every pair of players; see `puffer match`, whose options these are.

    The environment has `env_kwargs` over the settings that the first run or file was trained with, or else over those
    of its configuration.
    """
    if len(words) < 2 or len({Path(word).resolve() for word in words}) < len(words):
        raise APIUsageError(f"a match needs 2 different players or more, got {' '.join(words) or 'none'}; name others")
    own = [word for word in words if word not in (BOT, RANDOM, PRETRAINED)]
    if env_name is None:
        if not own:
            raise APIUsageError(f"a match of {', '.join(words)} does not say in what game; pass --env puffer_connect4")
        files = [word for word in own if word in ocean.names() or Path(word).exists()]
        env_name = training_settings(files[0])["env_name"] if files else find_run(own[0], data_dir).env_name
    entry = catalog.find(env_name)
    trained = next((word for word in own if word not in ocean.names()), None)
    settings = load_config(env_name) if trained is None else find_training(trained, env_name, data_dir)
    given = check_section("env", env_kwargs or {}, entry)
    arguments = against("self", entry, settings["env"] | given)
    with closing(make(env_name, **{**arguments, "num_envs": 1})) as env:
        players = [load_member(word, env_name, env, torch.device("cpu"), data_dir) for word in words]
    points = np.zeros((len(words), len(words)))
    for row, column in itertools.combinations(range(len(words)), 2):
        first, second = (row, column) if players[row] is not None else (column, row)
        won = play_match(players[first], players[second], entry, arguments, games, seed)
        if not won:
            raise APIUsageError(
                f"a game of {env_name} must end within {MAX_STEPS:,} steps, and none of {words[first]} against "
                f"{words[second]} did; end it there by a truncation"
            )
        points[first, second], points[second, first] = sum(won), len(won) - sum(won)
    return Match(env_name, [PRETRAINED if word in ocean.names() else word for word in words], points)


def match_command(*words: str, options: MatchOptions, env_kwargs: Mapping[str, Any] | None = None) -> None:
    """Plays the match, in a game of these settings, and prints its tables."""
    match = play_all(words, options.games, options.env, options.seed, options.data_dir, env_kwargs)
    games = f"{options.games} games of each pair, half of them from each side"
    print(printable(f"{match.env_name}: {len(words)} players, {games}"))
    print(match.text())
    if options.output is not None:
        match.draw(Path(options.output))
        print(printable(f"drawn to {options.output}"))
