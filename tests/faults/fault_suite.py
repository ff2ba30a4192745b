"""The cases of a file as parameters of its tests: those of the quick tests, all, and what each must notice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fault_case import Case, survive


def cases(given: Iterable[Case]) -> Any:
    """A parameter `case`: every case, of which only the quick ones are not marked slow."""
    found = [pytest.param(case, marks=() if case.is_quick else pytest.mark.slow, id=case.name) for case in given]
    return pytest.mark.parametrize("case", found)


def broken(*rooms: Iterable[Case]) -> Any:
    """Parameters `case` and `saboteur`: every saboteur once in each room, with the first case that must notice it."""
    found = []
    for given in rooms:
        first: dict[str, Case] = {}
        for case in given:
            for saboteur in case.saboteurs:
                first.setdefault(saboteur, case)
        found += [pytest.param(case, saboteur, id=f"{saboteur} in {case.name}") for saboteur, case in first.items()]
    return pytest.mark.parametrize(("case", "saboteur"), found)


def assert_survived(case: Case, folder: Path) -> None:
    """Fails where the run fell short in anything."""
    _skip_where_it_cannot_be_had(case)
    outcome = survive(case, folder)
    assert not outcome.complaints, str(outcome)


def assert_noticed(case: Case, saboteur: str, folder: Path) -> None:
    """Fails where a run by broken code passes, or falls short in something else alone."""
    _skip_where_it_cannot_be_had(case)
    outcome = survive(case, folder, saboteur)
    assert case.saboteurs[saboteur] in [fault for fault, _ in outcome.complaints], str(outcome) or "it passed"


def _skip_where_it_cannot_be_had(case: Case) -> None:
    obstacle = case.obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
