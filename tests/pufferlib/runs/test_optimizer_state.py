import pytest
import torch
from torch import nn

from pufferlib.ppo.optimizers import make_optimizer
from pufferlib.runs.optimizer_state import take_over


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
