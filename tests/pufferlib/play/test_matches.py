"""Matches: two policies in one game, who won, balanced sides; and the command that prints them."""

from __future__ import annotations

from contextlib import ExitStack, closing

import numpy as np
import pytest
import torch
from rivals_game import Rounds, Tables
from torch import nn

import pufferlib
from pufferlib import NoLogger, PuffeRL, vector
from pufferlib.cli import main
from pufferlib.errors import APIUsageError, CheckpointError
from pufferlib.families import catalog
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.play import matches
from pufferlib.play.matches import MatchSheet, Versus, against, load_member, play_match, seats_of, versus
from pufferlib.play.player import Episodes
from pufferlib.reports.matching import Match, play_all


class Fixed(nn.Module):
    """Always makes the same choice."""

    def __init__(self, choice):
        super().__init__()
        self.logits = nn.Parameter(50.0 * nn.functional.one_hot(torch.tensor(choice), 3).float())

    def forward(self, observations, state=None):
        return self.logits.expand(len(observations), 3), self.logits[:1].expand(len(observations), 1)


def test_each_policy_acts_for_its_side_with_a_state_of_its_own():
    env = Rounds(num_envs=2)
    torch.manual_seed(0)
    first = MinGRUWrapper(env, Default(env, hidden_size=8), 8, 8)
    second = Default(env, hidden_size=16)
    is_first = np.array([True, False, False, True])
    both = Versus(first, second, is_first, seats=2).eval()
    observations = torch.rand(4, 3)
    state, own = both.initial_state(4, torch.device("cpu")), first.initial_state(4, torch.device("cpu"))
    assert list(state) == [f"0.{name}" for name in own]
    for _ in range(2):
        logits, values = both(observations, state)
        alone, alone_values = first.forward_eval(observations, own)
        other, other_values = second(observations)
        rows = torch.from_numpy(is_first)
        assert torch.equal(logits[rows], alone[rows]) and torch.equal(logits[~rows], other[~rows])
        assert torch.equal(values[rows].view(-1), alone_values[rows].view(-1))
        assert torch.equal(values[~rows].view(-1), other_values[~rows].view(-1))
        for name, value in own.items():
            assert torch.equal(state[f"0.{name}"], value)


def test_the_points_of_a_game_are_by_the_returns_of_its_sides():
    sheet = MatchSheet(Versus(nn.Identity(), None, np.array([True, False, False, True]), 2))
    sheet.add(Episodes(np.array([0, 1]), np.array([2.0, -2.0]), np.array([3, 3])))
    sheet.add(Episodes(np.array([2, 3]), np.array([0.5, 0.5]), np.array([1, 0])))
    sheet.add(Episodes(np.array([0, 1, 2, 3]), np.array([0.0, 1.0, -1.0, 1.0]), np.array([1, 1, 1, 1])))
    sheet.add(Episodes(np.array([0, 1]), np.array([-3.0, 0.0]), np.array([2, 0])))  # the second took no part
    assert sheet.numbers("points") == [1.0, 0.5, 0.0, 1.0]
    assert sheet.scores()["episode_return"].episodes == 5  # of the first side alone


def test_agents_who_took_no_part_count_for_neither_side():
    sheet = MatchSheet(Versus(nn.Identity(), None, np.array([True, True, False, False]), 4))
    sheet.add(Episodes(np.arange(4), np.array([0.0, 3.0, 2.0, 2.0]), np.array([0, 1, 1, 1])))
    assert sheet.numbers("points") == [1.0]
    sheet.add(Episodes(np.arange(4), np.array([0.0, 0.0, -2.0, 2.0]), np.array([0, 0, 1, 1])))
    assert sheet.numbers("points") == [1.0]
    assert sheet.scores()["episode_return"].mean == 3.0


def test_sides_are_balanced():
    with ExitStack() as undo:
        vecenv = undo.enter_context(vector.make(Rounds, env_kwargs={"num_envs": 1}, num_envs=6, backend="Serial"))
        assert seats_of(vecenv).tolist() == [True, False, False, True] * 3


@pytest.mark.parametrize(("choices", "expected"), [((1, 0), 1.0), ((0, 1), 0.0), ((2, 2), 0.5)])
def test_paper_beats_rock_from_both_sides(choices, expected):
    first, second = map(Fixed, choices)
    points = play_match(first, second, catalog.find(Rounds), {}, games=10, seed=1)
    assert points == [expected] * 10


@pytest.mark.parametrize("games", [1, 2, 3])
def test_a_match_may_be_of_few_games(games):
    assert play_match(Fixed(1), Fixed(0), catalog.find(Rounds), {}, games=games, seed=1) == [1.0] * games


class Resigns(Rounds):
    """The agent whose turn it is, drawn, wins by 0 and resigns by 1, so that the other one never acts."""

    def reset(self, seed=None):
        self.random = np.random.default_rng(seed)
        return self._draw(), []

    def step(self, actions):
        lead = np.where(actions == 0, 1, -1) * self.masks
        self.rewards[:] = lead - lead.reshape(-1, 2)[:, ::-1].ravel()
        self.terminals[:] = True
        return self._draw(), self.rewards, self.terminals, self.truncations, []

    def _draw(self):
        self.masks[0::2] = self.random.random(self.num_envs) < 0.5
        self.masks[1::2] = ~self.masks[0::2]
        return self._observe()


@pytest.mark.parametrize(("choices", "expected"), [((0, 1), {1.0}), ((0, 0), {0.0, 1.0})])
def test_a_game_in_which_one_side_never_acted_is_a_game(choices, expected):
    points = play_match(*map(Fixed, choices), catalog.find(Resigns), {}, games=80, seed=1)
    assert len(points) == 80 and set(points) == expected


class PaysSeats(Rounds):
    """The first agent is paid in every step, if that is not left out."""

    match_settings = {"pay": 0.0}

    def __init__(self, num_envs=8, pay=1.0, buf=None, seed=0):
        self.pay = pay
        super().__init__(num_envs, buf=buf)

    def step(self, actions):
        observations, *results = super().step(actions)
        self.rewards[0::2] += self.pay
        return observations, *results


def test_a_drawn_game_is_one_whatever_is_paid_on_the_way():
    assert play_match(Fixed(2), Fixed(2), catalog.find(PaysSeats), {"pay": 1.0}, games=10, seed=1) == [0.5] * 10
    chess = catalog.find("puffer_chess")
    assert against("random", chess, {"piece_reward": 0.1}) == {"piece_reward": 0.0, "opponent": "self"}
    assert against("bot", chess, {"piece_reward": 0.1}) == {"piece_reward": 0.1, "opponent": "bot"}


def test_games_of_one_environment_that_are_many_are_all_counted():
    assert play_match(Fixed(1), Fixed(0), catalog.find(Tables), {}, games=10, seed=1) == [1.0] * 10


def test_players_of_a_game_that_takes_no_number_of_environments_meet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(PuffeRL(Tables, logger=NoLogger())) as trainer:
        trainer.save_checkpoint("first.pt")
    match = play_all(["random", "first.pt"], 4, "rivals_game:Tables")
    assert (match.points + match.points.T).sum() == 2 * 4


def test_a_run_says_what_game_is_played(in_tmp_path):
    with closing(PuffeRL("puffer_connect4", opponent="self", num_envs=8)) as trainer:
        trainer.save_checkpoint()
    match = play_all(["random", "latest"], 4)
    assert match.env_name == "puffer_connect4" and match.points.sum() == 4
    with pytest.raises(CheckpointError, match="no run 'none' in experiments"):
        play_all(["random", "none"], 4)


@pytest.mark.parametrize(("choices", "expected"), [((1, 0), 1.0), ((0, 1), 0.0)])
def test_the_agents_of_an_environment_of_pettingzoo_are_those_of_a_game(choices, expected):
    rps = pytest.importorskip("pettingzoo.classic.rps_v2", exc_type=ImportError)
    paper_wins = play_match(*map(Fixed, choices), catalog.find(rps.parallel_env), {}, games=4, seed=1)
    assert paper_wins == [expected] * 4


def test_the_bot_plays_the_same_games_for_the_same_points():
    entry = catalog.find("puffer_slimevolley")
    with closing(pufferlib.make("puffer_slimevolley", opponent="self")) as env:
        policy = load_member("random", entry.name, env, torch.device("cpu"), "")
    points = play_match(policy, None, entry, {}, games=20, seed=1)
    assert len(points) == 20 and set(points) <= {0.0, 0.5, 1.0} and np.mean(points) < 0.2


def test_a_strong_agent_beats_a_weak_one_and_the_bot_is_between():
    match = play_all(["puffer_connect4", "bot", "random"], games=40)
    assert match.env_name == "puffer_connect4" and match.players == ["pretrained", "bot", "random"]
    assert match.shares[0, 2] > 0.95 and match.shares[0, 1] > 0.6 and match.shares[1, 2] > 0.9
    assert match.points[0, 1] + match.points[1, 0] == 40
    assert match.ratings[0] > match.ratings[1] > match.ratings[2]
    again = play_all(["puffer_connect4", "bot", "random"], games=40)
    assert np.array_equal(again.points, match.points)  # the same seed


def test_the_table_has_shares_with_intervals_the_best_player_first(tmp_path):
    match = Match("puffer_x", ["weak", "strong", "absent"], np.array([[0, 25.0, 0], [75, 0, 0], [0, 0, 0]]))
    first, second = match.text().splitlines()[1:3]
    assert first.split()[0] == "strong" and "75 ± 9 %" in first and "25 ± 9 %" not in first
    assert second.split()[0] in ("weak", "absent") and "25 ± 9 %" in match.text()
    strong, weak, absent = (match.players.index(name) for name in ("strong", "weak", "absent"))
    assert np.isnan([match.shares[weak, absent], match.share_widths[absent, strong]]).all()
    share, width = match.shares[weak, strong], match.share_widths[weak, strong]
    assert share == 0.25
    z = 1.96  # the interval that Wilson (1927) solves for, whose middle is nearer to a half
    ends = np.roots([1 + z * z / 100, -(2 * share + z * z / 100), share * share])
    assert width == pytest.approx(max(abs(ends - share)))


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    match = Match("puffer_x", ["weak", "strong"], np.array([[0, 25.0], [75, 0]]))
    match.draw(tmp_path / "match.png")
    assert (tmp_path / "match.png").read_bytes().startswith(b"\x89PNG")


def test_the_commands_print_the_points(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["match", "bot", "random", "--env", "puffer_connect4", "--games", "6"]) == 0
    output = capsys.readouterr().out
    assert "2 players, 6 games of each pair" in output and "±" in output
    flags = ["--pretrained", "--opponent", "random", "--sample", "--episodes", "6", "--headless"]
    assert main(["eval", "puffer_connect4", *flags]) == 0
    output = capsys.readouterr().out
    assert "points" in output and "(n = 6)" in output and "an episode is one of" not in output


def test_what_does_not_fit_is_refused():
    with pytest.raises(APIUsageError, match="2 different players"):
        play_all(["bot"], 1)
    with pytest.raises(APIUsageError, match="2 different players"):
        play_all(["bot", "bot"], 1)
    with pytest.raises(APIUsageError, match="pass --env"):
        play_all(["bot", "random"], 1)
    with pytest.raises(
        APIUsageError, match=r"trained in puffer_connect4, got puffer_pong of puffer_pong; take another"
    ):
        play_all(["puffer_connect4", "puffer_pong"], 1)
    with pytest.raises(APIUsageError, match="no bot"):
        against("bot", catalog.find("puffer_target"), {})
    env = pufferlib.make("puffer_squared", num_envs=1)
    with pytest.raises(APIUsageError, match="2 agents or more, got 1"):
        versus("random", "puffer_squared", "", Default(env), vector.adopt(env))
    env.close()


def test_the_game_has_the_settings_that_the_first_file_was_trained_with_unless_others_are_given(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name, game in (("first.pt", "kuhn"), ("second.pt", "kuhn"), ("other.pt", "leduc")):
        env = pufferlib.make("puffer_poker", num_envs=8, opponent="self", game=game)
        with closing(PuffeRL(env, logger=NoLogger())) as trainer:
            trainer.save_checkpoint(name)
    match = play_all(["random", "first.pt", "bot", "second.pt"], games=4)
    assert match.env_name == "puffer_poker" and (match.points + match.points.T).sum() == 2 * 6 * 4
    with pytest.raises(CheckpointError, match=r"other.pt: tensor .* use the policy and environment settings"):
        play_all(["first.pt", "other.pt"], games=4)
    with pytest.raises(CheckpointError, match=r"first.pt: tensor"):
        play_all(["first.pt", "other.pt"], games=4, env_kwargs={"game": "leduc"})
    with pytest.raises(APIUsageError, match="2 different players"):
        play_all(["first.pt", "./first.pt"], games=4)
    assert main(["match", "random", "--env.game", "leduc", "other.pt", "--games=4"]) == 0
    assert main(["match", "random", "first.pt", "--env.gaem=leduc"]) == 2
    assert "no setting 'gaem' in [env]; did you mean 'game'" in capsys.readouterr().err


def test_a_match_in_which_no_game_ended_says_so(monkeypatch):
    monkeypatch.setattr(matches.scores, "MAX_STEPS", 2)
    with pytest.raises(APIUsageError, match=r"must end within 20,000 steps, and none of random against bot did"):
        play_all(["random", "bot"], 4, "puffer_connect4")


def test_a_random_opponent_is_random_where_the_likeliest_actions_are_taken_too():
    with closing(vector.make(Rounds, env_kwargs={"num_envs": 1}, num_envs=6, backend="Serial")) as vecenv:
        policy = Default(vecenv.driver_env, hidden_size=8)
        both, rows = versus("random", "any", "", policy, vecenv), torch.from_numpy(seats_of(vecenv))
    observations = torch.rand(12, 3)
    found = torch.stack([both(observations, {})[0] for _ in range(300)])
    assert torch.equal(found[0][rows], found[1][rows])
    shares = found[:, ~rows].argmax(-1).flatten().bincount(minlength=3) / (300 * 6)
    assert shares.min() > 0.28 and shares.max() < 0.39


def test_a_random_player_takes_all_choices_alike():
    env = Rounds()
    policy = load_member("random", "any", env, torch.device("cpu"), "")
    logits, _ = policy(torch.rand(5, 3))
    assert torch.equal(logits, torch.zeros(5, 3))
