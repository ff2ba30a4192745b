from pufferlib.config.configuration import DEFAULTS
from pufferlib.config.defaults import render


def test_default_ini_says_what_the_schema_says():
    assert DEFAULTS.read_text() == render(), "run python -m pufferlib.config.defaults"
