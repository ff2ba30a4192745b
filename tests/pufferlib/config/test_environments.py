import pytest

from pufferlib.config import (
    check_section,
    env_settings,
)
from pufferlib.errors import ConfigError

SQUARED = "puffer_squared"


def test_the_number_of_environments_is_an_integer_or_auto():
    assert check_section("env", {"num_envs": "auto"}, SQUARED) == {"num_envs": "auto"}
    assert "1024 agents in all on a CPU" in env_settings(SQUARED)["num_envs"].meaning
    with pytest.raises(ConfigError, match="num_envs must be an integer or 'auto', got 'many'"):
        check_section("env", {"num_envs": "many"}, SQUARED)
