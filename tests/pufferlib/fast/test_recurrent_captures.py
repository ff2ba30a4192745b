"""Recurrent policies in CUDA graphs: recorded and replayed on a CPU, they do what they do without."""

import functools

import numpy as np
import pytest
import torch
from collecting import collected, make_collector, scripted_vector
from recorded_capture import RecordedCapture
from scripted_policies import CountingPolicy, InPlacePolicy, LinearPolicy

from pufferlib import models, pufferl, vector
from pufferlib.fast.cuda_graphs import WARM_UP, CapturedCall
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.ocean import env_class
from pufferlib.ppo import sampling
from pufferlib.ppo.actor import Actor


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """While a step is captured nothing is read on the CPU: neither whether logits are NaN, nor where episodes begin."""
    monkeypatch.setattr(sampling, "_refuse_nan", lambda values: None)
    monkeypatch.setattr(models, "_can_be_fused", lambda cell, inputs: False)


@pytest.fixture(autouse=True)
def one_thread():
    """Operations of other threads are not recorded."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def wrapped(wrapper, num_layers):
    def make(env):
        torch.manual_seed(2)
        policy = wrapper(env, Default(env, 8), 8, 8, num_layers)
        for parameter in policy.parameters():  # so that what is remembered matters
            parameter.data *= 2
        return policy

    return make


POLICIES = {
    "no state": lambda env: LinearPolicy(),
    "replaced state": lambda env: CountingPolicy(),
    "state in place": lambda env: InPlacePolicy(),
    "MinGRU": wrapped(MinGRUWrapper, 2),
    "LSTM": wrapped(LSTMWrapper, 2),
}


# ----------------------------------------------------------------------------------------------- the recording itself


def test_a_recording_is_done_again_on_the_same_tensors():
    capture, total, generator = RecordedCapture(), torch.zeros(3), torch.Generator().manual_seed(1)
    calls = []

    def work():
        calls.append(1)
        noise = torch.rand(3, generator=generator)
        total[1:].add_((2 * noise)[1:])

    replay = capture(work, generator, None)
    again = torch.Generator().manual_seed(1)
    expected = torch.zeros(3)
    for _ in range(3):
        replay()
        expected[1:] += 2 * torch.rand(3, generator=again)[1:]
        torch.testing.assert_close(total, expected)
    assert len(calls) == 1


def test_a_recording_is_blind_to_what_python_keeps_and_refuses_to_ask_for_a_number():
    capture, total, kept = RecordedCapture(), torch.zeros(()), [torch.ones(())]

    def work():
        total.add_(kept[0])

    replay = capture(work, torch.Generator(), None)
    kept[0] = torch.zeros(())
    replay(), replay()
    assert total == 2
    with pytest.raises(RuntimeError, match="not permitted while a stream is captured"):
        capture(lambda: total.item(), torch.Generator(), None)


# ------------------------------------------------------------------------------------------------------------- acting


@pytest.mark.quick("LSTM-1", "MinGRU-3", "state in place-3")
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("name", POLICIES)
def test_a_recorded_step_writes_what_an_actor_writes(name, groups):
    capture, found = RecordedCapture(), []
    for actor_class in (Actor, functools.partial(GraphActor, capture=capture)):
        vecenv = scripted_vector(has_absent_agents=True)
        policy = POLICIES[name](vecenv.driver_env)
        collector = make_collector(vecenv, policy, groups, actor_class=actor_class)
        found.append((collected(collector, rollouts=3), collector.actor.states))
    (expected, expected_states), (arrays, states) = found
    assert len(capture.recordings) == 1
    for key, array in expected.items():
        np.testing.assert_allclose(arrays[key], array, rtol=1e-5, atol=1e-6, err_msg=key)
    for key, state in expected_states.items():
        torch.testing.assert_close(states[key], state)
        assert state.abs().max() > 0


# ----------------------------------------------------------------------------------------------------------- learning


def make_learner(tmp_path, rnn_name):
    """A rollout of breakout and what learns from it."""
    args = pufferl.load_config("puffer_breakout")
    args["env"]["num_envs"], args["rnn_name"] = 16, rnn_name
    settings = {"device": "cpu", "bptt_horizon": 8, "batch_size": 128, "minibatch_size": 64, "fused": False}
    # Drawn evenly, as the weights of other draws are asked for numbers on a CPU alone.
    args["train"].update(data_dir=str(tmp_path), prio_alpha=0.0, **settings)
    vecenv = vector.make(env_class("puffer_breakout"), env_kwargs={"num_envs": 16}, backend="Serial", seed=1)
    trainer = pufferl.PuffeRL(args["train"], vecenv, pufferl.load_policy(args, vecenv, "puffer_breakout"))
    trainer.evaluate(), trainer.evaluate()  # so that segments begin with a state
    assert all(state.abs().max() > 0 for state in trainer.rollout.states.values())
    learner = trainer._learner
    resets = learner._advantages.resets
    resets.copy_(torch.rand(resets.shape, generator=torch.Generator().manual_seed(0)) < 0.2)  # breakout ends seldom
    learner._minibatches.begin(0.5, True)
    return trainer, learner


@pytest.mark.parametrize("rnn_name", ["MinGRU", "LSTM"])
def test_a_recorded_minibatch_has_the_gradients_that_it_has_without(tmp_path, rnn_name):
    capture, histories = RecordedCapture(), []
    for is_captured in (False, True):
        trainer, learner = make_learner(tmp_path, rnn_name)

        def work(learner=learner):
            learner.gradients.differentiate(learner._minibatches.draw().ready_for_loss(True))

        call = CapturedCall(work, trainer._generator, None, capture) if is_captured else work
        history = []
        for _ in range(WARM_UP + 3):
            call()
            gradients = [parameter.grad for parameter in learner.gradients.parameters]
            with torch.no_grad():  # in place, as optimizers step
                for parameter, gradient in zip(learner.gradients.parameters, gradients, strict=True):
                    parameter -= 0.1 * gradient
            rollout = trainer.rollout
            history += [g.clone() for g in gradients] + [rollout.values.clone(), rollout.ratios.clone()]
        histories.append(history)
        trainer.release()
    assert len(capture.recordings) == 1 and len(capture.recordings[0]) > 50
    for expected, found in zip(*histories, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not torch.equal(histories[0][-1], torch.ones_like(histories[0][-1]))  # the ratios have moved
