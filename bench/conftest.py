import pytest
import torch


@pytest.fixture(params=[1, 2], ids=lambda count: f"{count}_threads")
def threads(request):
    """torch threads for the time of one benchmark."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
