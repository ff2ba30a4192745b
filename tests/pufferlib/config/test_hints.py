import re

import pytest

from pufferlib.config import check_section, load_config, schema
from pufferlib.config.sections import SECTIONS
from pufferlib.errors import ConfigError

SQUARED = "puffer_squared"


def test_hints_name_settings_that_there_are():
    known = {f"[{section}] {name}" for section, config in SECTIONS.items() for name in config.settings()}
    known.add("[env] num_envs")
    for text in schema.NAMES.values():
        assert set(re.findall(r"\[\w+\] \w+", text)) <= known, text
    for section, config in SECTIONS.items():
        assert not [name for name in config.settings() if name in schema.NAMES and section in ("base", "vec", "train")]


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [
        ("train", "use_rnn", r"\[base\] rnn_name: MinGRU, LSTM or None"),
        ("train", "lr", r"it is \[train\] learning_rate"),
        ("train", "name", r"\[log\] name"),
        ("vec", "num_threads", r"\[vec\] num_workers"),
    ],
)
def test_a_setting_of_another_library_is_answered_with_what_it_is_called_here(section, name, words):
    args = load_config(SQUARED)
    args[section][name] = 1
    with pytest.raises(ConfigError, match=rf"no setting '{name}' in \[{section}\]; .*{words}"):
        SECTIONS[section].from_dict(args[section])


def test_a_hint_is_no_answer_to_a_keyword_of_an_environment():
    with pytest.raises(ConfigError, match=r"no setting 'mode' in \[env\]; it has"):
        check_section("env", {"mode": 1}, SQUARED)
    with pytest.raises(ConfigError, match=r"no setting 'mode' in \[policy\]; it has no settings"):
        schema.require_known("policy", ["mode"], [])
