"""`puffer plot`: what is drawn, as a picture and on a terminal."""

import json
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from made_runs import made_run
from terminal import run_on_terminal

from pufferlib import cli
from pufferlib.errors import ConfigError
from pufferlib.reports.figures import TIME_SPLIT, braille, panels
from pufferlib.reports.recorded_run import read_run

IDS = [f"2026010{day}_120000_000000_aaaa000{day}" for day in (1, 2)]


@pytest.fixture
def runs(in_tmp_path):
    folders = [
        made_run("experiments", name, logs=4 + index, learning_rate=0.1 * index) for index, name in enumerate(IDS)
    ]
    return [read_run(folder) for folder in folders]


def titles(found):
    return [panel.title for panel in found]


# --- what is drawn


def test_the_usual_plots_begin_with_the_score_and_end_with_the_time_split(runs):
    usual = ["environment/perf", "episode/return_mean", "sps", "losses/policy_loss", "losses/entropy", "time split"]
    assert titles(panels(runs[:1])) == usual
    assert titles(panels(runs)) == [*usual[:-1], *(f"time split  learning_rate={rate}" for rate in ("0", "0.1"))]


def test_curves_have_the_values_of_every_log(runs):
    (panel,) = panels(runs, ["environment/perf"])
    assert [curve.label for curve in panel.curves] == ["learning_rate=0", "learning_rate=0.1"]
    assert panel.curves[1].xs == [100, 200, 300, 400, 500]
    assert panel.curves[1].ys == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    (panel,) = panels(runs, ["perf"], x="uptime")
    assert panel.curves[0].xs == [2, 4, 6, 8]


def test_what_is_no_number_is_left_out(runs):
    path = runs[0].folder / "metrics.jsonl"
    logs = [json.loads(line) for line in path.read_text().splitlines()]
    logs[1]["losses/entropy"] = None
    del logs[2]["losses/entropy"]
    path.write_text("".join(json.dumps(log) + "\n" for log in logs))
    (panel,) = panels([read_run(runs[0].folder)], ["losses/entropy"])
    assert panel.curves[0].xs == [100, 400]


def test_phases_of_the_time_split_have_a_share_at_every_log(runs):
    path = runs[0].folder / "metrics.jsonl"
    logs = [json.loads(line) for line in path.read_text().splitlines()]
    logs[1]["performance/learn"] = None
    path.write_text("".join(json.dumps(log) + "\n" for log in logs))
    (panel,) = panels([read_run(runs[0].folder)], [TIME_SPLIT])
    assert {tuple(curve.xs) for curve in panel.curves} == {(100, 200, 300, 400)}
    path.write_text("".join(json.dumps({**log, "uptime": None}) + "\n" for log in logs))
    with pytest.raises(ConfigError, match="'uptime'"):
        panels([read_run(runs[0].folder)], [TIME_SPLIT], x="uptime")


@pytest.mark.filterwarnings("error")
def test_logs_of_one_moment_are_a_block_of_the_time_split(runs):
    path = runs[0].folder / "metrics.jsonl"
    logs = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**log, "agent_steps": 100}) + "\n" for log in logs))
    assert cli.main(["plot", str(runs[0].folder), "--metric", TIME_SPLIT, "--output", "one.svg"]) == 0


def test_names_patterns_and_the_time_split_are_asked_for(runs):
    asked = panels(runs[:1], ["entropy", "mean_reward", "losses/*", "performance"])
    assert titles(asked) == ["losses/entropy", "episode/return_mean", "losses/policy_loss", "time split"]
    assert {curve.label: curve.ys[0] for curve in asked[-1].curves} == {"environment": 0.5, "learn": 0.3, "other": 0.2}


def test_a_metric_that_no_run_has_is_told(runs):
    with pytest.raises(ConfigError, match="no run has a metric 'environment/prf'; did you mean 'environment/perf'"):
        panels(runs, ["environment/prf"])
    with pytest.raises(ConfigError, match="no run has a metric 'xyz'; there are environment/n, .*, performance$"):
        panels(runs, ["xyz"])


def test_logs_without_a_time_are_left_out_over_time(runs):
    with (runs[0].folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 500, "agent_steps": 500, "eval/return_mean": 3.0}\n')
    run = read_run(runs[0].folder)
    assert "eval/return_mean" in titles(panels([run]))
    over_time = panels([run], x="uptime")
    assert "episode/return_mean" in titles(over_time) and all(panel.curves for panel in over_time)
    with pytest.raises(ConfigError, match="'uptime'"):
        panels([run], ["eval/return_mean"], x="uptime")


def test_a_run_that_logged_nothing_is_told(in_tmp_path):
    with pytest.raises(ConfigError, match="mine logged nothing yet"):
        panels([read_run(made_run("experiments", "mine", logs=0))])


# --- pictures


@pytest.mark.quick("curves.svg")
@pytest.mark.parametrize("name", ["curves.png", "curves.svg", "curves.pdf"])
def test_a_picture_is_drawn(runs, capsys, name):
    assert cli.main(["plot", "puffer_cartpole_*", "--output", name]) == 0
    assert capsys.readouterr().out == f"plotted 2 runs of puffer_cartpole to {name}\n"
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    data = (runs[0].folder.parents[1] / name).read_bytes()
    assert data.startswith(begins[name[-3:]])


def test_the_picture_of_one_run_is_named_for_it(runs, capsys):
    assert cli.main(["plot", "aaaa0001", "--metric", "sps, entropy"]) == 0
    assert (runs[0].folder.parents[1] / f"{runs[0].name}.png").stat().st_size > 10_000


def test_no_name_of_a_metric_takes_those_that_nothing_said_takes(runs, capsys):
    assert [cli.main(["plot", "latest", "--terminal", *metric]) for metric in ([], ["--metric", ""])] == [0, 0]
    told = capsys.readouterr().out
    assert told[: len(told) // 2] == told[len(told) // 2 :] != ""


def test_a_run_of_one_log_is_drawn(in_tmp_path):
    made_run("experiments", "mine", logs=1)
    assert cli.main(["plot", "mine", "--output", "one.png"]) == 0


def test_an_element_for_a_page_fetches_nothing(runs):
    from pufferlib.reports.figures import panel_svg

    for panel in panels(runs):
        root = ElementTree.fromstring(panel_svg(panel))
        assert root.tag.endswith("svg") and root.get("viewBox")
        for element in root.iter():
            links = [value for name, value in element.attrib.items() if name.endswith(("href", "src"))]
            assert all(link.startswith("#") for link in links)


def test_mistakes_are_told(runs, capsys):
    for command, message in (
        ("plot", "takes one RUN or more"),
        ("report latest --output page.pdf", "the output must end in .html, got 'page.pdf'"),
        ("plot latest --output curves.jpeg2", "the output must end in .png, .svg, .pdf, got 'curves.jpeg2'"),
        ("plot latest --x epoch", "x must be 'agent_steps' or 'uptime'"),
    ):
        assert cli.main(command.split()) == 2
        assert message in capsys.readouterr().err


def test_without_matplotlib_the_terminal_is_left(runs, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("pufferlib.errors.is_installed", lambda package: package != "matplotlib")
    assert cli.main(["plot", "latest"]) == 2
    told = capsys.readouterr().err
    assert "pip install 'pufferlib[plot]'" in told and "--terminal" in told
    assert cli.main(["plot", "latest", "--terminal"]) == 0
    assert "environment/perf" in capsys.readouterr().out


# --- on the terminal


def test_a_line_is_drawn_in_dots():
    rising, dot = np.array([(0.0, 0.0), (1.0, 1.0)]), np.array([(0.0, 1.0)])
    assert braille(rising, 2, 1) == ["⡠⠊"]
    assert braille(dot, 2, 1) == ["⠁ "]


def test_every_run_has_a_plot(runs, capsys):
    assert cli.main(["plot", "puffer_cartpole_*", "--terminal", "--metric", "perf,performance"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 runs of puffer_cartpole"
    for rate in ("0", "0.1"):
        assert f"environment/perf  learning_rate={rate}" in lines and f"time split  learning_rate={rate}" in lines
    assert any(line.startswith("environment  50% ██████") for line in lines)


def test_drawing_on_the_terminal_needs_neither_torch_nor_matplotlib(runs):
    script = "import sys\nfrom pufferlib.cli import main\nassert main(['plot', 'latest', '--terminal']) == 0\n"
    code, written = run_on_terminal(f"{script}assert not {{'torch', 'matplotlib'}} & {{*sys.modules}}")
    assert code == 0, written
