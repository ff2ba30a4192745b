import contextlib
import copy
import itertools
import math
import shutil
from pathlib import Path

import pytest
import torch
from gymnasium.spaces import Discrete
from scripted import ScriptedEnv
from torch import nn

import pufferlib
from pufferlib import PuffeRL, pufferl, vector
from pufferlib.environment import PufferEnv
from pufferlib.errors import CheckpointError, DivergedError, PufferError
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.runs import checkpoint
from pufferlib.runs.trainer_state import learner_state, learning_state, rank_state

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def keep():
    """Releases the trainers that it is called with when the test is over."""
    made = []
    yield lambda trainer: made.append(trainer) or trainer
    for trainer in made:
        trainer.release()


SETTINGS = {"batch_size": 64, "device": "cpu", "learning_rate": 1e-2}


def run(trainer, epochs=1):
    for _ in range(epochs):
        trainer.evaluate()
        trainer.train()


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.policy.state_dict().items()}


def edit(folder, change):
    """Changes what `trainer_state.pt` of a run holds."""
    state = checkpoint.load(folder / checkpoint.TRAINER_STATE)
    change(state)
    checkpoint.save(folder / checkpoint.TRAINER_STATE, state)


def is_same(one, other):
    """Whether two states hold the same numbers, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other


# --- by name


class TwoHeads(nn.Module):
    """A policy whose parameters are declared in one of two orders; names and shapes are the same."""

    def __init__(self, order):
        super().__init__()
        made = {"bias": (64,), "weight": (121, 64), "values": (64, 1), "actions": (64, 5)}
        generator = torch.Generator().manual_seed(0)
        for name, shape in made.items():
            made[name] = nn.Parameter(torch.randn(shape, generator=generator) / 8)
        for name in order:
            self.register_parameter(name, made[name])

    def forward(self, observations, state):
        hidden = torch.tanh(observations.float() @ self.weight + self.bias)
        return hidden @ self.actions, hidden @ self.values


ORDER = ["bias", "weight", "values", "actions"]
SWAPPED = ["actions", "values", "bias", "weight"]


def two_heads(keep, order, optimizer="adam", **settings):
    env = pufferlib.make("puffer_squared", num_envs=4)
    return keep(PuffeRL(env, TwoHeads(order), optimizer=optimizer, **SETTINGS, **settings))


@pytest.mark.parametrize("kind", ["run folder", "file"])
@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_a_policy_with_its_parameters_in_another_order_goes_on(keep, optimizer, kind):
    first, second = two_heads(keep, ORDER, optimizer), two_heads(keep, SWAPPED, optimizer)
    run(first, 2)
    path = first.run_folder if kind == "run folder" else "checkpoint.pt"
    first.save_checkpoint(None if kind == "run folder" else path)
    second.load_checkpoint(path)
    assert is_same(learner_state(second._learner), learner_state(first._learner))
    assert is_same(weights(second), weights(first))
    run(second)
    assert second.epoch == 3


def test_state_of_another_shape_is_refused_by_the_name_of_its_parameter(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    trainer.save_checkpoint()

    def spoil(state):
        state["learning"]["learner"]["optimizer_state"]["weight"]["exp_avg"] = torch.zeros(5, 3)

    edit(trainer.run_folder, spoil)
    found = r"'weight'.*'exp_avg'.* must be float32 of shape \(121, 64\), got float32 of shape \(5, 3\)"
    with pytest.raises(CheckpointError, match=found):
        trainer.load_checkpoint(trainer.run_folder)


# --- between evaluate() and train()


def recurrent_trainer(keep, env_class=ScriptedEnv, **settings):
    kwargs = [{"index": index, "agents": 4} if issubclass(env_class, ScriptedEnv) else {} for index in range(3)]
    vecenv = vector.make(env_class, env_kwargs=kwargs, num_envs=3, backend="Serial", seed=1)
    torch.manual_seed(0)
    policy = MinGRUWrapper(vecenv.driver_env, Default(vecenv.driver_env, 8), 8, 8)
    config = {"device": "cpu", "bptt_horizon": 8, "total_timesteps": 8 * 12 * 10, "normalize_rewards": True, **settings}
    return keep(PuffeRL(config, vecenv, policy))


@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("is_used", [False, True])
def test_a_rollout_that_was_not_learned_from_comes_back(keep, evaluates, is_used):
    whole, resumed = recurrent_trainer(keep), recurrent_trainer(keep)
    run(whole, 2)
    statistics = whole.evaluate()
    whole.save_checkpoint()
    if is_used:
        run(resumed, 3)
        resumed.evaluate()
    resumed.load_checkpoint(whole.run_folder)
    assert (resumed.epoch, resumed.global_step) == (2, 3 * 96)
    if evaluates:
        assert resumed.evaluate() == statistics != {}
        assert resumed.global_step == 3 * 96
    assert whole.train() == resumed.train()
    run(whole, 2), run(resumed, 2)
    assert whole.global_step == resumed.global_step == 5 * 96
    assert is_same(weights(whole), weights(resumed))
    assert is_same(learner_state(whole._learner), learner_state(resumed._learner))


def test_it_comes_back_once_more_from_a_trainer_that_did_not_go_on(keep):
    first, second, third = (recurrent_trainer(keep) for _ in range(3))
    statistics = first.evaluate()
    first.save_checkpoint()
    second.load_checkpoint(first.run_folder)
    second.save_checkpoint()
    third.load_checkpoint(first.run_folder)
    assert third.evaluate() == statistics
    assert third.train() == first.train()


def test_an_old_rollout_cannot_be_learned_from(keep):
    trainer = recurrent_trainer(keep)
    run(trainer)
    trainer.save_checkpoint()
    trainer.evaluate()
    trainer.load_checkpoint(trainer.run_folder)
    with pytest.raises(PufferError, match="needs a new rollout"):
        trainer.train()


def test_steps_nobody_learned_from_do_not_count_in_a_file(keep):
    first, second = recurrent_trainer(keep), recurrent_trainer(keep)
    run(first)
    first.evaluate()
    first.save_checkpoint("stage.pt")
    second.load_checkpoint("stage.pt")
    assert (first.global_step, second.global_step) == (2 * 96, 96)


# --- beginning anew


class CountedEnv(PufferEnv):
    """Without snapshots; every episode is the same, so that agents that begin alike go on alike."""

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = ScriptedEnv().single_observation_space
        self.single_action_space = Discrete(3)
        self.num_agents = 4
        super().__init__(buf)

    def reset(self, seed=None):
        self.time = 0
        self.observations[:] = 0.0
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.observations[:] = self.time / 10
        self.rewards[:] = self.time
        return self.observations, self.rewards, self.terminals, self.truncations, []


def make_of_two_processes(state):
    state["ranks"] *= 2


@pytest.mark.parametrize("env_class", [ScriptedEnv, CountedEnv])
@pytest.mark.parametrize("is_pending", [False, True])
def test_a_used_trainer_begins_anew_as_a_new_one_does(keep, env_class, is_pending):
    """Where environments have no snapshots, or there were more processes."""
    saved, fresh, used = (recurrent_trainer(keep, env_class) for _ in range(3))
    run(saved, 2)
    if is_pending:
        saved.evaluate()
    saved.save_checkpoint()
    if env_class is ScriptedEnv:
        edit(saved.run_folder, make_of_two_processes)
    run(used, 3)
    used.evaluate()
    for trainer in (fresh, used):
        trainer.load_checkpoint(saved.run_folder)
        assert trainer.global_step == 2 * 96
        assert not any(state.any() for state in trainer._collector.actor.states.values())
        assert not trainer._reward_normalizer.sums.any()
    assert fresh.evaluate() == used.evaluate()
    assert fresh.train() == used.train()
    assert is_same(weights(fresh), weights(used))


# --- what is refused


def test_an_older_version_is_named(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    trainer.save_checkpoint()
    trainer.save_checkpoint("stage.pt")
    for given, path in ((trainer.run_folder, trainer.run_folder / checkpoint.TRAINER_STATE), ("stage.pt", "stage.pt")):
        state = checkpoint.load(Path(path))
        del state["format"]
        checkpoint.save(Path(path), state)
        words = r"an older version of PufferLib \(format 1, this one has 2\)"
        with pytest.raises(CheckpointError, match=words) as caught:
            trainer.load_checkpoint(given)
        assert "\n" not in str(caught.value)


def places(value, path=()):
    """The places of everything in a state."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def spoilt(value):
    """What it is replaced by in turn."""
    yield from (
        None,
        True,
        "text",
        7,
        -1,
        2**70,
        0.5,
        math.nan,
        -math.inf,
        1e300,
        (),
        [],
        {},
        [[1, 2]],
        {"a": 1},
        {3: 4},
    )
    yield torch.zeros(2, 2)
    if isinstance(value, dict):
        yield from ({name: each for name, each in value.items() if name != missing} for missing in value)
        yield {**value, "unknown": 1}
    if isinstance(value, list):
        yield from (value[:-1], [*value, 0], value[::-1])
    if isinstance(value, torch.Tensor):
        yield from (
            value.unsqueeze(0),
            value.flatten()[:-1],
            value.double() if value.is_floating_point() else value.float(),
        )
        yield from (value.to_sparse(), value.to("meta"), value.numpy().tolist())
        if value.is_floating_point():
            yield value.clone().requires_grad_()
        else:
            yield torch.full_like(value, True if value.dtype == torch.bool else 125)
    if type(value) is int:
        yield value + 1


def replaced(state, path, value):
    """The state with something else at a place; what is not on the way there is shared."""
    if not path:
        return value
    copied = copy.copy(state)
    copied[path[0]] = replaced(state[path[0]], path[1:], value)
    return copied


def content(trainer):
    """Everything that a load may change."""
    state = {
        "ranks": rank_state(trainer._parts, trainer._statistics if trainer._has_rollout else None),
        "weights": trainer.policy.state_dict(),
        "steps": trainer.global_step,
    }
    state["learning"] = learning_state(trainer._parts)
    del state["ranks"]["interval"]["seconds"]
    return copy.deepcopy(state)


def test_of_more_processes_only_what_is_used_is_looked_at(keep):
    trainer = recurrent_trainer(keep)
    run(trainer)
    trainer.save_checkpoint()
    edit(trainer.run_folder, lambda state: state.update(ranks=[{**state["ranks"][0], "interval": {}}, {}]))
    with pytest.raises(CheckpointError, match=r"ranks\[0\]\['interval'\] must have 'seconds', got an empty dict"):
        trainer.load_checkpoint(trainer.run_folder)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", ["trainer_state.pt", "stage.pt"])
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 23])
def test_whatever_stands_in_a_checkpoint_it_is_refused_or_gone_on_from(keep, monkeypatch, name, stride):
    """Everything at every place is replaced by what is wrong there; what is in snapshots is the environments' own."""
    trainer = recurrent_trainer(keep)
    run(trainer, 3)
    trainer.evaluate()
    trainer.save_checkpoint(metadata={"note": [1, {"two": 2.0}]})
    trainer.save_checkpoint("stage.pt")
    path = trainer.run_folder if name == "trainer_state.pt" else Path(name)
    load = checkpoint.load
    found = load(path / name if path.is_dir() else path)
    trainer.load_checkpoint(path)
    before, refused, taken = content(trainer), 0, 0
    states = (replaced(found, place, value) for place in places(found) for value in spoilt(at(found, place)))
    for state in itertools.islice(states, 0, None, stride):
        monkeypatch.setattr(checkpoint, "load", lambda path, state=state: state if path.name == name else load(path))
        try:
            trainer.load_checkpoint(path)
        except CheckpointError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 700
            assert is_same(content(trainer), before)
        else:
            taken += 1
            with contextlib.suppress(PufferError):  # numbers that are possible, and training diverges from
                run(trainer)
            monkeypatch.setattr(checkpoint, "load", load)
            trainer.load_checkpoint(path)
            if path.is_dir():  # a file leaves the environments as they are
                assert is_same(content(trainer), before)
            before = content(trainer)
    assert refused > taken > 0


# --- what is not finite


def spoil_weight(trainer):
    with torch.no_grad():
        trainer.policy.weight[3, 2] = math.nan
    return "the weight 'weight' is nan"


def spoil_optimizer(trainer):
    trainer._learner.optimizer.state[trainer.policy.weight]["exp_avg_sq"][5, 1] = math.inf
    return r"optimizer_state\['weight'\]\['exp_avg_sq'\] is inf"


def spoil_learning_rate(trainer):
    trainer.learning_rate = math.nan
    return "learning_rate is nan"


def spoil_normalizer(trainer):
    trainer._reward_normalizer.load_state_dict({"count": 3.0, "mean": 1.0, "variance": math.nan})
    return r"reward_normalizer\['variance'\] is nan"


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".pt", ".json")}


@pytest.mark.parametrize("spoil", [spoil_weight, spoil_optimizer, spoil_learning_rate, spoil_normalizer])
def test_what_is_not_finite_is_never_saved(keep, spoil):
    trainer = two_heads(keep, ORDER, normalize_rewards=True)
    run(trainer)
    good = trainer.save_checkpoint()
    trainer.save_checkpoint("stage.pt")
    before, stage = files(trainer.run_folder), Path("stage.pt").read_bytes()
    found = spoil(trainer)
    words = f"{found}, so nothing was saved; the last good checkpoint, {good}, is kept$"
    for path in (None, "stage.pt", "new.pt"):
        with pytest.raises(DivergedError, match=words):
            trainer.save_checkpoint(path)
    with pytest.raises(DivergedError, match=words):
        trainer.close()
    assert not trainer.vecenv.is_open
    assert trainer.close() == good
    assert files(trainer.run_folder) == before and not Path("new.pt").exists()
    assert Path("stage.pt").read_bytes() == stage


def test_a_trainer_that_never_saved_says_so(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    spoil_weight(trainer)
    with pytest.raises(DivergedError, match="so nothing was saved; there is no earlier checkpoint of this run$"):
        trainer.save_checkpoint()


def test_weights_that_are_not_finite_are_never_the_best(keep):
    trainer = two_heads(keep, ORDER, total_timesteps=640, evaluations=10, eval_env="puffer_squared")
    run(trainer, 2)
    before = files(trainer.run_folder)
    learn = trainer._learner.learn

    def diverge(*arguments):
        losses = learn(*arguments)
        spoil_weight(trainer)  # as where processes look at the norm of all weights before their last step
        return losses

    trainer._learner.learn = diverge
    trainer.evaluate()
    with pytest.raises(DivergedError, match="the weight 'weight' is nan"):
        trainer.train()
    assert files(trainer.run_folder) == before and "best.pt" in before


class FailingEnv(ScriptedEnv):
    """Pays NaN, or is interrupted, at some step."""

    fails_at, failure = 1 << 30, None

    def step(self, actions):
        results = super().step(actions)
        if self.time == self.fails_at:
            if self.failure is not None:
                raise self.failure
            self.rewards[1] = math.nan
        return results


def failing(monkeypatch, fails_at, failure=None):
    monkeypatch.setattr(FailingEnv, "fails_at", fails_at)
    monkeypatch.setattr(FailingEnv, "failure", failure)


@pytest.mark.parametrize("fails_at", [8 * 7 + 3, 8 * 10 - 2])
def test_a_run_that_diverges_keeps_its_last_checkpoint(monkeypatch, fails_at):
    """In the last epoch too."""
    failing(monkeypatch, fails_at)
    vecenv = vector.make(FailingEnv, env_kwargs={"agents": 4}, backend="Serial")
    args = pufferl.load_config("puffer_squared")
    settings = {"bptt_horizon": 8, "total_timesteps": 8 * 4 * 10, "device": "cpu", "minibatch_size": "auto"}
    args["train"].update(settings, batch_size="auto", checkpoint_interval=3, log_interval=1)
    with pytest.raises(DivergedError, match="reward of agent 1") as caught:
        pufferl.train("puffer_squared", args, vecenv, Default(vecenv.driver_env, 8))
    (folder,) = Path("experiments").iterdir()
    state = checkpoint.load(folder / checkpoint.TRAINER_STATE)
    assert state["epoch"] == fails_at // 8 // 3 * 3
    assert str(caught.value).endswith(f"the last good checkpoint, {folder / state['model']}, is kept")
    for name in (state["model"], "last.pt"):
        assert all(tensor.isfinite().all() for tensor in checkpoint.load(folder / name).values())


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt(), RuntimeError("broken")])
def test_a_trainer_that_failed_in_a_rollout_saves_what_it_has_learnt(keep, monkeypatch, failure):
    trainer = recurrent_trainer(keep, FailingEnv)
    run(trainer, 2)
    failing(monkeypatch, 8 * 2 + 7, failure)
    learnt = weights(trainer)
    with pytest.raises(type(failure) if failure else DivergedError):
        trainer.evaluate()
    folder, path = trainer.run_folder, trainer.close()
    failing(monkeypatch, 1 << 30)
    resumed = recurrent_trainer(keep, FailingEnv)
    resumed.load_checkpoint(folder)
    assert is_same(checkpoint.load(Path(path)), learnt)
    assert (resumed.epoch, resumed.global_step) == (2, 2 * 96)
    run(resumed)


def test_a_folder_that_was_removed_in_mid_run_can_be_resumed_again(keep):
    trainer = two_heads(keep, ORDER)
    run(trainer)
    trainer.save_checkpoint()
    before = {path.name for path in trainer.run_folder.iterdir()}
    shutil.rmtree(trainer.run_folder)
    trainer.save_checkpoint()
    assert {path.name for path in trainer.run_folder.iterdir()} >= before - {"metrics.jsonl"} >= {"config.json"}
    assert trainer.load_checkpoint(trainer.run_folder) == {}
