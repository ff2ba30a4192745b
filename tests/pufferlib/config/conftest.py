import sys
import types

import pytest


class Default:
    def __init__(self, env, hidden_size: int = 128, num_layers: int = 1, activation: str = "gelu"):
        pass


class Head:
    def __init__(self, hidden_size: int, action_space: object):
        pass


class LSTMWrapper:
    def __init__(self, env, policy, input_size: int = 128, hidden_size: int = 128):
        pass


@pytest.fixture
def models(monkeypatch):
    """Stands in for pufferlib.models, whose real classes need seconds to import."""
    module = types.ModuleType("pufferlib.models")
    for kind in (Default, Head, LSTMWrapper):
        setattr(module, kind.__name__, type(kind.__name__, (kind,), {"__module__": module.__name__}))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module
