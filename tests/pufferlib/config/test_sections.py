import importlib
import re

import pytest

from pufferlib.config import (
    load_config,
)
from pufferlib.errors import ConfigError

SQUARED = "puffer_squared"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("trian", "; did you mean 'train'?"), ("zzz", "; it has package, "), ("wandb", "; metrics go to services by")],
)
@pytest.mark.parametrize("use", ["load_env", "load_policy", "train"])
def test_an_unknown_key_at_the_top_is_refused_wherever_the_configuration_goes(use, name, remedy):
    loaders = importlib.import_module("pufferlib.pufferl")
    args = {**load_config(SQUARED), name: {"gamma": 0.5}}
    calls = {
        "load_env": lambda: loaders.load_env(SQUARED, args),
        "load_policy": lambda: loaders.load_policy(args, None, SQUARED),
        "train": lambda: loaders.train(SQUARED, args, vecenv=object(), policy=object()),
    }
    with pytest.raises(ConfigError, match=re.escape(f"there is no {name!r} in the configuration{remedy}")):
        calls[use]()
