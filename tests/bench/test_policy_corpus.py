"""Every policy of the corpus: what computes it, and that the kernel's outputs and gradients are torch's."""

import pytest
import torch

from bench.policy_corpus import CORPUS
from pufferlib import NoLogger, PuffeRL


def one_iteration(case, folder, **settings):
    """The trainer after an iteration, and what that changed: as SGD has it, the gradients."""
    torch.manual_seed(0)
    env = case.make_env(8)
    policy = case.make_policy(env)
    given = {"seed": 1, "device": "cpu", "logger": NoLogger(), "data_dir": str(folder), "precision": "float32"}
    sizes = {"batch_size": 64, "minibatch_size": 64, "bptt_horizon": 8, "n_epochs": 1, "max_grad_norm": 1e9}
    trainer = PuffeRL(env, policy, optimizer="sgd", learning_rate=1e-3, **given, **sizes, **settings)
    before = {name: each.detach().clone() for name, each in policy.named_parameters()}
    trainer.evaluate()
    values = trainer.rollout.values[:, :-1].clone()
    trainer.train()
    change = {name: each.detach() - before[name] for name, each in policy.named_parameters()}
    trainer.release()
    return trainer, change, values


@pytest.mark.quick("CleanRL", "HandLSTM", "MixedDict")
@pytest.mark.parametrize("name", CORPUS)
def test_a_policy_is_computed_as_the_corpus_says(name, tmp_path):
    case = CORPUS[name]
    trainer, found, values = one_iteration(case, tmp_path)
    if case.by_torch is not None:
        assert trainer.computed_by.startswith("torch (") and case.by_torch in trainer.computed_by
        return
    assert trainer.computed_by == "C kernel"
    plain, expected, plain_values = one_iteration(case, tmp_path, fused=False)
    assert plain.computed_by.startswith("torch")
    torch.testing.assert_close(values, plain_values, rtol=1e-4, atol=1e-4)
    assert max(each.abs().max() for each in expected.values()) > 0
    for parameter, change in expected.items():
        limit = 2e-3 * change.abs().max().item() + 1e-8
        torch.testing.assert_close(
            found[parameter], change, rtol=0, atol=limit, msg=lambda text, p=parameter: f"{p}: {text}"
        )


def test_there_are_two_dozen():
    assert len(CORPUS) >= 24
