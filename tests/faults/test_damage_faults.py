"""Checkpoints that were cut or in which bits were flipped: see damage_cases.py."""

import pytest
from damage_cases import FILES, SABOTEURS, survive_damage


@pytest.mark.parametrize("name", FILES)
def test_damage_is_refused_or_harmless(tmp_path, name):
    outcome = survive_damage(tmp_path, name, cuts=6, flips=20)
    assert not outcome.complaints, str(outcome)
    assert int(outcome.resumed.split()[0]) > 20


@pytest.mark.slow
@pytest.mark.parametrize("saboteur", SABOTEURS)
def test_broken_code_is_noticed(tmp_path, saboteur):
    outcome = survive_damage(tmp_path, FILES[0], cuts=4, flips=12, saboteur=saboteur)
    assert SABOTEURS[saboteur] in [fault for fault, _ in outcome.complaints]
