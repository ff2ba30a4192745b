"""`puffer plot`: curves of runs, as a picture or on the terminal."""

from __future__ import annotations

from pathlib import Path

from pufferlib.errors import MissingExtraError
from pufferlib.metrics.output import printable
from pufferlib.reports.curves import STEPS, panels
from pufferlib.reports.finding import find_runs
from pufferlib.reports.recorded_run import RecordedRun


def plot_command(
    *words: str,
    metric: str | None = None,
    x: str = STEPS,
    output: str | None = None,
    terminal: bool = False,
    data_dir: str = "experiments",
) -> None:
    """Plots the runs that `find_runs` finds by words."""
    runs = find_runs(words, data_dir)
    patterns = None if metric is None else [name.strip() for name in metric.split(",") if name.strip()]
    drawn = panels(runs, patterns, x)
    if terminal:
        from pufferlib.reports.terminal_plot import print_panels

        print(printable(title_of(runs)))
        print_panels(drawn)
        return
    from pufferlib.reports.figures import write_figure

    path = Path(output or f"{_file_name(runs)}.png")
    try:
        write_figure(drawn, title_of(runs), path)
    except MissingExtraError as error:
        raise MissingExtraError(f"{error}, or draw on the terminal by --terminal") from error
    print(printable(f"plotted {title_of(runs)} to {path}"))


def title_of(runs: list[RecordedRun]) -> str:
    """Returns the title of a plot of runs."""
    names = list(dict.fromkeys(run.env_name or run.name for run in runs))
    if len(runs) == 1:
        return f"{names[0]}  {runs[0].run_id}" if runs[0].env_name else names[0]
    return f"{len(runs)} runs of {' and '.join(names) if len(names) < 4 else f'{len(names)} environments'}"


def _file_name(runs: list[RecordedRun]) -> str:
    return runs[0].name if len(runs) == 1 else "runs"
