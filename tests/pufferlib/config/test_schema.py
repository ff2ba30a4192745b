import dataclasses
import math

import pytest

from pufferlib.config import (
    TrainConfig,
    VecConfig,
    load_config,
)
from pufferlib.config.schema import words
from pufferlib.errors import ConfigError

SQUARED = "puffer_squared"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"gamma": "high"}, r"\[train\] gamma must be a number in \[0, 1\], got 'high'"),
        ({"gamma": math.nan}, "gamma must be"),
        ({"learning_rate": math.inf}, "learning_rate must be"),
        ({"adam_beta1": 1.0}, r"\[0, 1\)"),
        ({"compile": 1}, "True or False"),
        ({"optimizer": "adm"}, "'muon', 'adam' or 'sgd', got 'adm'; did you mean 'adam'"),
        ({"batch_size": "atuo"}, "an integer in .* or 'auto'"),
        ({"device": "gpu"}, "cuda:N"),
        ({"bptt_horizon": 0}, "bptt_horizon"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_wrong_train_setting_is_one_sentence(values, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_dict(values)


def test_the_train_section_takes_what_users_pass():
    args = load_config(SQUARED)
    config = TrainConfig.from_dict({**args["train"], "env": SQUARED, "total_timesteps": 1e6, "learning_rate": 1})
    assert type(config.total_timesteps) is int and type(config.learning_rate) is float
    assert config.max_grad_norm > 0
    assert TrainConfig(max_grad_norm=math.inf, device="cuda:1").device == "cuda:1"


def test_the_train_section_cannot_be_edited():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().gamma = 0.5


def test_every_setting_has_a_help_text_that_ends():
    for one in [*TrainConfig.settings().values(), *VecConfig.settings().values()]:
        assert one.meaning.endswith("."), one.name


@pytest.mark.parametrize("given", [["first", "second"], "first, second", "[first, second]", " [first,second,]"])
def test_words_are_a_list_or_a_text_in_brackets_or_without(given):
    assert words(given) == ["first", "second"]
    assert words(None) == words("[]") == [] and words("runs/[a].pt") == ["runs/[a].pt"]


def test_the_vector_takes_its_seed_and_size_from_the_run():
    assert VecConfig().keywords("cpu", seed=7)["seed"] == 7
    assert VecConfig(seed=3).keywords("cpu", seed=7)["seed"] == 3
    assert [VecConfig().keywords(device, 0)["num_envs"] for device in ("cpu", "cuda")] == [1, 2]
    assert VecConfig().keywords("cuda", 0, are_single=True)["num_envs"] == 16
    assert VecConfig(num_envs=4).keywords("cuda", 0)["num_envs"] == 4
