"""The library's policies, which a kernel computes all at once: their layers, and that it trains as torch does."""

import functools

import numpy as np
import pytest
import torch
from drifting import CASES, CONTINUOUS, make_trainer, recurrent, with_lstm
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn
from traced_policies import layers_of

from pufferlib import pufferl
from pufferlib.extensions.network import Network
from pufferlib.fast.cpu import NetworkActor, NetworkGradients, ThreadedGradients
from pufferlib.fast.traced_values import UntracedError
from pufferlib.models import ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import OneHot, OneHotPlanes, initial_state, normalized
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.trainer_state import learner_state, load_learner_state


@pytest.mark.quick("absent agents", "recurrent")
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_trained_by_the_kernel_as_by_torch(case):
    make_policy, settings, env_kwargs = CASES[case]
    results = []
    for fused in (False, True):
        trainer = make_trainer(make_policy, env_kwargs, fused=fused, **settings)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        before = flat(trainer.policy)
        for _ in range(4):
            trainer.evaluate()
            metrics = trainer.train()
        change = flat(trainer.policy) - before
        present = trainer.rollout.masks[:, :-1]  # what absent agents would do is not asked of the kernel
        rollout = trainer.rollout.actions[present], trainer.rollout.values[:, :-1][present]
        results.append((change, *rollout, metrics))
        trainer.release()
    plain, found = results
    assert plain[0].abs().max() > 0.05
    for expected, tensor in zip(plain[:3], found[:3], strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-3, atol=2e-4)
    assert found[3] == pytest.approx(plain[3], rel=1e-2, abs=1e-3)


@pytest.mark.quick("LSTM")
@pytest.mark.parametrize("rnn_name", [None, "MinGRU", "LSTM"])
def test_categories_are_trained_by_the_kernel_as_by_torch(rnn_name, tmp_path):
    """In squared, whose cells are empty, the agent or the target."""
    results = []
    for fused in (False, True):
        args = pufferl.load_config("puffer_squared")
        args["policy"].update(one_hot=True, hidden_size=32)
        args["rnn_name"] = rnn_name
        args["rnn"] = {"input_size": 32, "hidden_size": 32} if rnn_name else {}
        args["train"].update(device="cpu", fused=fused, data_dir=str(tmp_path), batch_size=4096, minibatch_size=2048)
        args["env"]["num_envs"] = 128
        torch.manual_seed(0)
        vecenv = pufferl.load_env("puffer_squared", args)
        policy = pufferl.load_policy(args, vecenv, "puffer_squared")
        trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_squared"}, vecenv, policy)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        for _ in range(3):
            trainer.evaluate()
            trainer.train()
        results.append((flat(trainer.policy), trainer.rollout.actions.clone(), trainer.rollout.values.clone()))
        assert trainer.rollout.observations.dtype == torch.uint8
        trainer.release()
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


SMALL = {"filters": [20, 8], "sizes": [3, 2], "strides": [2, 1], "hidden_size": 32}


@pytest.mark.quick("floats")
@pytest.mark.parametrize("rnn_name", [None, "MinGRU", "LSTM"])
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("puffer_squared", {**SMALL, "one_hot": True, "image_shape": [11, 11]}),
        ("puffer_squared", {**SMALL, "image_shape": [11, 11]}),
        ("puffer_pacman", {**SMALL, "image_shape": [15, 20]}),
    ],
    ids=["categories", "bytes", "floats"],
)
def test_boards_are_trained_by_the_kernel_as_by_torch(name, policy, rnn_name, tmp_path):
    results = []
    for fused in (False, True):
        args = pufferl.load_config(name)
        args["policy_name"], args["policy"] = "Convolutional", policy
        args["rnn_name"] = rnn_name
        args["rnn"] = {"input_size": 32, "hidden_size": 32} if rnn_name else {}
        args["train"].update(device="cpu", fused=fused, data_dir=str(tmp_path), batch_size=2048, minibatch_size=1024)
        args["train"].update(learning_rate=0.01, bptt_horizon=32)
        args["env"]["num_envs"] = 64
        torch.manual_seed(0)
        vecenv = pufferl.load_env(name, args)
        trainer = pufferl.PuffeRL({**args["train"], "env": name}, vecenv, pufferl.load_policy(args, vecenv, name))
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        before, losses = flat(trainer.policy), []
        for _ in range(2):
            trainer.evaluate()
            losses.append(trainer.train())
        assert (flat(trainer.policy) - before).abs().max() > 0.01
        results.append((losses, flat(trainer.policy), trainer.rollout.actions.clone(), trainer.rollout.values.clone()))
        trainer.release()
    plain, found = results
    for before, after in zip(plain[0], found[0], strict=True):
        assert after == pytest.approx(before, rel=1e-2, abs=1e-3)
    for expected, tensor in zip(plain[1:], found[1:], strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-3, atol=1e-3)


def flat(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])


@pytest.mark.parametrize("shuffle", ["segments", "steps"])
def test_without_memory_the_kernel_computes_no_absent_agent(shuffle):
    trainer = make_trainer(CASES["absent agents"][0], {"has_absent_agents": True}, shuffle=shuffle, prio_alpha=0.0)
    network, acted, learned = trainer._learner.gradients.network, [], []
    compute, learn, train = network._compute, network.learn, network.train
    network.train = lambda *arguments, **keywords: learned.extend(arguments[2]) or train(*arguments, **keywords)
    network._compute = lambda call: acted.append(call.rows if call.noise else 0) or compute(call)
    network.learn = lambda *arguments, **keywords: (
        learned.append(len(arguments[1].segments)) or learn(*arguments, **keywords)
    )
    steps = trainer.global_step
    trainer.evaluate()
    rollout = trainer.rollout
    present = rollout.masks[:, :-1]
    assert sum(acted) == present.sum() == trainer.global_step - steps < present.numel()
    for written in (rollout.actions, rollout.logprobs, rollout.values[:, :-1]):
        assert (written[~present] == 0).all() and (written[present] != 0).any()
    trainer.train()
    count = int(trainer._learner._advantages.learned.sum())
    assert len(learned) == 6 and max(learned) < 48  # steps of a minibatch
    assert shuffle == "segments" or sum(learned) == 3 * count  # passes
    trainer.release()


def test_final_observations_are_valued_by_the_kernel():
    trainer = make_trainer(CASES["continuous"][0], **CONTINUOUS)
    trainer.evaluate()
    observations = np.random.default_rng(0).normal(size=(3, 3))
    values = trainer._collector.actor.value_final(np.array([0, 2, 5]), observations)
    _, expected = trainer.policy(torch.from_numpy(observations))
    torch.testing.assert_close(values, expected.detach(), rtol=1e-5, atol=1e-5)
    assert trainer.rollout.finals is not None
    trainer.release()


@pytest.mark.parametrize("make_policy", [recurrent, with_lstm], ids=["MinGRU", "LSTM"])
def test_an_optimizer_goes_on_by_torch_where_the_kernel_stopped(make_policy, tmp_path):
    """As on a machine with a GPU: parameters have the same order either way."""
    first = make_trainer(make_policy, optimizer="muon", data_dir=str(tmp_path))
    first.evaluate()
    first.train()
    state = learner_state(first._learner)
    second = make_trainer(make_policy, optimizer="muon", fused=False)
    load_learner_state(second._learner, state)
    second.evaluate()
    second.train()
    expected, found = first._learner.optimizer, second._learner.optimizer
    assert [group.shape for group in found.param_groups[0]["params"]] == [
        group.shape for group in expected.param_groups[0]["params"]
    ]
    for trainer in (first, second):
        trainer.release()


# ---------------------------------------------------------------------------------------------------- what is found


class Spaces:
    single_observation_space = Box(-1, 1, (5,), np.float32)
    single_action_space = Box(-1, 1, (2,), np.float32)


class ChoiceSpaces(Spaces):
    single_action_space = Discrete(4)


class BoardSpaces(ChoiceSpaces):
    single_observation_space = Box(np.array([0, 1, -2]), np.array([4, 1, 2]), dtype=np.int8)


class OwnOneHot(OneHot):
    """May compute something else."""


class ImageSpaces(ChoiceSpaces):
    single_observation_space = Box(0, 255, (2, 6, 7), np.uint8)


def convolutional(**settings):
    return Convolutional(ImageSpaces, 16, **{"filters": [5, 6], "sizes": [3, 2], "strides": [2, 1], **settings})


def with_padding(policy):
    policy.encoder[0][2].padding = (1, 0)
    return policy


def with_other_part(policy, index, part):
    policy.encoder[0][index] = part
    return policy


class OwnPlanes(OneHotPlanes):
    """May compute something else."""


def with_own_planes(policy):
    policy.one_hot = OwnPlanes(ImageSpaces.single_observation_space, (2, 6, 7))
    return policy


class OwnConvolutional(Convolutional):
    """May compute something else."""


def with_own_one_hot(policy):
    policy.one_hot = OwnOneHot(BoardSpaces.single_observation_space)
    return policy


def acted(policy, env, observations, rows):
    """The rollouts by torch and by the kernel, `(steps, agents, ...)`, which draw the same actions."""
    drawn, (steps, agents) = [], observations.shape[:2]
    for make_actor in (Actor, functools.partial(NetworkActor, Network(layers_of(policy, env)))):
        state, device = initial_state(policy, agents, torch.device("cpu")), torch.device("cpu")
        spaces = env.single_observation_space, env.single_action_space
        rollout = Rollout.allocate(*spaces, agents, steps, state, device, device)
        actor = make_actor(policy, rollout, agents, torch.Generator().manual_seed(3))
        actor.start_rollout(0)
        for column, seen in enumerate(observations):
            actor.store_observations(rows, column, seen[rows], np.zeros(len(seen[rows]), bool))
            actor.act(rows, column)
        drawn.append(rollout)
    expected, found = drawn
    torch.testing.assert_close(found.actions, expected.actions, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.logprobs, expected.logprobs, rtol=1e-4, atol=1e-4)
    return expected, found


@pytest.mark.parametrize("make_policy", [recurrent, with_lstm], ids=["MinGRU", "LSTM"])
@pytest.mark.parametrize("rows", [slice(0, 40), slice(8, 13)], ids=["all", "some"])
@pytest.mark.parametrize("space", [Discrete(4), MultiDiscrete([3, 2, 5]), Box(-1, 1, (3,), np.float32)], ids=str)
def test_from_one_state_of_the_generator_the_kernel_draws_the_actions_that_torch_draws(space, rows, make_policy):
    class TheseSpaces(Spaces):
        single_action_space = space

    policy = make_policy(TheseSpaces)
    with torch.no_grad():
        policy.policy.head.linear.weight *= 20.0  # so that some choices are likelier than others
    observations = np.random.default_rng(0).normal(size=(5, 40, 5)).astype(np.float32)
    acted(policy, TheseSpaces, observations, rows)


class OwnContinuous(Continuous):
    """May compute something else."""


def with_other_activation(policy):
    policy.critic[1] = nn.ELU()
    return policy


def with_approximate_gelu(module):
    if isinstance(module, nn.GELU):
        module.approximate = "tanh"


def with_hook(policy):
    policy.value.register_forward_hook(lambda module, inputs, output: output)
    return policy


def with_bias_of_one_number(policy):
    policy.critic[0].bias = nn.Parameter(torch.zeros(1))
    return policy


def with_shared_bias(policy):
    policy.critic[0].bias = policy.actor[0].bias
    return policy


def with_unused_parameter(policy):
    policy.scale = nn.Parameter(torch.ones(1))
    return policy


def with_gradient_hook(policy):
    policy.log_std.register_hook(lambda gradient: 0 * gradient)
    return policy


def with_backward_hook(policy):
    policy.actor.register_full_backward_pre_hook(lambda module, gradients: None)
    return policy


def with_own_method(policy):
    policy.policy.decode_actions = lambda hidden: policy.policy.head(0.5 * hidden)
    return policy


class OwnCell(nn.LSTMCell):
    """May compute something else."""


def with_own_cell(policy):
    policy.cells[0] = OwnCell(16, 16)
    return policy


def with_tensor_for_a_weight(policy):
    weight = policy.mean.weight.detach()
    del policy.mean.weight
    policy.mean.weight = weight
    return policy


def frozen(policy):
    policy.log_std.requires_grad_(False)
    return policy


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        (Continuous(Spaces, [16], [32, 32]), Spaces),
        (normalized(Spaces, Continuous(Spaces), 5.0), Spaces),
        (Default(Spaces, 16, 3), Spaces),
        (normalized(ChoiceSpaces, Default(ChoiceSpaces, 32), 5.0), ChoiceSpaces),
        (normalized(Spaces, MinGRUWrapper(Spaces, Default(Spaces, 16), 16, 16), 5.0), Spaces),
        (normalized(Spaces, LSTMWrapper(Spaces, Default(Spaces, 16), 16, 16, num_layers=2), 5.0), Spaces),
        (Default(BoardSpaces, 16, one_hot=True), BoardSpaces),
        (convolutional(), ImageSpaces),
        (normalized(ImageSpaces, MinGRUWrapper(ImageSpaces, convolutional(), 16, 16), 5.0), ImageSpaces),
        (LSTMWrapper(ImageSpaces, convolutional(one_hot=True), 16, 16), ImageSpaces),
    ],
    ids=[
        *("continuous", "normalised", "one encoder", "choices", "recurrent", "LSTM", "categories"),
        *("images", "normalised images", "planes"),
    ],
)
def test_the_layers_hold_every_parameter_of_a_policy(policy, env):
    layers = layers_of(policy, env)
    has_one_head = any(isinstance(part, ActionHead) for part in policy.modules())
    assert layers.fit() and (layers.decision == layers.value) == has_one_head
    assert {id(tensor) for tensor in layers.parameters()} == {id(parameter) for parameter in policy.parameters()}
    assert (layers.normalizer is not None) == hasattr(policy, "clip")


def test_frozen_parameters_are_constants_and_shared_ones_stand_once():
    policy = with_shared_bias(frozen(Continuous(Spaces)))
    layers = layers_of(policy, Spaces)
    assert layers.fit() and [id(tensor) for tensor in layers.constants] == [id(policy.log_std)]
    assert sorted(map(id, layers.tensors())) == sorted(map(id, policy.parameters()))
    with pytest.raises(UntracedError, match="no parameter that is trained"):
        layers_of(policy.requires_grad_(False), Spaces)


@pytest.mark.parametrize(
    ("policy", "env", "reason"),
    [
        (with_hook(Continuous(Spaces)), Spaces, "hooks"),
        (with_gradient_hook(Continuous(Spaces)), Spaces, "hooks"),
        (with_backward_hook(Continuous(Spaces)), Spaces, "hooks"),
        (with_own_method(MinGRUWrapper(Spaces, Default(Spaces, 16), 16, 16)), Spaces, "replaced methods"),
        (with_own_cell(LSTMWrapper(Spaces, Default(Spaces, 16), 16, 16)), Spaces, "OwnCell"),
        (with_own_one_hot(Default(BoardSpaces, 16, one_hot=True)), BoardSpaces, "clamp"),
        (with_own_planes(convolutional(one_hot=True)), ImageSpaces, "getitem"),
        (with_padding(convolutional()), ImageSpaces, "Linear of these sizes"),
    ],
    ids=["hook", "hook of a gradient", "backward hook", "method", "cell", "one-hot", "planes", "padding"],
)
def test_what_a_user_put_into_a_policy_of_the_library_is_a_reason_for_torch(policy, env, reason):
    with pytest.raises(UntracedError, match=reason):
        layers_of(policy, env)


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        (OwnContinuous(Spaces), Spaces),
        (with_other_activation(Continuous(Spaces)), Spaces),
        (with_unused_parameter(Continuous(Spaces)), Spaces),
        (with_tensor_for_a_weight(Continuous(Spaces)), Spaces),
        (Default(Spaces, 16).apply(with_approximate_gelu), Spaces),
        (normalized(Spaces, OwnContinuous(Spaces), 5.0), Spaces),
        (with_other_part(convolutional(), 1, nn.GELU()), ImageSpaces),
        (with_other_part(convolutional(), 2, nn.Conv2d(5, 6, 2, bias=False)), ImageSpaces),
        (OwnConvolutional(ImageSpaces, 16, [5], [3], [1]), ImageSpaces),
        (MinGRUWrapper(ImageSpaces, OwnConvolutional(ImageSpaces, 16, [5], [3], [1], True), 16, 16), ImageSpaces),
    ],
    ids=[
        *("subclass", "own part", "unused", "no parameter", "other GELU", "normalised subclass", "other part"),
        *("other filters", "subclass of images", "subclass of planes"),
    ],
)
def test_a_changed_policy_acts_by_the_kernel_as_it_does_by_torch(policy, env):
    observations = np.stack([env.single_observation_space.sample() for _ in range(5 * 8)])
    expected, found = acted(policy, env, observations.reshape(5, 8, *observations.shape[1:]), slice(0, 8))
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("one_hot", [False, True])
def test_the_layers_of_images_whose_channels_are_last_say_so(one_hot):
    class Camera:
        single_observation_space, single_action_space = Box(0, 3, (6, 7, 2), np.uint8), Discrete(3)

    settings = {"filters": [4], "sizes": [3], "strides": [1], "channels_last": True, "one_hot": one_hot}
    layers = layers_of(Convolutional(Camera, 8, **settings), Camera)
    assert layers.fit() and layers.has_channels_last and layers.shape == (2, 6, 7)


def test_the_categories_of_a_policy_are_those_of_its_space():
    layers = layers_of(Default(BoardSpaces, 16, one_hot=True), BoardSpaces)
    assert layers.categories.lowest.tolist() == [0, 1, -2]
    assert layers.categories.counts.tolist() == [5, 1, 5]


def test_the_convolutions_of_a_policy_are_found_with_what_they_see():
    policy = convolutional(one_hot=True)
    layers = layers_of(policy, ImageSpaces)
    first, second, linear, _ = layers.layers
    assert first.weight is policy.encoder[0][0].weight and second.weight is policy.encoder[0][2].weight
    assert [first.stride, second.stride] == [(2, 2), (1, 1)] and [first.observed, second.observed] == [2, 0]
    assert layers.shape == (2, 6, 7) and linear.activation == "relu"
    assert layers.categories.lowest.tolist() == [0, 0] and layers.categories.counts.tolist() == [256, 256]


def test_a_bias_that_is_one_number_for_all_is_left_to_torch():
    trainer = make_trainer(lambda env: with_bias_of_one_number(Continuous(env, [16], [16])))
    assert isinstance(trainer._learner.gradients, ThreadedGradients)
    trainer.evaluate(), trainer.train()
    assert trainer.policy.critic[0].bias.shape == (1,) and trainer.policy.critic[0].bias != 0
    trainer.release()


@pytest.mark.parametrize("sizes", [([16, 32], [16]), ([16], [16, 8]), ([16] * 9, [16])], ids=str)
def test_towers_of_any_widths_are_trained_by_the_kernel_as_by_torch(sizes):
    results = []
    for fused in (False, True):
        trainer = make_trainer(lambda env: Continuous(env, *sizes), fused=fused)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        trainer.evaluate(), trainer.train()
        results.append(flat(trainer.policy))
        trainer.release()
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=2e-4)
