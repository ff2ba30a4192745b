"""The page of settings: every key is on it, where links lead."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from docs.pages import configuration, filling
from pufferlib.config.sections import SECTIONS
from pufferlib.setting import Setting

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    (source / "reference").mkdir()
    shutil.copy(DOCS / configuration.PAGE, source / configuration.PAGE)
    configuration.write(source)
    return (source / configuration.PAGE).read_text()


def test_every_setting_of_the_schema_has_its_line_and_its_target(page):
    for section in SECTIONS.values():
        for setting in section.settings().values():
            assert page.count(f"]{{#{configuration.target(setting)}}}") == 1, setting.label
    assert "[`learning_rate = 0.015`]{#train-learning-rate}" in page


def test_a_setting_tells_meaning_values_flag_and_default_by_keyword(page):
    (line,) = re.findall(r"\{#train-learning-rate\}\n: (.*)", page)
    assert line.startswith("Learning rate at the start. Takes a number in [0, inf). Flag: `--train.learning-rate`.")
    assert "By keyword the default is `0.0003`" in line
    assert "resumed" in line


def test_links_lead_to_targets_and_no_target_is_there_twice(page):
    targets = re.findall(r"\{#([^}]+)\}", page)
    assert len(set(targets)) == len(targets)
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links
    assert links <= {*targets}


def test_environments_and_policies_tell_their_own_settings(page):
    assert "`[env]` of `puffer_breakout`" in page
    assert "{#env-puffer-breakout-frameskip}" in page
    assert "{#policy-convolutional-filters}" in page
    assert "{#rnn-lstm-hidden-size}" in page


def test_names_of_other_settings_become_links():
    setting = Setting("train", "seed", int, 0, "As [vec] num_envs, num_minibatches and some_word; see seed.")
    text = configuration.settings_text([setting])
    assert "[`[vec] num_envs`](#vec-num-envs)" in text
    assert "[`num_minibatches`](#train-num-minibatches)" in text
    assert "`some_word`" in text


def test_a_page_without_the_place_for_settings_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Settings\n")
    with pytest.raises(ValueError, match="expected one line '<!-- generated: settings -->', found 0; put it"):
        filling.fill(page, "settings", "text")
