from pufferlib.config import configuration
from pufferlib.config.configuration import DEFAULTS


def test_default_ini_says_what_the_schema_says():
    assert DEFAULTS.read_text() == configuration.render(), "run python -m pufferlib.config.configuration"
