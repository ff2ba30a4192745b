import copy
from dataclasses import replace

import pytest
import torch
from drifting import CONTINUOUS, make_trainer
from torch import nn

from pufferlib.errors import APIUsageError
from pufferlib.extensions.adam import can_step
from pufferlib.extensions.optimizers import make_optimizer, set_learning_rate
from pufferlib.fast.cpu import NetworkGradients
from pufferlib.fast.learners import KernelAdam, fit_to_graphs, take_over
from pufferlib.models import Continuous

SHAPES = [(5, 17), (1,), (33, 2, 3), (64, 64)]


def random_parameters(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def give_gradients(parameters, step, scale=1.0):
    generator = torch.Generator().manual_seed(step)
    for parameter in parameters:
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("eps", [1e-8, 1e-2])
def test_steps_are_those_of_float64(weight_decay, eps):
    settings = {"lr": 0.03, "betas": (0.8, 0.95), "eps": eps, "weight_decay": weight_decay}
    found, expected = random_parameters(), [nn.Parameter(p.detach().double()) for p in random_parameters()]
    ours, theirs = KernelAdam(found, **settings), torch.optim.AdamW(expected, **settings)
    for step in range(20):
        give_gradients(found, step)
        for parameter, other in zip(expected, found, strict=True):
            parameter.grad = other.grad.double()
        ours.step(), theirs.step()
    for parameter, other in zip(found, expected, strict=True):
        torch.testing.assert_close(parameter.double(), other, rtol=1e-5, atol=1e-5)


def test_the_state_is_torchs_own():
    parameters = random_parameters()
    ours = KernelAdam(parameters, lr=0.1)
    give_gradients(parameters, 0)
    ours.step()
    peers = copy.deepcopy(parameters)
    theirs = torch.optim.AdamW(peers, lr=0.1)
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    for step in (1, 2):
        give_gradients(parameters, step), give_gradients(peers, step)
        ours.step(), theirs.step()
    for parameter, other in zip(parameters, peers, strict=True):
        torch.testing.assert_close(parameter, other, rtol=1e-5, atol=1e-6)


def test_a_state_that_was_loaded_since_is_the_one_that_is_stepped():
    parameters = random_parameters()
    optimizer = KernelAdam(parameters, lr=0.1)
    give_gradients(parameters, 0)
    optimizer.step()
    start, state = [p.detach().clone() for p in parameters], copy.deepcopy(optimizer.state_dict())
    results = []
    for _ in range(2):
        with torch.no_grad():
            for parameter, value in zip(parameters, start, strict=True):
                parameter.copy_(value)
        optimizer.load_state_dict(copy.deepcopy(state))
        for _ in range(3):
            optimizer.step()  # by gradients that lie where they lay
        results.append([p.detach().clone() for p in parameters])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))
    assert optimizer.state[parameters[0]]["step"] == 4


@pytest.mark.parametrize("name", ["all", "exp_avg"])
def test_a_state_that_was_cleared_or_replaced_since_is_the_one_that_is_stepped(name):
    parameters = random_parameters()
    give_gradients(parameters, 0)
    optimizer = KernelAdam(parameters, lr=0.1)
    optimizer.step()
    for parameter, state in optimizer.state.items():
        state.clear() if name == "all" else state.update({name: torch.zeros_like(parameter)})
    optimizer.step()  # by gradients that lie where they lay
    share = 0.1 * parameters[0].grad
    torch.testing.assert_close(optimizer.state[parameters[0]]["exp_avg"], share)


def test_a_step_that_was_replaced_is_not_left_out():
    parameters = random_parameters()
    give_gradients(parameters, 0)
    optimizer = KernelAdam(parameters, lr=0.1)
    assert optimizer.steps_of_one_batch() is not None
    optimizer.step = lambda: None
    assert optimizer.steps_of_one_batch() is None


@pytest.mark.parametrize("name", ["adam", "muon", "sgd"])
def test_hooks_and_settings_stay_when_the_policy_changes(name):
    parameters, stepped = random_parameters(), []
    earlier, later = (make_optimizer(name, parameters, 0.1, (0.9, 0.999), 1e-8, 0.0) for _ in range(2))
    handle = earlier.register_step_post_hook(lambda *given: stepped.append(1))
    for group in earlier.param_groups:
        group["weight_decay"] = 0.5
    take_over(later, earlier)
    give_gradients(parameters, 0)
    later.step()
    assert stepped == [1] and {group["weight_decay"] for group in later.param_groups} == {0.5}
    handle.remove()
    later.step()
    assert stepped == [1]


def test_what_the_kernel_does_not_take_is_stepped_by_torch():
    parameters = [nn.Parameter(torch.ones(3, 4, dtype=torch.float64)), nn.Parameter(torch.ones(3, 4).T)]
    for parameter in parameters:
        assert not can_step([parameter])
        parameter.grad = torch.ones_like(parameter)
    KernelAdam(parameters, lr=0.1, weight_decay=0.0).step()
    for parameter in parameters:
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, 0.9))


def test_a_gradient_that_needs_parameters_from_before_the_step_is_refused():
    parameter = nn.Parameter(torch.ones(3))
    loss, parameter.grad = parameter.square().sum(), torch.ones(3)
    KernelAdam([parameter], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_without_a_gradient_stay():
    first, second = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = KernelAdam([first, second], lr=0.1)
    for given in (second, first):
        first.grad = second.grad = None
        before = first.detach().clone(), second.detach().clone()
        given.grad = torch.ones(3)
        optimizer.step()
        assert torch.equal(first, before[0]) == (given is second)
        assert torch.equal(second, before[1]) == (given is first)


# --- state of other shapes


@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_state_of_another_shape_is_refused_before_the_kernel_sees_it(name):
    parameters = random_parameters()
    optimizer = KernelAdam(parameters, lr=0.1)
    give_gradients(parameters, 0)
    optimizer.step()
    optimizer.state[parameters[0]] = {**optimizer.state[parameters[0]], name: torch.zeros(3)}
    with pytest.raises(APIUsageError, match=r"of parameter 0 must be contiguous float32 of shape \(5, 17\) .*\(3,\)"):
        optimizer.step()


@pytest.mark.parametrize("step", [torch.zeros(0), torch.zeros((), dtype=torch.float64)])
def test_a_step_count_that_the_kernel_cannot_read_is_refused(step):
    parameters = random_parameters()
    optimizer = KernelAdam(parameters, lr=0.1)
    give_gradients(parameters, 0)
    optimizer.step()
    optimizer.state[parameters[1]] = {**optimizer.state[parameters[1]], "step": step}
    with pytest.raises(APIUsageError, match="the optimizer's state"):
        optimizer.step()


def test_the_state_of_parameters_in_another_order_is_refused():
    """torch's own load_state_dict takes it, which goes by position."""
    parameters = random_parameters()
    optimizer, other = KernelAdam(parameters, lr=0.1), KernelAdam(parameters[::-1], lr=0.1)
    give_gradients(parameters, 0)
    optimizer.step()
    other.load_state_dict(optimizer.state_dict())
    with pytest.raises(APIUsageError, match=r"of parameter 0 must be contiguous float32 of shape \(64, 64\)"):
        other.step()


# --- CUDA graphs


@pytest.mark.parametrize("name", ["muon", "adam"])
def test_a_learning_rate_on_a_device_steps_as_a_number_does(name):
    sets = random_parameters(), random_parameters()
    optimizers = [make_optimizer(name, each, 0.05, (0.9, 0.99), 1e-8, 0.1, KernelAdam) for each in sets]

    def step(index, rate, number):
        set_learning_rate(optimizers[index], rate)
        give_gradients(sets[index], number)
        optimizers[index].step()

    step(0, 0.05, 9), step(1, 0.05, 9)  # so that there is a state to move
    fit_to_graphs(optimizers[1], torch.device("cpu"))
    tensors = [group["lr"] for group in optimizers[1].param_groups]
    for number, rate in enumerate((0.05, 0.02, 0.01)):
        step(0, rate, number), step(1, rate, number)
    assert all(group["lr"] is tensor for group, tensor in zip(optimizers[1].param_groups, tensors, strict=True))
    for parameter, other in zip(*sets, strict=True):
        torch.testing.assert_close(parameter, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["muon", "adam", "sgd"])
def test_what_is_known_of_parameters_that_stay_is_taken_over(name):
    model = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3))
    earlier = make_optimizer(name, model.parameters(), 0.05, (0.9, 0.99), 1e-8, 0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    earlier.step()
    replaced, reshaped, stays = model
    model[0] = nn.Linear(6, 16)
    reshaped.weight.data = torch.zeros(3, 16)
    optimizer = make_optimizer(name, model.parameters(), 0.05, (0.9, 0.99), 1e-8, 0.1)
    take_over(optimizer, earlier)
    kept = [reshaped.bias, *stays.parameters()]
    assert all(optimizer.state[each] is earlier.state[each] for each in kept)
    strange = [*replaced.parameters(), *model[0].parameters(), reshaped.weight]
    assert not any(each in optimizer.state for each in strange)


@pytest.mark.quick("absent agents")
@pytest.mark.parametrize("absent", [False, True], ids=["all there", "absent agents"])
@pytest.mark.parametrize("settings", [{}, {"target_kl": 0.001}, {"norm_adv": False}, {"update_epochs": 1.5}], ids=str)
def test_a_pass_in_one_call_trains_as_one_minibatch_after_the_other(absent, settings, monkeypatch):
    results = []
    for in_one_call in (True, False):
        if not in_one_call:
            monkeypatch.setattr(NetworkGradients, "prepare_steps", lambda gradients, optimizer: None)
        settings = {**CONTINUOUS, **settings}
        trainer = make_trainer(lambda env: Continuous(env, [16], [16]), {"has_absent_agents": absent}, **settings)
        counts, metrics = note_counts(trainer._learner), []
        for _ in range(3):
            trainer.evaluate()
            metrics.append(trainer.train())
        results.append((torch.cat([each.detach().flatten() for each in trainer.policy.parameters()]), metrics, counts))
        trainer.release()
    (found, found_metrics, passes), (expected, metrics, minibatches) = results
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
    for one, other in zip(found_metrics, metrics, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
    assert sum(passes) == sum(minibatches) and max(passes) == 3 and max(minibatches) == 1


def note_counts(learner):
    counts, train = [], learner.train_minibatches
    learner.train_minibatches = lambda: counts.append(train()) or counts[-1]
    return counts


def test_a_hook_of_the_optimizer_is_called_for_every_minibatch():
    trainer = make_trainer(lambda env: Continuous(env, [16], [16]), **CONTINUOUS)
    steps = []
    trainer.optimizer.register_step_post_hook(lambda *arguments: steps.append(trainer.global_step))
    trainer.evaluate()
    trainer.train()
    assert len(steps) == 9  # three passes over 96 steps by 32
    trainer.release()


def test_minibatches_in_which_nobody_was_there_change_nothing():
    trainer = make_trainer(lambda env: Continuous(env, [16], [16]), {"has_absent_agents": True}, **CONTINUOUS)
    trainer.evaluate()
    trainer.train()
    before = [parameter.clone() for parameter in trainer.policy.parameters()]
    learner = trainer._learner
    drawn = learner._minibatches.draw()
    nobody = replace(drawn, weights=torch.zeros(len(drawn), 1))
    gradients = learner.gradients
    metrics = gradients.train(nobody, len(nobody), gradients.prepare_steps(trainer.optimizer))
    assert (metrics == 0).all()
    torch.testing.assert_close(list(trainer.policy.parameters()), before)
    trainer.release()
