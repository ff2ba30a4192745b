import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from pufferlib import pufferl, vector
from pufferlib.config import TrainConfig, load_config, resolve_sizes
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.loggers.logger import NoLogger
from pufferlib.models import Default, LSTMWrapper
from pufferlib.ocean import env_class
from pufferlib.play.scores import PeriodicEvaluation
from pufferlib.pufferl import PuffeRL

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SQUARED = "puffer_squared"


class Walk(PufferEnv):
    """Pays the action in each of its steps, 3 to 7 of them by its seed; `made` has every one in this process."""

    made: list["Walk"] = []

    def __init__(self, agents=1, buf=None, seed=0):
        self.single_observation_space = Box(-1, 1, (3,), np.float32)
        self.single_action_space = Discrete(3)
        self.num_agents = agents
        super().__init__(buf)
        self.seeds, self.is_closed, self.steps = [], False, 0
        Walk.made.append(self)

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.random = np.random.default_rng(seed)
        self.length, self.steps = 3 + seed % 5, 0
        self.look()
        return self.observations, []

    def look(self):
        self.observations[:] = self.random.uniform(-1, 1, self.observations.shape)

    def step(self, actions):
        self.steps += 1
        self.rewards[:] = actions
        self.truncations[:] = self.steps % self.length == 0
        self.look()
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self):
        self.is_closed = True


class Endless(Walk):
    """Never ends."""

    def step(self, actions):
        results = super().step(actions)
        self.truncations[:] = False
        return results


class Noted(NoLogger):
    def __init__(self):
        super().__init__()
        self.logs = []

    def log(self, metrics, step):
        self.logs.append(metrics)


@pytest.fixture(autouse=True)
def made():
    Walk.made.clear()
    return Walk.made


def settings(**changes):
    common = {"device": "cpu", "batch_size": 64, "bptt_horizon": 16, "minibatch_size": 32, "update_epochs": 1.0}
    return {**common, "total_timesteps": 640, "evaluations": 2, "evaluation_envs": 6, "log_interval": 100, **changes}


def trainer(env=Walk, policy=None, logger=None, **changes):
    """A trainer of 4 walks by configuration."""
    vecenv = vector.make(env, num_envs=4, backend="Serial", seed=1)
    policy = Default(vecenv, hidden_size=8) if policy is None else policy(vecenv)
    return PuffeRL({**settings(**changes), "env": "walk"}, vecenv, policy, logger)


def run(made_trainer, epochs=10):
    for _ in range(epochs):
        made_trainer.evaluate()
        made_trainer.train()
    return made_trainer


class Fixed(Default):
    """Prefers action 2 by a weight that learns nothing."""

    def decode_actions(self, hidden):
        logits, values = super().decode_actions(hidden)
        return logits * 0 + torch.tensor([0.0, 0.0, 1.0]), values


class Fickle(Default):
    """Draws from torch's own generator, and counts its calls in a buffer: what an evaluation must not do for good."""

    def __init__(self, env):
        super().__init__(env, hidden_size=8)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def decode_actions(self, hidden):
        self.calls += 1
        torch.rand(1)
        return super().decode_actions(self.dropout(hidden))


# --- when


@pytest.mark.parametrize(
    ("evaluations", "epochs", "due"),
    [(0, 10, []), (1, 10, [10]), (2, 10, [5, 10]), (3, 10, [4, 7, 10]), (99, 4, [1, 2, 3, 4])],
)
def test_evaluations_are_spread_evenly_and_the_last_epoch_has_one(evaluations, epochs, due):
    config = resolve_sizes(TrainConfig(bptt_horizon=16, num_iterations=epochs, evaluations=evaluations), 4, "cpu")
    evaluation = PeriodicEvaluation(config, None, nn.Linear(1, 1), None)
    assert [epoch for epoch in range(1, epochs + 1) if evaluation.is_due(epoch, epochs)] == due


def test_an_evaluated_epoch_is_logged_with_what_was_found_and_no_other_is():
    logger = Noted()
    run(trainer(logger=logger, log_interval=2, evaluations=3))
    assert [log["epoch"] for log in logger.logs] == [2, 4, 6, 7, 8, 10]
    assert [log["epoch"] for log in logger.logs if "eval/return_mean" in log] == [4, 7, 10]


# --- what is found


def test_the_metrics_are_of_one_episode_in_each_environment_by_the_likeliest_actions(made):
    logger = Noted()
    run(trainer(policy=Fixed, logger=logger, evaluation_envs=6))
    lengths = np.array([env.length for env in made[-6:]])
    found = {name: value for name, value in logger.logs[-1].items() if name.startswith("eval/")}
    assert found == pytest.approx(
        {
            **{"eval/return_mean": 2 * lengths.mean(), "eval/return_std": 2 * lengths.std()},
            **{"eval/return_min": 2 * lengths.min(), "eval/return_max": 2 * lengths.max()},
            "eval/length_mean": lengths.mean(),
        }
    )


def test_every_evaluation_has_the_same_starts_and_none_of_the_training(made):
    training = run(trainer())
    trained, played = ([env for env in made if len(env.seeds) == count] for count in (1, 2))
    assert (len(trained), len(played)) == (4, 6)
    assert all(env.seeds[0] == env.seeds[1] for env in played)
    assert not {env.seeds[0] for env in played} & {env.seeds[0] for env in trained}
    training.close()


def test_episodes_that_do_not_end_count_as_far_as_they_went():
    logger = Noted()
    run(trainer(env=Endless, policy=Fixed, logger=logger, evaluation_max_steps=9))
    assert logger.logs[-1]["eval/return_mean"] == 18 and logger.logs[-1]["eval/length_mean"] == 9


def test_an_evaluation_asks_the_policy_that_is_there_then(made):
    logger = Noted()
    made_trainer = run(trainer(policy=Fixed, logger=logger), 5)
    made_trainer.policy.forward_eval = lambda observations, state: (
        torch.tensor([[0.0, 1.0, 0.0]]).expand(len(observations), 3),
        observations[:, :1],
    )
    run(made_trainer, 5)
    assert logger.logs[-1]["eval/return_mean"] == np.mean([env.length for env in made[-6:]])


# --- what the training notices of it


@pytest.mark.quick("lstm")
@pytest.mark.parametrize(
    "policy", [Fickle, lambda env: LSTMWrapper(env, Default(env, hidden_size=8), 8, 8)], ids=["fickle", "lstm"]
)
def test_training_is_the_same_with_and_without(policy):
    found = []
    for evaluations in (0, 5):
        torch.manual_seed(3)
        made_trainer = run(trainer(policy=policy, evaluations=evaluations))
        found.append((made_trainer.policy.state_dict(), torch.get_rng_state(), made_trainer._generator.get_state()))
    (first, *first_states), (second, *second_states) = found
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(a, b) for a, b in zip(first_states, second_states, strict=True))


def test_every_module_is_put_back_into_its_own_mode():
    modes = []

    class Watched(Fickle):
        def decode_actions(self, hidden):
            modes.append((self.training, self.dropout.training))
            return super().decode_actions(hidden)

    made_trainer = trainer(policy=Watched, evaluations=10)
    made_trainer.policy.dropout.eval()
    modes.clear()
    run(made_trainer, 1)
    assert (made_trainer.policy.training, made_trainer.policy.dropout.training) == (True, False)
    assert set(modes) == {(True, False), (False, False)}


def test_its_time_is_a_phase_and_no_part_of_an_iteration(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class Slow(Walk):
        def step(self, actions):
            if Slow.is_slow:
                now[0] += 0.02
            return super().step(actions)

    Slow.is_slow = False
    made_trainer = trainer(env=Slow, evaluations=1)
    run(made_trainer, 9)
    made_trainer.mean_and_log()
    made_trainer.evaluate()
    Slow.is_slow = True
    made_trainer.train()
    log = made_trainer.mean_and_log()
    assert log["performance/evaluation"] == 1
    assert log["iteration_seconds"] == 0


# --- its environments


def test_environments_are_made_when_first_needed_and_closed_with_the_trainer(made):
    made_trainer = run(trainer(), 4)
    assert len(made) == 4 + 1  # one showed the spaces
    run(made_trainer, 6)
    assert len(made) == 4 + 1 + 6 + 1
    made_trainer.close()
    assert all(env.is_closed for env in made)


def test_an_interrupt_in_an_evaluation_leaves_the_next_one_whole(monkeypatch, made):
    made_trainer = run(trainer(policy=Fixed, evaluations=10), 1)
    step = Walk.step

    def interrupted(self, actions):
        if self in made[-6:]:
            raise KeyboardInterrupt
        return step(self, actions)

    made_trainer.evaluate()
    monkeypatch.setattr(Walk, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made_trainer.train()
    assert all(env.is_closed for env in made[-6:])
    monkeypatch.undo()
    run(made_trainer, 1)
    assert "eval/return_mean" in made_trainer.mean_and_log()


@pytest.mark.parametrize("env", [SQUARED, env_class(SQUARED)], ids=["name", "class"])
def test_by_keyword_they_are_made_as_the_environment_was(env):
    made_trainer = PuffeRL(env=env, num_envs=16, **{**settings(), "batch_size": 256, "total_timesteps": 256})
    made_trainer.evaluate()
    made_trainer.train()
    assert made_trainer._evaluation._player.vecenv.num_agents == 6
    assert "eval/return_mean" in made_trainer.mean_and_log()
    made_trainer.close()


def test_by_configuration_they_are_made_as_the_environment_was():
    args = load_config(SQUARED)
    args["env"].update(num_envs=4, size=5)
    args["train"].update(settings())
    vecenv = pufferl.load_env(SQUARED, args)
    made_trainer = run(PuffeRL(args["train"], vecenv, pufferl.load_policy(args, vecenv, SQUARED)))
    played_in = made_trainer._evaluation._player.vecenv
    assert played_in.num_agents == 6 and type(played_in) is type(vecenv)
    assert played_in.single_observation_space == vecenv.single_observation_space
    made_trainer.close()


@pytest.mark.parametrize(
    "make",
    [lambda: Walk, lambda: Walk(agents=3), lambda: vector.make(Walk, num_envs=3, backend="Serial")],
    ids=["class", "instance", "vector"],
)
def test_a_ready_environment_needs_another_one_to_evaluate_in(make, made):
    env, other = Walk(agents=4), make()
    made_trainer = run(PuffeRL(env, eval_env=other, **settings()))
    assert "eval/return_mean" in made_trainer.mean_and_log()
    made_trainer.close()
    assert all(each.is_closed for each in made)


def test_without_another_one_it_says_so_at_once():
    with pytest.raises(APIUsageError, match=r"none can be made from the ready Walk that was given; pass eval_env="):
        PuffeRL(Walk(agents=4), **settings())
    PuffeRL(Walk(agents=4), **settings(evaluations=0)).close()


def test_another_one_must_not_be_the_same_one():
    env = Walk(agents=4)
    with pytest.raises(APIUsageError, match="another environment than that of the training"):
        PuffeRL(env, eval_env=env, **settings())


def test_another_one_must_have_the_same_spaces(made):
    class Other(Walk):
        def __init__(self, **keywords):
            super().__init__(**keywords)
            self.single_action_space = Discrete(4)

    made_trainer = PuffeRL(Walk(agents=4), eval_env=Other(agents=2), **settings(evaluations=10))
    with pytest.raises(APIUsageError, match=r"must have the single_action_space of the training, Discrete\(3\)"):
        run(made_trainer, 1)
    assert made[1].is_closed


# --- best and last


class Scripted(PeriodicEvaluation):
    """Finds what it is told to."""

    returns: list[float] = []

    def _evaluate(self):
        return {"eval/return_mean": self.returns.pop(0)}


def test_the_best_weights_are_kept_and_noted(monkeypatch):
    monkeypatch.setattr(pufferl, "PeriodicEvaluation", Scripted)
    Scripted.returns = [1.0, 5.0, 5.0, math.nan, 2.0]
    made_trainer = trainer(evaluations=5)
    weights = {}
    for _ in range(10):
        run(made_trainer, 1)
        weights[made_trainer.epoch] = {name: value.clone() for name, value in made_trainer.policy.state_dict().items()}
    note = json.loads((made_trainer.run_folder / "best.json").read_text())
    assert note == {"env": "walk", "agent_steps": 4 * 64, "epoch": 4, "end": 10, "eval/return_mean": 5.0}
    best = torch.load(made_trainer.run_folder / "best.pt", weights_only=True)
    assert all(torch.equal(best[name], weights[4][name]) for name in best)


def test_the_best_so_far_survives_a_resume(monkeypatch):
    monkeypatch.setattr(pufferl, "PeriodicEvaluation", Scripted)
    Scripted.returns = [3.0, 2.0, 4.0]
    first = run(trainer(evaluations=5), 2)
    first.close()
    second = trainer(evaluations=5)
    second.load_checkpoint(first.run_folder)
    run(second, 2)
    assert json.loads((first.run_folder / "best.json").read_text())["epoch"] == 2
    run(second, 2)
    assert json.loads((first.run_folder / "best.json").read_text())["epoch"] == 6


def test_the_last_weights_are_those_of_the_newest_checkpoint():
    made_trainer = trainer(evaluations=0)
    for epoch in (1, 2):
        run(made_trainer, 1)
        model = made_trainer.save_checkpoint()
        last = made_trainer.run_folder / "last.pt"
        assert last.read_bytes() == Path(model).read_bytes()
        note = json.loads(last.with_suffix(".json").read_text())
        assert note == {"env": "walk", "agent_steps": 64 * epoch, "epoch": epoch, "end": 10}
    assert not (made_trainer.run_folder / "best.pt").exists()
