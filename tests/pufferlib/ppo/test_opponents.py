"""The pool of opponents: who plays whom, what is learned from, what a resumed run has of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import ranks
import torch
from collecting import OtherwiseUnordered, Unordered
from rivals_game import Rounds, SmallRounds
from torch import nn

from pufferlib import NoLogger, PuffeRL, vector
from pufferlib.distributed import Ranks
from pufferlib.environment import BOT_MOVES
from pufferlib.errors import APIUsageError, CheckpointError, ConfigError
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.ocean.connect4.connect4 import Connect4
from pufferlib.runs.folder import read_facts

SIZES = {"num_steps": 8, "batch_size": 128, "total_timesteps": 128 * 100, "seed": 7}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_trainer(policy=None, env=Rounds, **settings):
    torch.manual_seed(1)
    pool = {"pool_size": 3, "snapshot_steps": 50, "final_episodes": 0}
    return PuffeRL(env, policy, num_envs=8, logger=NoLogger(), **{**SIZES, **pool, **settings})


def recurrent_policy():
    env = Rounds()
    torch.manual_seed(2)
    return MinGRUWrapper(env, Default(env, hidden_size=16), 16, 16)


def iterate(trainer, count):
    for _ in range(count):
        trainer.evaluate()
        trainer.train()


def state_of(trainer):
    return [*trainer.policy.state_dict().values(), *_tensors(trainer.pool.state_dict())]


def _tensors(found):
    if isinstance(found, torch.Tensor):
        return [found]
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def test_what_opponents_do_never_enters_the_loss():
    trainers = [make_trainer(recurrent_policy()) for _ in range(2)]
    for trainer in trainers:
        iterate(trainer, 3)
        trainer.evaluate()
    rollout = trainers[1].rollout
    absent = ~rollout.masks[:, :-1]
    assert 0.1 < absent.float().mean() < 0.4  # a half of the games have an opponent in one of two seats
    rollout.logprobs[absent] -= 1.0
    rollout.rewards[:, 1:][absent] += 5.0
    rollout.actions[absent] = (rollout.actions[absent] + 1) % 3
    for trainer in trainers:
        trainer.train()
    for name, tensor in trainers[0].policy.state_dict().items():
        assert torch.equal(tensor, trainers[1].policy.state_dict()[name]), name
    for trainer in trainers:
        trainer.close()


def test_the_rollout_has_the_agents_of_the_policy_alone():
    trainer = make_trainer()
    pool, received = trainer.pool, []
    receive = pool.receive
    pool.receive = lambda rows, *arrays: (
        received.append((receive(rows, *arrays), pool._players.copy())) or received[-1][0]
    )
    iterate(trainer, 2)
    received.clear()
    trainer.evaluate()
    for column, (masks, players) in enumerate(received, 1):
        assert np.array_equal(masks, players < 0)
        assert np.array_equal(trainer.rollout.masks[:, column].numpy(), masks)
        seats = (players >= 0).reshape(-1, 2).sum(1)
        assert set(seats) <= {0, 1}
    trainer.close()


@pytest.mark.quick("prioritized")
@pytest.mark.parametrize("choice", ["uniform", "prioritized"])
def test_opponents_are_drawn_as_often_as_the_settings_say(choice):
    trainer = make_trainer(pool_choice=choice, selfplay_share=0.25)
    pool = trainer.pool
    iterate(trainer, 4)
    pool.points[:3], pool.games[:3] = (9.5, 4.5, 1.5), (9.0 + 10, 9.0, 9.0)
    wins = (pool.points[:3] + 0.5) / (pool.games[:3] + 1)
    expected = np.ones(3) / 3 if choice == "uniform" else (1 - wins) ** 2 / ((1 - wins) ** 2).sum()
    assert pool.probabilities() == pytest.approx(expected)
    pool._chances = pool.probabilities()
    drawn = []
    for _ in range(2_000):
        pool.restart()
        drawn.append(pool.opponents.copy())
    counts = np.bincount(np.concatenate(drawn) + 1, minlength=4) / (2_000 * 8)
    wanted = np.concatenate([[0.25], 0.75 * expected])
    assert counts == pytest.approx(wanted, abs=4 * 0.5 / np.sqrt(16_000))
    trainer.close()


def test_results_are_those_of_the_games():
    class Fixed(nn.Module):
        def __init__(self, choice):
            super().__init__()
            self.logits = nn.Parameter(10.0 * nn.functional.one_hot(torch.tensor(choice), 3).float())
            self.value = nn.Parameter(torch.zeros(1))

        def forward(self, observations, state=None):
            return self.logits.expand(len(observations), 3), self.value.expand(len(observations), 1)

    trainer = make_trainer(Fixed(0), learning_rate=0.0)  # rock
    iterate(trainer, 1)  # the pool has it now, too
    member, pool = trainer.pool.members[0], trainer.pool
    member.actor.policy.load_state_dict(Fixed(1).state_dict())  # paper wins
    pool.points[:] = pool.games[:] = 0
    pool._config = replace(pool._config, pool_size=0)  # no other one enters
    iterate(trainer, 6)
    assert pool.games[0] > 20 and pool.points[0] / pool.games[0] < 0.05
    assert pool.metrics()["selfplay/elo"] < -200
    assert pool.metrics().items() <= trainer.mean_and_log().items()
    assert [name.partition("/")[2] for name in pool.metrics()] == ["elo", "elo_interval", "win_rate", "members"]
    trainer.close()


@pytest.mark.parametrize(("paid", "is_counted"), [(0.0, False), (1.0, True)])
def test_a_game_in_which_a_side_took_no_part_does_not_count(paid, is_counted):
    class Alone(Rounds):
        def _observe(self):
            self.masks[1::2], self.rewards[1::2] = False, paid  # who is paid takes part without a move of his own
            return super()._observe()

    trainer = make_trainer(env=Alone)
    iterate(trainer, 3)
    assert (trainer.pool.games.sum() > 0) == is_counted
    trainer.close()


def test_a_game_without_an_argument_opponent_has_a_pool_too():
    trainer = make_trainer(opponent="pool")
    iterate(trainer, 1)
    assert trainer.pool.capacity == 3 and len(trainer.pool.members) == 1
    trainer.close()


def test_the_oldest_snapshot_makes_room_and_the_games_against_it_do_not_count():
    trainer = make_trainer()
    iterate(trainer, 3)
    names = [member.name for member in trainer.pool.members]
    assert names[0] == "after 0 steps" and len(names) == 3
    trainer.pool.opponents[0] = trainer.pool._players[0] = 0
    trainer.pool._players[1] = -1
    trainer.pool._take_snapshot(trainer.policy, trainer.global_step)
    assert [member.name for member in trainer.pool.members][:2] == names[1:]
    assert trainer.pool.opponents[0] == trainer.pool._players[0] == 2 and not trainer.pool._is_counted[0]
    iterate(trainer, 1)
    trainer.close()


class Remembering(Default):
    """A policy that keeps what it saw last, as for a picture of it."""

    def forward(self, observations, state=None):
        logits, self.values = super().forward(observations, state)
        return logits, self.values


def test_a_policy_that_keeps_an_activation_has_snapshots_too():
    trainer = make_trainer(Remembering(Rounds(), 8))
    iterate(trainer, 4)
    assert len(trainer.pool.members) == 3 and trainer.policy.values.requires_grad
    trainer.release()


def test_a_policy_that_beats_the_pool_enters_it_early():
    trainer = make_trainer(snapshot_steps=10**9, snapshot_win_rate=0.6)
    iterate(trainer, 2)
    assert len(trainer.pool.members) == 1
    trainer.pool._recent[:] = 65, 100
    iterate(trainer, 1)
    assert len(trainer.pool.members) == 2
    trainer.close()


@pytest.mark.quick("True-True")
@pytest.mark.parametrize("is_recurrent", [False, True])
@pytest.mark.parametrize("is_untrained", [False, True])
def test_a_resumed_run_has_the_same_pool_and_continues_exactly(is_recurrent, is_untrained):
    policy = recurrent_policy if is_recurrent else lambda: None
    straight, first = make_trainer(policy()), make_trainer(policy())
    for trainer in (straight, first):
        iterate(trainer, 5)
        if is_untrained:
            trainer.evaluate()
    first.save_checkpoint()
    folder = first.run_folder
    first.close()
    resumed = make_trainer(policy())
    resumed.load_checkpoint(folder)
    for trainer in (straight, resumed):
        if is_untrained:
            trainer.train()
        iterate(trainer, 4)
    for own, other in zip(state_of(straight), state_of(resumed), strict=True):
        assert torch.equal(own, other)
    assert straight.pool.metrics() == resumed.pool.metrics()
    assert [m.name for m in straight.pool.members] == [m.name for m in resumed.pool.members]
    straight.close()
    resumed.close()


class Unsaved(Rounds):
    """The game without snapshots."""

    def snapshot(self):
        return None


def test_games_that_begin_anew_when_a_run_is_resumed_are_against_its_pool():
    settings = {"env": Unsaved, "selfplay_share": 0.0, "pool_members": "random"}
    first, resumed = make_trainer(**settings), make_trainer(**settings)
    iterate(first, 3)
    first.save_checkpoint()
    first.close()
    stays = resumed.pool.members[0].actor
    stays.close = lambda: pytest.fail("it was closed, and goes on to act")
    resumed.load_checkpoint(first.run_folder)
    assert {*resumed.pool.opponents} <= {0, 1, 2, 3} and len({*resumed.pool.opponents}) > 1
    del stays.close
    resumed.close()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("opponents", lambda found: found.fill_(7)),
        ("_players", lambda found: found.fill_(-2)),
        ("names", lambda found: found.append("one more")),
        ("points", lambda found: found.resize_(1)),
    ],
)
def test_a_damaged_pool_is_refused_and_changes_nothing(name, change):
    trainer = make_trainer()
    iterate(trainer, 4)
    trainer.save_checkpoint()
    path = trainer.run_folder / "trainer_state.pt"
    state = torch.load(path, weights_only=True)
    change(state["ranks"][0]["pool"][name])
    torch.save(state, path)
    before = [tensor.clone() for tensor in state_of(trainer)]
    with pytest.raises(CheckpointError, match="pool"):
        trainer.load_checkpoint(trainer.run_folder)
    assert all(torch.equal(own, other) for own, other in zip(before, state_of(trainer), strict=True))
    trainer.close()


def test_an_agent_from_a_file_may_have_another_architecture_and_stays_as_it_is():
    other = make_trainer(recurrent_policy(), pool_size=0)
    iterate(other, 1)
    other.save_checkpoint("other.pt")
    weights = [tensor.clone() for tensor in other.policy.state_dict().values()]
    other.close()
    trainer = PuffeRL(
        Rounds, num_envs=8, logger=NoLogger(), **SIZES, pool_size=1, snapshot_steps=50, pool_members="other.pt, random"
    )
    iterate(trainer, 4)
    assert [member.name for member in trainer.pool.members[:2]] == ["other.pt", "random"]
    assert len(trainer.pool.members) == 3 and trainer.pool.games[:2].min() > 5
    kept = trainer.pool.members[0].actor.policy.state_dict().values()
    assert all(torch.equal(own, before) for own, before in zip(kept, weights, strict=True))
    trainer.close()


def test_the_latest_run_stays_a_member_when_there_are_later_ones():
    other = make_trainer(pool_size=0)
    iterate(other, 1)
    other.close()
    first = make_trainer(pool_members="latest, random")
    iterate(first, 2)
    first.save_checkpoint()
    first.close()
    described = read_facts(first.run_folder / "config.json")["settings"]["selfplay"]
    resumed = make_trainer(pool_members=described["pool_members"])
    resumed.load_checkpoint(first.run_folder)
    assert [member.name for member in resumed.pool.members[:2]] == [str(other.run_folder), "random"]
    kept = resumed.pool.members[0].actor.policy.state_dict()
    assert all(torch.equal(kept[name], before) for name, before in other.policy.state_dict().items())
    resumed.close()


def test_each_seat_of_an_opponent_has_recurrent_state_of_its_own():
    class Counting(nn.Module):
        """Plays 0, 1, 2 in the steps of a game."""

        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def initial_state(self, rows, device):
            return {"step": torch.zeros(rows, 1, device=device)}

        def forward_eval(self, observations, state):
            step = state["step"].clone()
            state["step"] = step + 1
            logits = 50.0 * nn.functional.one_hot(step.view(-1).long() % 3, 3).float()
            return logits * self.scale, self.scale.expand(len(observations), 1)

        def forward(self, observations, state):
            rows, steps = observations.shape[:2]
            return torch.zeros(rows, steps, 3) * self.scale, self.scale.expand(rows, steps)

    trainer = make_trainer(Counting(), learning_rate=0.0, snapshot_steps=10**9)
    iterate(trainer, 3)
    seen = []
    step = trainer.vecenv.driver_env.step

    def watch(actions):
        env = trainer.vecenv.driver_env
        places = np.repeat((env.rounds - env.left) % env.rounds, 2)
        players = trainer.pool._players >= 0
        seen.append((actions[players], places[players]))
        return step(actions)

    trainer.vecenv.driver_env.step = watch
    iterate(trainer, 2)
    chosen, places = (np.concatenate(each) for each in zip(*seen, strict=True))
    assert len(chosen) > 20 and np.array_equal(chosen, places)
    trainer.close()


def test_a_pool_needs_games_of_several_agents_in_one_process(monkeypatch):
    with pytest.raises(APIUsageError, match=r"games of 2 agents or more, got 1 .* opponent='self'"):
        PuffeRL("puffer_squared", pool_size=2, num_envs=8, logger=NoLogger())
    with pytest.raises(APIUsageError, match="ready one"):
        PuffeRL(Rounds(), opponent="pool", logger=NoLogger())
    with pytest.raises(ConfigError, match="pool_choice"):
        make_trainer(pool_choice="worst")


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_the_order_in_which_batches_come_changes_no_training_against_a_pool(is_recurrent):
    found = []
    for backend in (Unordered, OtherwiseUnordered):
        env = vector.make(Rounds, env_kwargs={"num_envs": 2}, num_envs=4, batch_size=1, backend=backend)
        torch.manual_seed(3)
        policy = MinGRUWrapper(env, Default(env, 16), 16, 16) if is_recurrent else Default(env, 16)
        pool = {"pool_size": 2, "snapshot_steps": 50, "selfplay_share": 0.3, "final_episodes": 0}
        trainer = PuffeRL(env, policy, logger=NoLogger(), **{**SIZES, **pool})
        iterate(trainer, 5)
        found.append(([tensor.clone() for tensor in state_of(trainer)], trainer.pool.metrics()))
        trainer.close()
    (first, told), (second, told_again) = found
    assert all(map(torch.equal, first, second)) and told == told_again and told


def test_opponents_are_drawn_on_the_device_of_their_generator(monkeypatch):
    trainer, found, rand = make_trainer(), [], torch.rand

    def recorded(*shape, **settings):
        found.append(settings)
        return rand(*shape, **settings)

    monkeypatch.setattr(torch, "rand", recorded)
    trainer.pool.restart()
    assert found and all(each["device"] == each["generator"].device for each in found)
    trainer.close()


@pytest.mark.parametrize("what", ["observations", "rewards"])
def test_numbers_that_are_not_finite_are_skipped_in_games_against_the_pool_too(what):
    class Faulty(Rounds):
        calls = 0

        def step(self, actions):
            results = super().step(actions)
            self.calls += 1
            if self.calls % 5 == 0:
                getattr(self, what)[self.calls // 5 % self.num_agents] = np.inf
            return results

    trainer = make_trainer(env=Faulty, skip_nonfinite=True, selfplay_share=0.0)
    iterate(trainer, 6)
    trainer.evaluate()
    assert trainer.train()["skipped_steps"] > 0
    assert trainer.pool.games.sum() > 20 and not np.isinf(trainer.pool._returns).any()
    trainer.close()


class TwoRanks(Ranks):
    """A process whose twin found two points in three games against every member in each rollout."""

    def gather_numbers(self, numbers):
        return torch.stack(
            [numbers, torch.tensor([2.0, 3.0], dtype=numbers.dtype).repeat_interleave(len(numbers) // 2)]
        )


def test_results_are_those_of_the_games_of_all_processes():
    trainer = make_trainer()
    iterate(trainer, 2)
    pool, before = trainer.pool, trainer.pool.games.copy()
    trainer.evaluate()
    alone, recent = pool.games - 0.95 * before, pool._recent.copy()
    pool._ranks = TwoRanks(0, 2)
    pool._found[:] = 0.0
    pool._found[0, 0] = 0.5  # of this process
    pool.end_rollout()
    assert pool.games - 0.95 * before == pytest.approx(alone + 3.0)
    assert (pool._recent - recent == [2.0 * pool.capacity + 0.5, 3.0 * pool.capacity]).all()
    assert (pool.points <= pool.games).all()
    trainer.close()


def play_in_a_process():
    trainer = make_trainer(snapshot_steps=40, batch_size=256)
    iterate(trainer, 6)
    trainer.save_checkpoint()
    pool, folder = trainer.pool, str(trainer.run_folder)
    weights = [tensor.sum().item() for member in pool.members for tensor in member.actor.policy.parameters()]
    found = [member.name for member in pool.members], weights, *(part.tolist() for part in (pool.points, pool.games))
    generator = pool.generator.get_state().tolist()
    trainer.close()
    return found, generator, folder


@pytest.mark.slow
def test_several_processes_share_a_pool():
    first, second = ranks.call(play_in_a_process)
    assert first[0] == second[0] and first[1] != second[1]
    for settings, problem in (
        ({"pool_size": 1}, "of a pool_size of 3 or more"),
        ({"pool_size": 8}, r"\['points'\] must be float64 of shape \(8,\)"),
        ({"pool_members": "random"}, r"\['fixed'\] must be the pool_members random"),
    ):
        other = make_trainer(snapshot_steps=40, **settings)
        before = [tensor.clone() for tensor in state_of(other)]
        with pytest.raises(CheckpointError, match=problem):
            other.load_checkpoint(first[2])
        assert all(map(torch.equal, before, state_of(other)))
        other.close()
    names, weights, points, games = first[0]
    alone = make_trainer(snapshot_steps=40)
    alone.load_checkpoint(first[2])
    assert [member.name for member in alone.pool.members] == names
    assert weights == [
        tensor.sum().item() for member in alone.pool.members for tensor in member.actor.policy.parameters()
    ]
    assert (alone.pool.points.tolist(), alone.pool.games.tolist()) == (points, games) and sum(games) > 20
    iterate(alone, 2)
    alone.close()


def connect4_trainer(env="puffer_connect4", **settings):
    torch.manual_seed(1)
    pool = {"opponent": "pool", "selfplay_share": 0.3, "pool_size": 2, "snapshot_steps": 200}
    sizes = {"num_envs": 24, "num_workers": 1, "batch_size": 24 * 2 * 16, "num_steps": 16}
    return PuffeRL(env, **{**sizes, **pool, **settings}, total_timesteps=10**6, logger=NoLogger())


def test_a_game_of_turns_with_masks_is_resumed_exactly_and_opponents_move_legally():
    straight, first = connect4_trainer(), connect4_trainer()
    assert straight.computed_by.startswith("C kernel")
    pool, act = straight.pool, straight.pool.act
    moves = []

    def checked(rows, actions):
        seen, is_acting = pool._seen[rows.start], pool._masks[rows] & (pool._players[rows] >= 0)
        chosen = act(rows, actions)
        moves.append(seen.action_masks[np.arange(len(chosen)), chosen][is_acting])
        return chosen

    pool.act = checked
    for trainer in (straight, first):
        iterate(trainer, 4)
    first.save_checkpoint()
    folder = first.run_folder
    first.close()
    resumed = connect4_trainer()
    resumed.load_checkpoint(folder)
    for trainer in (straight, resumed):
        iterate(trainer, 3)
    for own, other in zip(state_of(straight), state_of(resumed), strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=0, equal_nan=True)  # NaN for who has not moved
    allowed = np.concatenate(moves)
    assert allowed.all() and len(allowed) > 300
    rewards, masks = straight.rollout.rewards[:, 1:], straight.rollout.masks[:, 1:]
    assert rewards.abs().sum() > 0 and masks.float().mean() < 0.5
    straight.close()
    resumed.close()


def test_the_bot_is_a_member_whose_agents_ask_the_environment_for_its_moves():
    trainer = connect4_trainer(pool_members="bot", pool_size=1)
    pool, act, asked = trainer.pool, trainer.pool.act, []

    def watched(rows, actions):
        is_bots = (pool._players[rows] == 0) & pool._masks[rows]
        chosen = act(rows, actions)
        assert np.array_equal(chosen == BOT_MOVES, is_bots)
        asked.append(int(is_bots.sum()))
        return chosen

    pool.act = watched
    iterate(trainer, 8)
    assert [member.name for member in pool.members] == ["bot", trainer.pool.members[1].name]
    assert sum(asked) > 300
    assert trainer.rollout.actions.min() >= 0  # those of the bot are none of the policy's
    assert pool.games[0] > 20 and pool.points[0] < 0.4 * pool.games[0]  # it looks four discs ahead
    assert pool.metrics()["selfplay/members"] == 2
    trainer.close()


def test_the_strength_of_the_bot_is_the_environments():
    env = partial(Connect4, bot_depth=0)
    trainer = connect4_trainer(env, pool_members=["bot"], pool_size=0, selfplay_share=0.0, learning_rate=0.0)
    iterate(trainer, 30)
    points, games = trainer.pool.points[0], trainer.pool.games[0]
    assert games > 200 and points / games == pytest.approx(0.5, abs=0.12)
    trainer.close()


@pytest.mark.slow
def test_a_run_with_the_bot_in_its_pool_is_resumed_exactly():
    straight, first = (connect4_trainer(pool_members="bot, random") for _ in range(2))
    for trainer in (straight, first):
        iterate(trainer, 4)
    first.save_checkpoint()
    folder = first.run_folder
    first.close()
    resumed = connect4_trainer(pool_members="bot, random")
    resumed.load_checkpoint(folder)
    for trainer in (straight, resumed):
        iterate(trainer, 3)
    for own, other in zip(state_of(straight), state_of(resumed), strict=True):
        assert torch.equal(own, other)
    assert straight.pool.games[0] > 5 and straight.pool.metrics() == resumed.pool.metrics()
    straight.close()
    resumed.close()
    others = connect4_trainer(pool_members="random, bot")
    with pytest.raises(CheckpointError, match="pool_members random, bot"):
        others.load_checkpoint(folder)
    others.close()


class RoundsWithBot(Rounds):
    """The bot plays paper."""

    has_bot_moves = True

    def step(self, actions):
        return super().step(np.where(actions == BOT_MOVES, 1, actions))


def test_a_game_in_python_may_have_a_bot_too_which_the_policy_learns_to_beat():
    trainer = make_trainer(env=RoundsWithBot, pool_members="bot", pool_size=0, selfplay_share=0.0, learning_rate=0.01)
    iterate(trainer, 10)
    metrics = trainer.pool.metrics()
    assert metrics["selfplay/win_rate/bot"] == metrics["selfplay/win_rate"] > 0.8 and trainer.pool.games[0] > 100
    trainer.close()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (
            lambda: make_trainer(pool_members="bot"),
            r"Rounds has no bot that .*, got 'bot' as a player; take 'random'",
        ),
        (lambda: connect4_trainer(opponent="bot", pool_members="bot"), r"got 1 in each .*; pass opponent='self'"),
    ],
    ids=["an environment without a bot", "one agent against the bot"],
)
def test_a_bot_that_cannot_be_a_member_is_refused(make, problem):
    with pytest.raises(APIUsageError, match=problem):
        make()


def test_the_bot_has_every_part_of_an_action():
    game = {"opponent": "self", "num_envs": 8, "num_workers": 1}
    trainer = PuffeRL("puffer_slimevolley", **game, pool_members="bot", logger=NoLogger())
    trainer.evaluate()
    asked = trainer.vecenv.driver_env.actions == BOT_MOVES
    assert (asked.all(1) == asked.any(1)).all() and asked.any()
    trainer.close()


def test_a_member_of_another_game_is_refused():
    with pytest.raises(APIUsageError, match=r"trained in .*SmallRounds, got puffer_pong of puffer_pong; take another"):
        make_trainer(env=SmallRounds, pool_members=["puffer_pong"])
