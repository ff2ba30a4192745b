import contextlib
import warnings

import numpy as np
import pytest
import torch
from collecting import HORIZON, OtherwiseUnordered, Unordered, collected, make_collector, scripted_vector
from scripted import ACTION, EPISODE, NUM_ACTIONS, STEP, ScriptedEnv, episode_length, expected
from scripted_policies import ConstantPolicy, CountingPolicy, InPlacePolicy, LinearPolicy

from pufferlib import vector
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.ocean import env_class
from pufferlib.ppo import collector as collector_file
from pufferlib.ppo.sampling import sample_logits
from pufferlib.pufferl import PuffeRL


def assert_as_scripted(arrays, horizon=HORIZON):
    """Compares every column with what the environment shows at that time after the recorded actions."""
    agents, pieces = arrays["actions"].shape[:2]
    time = np.arange(pieces)[:, None] * horizon + np.arange(horizon + 1)  # (pieces, columns): column T is the next 0
    actions = arrays["actions"].reshape(agents, -1)
    last_action = np.concatenate([np.zeros((agents, 1), int), actions], 1)[:, time]
    truth = expected(np.arange(agents)[:, None, None], time, last_action)
    observations, rewards, terminals, truncations, masks = truth
    np.testing.assert_array_equal(arrays["observations"], observations[:, :, :-1])
    np.testing.assert_array_equal(arrays["rewards"], rewards)
    np.testing.assert_array_equal(arrays["terminals"], terminals)
    np.testing.assert_array_equal(arrays["truncations"], truncations)
    return observations, masks


# --- columns


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("horizon", [1, 7, 64])
def test_every_column_holds_what_belongs_to_it(groups, horizon):
    collector = make_collector(scripted_vector(), LinearPolicy(), groups, horizon)
    arrays = collected(collector, rollouts=3)
    assert arrays["actions"].shape == (6, 3 * groups, horizon)
    assert_as_scripted(arrays, horizon)
    assert (arrays["ratios"] == 1).all() and (arrays["masks"] == 1).all()
    assert len(np.unique(arrays["actions"])) == (NUM_ACTIONS if horizon > 1 else len(np.unique(arrays["actions"])))


@pytest.mark.quick("processes mixed", "serial by 2")
@pytest.mark.parametrize(
    ("groups", "keywords"),
    [
        (2, {"backend": "Serial", "batch_size": 2}),
        (1, {"backend": "Serial", "batch_size": 1}),
        (2, {"backend": "Multiprocessing", "num_workers": 2, "batch_size": 2}),
        (1, {"backend": "Multiprocessing", "num_workers": 2, "batch_size": 4, "zero_copy": False}),
    ],
    ids=["serial by 2", "serial by 1", "processes by 2", "processes mixed"],
)
def test_batches_in_flight_land_in_their_own_rows(keywords, groups):
    vecenv = scripted_vector(num_envs=4, **keywords)
    arrays = collected(make_collector(vecenv, CountingPolicy(), groups), rollouts=3)
    vecenv.close()
    observations, _ = assert_as_scripted(arrays)
    np.testing.assert_array_equal(arrays["values"], observations[..., STEP])


@pytest.mark.parametrize("groups", [1, 2])
def test_the_order_in_which_batches_come_changes_nothing(groups):
    def collect(backend):
        vecenv = scripted_vector(num_envs=5, backend=backend, batch_size=1)
        collector = make_collector(vecenv, CountingPolicy(), groups)
        arrays = collected(collector, rollouts=3)
        # Rounded sums too: of numbers that are as good as random.
        return arrays, collector.statistics.state_dict(), collector.generator.get_state()

    (first, told, state), (second, told_again, state_again) = collect(Unordered), collect(OtherwiseUnordered)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    assert told == told_again and told["episodes"]["count"] > 0
    assert torch.equal(state, state_again)


@pytest.mark.quick("True")
@pytest.mark.parametrize("is_fused", [False, True])
def test_the_order_in_which_batches_come_changes_no_training(is_fused, tmp_path):
    found = []
    for backend in (Unordered, OtherwiseUnordered):
        vecenv = scripted_vector(num_envs=5, backend=backend, batch_size=1, has_absent_agents=True)
        torch.manual_seed(0)
        policy = MinGRUWrapper(vecenv, Default(vecenv, 16), 16, 16)
        sizes = {"bptt_horizon": 8, "batch_size": 160, "minibatch_size": 40, "total_timesteps": 10_000}
        settings = {"device": "cpu", "fused": is_fused, "data_dir": str(tmp_path), **sizes}
        with contextlib.closing(PuffeRL(settings, vecenv, policy)) as trainer:
            statistics = [(trainer.evaluate(), trainer.train())[0] for _ in range(3)]
        found.append((statistics, [parameter.tolist() for parameter in policy.parameters()]))
    assert found[0] == found[1]


class Shuffled(vector.Serial):
    """One batch of everything, its agents in another order each time, as of workers that are done."""

    def recv(self):
        *arrays, infos, agent_ids, masks = super().recv()
        order = np.random.permutation(len(agent_ids))
        self.order = agent_ids[order]
        return *(array[order] for array in arrays), infos, self.order, masks[order]

    def send(self, actions, agent_ids):
        np.testing.assert_array_equal(agent_ids, self.order)
        super().send(actions[np.argsort(self.order)])


def test_the_order_of_agents_within_a_batch_changes_nothing():
    first, second = (
        collected(make_collector(scripted_vector(num_envs=4, backend=backend), CountingPolicy()), rollouts=3)
        for backend in ("Serial", Shuffled)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_batches_draw_apart_from_each_other():
    vecenv = scripted_vector(num_envs=3, agents=8, batch_size=1)
    actions = collected(make_collector(vecenv, ConstantPolicy(), horizon=20), rollouts=2)["actions"]
    batches = [actions[begin : begin + 8, rollout] for begin in (0, 8, 16) for rollout in range(2)]
    for index, batch in enumerate(batches):
        assert not any(np.array_equal(batch, other) for other in batches[:index])


@pytest.mark.parametrize("groups", [1, 3])
def test_batches_may_overtake_each_other(groups):
    vecenv = scripted_vector(num_envs=5, backend=Unordered, batch_size=1)
    arrays = collected(make_collector(vecenv, CountingPolicy(), groups), rollouts=4)
    observations, _ = assert_as_scripted(arrays)
    np.testing.assert_array_equal(arrays["values"], observations[..., STEP])


def test_batches_that_mix_environments_of_different_progress_are_refused():
    vecenv = scripted_vector(num_envs=4, backend="Multiprocessing", num_workers=2, batch_size=2, zero_copy=False)
    with contextlib.closing(vecenv), pytest.raises(APIUsageError, match="zero_copy"):
        make_collector(vecenv, LinearPolicy())


def test_values_and_logprobs_are_those_of_the_policy_that_acted():
    policy = LinearPolicy()
    arrays = {name: torch.from_numpy(a) for name, a in collected(make_collector(scripted_vector(), policy), 2).items()}
    logits, values = policy(arrays["observations"], {})
    _, logprobs, _ = sample_logits(logits, action=arrays["actions"])
    torch.testing.assert_close(arrays["logprobs"], logprobs.detach())
    torch.testing.assert_close(arrays["values"][..., :-1], values)


def test_the_bootstrap_column_values_the_observation_that_begins_the_next_rollout():
    arrays = collected(make_collector(scripted_vector(), LinearPolicy()), rollouts=3)
    np.testing.assert_array_equal(arrays["values"][:, :-1, -1], arrays["observations"][:, 1:, 0, STEP] + 0.5)
    for name in ("rewards", "terminals", "truncations", "masks", "values"):
        np.testing.assert_array_equal(arrays[name][:, :-1, -1], arrays[name][:, 1:, 0])


def test_the_first_column_is_acted_on_anew_by_the_policy_as_it_is_then():
    policy = LinearPolicy()
    collector = make_collector(scripted_vector(), policy)
    collector.collect()
    bootstrap = collector.rollout.values[:, -1].clone()
    policy.forward = lambda observations, state: (observations @ policy.weight, observations[..., STEP] + 100)
    collector.collect()
    torch.testing.assert_close(collector.rollout.values[:, 0], bootstrap - 0.5 + 100)


def test_episodes_go_on_after_a_snapshot_that_is_refused():
    collector = make_collector(scripted_vector(), LinearPolicy())
    first = collected(collector, rollouts=1)
    with pytest.raises(APIUsageError, match="snapshot"):
        collector.batches.restore({})
    second = collected(collector, rollouts=1)
    assert_as_scripted({name: np.concatenate([first[name], second[name]], 1) for name in first})


def test_after_a_reset_that_was_not_its_own_other_episodes_begin():
    vecenv = scripted_vector()
    collector = make_collector(vecenv, LinearPolicy())
    collector.collect()
    vecenv.reset()
    assert_as_scripted(collected(collector, rollouts=2))


# --- recurrent state


@pytest.mark.parametrize("groups", [1, 2])
def test_state_begins_at_zero_with_every_episode_and_flows_across_rollouts(groups):
    arrays = collected(make_collector(scripted_vector(), CountingPolicy(), groups), rollouts=4)
    observations, _ = assert_as_scripted(arrays)
    # The count is the step in the episode at every column: nothing is lost at the seam of two rollouts, and the
    # bootstrap does not count its observation twice.
    np.testing.assert_array_equal(arrays["values"], observations[..., STEP])
    np.testing.assert_array_equal(arrays["count"][..., 0], observations[:, :, 0, STEP])
    assert observations[..., EPISODE].max() > 2 and (observations[:, 1:, 0, STEP] > 0).any()


@pytest.mark.parametrize("keywords", [{}, {"batch_size": 1}])
def test_a_policy_may_change_its_state_in_place(keywords):
    arrays = collected(make_collector(scripted_vector(**keywords), InPlacePolicy(), groups=2), rollouts=3)
    observations, _ = assert_as_scripted(arrays)
    np.testing.assert_array_equal(arrays["values"], observations[..., STEP])


# --- memory


def test_a_column_of_observations_is_one_piece_of_memory_that_the_policy_acts_on():
    seen = []

    class Watching(LinearPolicy):
        def forward(self, observations, state):
            seen.append(observations.data_ptr())
            return super().forward(observations, state)

    collector = make_collector(scripted_vector(), Watching())
    collector.collect()
    columns = collector.rollout.by_column
    assert columns.is_contiguous()
    assert seen[:-1] == [column.data_ptr() for column in columns]


# --- masks, clipping, statistics


def test_absent_agents_are_marked_and_not_counted():
    collector = make_collector(scripted_vector(has_absent_agents=True), LinearPolicy())
    counts = [collector.collect() for _ in range(2)]
    collector.collect()
    collector = make_collector(scripted_vector(has_absent_agents=True), LinearPolicy())
    arrays = collected(collector, rollouts=2)
    _, masks = assert_as_scripted(arrays)
    np.testing.assert_array_equal(arrays["masks"], masks)
    assert counts == [int(masks[:, piece, :-1].sum()) for piece in range(2)]
    assert 0 < counts[0] < 6 * HORIZON


@pytest.mark.parametrize("limit", [1.0, 250.0])
def test_rewards_are_clipped_on_request_alone(limit):
    plain = collected(make_collector(scripted_vector(), LinearPolicy()), rollouts=2)
    clipped = collected(make_collector(scripted_vector(), LinearPolicy(), reward_clip=limit), rollouts=2)
    assert plain["rewards"].max() > 500
    np.testing.assert_array_equal(clipped["rewards"], np.clip(plain["rewards"], -limit, limit))


def test_statistics_are_those_of_the_episodes_that_ended():
    collector = make_collector(scripted_vector(), LinearPolicy(), horizon=20)
    collector.collect()
    lengths = [episode_length(row) for row in range(6) for _ in range(20 // episode_length(row))]
    assert collector.statistics.means() == {"episode_length": pytest.approx(np.mean(lengths)), "n": len(lengths)}


def scripted_episodes(arrays):
    """The return and the length of every episode in the columns that were collected, in any order."""
    found = []
    ended = arrays["terminals"] | arrays["truncations"]
    for agent in range(len(ended)):
        total, length = 0.0, 0
        for piece in range(ended.shape[1]):
            for column in range(1, ended.shape[2]):  # column 0 was received before
                has_acted = arrays["masks"][agent, piece, column - 1]
                length += has_acted
                total += arrays["rewards"][agent, piece, column] * (length > 0)
                if ended[agent, piece, column] and length:
                    found.append((float(total), int(length)))
                    total, length = 0.0, 0
    return found


@pytest.mark.parametrize("has_absent_agents", [False, True])
@pytest.mark.parametrize("keywords", [{}, {"batch_size": 1}])
def test_episodes_are_tracked_from_what_was_received(has_absent_agents, keywords):
    collector = make_collector(scripted_vector(has_absent_agents=has_absent_agents, **keywords), LinearPolicy(), 2)
    episodes = scripted_episodes(collected(collector, rollouts=3))
    returns, lengths = zip(*episodes, strict=True)
    totals = collector.statistics.episodes
    assert totals.count == len(episodes) > 12
    assert totals.return_sum == pytest.approx(sum(returns)) and totals.length_sum == sum(lengths)
    assert (totals.return_min, totals.return_max) == pytest.approx((min(returns), max(returns)))


class EndlessEnv(ScriptedEnv):
    def write(self, actions):
        super().write(actions)
        self.terminals[:] = self.truncations[:] = False


def test_episodes_that_never_end_are_asked_about_once(monkeypatch):
    monkeypatch.setattr(collector_file, "ENDLESS_STEPS", 3 * HORIZON)
    env, ending = vector.make(EndlessEnv, env_kwargs={"agents": 3}), scripted_vector()
    endless, usual = (make_collector(vecenv, CountingPolicy()) for vecenv in (env, ending))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            usual.collect()
        endless.collect(), endless.collect()
    with pytest.warns(
        PufferWarning, match="no episode has ended in 21 steps of every agent; does the environment's step"
    ):
        endless.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        endless.collect()


def test_tracked_returns_are_those_before_rewards_are_clipped():
    plain, clipped = (make_collector(scripted_vector(), LinearPolicy(), reward_clip=clip) for clip in (0.0, 1.0))
    plain.collect(), clipped.collect()
    assert clipped.rollout.rewards.max() == 1
    assert clipped.statistics.episodes == plain.statistics.episodes
    assert clipped.statistics.episodes.return_max > 100


# --- final observations


class Telling(ScriptedEnv):
    """Tells what agents saw last at every end; agent 1's limit comes together with its terminal."""

    def step(self, actions):
        result = super().step(actions)
        self.truncations[1] |= self.terminals[1]
        ended = np.flatnonzero(self.terminals | self.truncations)
        finals = [{"final_observation": self.observations[row], "agent_id": int(row)} for row in ended]
        return *result[:4], finals


@pytest.mark.parametrize("groups", [1, 2])
def test_only_what_a_limit_cut_off_has_a_value(groups):
    vecenv = vector.make(Telling, env_kwargs=[{"index": index} for index in range(3)], num_envs=3, backend="Serial")
    collector = make_collector(vecenv, CountingPolicy(), groups, horizon=20)
    collector.collect()
    rollout, finals = collector.rollout, collector.rollout.finals
    is_cut = rollout.truncations & ~rollout.terminals
    is_cut[:, 0] = False  # of the rollout before
    assert (rollout.truncations & rollout.terminals).any() and (rollout.terminals & ~rollout.truncations).any()
    found = sorted(zip(finals.segments.tolist(), finals.columns.tolist(), strict=True))
    assert found == [tuple(place) for place in is_cut.nonzero().tolist()] != []


# --- seeds and resuming


def test_the_generator_decides_the_actions():
    first, same, other = (
        collected(make_collector(scripted_vector(), LinearPolicy(), seed=seed), 2)["actions"] for seed in (0, 0, 1)
    )
    assert np.array_equal(first, same) and not np.array_equal(first, other)


@pytest.mark.parametrize("seeds", [(1, 1), (1, 2)])
def test_the_seed_of_the_vector_decides_the_environments(seeds):
    results = []
    for seed in seeds:
        vecenv = vector.make(env_class("puffer_squared"), env_kwargs={"num_envs": 8}, seed=seed, backend="Serial")
        collector = make_collector(vecenv, ConstantPolicy())
        results.append(collector.actor.last_observations.clone())
        vecenv.close()
    assert torch.equal(*results) == (seeds[0] == seeds[1])


@pytest.mark.parametrize("threads", [1, 2])
def test_native_and_serial_collect_the_same(threads):
    rollouts = []
    for backend, keywords in (("Serial", {"batch_size": 1}), ("Native", {"num_workers": threads})):
        vecenv = vector.make(
            env_class("puffer_squared"), env_kwargs={"num_envs": 5}, num_envs=2, backend=backend, seed=3, **keywords
        )
        rollouts.append(collected(make_collector(vecenv, ConstantPolicy(), groups=2, horizon=40), rollouts=2))
        vecenv.close()
    serial, native = rollouts
    assert serial["terminals"].any() and serial["truncations"].any() or serial["rewards"].any()
    for name, array in serial.items():
        np.testing.assert_array_equal(array, native[name], err_msg=name)


def test_observations_are_what_was_acted_on_not_what_came_of_it():
    arrays = collected(make_collector(scripted_vector(), LinearPolicy()), rollouts=1)
    np.testing.assert_array_equal(arrays["observations"][:, 0, 1:, ACTION], arrays["actions"][:, 0, :-1])
