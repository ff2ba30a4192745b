import importlib
import sys
import types

import pytest

from pufferlib.config import load_config
from pufferlib.config.configuration import policy_arguments, policy_classes
from pufferlib.errors import APIUsageError, ConfigError

SQUARED = "puffer_squared"


def test_a_name_selects_the_policy_and_the_recurrent_layer(models):
    args = load_config(SQUARED)
    assert policy_classes({**args, "rnn_name": None}) == (models.Default, None)
    assert policy_classes({**args, "rnn_name": "LSTM"}) == (models.Default, models.LSTMWrapper)
    assert policy_classes({**args, "rnn_name": "LSTMWrapper"})[1] is models.LSTMWrapper


@pytest.mark.parametrize(("name", "meant"), [("lstm", "LSTMWrapper"), ("MINGRU", "MinGRUWrapper")])
def test_a_name_may_be_written_in_small_or_large_letters(name, meant):
    args = {**load_config("puffer_squared"), "rnn_name": name, "policy_name": "default"}
    policy_class, rnn_class = policy_classes(args)
    assert (policy_class.__name__, rnn_class.__name__) == ("Default", meant)


def test_an_environment_may_bring_its_own_policy(models, monkeypatch):
    class Encoder:
        def __init__(self, env):
            pass

    own = types.ModuleType("pufferlib.ocean.squared.torch")
    own.Default = Encoder
    monkeypatch.setitem(sys.modules, own.__name__, own)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: own)
    assert policy_classes({**load_config(SQUARED), "rnn_name": "LSTM"}) == (Encoder, models.LSTMWrapper)


def test_a_policy_of_ones_own_goes_by_its_module(models, tmp_path, monkeypatch):
    (tmp_path / "module_with_a_policy.py").write_text("class Mine:\n    def __init__(self, env):\n        pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    args = {**load_config(SQUARED), "rnn_name": "LSTM", "policy_name": "module_with_a_policy:Mine"}
    policy_class, rnn_class = policy_classes(args)
    assert (policy_class.__module__, policy_class.__name__) == ("module_with_a_policy", "Mine")
    assert rnn_class is models.LSTMWrapper
    with pytest.raises(ConfigError, match="found no 'Mein'; did you mean 'Mine'"):
        policy_classes({**args, "policy_name": "module_with_a_policy:Mein"})
    with pytest.raises(APIUsageError, match="there is no module 'nowhere'"):
        policy_classes({**args, "policy_name": "nowhere:Mine"})
    with pytest.raises(ConfigError, match=r"found no '.*'; did you mean 'module_with_a_policy:Mine'"):
        policy_classes({**args, "policy_name": "module_with_a_policy.Mine"})
    with pytest.raises(ConfigError, match=r"found no 'nowhere\.Mine'; there are"):
        policy_classes({**args, "policy_name": "nowhere.Mine"})


class Narrow:
    def __init__(self, env, actor_sizes: list[int] = [64]):  # noqa: B006 - read, never written
        pass


def test_what_the_ini_says_of_its_own_policy_is_not_asked_of_another():
    args = load_config("CartPole-v1")
    assert "hidden_size" in args["policy"]
    args["policy_name"] = "Continuous"
    assert "hidden_size" not in policy_arguments(args, "policy", Narrow)
    args["policy"]["actor_sizes"] = [8]
    assert policy_arguments(args, "policy", Narrow) == {"actor_sizes": [8]}
    args["policy"]["hidden_size"] = 3  # the user's own
    with pytest.raises(ConfigError, match=r"no setting 'hidden_size' in \[policy\]"):
        policy_arguments(args, "policy", Narrow)


def test_what_both_policies_have_is_kept(models):
    args = {**load_config("puffer_breakout"), "rnn_name": "LSTM"}
    assert policy_arguments(args, "rnn", models.LSTMWrapper) == {"hidden_size": args["rnn"]["hidden_size"]}
