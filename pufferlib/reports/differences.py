"""Settings in which runs differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pufferlib.reports.recorded_run import RecordedRun
from pufferlib.reports.texts import settings_texts

_SECTIONS = ("train", "env", "policy", "rnn", "vec")
_OF_NO_ACCOUNT = frozenset({"package", "env_name", "resume"}) | {  # where a run is and what it tells, not how it learns
    f"train.{name}" for name in ("data_dir", "log_interval", "checkpoint_interval", "dashboard_interval_seconds")
}
_LABEL_CHARACTERS = 48  # of the settings in a legend


def differences(runs: Iterable[RecordedRun]) -> dict[Path, dict[str, Any]]:
    """Returns the settings in which the runs of an environment differ, by folder.

    Args:
        runs: of any environments; only runs of the same one are compared.

    Returns:
        For each run its values by the setting's whole name, such as `train.learning_rate`; a setting that a run does
        not have, as one of an earlier version may, is left out there.
    """
    groups: dict[str | None, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(run.env_name, []).append(run)
    found = {}
    for group in groups.values():
        flat = {run.folder: flat_settings(run.settings) for run in group}
        values: dict[str, set[str]] = {}
        for settings in flat.values():
            for name, value in settings.items():
                values.setdefault(name, set()).add(repr(value))
        for folder, settings in flat.items():
            found[folder] = {name: value for name, value in settings.items() if len(values[name]) > 1}
    return found


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that tell how a run learns, by their whole names; those at the top go without a section."""
    top = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    inside = {
        f"{section}.{name}": value for section in _SECTIONS for name, value in (settings.get(section) or {}).items()
    }
    return {name: value for name, value in {**top, **inside}.items() if name not in _OF_NO_ACCOUNT}


def difference_text(settings: Mapping[str, Any]) -> str:
    """Settings in a line, such as `learning_rate=0.01 seed=3`."""
    return " ".join(f"{name}={text}" for name, text in settings_texts(settings).items())


def labels(runs: list[RecordedRun]) -> dict[Path, str]:
    """A name for each run that no other one has: what it differs in, and where that is long or not enough, its id."""
    told, short = differences(runs), short_ids(runs)
    has_several = len({run.env_name for run in runs}) > 1
    names = {}
    for run in runs:
        text = difference_text(told[run.folder])
        if len(text) > _LABEL_CHARACTERS:  # by then the id is what it is looked up by
            text = f"{text[:_LABEL_CHARACTERS].rpartition(' ')[0]} ... {short[run.folder]}"
        names[run.folder] = " ".join(filter(None, [has_several and run.env_name, text]))
    taken = list(names.values())
    return {
        folder: name if name and taken.count(name) == 1 else f"{name} {short[folder]}".strip()
        for folder, name in names.items()
    }


def short_ids(runs: Iterable[RecordedRun]) -> dict[Path, str]:
    """The end of each run's name from its last `_` on, where no other has the same; else the name."""
    names = {run.folder: run.name for run in runs}
    ends = [name.rpartition("_")[2] for name in names.values()]
    return {
        folder: end if ends.count(end) == 1 else name for (folder, name), end in zip(names.items(), ends, strict=True)
    }
