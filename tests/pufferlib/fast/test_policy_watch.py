"""A policy that is changed between iterations: noticed, and trained as it is from then on, by kernel or by torch."""

import contextlib
import copy
import functools
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import torch
from drifting import CASES, make_trainer, recurrent
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.nn.modules import module as hooks_of_all
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from trained import iterate, weights

from pufferlib.errors import APIUsageError
from pufferlib.fast.cpu import NetworkActor, NetworkGradients, ThreadedGradients
from pufferlib.fast.policy_watch import OwnCode, is_altered, watch_changes
from pufferlib.models import ActionHead, Continuous, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations, normalized
from pufferlib.ppo.actor import Actor


class OwnTensor(torch.Tensor):
    """As torch's, but of another class, which may do anything."""


class Spaces:
    single_observation_space = Box(-1, 1, (5,), np.float32)
    single_action_space = Discrete(4)


def make_policy():
    return normalized(Spaces, MinGRUWrapper(Spaces, Default(Spaces, 16, 2), 16, 16), 5.0)


# ---------------------------------------------------------------------------------------------------- what is noticed


def replaced_layer(policy):
    policy.policy.layers[0] = nn.Linear(16, 48, bias=False)


def replaced_parameter(policy):
    policy.policy.policy.head.linear.bias = nn.Parameter(torch.zeros(5))


def no_bias(policy):
    policy.policy.policy.head.linear.bias = None


def frozen(policy):
    policy.policy.policy.encoder.requires_grad_(False)


def hooked(policy):
    policy.policy.policy.head.register_forward_hook(lambda module, inputs, output: None)


def hooked_gradient(policy):
    policy.policy.policy.head.linear.weight.register_hook(lambda gradient: gradient)


def other_method(policy):
    policy.policy.policy.decode_actions = policy.policy.policy.head


def moved(policy):
    weight = policy.policy.layers[0].weight
    weight.data = weight.data.clone()


def transposed(policy):
    weight = policy.policy.policy.encoder[2].weight
    weight.data = weight.data.T


def converted(policy):
    policy.policy.policy.head.double()


def parametrized(policy):
    nn.utils.parametrizations.weight_norm(policy.policy.layers[0])


def longer(policy):
    policy.policy.policy.encoder.append(nn.Identity())


def in_evaluation_mode(policy):
    policy.policy.eval()


def other_statistics(policy):
    policy.mean = torch.ones(5, dtype=torch.float64)


CHANGES = [
    *(replaced_layer, replaced_parameter, no_bias, frozen, hooked, hooked_gradient, other_method, moved, transposed),
    *(converted, parametrized, longer, in_evaluation_mode, other_statistics),
]


def of_another_class(policy):
    policy.policy.policy.__class__ = type("Own", (Default,), {})


def clipped_otherwise(policy):
    policy.clip = 1.0


def normalized_otherwise(policy):
    policy.normalize = torch.zeros_like


def hooked_after_accumulation(policy):
    policy.policy.policy.head.linear.weight.register_post_accumulate_grad_hook(lambda parameter: None)


def other_formula(policy):
    policy.policy.policy.encoder[1].approximate = "tanh"


CHANGES += [of_another_class, clipped_otherwise, normalized_otherwise, hooked_after_accumulation, other_formula]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_a_policy_is_made_of_is_noticed(change):
    policy = make_policy()
    has_changed = watch_changes(policy)
    change(policy)
    assert has_changed()
    assert not watch_changes(policy)()


def test_one_hook_for_another_is_noticed():
    policy = make_policy()
    hook = policy.policy.register_forward_hook(lambda module, inputs, output: None)
    has_changed = watch_changes(policy)
    assert not has_changed()
    hook.remove()
    policy.policy.register_forward_hook(lambda module, inputs, output: None)
    assert has_changed()


def test_other_values_are_no_change():
    policy = make_policy()
    has_changed = watch_changes(policy)
    with torch.no_grad():
        for tensor in policy.state_dict().values():
            tensor.add_(1)
    policy.load_state_dict(copy.deepcopy(policy.state_dict()))
    policy.eval(), policy.train()
    next(policy.parameters()).grad = torch.ones(16, 5)
    assert not has_changed()


def test_modules_that_are_shared_or_missing_are_watched():
    shared = nn.Linear(3, 3)
    policy = nn.ModuleList([shared, shared, nn.BatchNorm1d(3)])
    policy.empty = None
    policy.register_module("nothing", None)
    has_changed = watch_changes(policy)
    assert not has_changed()
    policy[1].weight.requires_grad_(False)
    assert has_changed()


def test_buffers_of_torch_are_watched_and_those_of_a_users_own_may_be_others_at_every_call():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

    policy = nn.ModuleList([Counting(), nn.BatchNorm1d(3)])
    has_changed = watch_changes(policy)
    policy[0].count = policy[0].count + 1
    assert not has_changed()
    policy[1].running_mean = torch.zeros(3)
    assert has_changed()


# ----------------------------------------------------------------------------------------------- what comes of it


@pytest.fixture(params=[True, False], ids=["kernel", "torch"])
def start(request):
    """Makes trainers that begin by the kernel, or by torch."""
    trainers = []

    def make(make_policy=CASES["one encoder"][0], **settings):
        trainers.append(make_trainer(make_policy, fused=request.param, **settings))
        assert isinstance(trainers[-1]._learner.gradients, NetworkGradients) == request.param
        return trainers[-1]

    make.is_fused = request.param
    yield make
    for trainer in trainers:
        trainer.release()


def with_gelu(env):
    return LSTMWrapper(env, Default(env, 16, activation="gelu"), 16, 16)


class Seeing:
    """Puts things in a place where a call or a gradient comes by, which they note and leave as it is."""

    def __init__(self, patch, policy, stack):
        self.patch, self.policy, self.stack = patch, policy, stack
        self.count = 0

    def note(self, *arguments):
        self.count += 1

    def replace(self, owner, name):
        original = getattr(owner, name)

        @functools.wraps(original)
        def noting(*arguments, **keywords):
            self.note()
            return original(*arguments, **keywords)

        self.patch.setattr(owner, name, noting)

    def hook_all(self, register):
        self.stack.callback(register(self.note).remove)

    def hook_parameter(self, name):
        self.stack.callback(getattr(next(self.policy.parameters()), name)(self.note).remove)

    def enter(self, kind):
        name = "__torch_function__" if kind is TorchFunctionMode else "__torch_dispatch__"

        def noting(mode, function, types, arguments=(), keywords=None):
            self.note()
            return function(*arguments, **(keywords or {}))

        self.stack.enter_context(type("Noting", (kind,), {name: noting})())


_REPLACED = [
    *((Default, "encode_observations"), (Default, "decode_actions"), (LSTMWrapper, "forward")),
    *((LSTMWrapper, "forward_eval"), (ActionHead, "forward"), (nn.GELU, "forward"), (nn.Linear, "forward")),
    *((nn.LSTMCell, "forward"), (nn.Sequential, "forward"), (nn.Module, "__call__"), (nn.Linear, "__call__")),
    *((nn.Module, "_call_impl"), (nn.Module, "__getattr__"), (NormalizedObservations, "normalize")),
    *((NormalizedObservations, "forward"), (NormalizedObservations, "forward_eval")),
]
PLACES = {
    **{f"{owner.__name__}.{name}": lambda see, o=owner, n=name: see.replace(o, n) for owner, name in _REPLACED},
    "normalize of the module": lambda see: see.replace(see.policy, "normalize"),
    "forward of a part": lambda see: see.replace(see.policy.policy.policy.head, "forward"),
    "hook for all": lambda see: see.hook_all(hooks_of_all.register_module_forward_hook),
    "hook for all, before": lambda see: see.hook_all(hooks_of_all.register_module_forward_pre_hook),
    "hook for all, backward": lambda see: see.hook_all(hooks_of_all.register_module_full_backward_hook),
    "hook for all, before backward": lambda see: see.hook_all(hooks_of_all.register_module_full_backward_pre_hook),
    "hook of a gradient": lambda see: see.hook_parameter("register_hook"),
    "hook after accumulation": lambda see: see.hook_parameter("register_post_accumulate_grad_hook"),
    "mode of functions": lambda see: see.enter(TorchFunctionMode),
    "mode of operations": lambda see: see.enter(TorchDispatchMode),
}


@pytest.mark.quick("Linear.forward", "hook for all", "mode of functions")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # as observations need no gradients
@pytest.mark.parametrize("place", PLACES)
def test_what_is_put_between_the_kernel_and_torch_is_run_by_torch(place, monkeypatch):
    """Between iterations; after it was taken away the kernel goes on."""
    trainer = make_trainer(with_gelu, normalize_observations=True)
    for _ in range(2):
        with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
            see = Seeing(patch, trainer.policy, stack)
            PLACES[place](see)
            iterate(trainer)
            assert see.count and trainer.computed_by.startswith("torch (the policy NormalizedObservations ")
        seen = see.count
        iterate(trainer)
        assert trainer.computed_by.startswith("C kernel") and see.count == seen
    trainer.release()


@pytest.mark.quick("Linear.forward", "hook for all", "mode of operations")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # as observations need no gradients
@pytest.mark.parametrize("place", [place for place in PLACES if "." in place or "all" in place or "mode" in place])
def test_what_was_put_there_before_the_trainer_was_made_is_run_by_torch(place, monkeypatch):
    with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        see = Seeing(patch, None, stack)
        PLACES[place](see)
        trainer = make_trainer(with_gelu, normalize_observations=True)
        see.count = 0
        iterate(trainer)
        assert see.count and trainer.computed_by.startswith("torch")
        trainer.release()


def test_a_default_device_is_no_reason_for_torch():
    with torch.device("cpu"):
        trainer = make_trainer(with_gelu)
        iterate(trainer)
        assert trainer.computed_by.startswith("C kernel")
        trainer.release()


def test_observations_are_clipped_as_was_said_last():
    trainers = [make_trainer(with_gelu, normalize_observations=True, fused=fused) for fused in (True, False)]
    for trainer in trainers:
        iterate(trainer)
        trainer.policy.clip = 0.1
        iterate(trainer)
    assert [trainer.computed_by.startswith("C kernel") for trainer in trainers] == [True, False]
    torch.testing.assert_close(*(trainer.rollout.values for trainer in trainers), rtol=1e-3, atol=5e-4)
    for trainer in trainers:
        trainer.release()


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize(
    "change",
    [
        lambda policy: nn.utils.weight_norm(policy.policy.cells[0], "weight_ih"),
        lambda policy: nn.utils.parametrizations.weight_norm(policy.policy.policy.head.linear),
        lambda policy: nn.utils.parametrize.register_parametrization(
            policy.policy.policy.encoder[0], "weight", nn.Identity()
        ),
        lambda policy: setattr(policy.policy.policy.head.linear, "bias", nn.Parameter(OwnTensor(torch.zeros(3)))),
    ],
    ids=["old weight norm", "weight norm", "parametrization", "own tensor"],
)
def test_weights_that_are_computed_are_computed_by_torch(change):
    trainer = make_trainer(with_gelu, normalize_observations=True)
    iterate(trainer)
    change(trainer.policy)
    iterate(trainer)
    assert trainer.computed_by.startswith("torch")
    trainer.release()


@pytest.mark.quick("kernel-muon", "torch-adam")
@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_frozen_parameters_stay_as_they_are_until_they_are_freed(start, optimizer):
    trainer = start(optimizer=optimizer)
    iterate(trainer, 2)
    encoder, head = trainer.policy.encoder, trainer.policy.head
    encoder.requires_grad_(False)
    before, head_before = weights(encoder), weights(head)
    iterate(trainer, 3)
    assert torch.equal(weights(encoder), before)
    assert not torch.equal(weights(head), head_before)
    assert isinstance(trainer._learner.gradients, NetworkGradients) == start.is_fused
    encoder.requires_grad_(True)
    iterate(trainer)
    assert not torch.equal(weights(encoder), before)
    assert isinstance(trainer._learner.gradients, NetworkGradients) == start.is_fused


def test_what_is_frozen_between_collecting_and_learning_is_not_trained(start):
    trainer = start()
    iterate(trainer)
    trainer.evaluate()
    trainer.policy.encoder.requires_grad_(False)
    before = weights(trainer.policy.encoder)
    trainer.train()
    assert torch.equal(weights(trainer.policy.encoder), before)


def test_a_replaced_layer_is_acted_and_trained_with(start):
    trainer = start()
    iterate(trainer)
    old = trainer.policy.head.linear
    new = trainer.policy.head.linear = nn.Linear(16, 3)
    with torch.no_grad():
        new.bias[-1] = 100.0  # the value
    before, old_before = weights(new), weights(old)
    trainer.evaluate()
    assert trainer.rollout.values.min() > 50
    trainer.train()
    assert torch.equal(weights(old), old_before)
    assert not torch.equal(weights(new), before)
    assert isinstance(trainer._learner.gradients, NetworkGradients) == start.is_fused


def test_a_bias_that_was_taken_away_is_gone(start):
    trainer = start()
    iterate(trainer)
    old = trainer.policy.head.linear.bias
    trainer.policy.head.linear.bias = None
    before = old.detach().clone()
    iterate(trainer)
    assert torch.equal(old, before)
    assert old not in {parameter for group in trainer._learner.optimizer.param_groups for parameter in group["params"]}


def test_a_bias_that_became_one_number_is_left_to_torch(start):
    trainer = start()
    iterate(trainer)
    bias = trainer.policy.encoder[0].bias = nn.Parameter(torch.zeros(1))
    iterate(trainer)
    assert isinstance(trainer._learner.gradients, ThreadedGradients)
    assert bias.shape == (1,) and bias != 0


def test_a_policy_inside_a_normalizer_may_be_replaced(start):
    trainer = start(CASES["one encoder"][0], normalize_observations=True)
    iterate(trainer)
    new = trainer.policy.policy = CASES["one encoder"][0](trainer.vecenv.driver_env)
    before = weights(new)
    iterate(trainer)
    assert (weights(new) != before).any()


CHANGED_CASES = {
    "one encoder": (CASES["one encoder"][0], {}),
    "recurrent": (recurrent, {"optimizer": "muon"}),
    "single steps": (CASES["continuous"][0], CASES["continuous"][1]),
}


@pytest.mark.quick("recurrent")
@pytest.mark.parametrize("case", CHANGED_CASES)
def test_after_changes_the_kernel_trains_as_torch_does(case):
    """Recurrent states, what was seen last and the optimizer's averages go along from one to the other and back."""
    make_policy, settings = CHANGED_CASES[case]
    results = []
    for fused in (False, True):
        trainer = make_trainer(make_policy, {"has_absent_agents": True}, fused=fused, **settings)
        iterate(trainer, 2)
        parameter = next(trainer.policy.parameters())
        for is_trained in (False, True):
            parameter.requires_grad_(is_trained)
            iterate(trainer, 2)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        assert type(trainer._collector.actor) is (NetworkActor if fused else Actor)
        rollout = trainer.rollout
        present = rollout.masks[:, :-1]  # the kernel asks nothing of absent agents where there is no memory
        results.append((weights(trainer.policy), rollout.actions[present], rollout.values[:, :-1][present]))
        trainer.release()
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=5e-4)


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_the_optimizer_keeps_what_it_knows_of_parameters_that_stay(start, optimizer):
    trainer = start(optimizer=optimizer)
    iterate(trainer)

    def known():
        return dict(trainer._learner.optimizer.state)

    head, encoder = trainer.policy.head.linear, trainer.policy.encoder[0]
    before = known()
    trainer.policy.encoder[0] = nn.Linear(3, 16)
    head.weight.requires_grad_(False)
    trainer.evaluate()
    after = known()
    assert after[head.weight] is before[head.weight] and after[head.bias] is before[head.bias]
    assert encoder.weight not in after and trainer.policy.encoder[0].weight not in after
    trainer.train()
    assert trainer.policy.encoder[0].weight in known()


def test_averages_of_another_shape_are_not_kept(start):
    trainer = start(lambda env: Continuous(env, [16], [16]))
    iterate(trainer)
    for layer in (trainer.policy.critic[0], trainer.policy.value):
        layer.weight.data = torch.zeros(32, 3) if layer.weight.shape[0] == 16 else torch.zeros(1, 32)
    trainer.policy.critic[0].bias.data = torch.zeros(32)
    iterate(trainer)
    state = trainer._learner.optimizer.state
    assert all(state[p]["exp_avg"].shape == p.shape for p in trainer.policy.parameters())


def test_a_frozen_policy_is_saved_and_resumed(start, tmp_path):
    first, second = (start(data_dir=str(tmp_path), optimizer="muon") for _ in range(2))
    first.policy.encoder.requires_grad_(False)
    iterate(first, 2)
    first.save_checkpoint(tmp_path / "stage.pt")
    second.load_checkpoint(tmp_path / "stage.pt")
    assert torch.equal(weights(first.policy), weights(second.policy))
    iterate(second)


def test_a_checkpoint_is_loaded_into_the_parts_that_the_policy_has_now(start, tmp_path):
    first, second = (start(data_dir=str(tmp_path)) for _ in range(2))
    iterate(first, 2)
    first.save_checkpoint(tmp_path / "stage.pt")
    second.policy.encoder[0] = nn.Linear(3, 16)
    second.load_checkpoint(tmp_path / "stage.pt")
    iterate(second)
    state = second._learner.optimizer.state[second.policy.encoder[0].weight]
    expected = first._learner.optimizer.state[first.policy.encoder[0].weight]
    assert state["step"] > expected["step"]  # it went on


def test_a_policy_with_nothing_left_to_train_is_an_error(start):
    trainer = start()
    iterate(trainer)
    trainer.policy.requires_grad_(False)
    with pytest.raises(APIUsageError, match="must have parameters to train"):
        trainer.evaluate()
    trainer.policy.requires_grad_(True)
    iterate(trainer)


def test_a_part_that_does_not_fit_is_an_error_and_nothing_is_lost(start):
    trainer = start()
    iterate(trainer)
    good, trainer.policy.encoder[0] = trainer.policy.encoder[0], nn.Linear(4, 16)
    with pytest.raises(APIUsageError, match=r"Default.forward must take observations"):
        trainer.evaluate()
    trainer.policy.encoder[0] = good
    iterate(trainer)


RUINS = {
    "memory given back": lambda encoder: encoder[0].weight.untyped_storage().resize_(0),
    "less memory": lambda encoder: encoder[0].weight.untyped_storage().resize_(8),
    "emptied": lambda encoder: setattr(encoder[0].weight, "data", torch.empty(0)),
    "no weight": lambda encoder: setattr(encoder[0], "weight", None),
    "no layers": lambda encoder: encoder._modules.clear(),
    "moved to nowhere": lambda encoder: encoder.to("meta"),
    "half": lambda encoder: encoder.half(),
    "double": lambda encoder: encoder.double(),
    "complex": lambda encoder: encoder.to(torch.complex64),
}


@pytest.mark.quick("memory given back", "kernel-double-before learning")
@pytest.mark.parametrize("is_between", [True, False], ids=["before collecting", "before learning"])
@pytest.mark.parametrize("ruin", RUINS)
def test_a_layer_that_is_ruined_is_an_error_and_no_kernel_reads_what_was_there(start, ruin, is_between):
    trainer = start()
    iterate(trainer)
    encoder, good = trainer.policy.encoder, copy.deepcopy(trainer.policy.encoder)
    if not is_between:
        trainer.evaluate()
    with pytest.warns() if ruin == "complex" else contextlib.nullcontext():
        RUINS[ruin](encoder)
    with pytest.raises(APIUsageError) as raised:
        trainer.evaluate() if is_between else trainer.train()
    assert "\n" not in str(raised.value)
    trainer.policy.encoder = good
    if not is_between:
        trainer.train()
    iterate(trainer)


def test_a_state_of_another_shape_is_an_error(start):
    trainer = start(recurrent)
    iterate(trainer)
    trainer.policy.policy = Default(trainer.vecenv.driver_env, 32)
    trainer.policy.layers[0], trainer.policy.hidden_size = nn.Linear(32, 96, bias=False), 32
    with pytest.raises(APIUsageError, match=r"state must stay .*'mingru_0': \(16,\).* got .*\(32,\)"):
        trainer.evaluate()


def test_another_module_in_place_of_the_policy_is_an_error(start):
    trainer = start()
    trainer.policy = copy.deepcopy(trainer.policy)
    with pytest.raises(APIUsageError, match="make a new PuffeRL"):
        trainer.evaluate()


def test_a_class_of_code_that_was_run_without_a_name_is_the_users_own():
    space = {"nn": nn}
    exec("class Small(nn.Linear):\n    def forward(self, rows):\n        return super().forward(rows)", space)
    assert not is_altered(space["Small"](2, 1))


class Schedule:
    """It changes where nothing sees it."""

    scale = 2.0

    def __call__(self):
        return self.scale


SCHEDULES, SCALE = {"scale": Schedule()}, 2.0


def scaled(rows, factor=1.0):
    return rows * factor * scaled.scale


class Scales(nn.Module):
    schedule = Schedule()

    def __init__(self, function=None, **kept):
        super().__init__()
        self.linear, self.function = nn.Linear(2, 1), function
        vars(self).update(kept)

    def forward(self, rows):
        return self.function(self.linear(rows))


class ReadsItsClass(Scales):
    def forward(self, rows):
        return self.linear(rows) * self.schedule.scale


class ReadsADict(Scales):
    def forward(self, rows):
        return self.linear(rows) * SCHEDULES["scale"].scale


def closed(schedule):
    return lambda rows: rows * schedule.scale


class NamedDict(dict):
    def __init__(self, **attributes):
        super().__init__()
        vars(self).update(attributes)


@pytest.mark.parametrize(
    "policy",
    [
        ReadsItsClass(),
        ReadsADict(),
        Scales(Schedule().__call__),
        Scales(closed(Schedule())),
        Scales([closed(Schedule())]),
        Scales(functools.partial(scaled, factor=Schedule())),
        Scales(np.random.default_rng(0).normal),
        Scales(functools.partial(scaled, factor=NamedDict(schedule=Schedule()))),
        Scales(lambda rows, schedule=SCHEDULES["scale"]: rows * schedule.scale),
    ],
)
def test_what_a_policy_calls_or_its_class_holds_may_change_unseen(policy):
    assert "that may change" in OwnCode(policy).doubt


@pytest.mark.parametrize("function", [torch.tanh, nn.functional.gelu, scaled, functools.partial(scaled, factor=2.0)])
def test_functions_of_numbers_are_no_reason_for_doubt(function):
    assert OwnCode(Scales(function)).doubt is None


@pytest.mark.parametrize("name", ["scale of a function", "global of a function that it keeps"])
def test_a_number_that_a_function_of_a_policy_reads_is_watched(name, monkeypatch):
    monkeypatch.setattr(scaled, "scale", 1.0, raising=False)
    is_changed = watch_changes(Scales(scaled if "scale" in name else lambda rows: rows * SCALE), runs_no_code=True)
    assert not is_changed()
    monkeypatch.setattr(*((scaled, "scale") if "scale" in name else (f"{__name__}.SCALE",)), 3.0)
    assert is_changed()


class ReadsByName(Scales):
    """Its attribute and its method are called as global names that it does not read."""

    def forward(self, rows):
        return self.schedules(self.linear(rows)) * self.SCALE

    def schedules(self, rows):
        return rows


schedules = Schedule()


def test_a_global_that_is_called_as_an_attribute_is_no_reason_for_doubt(monkeypatch):
    policy = ReadsByName(SCALE=3.0)
    assert OwnCode(policy).doubt is None
    is_changed = watch_changes(policy, runs_no_code=True)
    monkeypatch.setattr(f"{__name__}.SCALE", 5.0)
    assert not is_changed()


RATE = 1.0


@dataclass
class Setup:
    gain: ClassVar[float] = 1.0

    @property
    def scale(self):
        return RATE


class ReadsSettings(Scales):
    def forward(self, rows):
        import spare_settings
        from spare_settings import OFFSET

        scale = spare_settings.SCALE * self.setup.scale * self.setup.gain * self.named.scale
        return self.linear(rows) * scale + OFFSET


@pytest.mark.parametrize("name", ["SCALE", "OFFSET", "property", "class", "dict"])
def test_a_number_that_is_read_in_a_roundabout_way_is_watched(name, monkeypatch):
    settings, named = ModuleType("spare_settings"), NamedDict(scale=1.0)
    settings.SCALE, settings.OFFSET = 1.0, 0.0
    monkeypatch.setitem(sys.modules, "spare_settings", settings)
    policy = ReadsSettings(setup=Setup(), named=named)
    assert OwnCode(policy).doubt is None
    is_changed = watch_changes(policy, runs_no_code=True)
    assert not is_changed()
    places = {"property": (f"{__name__}.RATE",), "class": (Setup, "gain"), "dict": (named, "scale")}
    monkeypatch.setattr(*places.get(name, (settings, name)), 7.0)
    assert is_changed()


@dataclass
class Branch:
    parent: object = None
    children: list = field(default_factory=list)


def test_what_a_policy_keeps_may_hold_itself():
    tree = Branch()
    tree.children.append(Branch(tree))
    is_changed = watch_changes(Scales(tree=tree), runs_no_code=True)
    assert not is_changed()
    tree.children[0].children.append(Branch())
    assert is_changed()
    twice = [1.0]
    for _ in range(40):
        twice = [twice, twice]  # which holds as many numbers as no computer
    assert not watch_changes(Scales(twice=twice), runs_no_code=True)()


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_module_that_was_traced_by_torch_may_be_a_part_of_a_policy(start):
    trainer = start()
    trainer.policy.encoder = torch.jit.trace(nn.Linear(3, 16), torch.zeros(1, 3))
    iterate(trainer)
    assert trainer.computed_by.startswith("torch")
