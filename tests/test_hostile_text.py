"""Texts of strangers go through every writer there is: what comes out, compiled, parsed or read back, obeys none.

A name of a run's folder, a value in its config.json, a metric, a note or an error is such a text.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
import shutil
import subprocess
import unicodedata
import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import optuna
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from made_runs import made_log, made_run
from markupsafe import Markup
from optuna.trial import TrialState
from policies_to_export import spaces_of
from rich.console import Console
from sweep_studies import make_state, make_study

from pufferlib import cli
from pufferlib.config.configuration import read_ini
from pufferlib.dashboard import panel as dashboard
from pufferlib.dashboard.output import plain_table, printable, printable_lines, say
from pufferlib.dashboard.score import Score
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.export import c_format, export_policy, web_format
from pufferlib.export.c_layers import network_of
from pufferlib.export.c_source import HeaderWriter
from pufferlib.export.exporting import c_name
from pufferlib.models import Default
from pufferlib.reports import page
from pufferlib.reports.figures import STEPS, Curve, Panel, draw_panels, drawing, panel_svg, print_panels
from pufferlib.reports.recorded_run import RecordedRun
from pufferlib.scaffold import check_name
from pufferlib.setting import parse_value
from pufferlib.sweep.command import ProgressLines, best_ini, report_html, summary, trials_csv
from pufferlib.sweep.results import COST, CURVE, ERROR, HOST, RUN_FOLDER, STOPPED, Confirmation

HOSTILE = (
    # C
    "x\n__attribute__((constructor)) static void own(void) { owned(); }\n#define rest ",
    *(
        "a\nint owned;",
        "*/ int owned; /*",
        "int owned;\\",
        "blanks after it\\  ",
        "trigraph??/",
        "??/\\",
        "\\u000aint x;",
    ),
    # HTML, SVG, and what plotly and matplotlib make of texts
    *('"><script>alert(1)</script>', "'><img src=x onerror=alert(1)>", "</style></svg><b>", "&lt;b&gt; &amp; &#x27;"),
    *("-->", "]]>", "<a href='javascript:alert(1)'>x</a>", "$\\frac{$", "$x$ and $y$", "_hidden"),
    # shells, spreadsheets and formats
    *(
        "$(touch owned)",
        "`touch owned`",
        "; touch owned #",
        "' && touch owned '",
        '"',
        "it's",
        "~",
        "!!",
        "*",
        "-rf",
        "a b",
    ),
    *("=cmd|' /C calc'!A0", "+1+1", "@SUM(A1)", "%s%n %(x)s ${x} {0} {x!r}", ""),
    # ini
    *("a\n[train]\nlearning_rate = 9", "x]\n[base]\nenv_name = y", "[train]", "a = b", "a: b", "a ; b", "# b", " a "),
    # terminals
    *("[bold red]x[/bold red]", "[/nope]", "[link=file:///etc/passwd]y[/link]", "\x1b[2J\x1b[31mred", "\x9b31m"),
    *(
        "\x1b]0;owned\x07",
        "\x1b]8;;file:///etc/passwd\x1b\\y",
        "good\rbad",
        "good\b\b\b\bbad",
        "a\x00b",
        "a\tb",
        "\x7f",
    ),
    *("\u202egnp.exe\u2066", "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg", "\udcff\ud800", "\ufeff", "é ☃"),
)
SOME = HOSTILE[::4]  # of every kind; the others are slow
each = pytest.mark.parametrize(
    "text", [pytest.param(text, marks=() if text in SOME else pytest.mark.slow) for text in HOSTILE], ids=ascii
)
OF_NAMES = [text for text in HOSTILE if not {"\0", "/"} & {*text} and text not in ("", "~") and "\ud800" not in text]
"""Those that a folder may be called."""


def assert_inert(written):
    """Of a terminal's text: no control codes but line ends, nothing that turns lines around or has no encoding."""
    found = {sign for sign in written if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"}
    assert not found, ascii(found)


def shows(written, text):
    """Whether a text can be read in what was written: all but blanks, frames and what stands for control codes."""
    return re.sub(r"[\s\ufffd]", "", printable(text)) in re.sub(r"[\s\ufffd│]", "", written)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_runs():
    """Runs in folders of all of these names."""
    made = made_run("other", "run")
    for name in OF_NAMES:
        shutil.copytree(made, Path("experiments", name))


# --- C


def header(notes):
    env = spaces_of(Box(-1.0, 1.0, (3,)), Discrete(2))
    writer = HeaderWriter("own", network_of(Default(env, 16), env))
    return {f"{writer.name}.h": writer.text(notes), "puffernet.h": c_format.PUFFERNET.read_text()}


def preprocessed(files, folder):
    folder.mkdir()
    for name, text in {**files, "all.c": '#include "own_policy.h"\n'}.items():
        (folder / name).write_text(text)
    command = [c_format.compiler(), "-std=c11", "-trigraphs", *c_format.WARNINGS]
    done = subprocess.run([*command, "-fsyntax-only", "all.c"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return subprocess.run([*command, "-E", "-P", "all.c"], cwd=folder, capture_output=True, check=True).stdout


@pytest.mark.skipif(c_format.compiler() is None, reason="needs a C compiler")
def test_a_header_compiles_to_the_same_whatever_its_notes_say(tmp_path):
    torch.manual_seed(0)
    plain = preprocessed(header({"model": "mine.pt"}), tmp_path / "plain")
    torch.manual_seed(0)
    notes = {f"note {text}": text for text in HOSTILE}
    files = header(notes)
    assert preprocessed(files, tmp_path / "hostile") == plain
    comments = [line for line in files["own_policy.h"].split("\n") if line.startswith("// note ")]
    assert [line[3:].encode().decode("unicode_escape") for line in comments] == [f"{k}: {v}" for k, v in notes.items()]


@pytest.mark.skipif(c_format.compiler() is None, reason="needs a C compiler")
def test_a_folder_whose_name_is_c_runs_nothing(folder, capsys):
    made = (
        folder
        / 'x\n#include <stdio.h>\n__attribute__((constructor)) static void own(void) {fclose(fopen("owned","w"));}'
    )
    made = made.with_name(f"{made.name}\n#define rest ")
    made.mkdir()
    shutil.copy(Path(cli.__file__).parent / "ocean/squared/pretrained.pt", made / "last.pt")
    words = ["export", "puffer_squared", "--load-model-path", str(made / "last.pt"), "--format", "c"]
    assert cli.main(words) == 0, capsys.readouterr().err
    assert not [path for path in folder.rglob("owned")]
    assert "static void own" in Path("squared_c/squared_policy.h").read_text().partition("#pragma once")[0]


@each
def test_the_name_of_an_environment_in_c_is_a_name(text):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", c_name(text))


# --- other exports


@pytest.mark.parametrize("format", ["torchscript", pytest.param("onnx", marks=pytest.mark.slow)])
def test_notes_are_read_back_from_a_file(format, tmp_path):
    env = spaces_of(Box(-1.0, 1.0, (3,)), Discrete(2))
    notes = {f"note {text}": text for text in HOSTILE}
    path = export_policy(Default(env, 4), env, tmp_path / format, format, notes)
    if format == "onnx":
        onnx = pytest.importorskip("onnx", reason="pip install -e '.[test]'")
        found = {each.key: each.value for each in onnx.load(path).metadata_props}
        notes = {ascii_of_halves(key): ascii_of_halves(text) for key, text in notes.items()}
    else:
        extra = {"notes.json": ""}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's, of TorchScript
            torch.jit.load(path, _extra_files=extra)
        found = json.loads(extra["notes.json"])
    assert notes.items() <= found.items()


def ascii_of_halves(text):
    return text.encode("utf-8", "backslashreplace").decode()


# --- HTML


class Structure(HTMLParser):
    """Elements with their attributes, and the texts between them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = Counter(), []
        text.encode()  # it can be written to a file
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        safe = {name: value for name, value in attributes if name in ("src", "href") or name.startswith("on")}
        self.elements[(tag, *(name for name, _ in attributes), *safe.items())] += 1

    def handle_comment(self, data):
        self.elements["comment"] += 1

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


def page_of(text):
    settings = {
        "env_name": text,
        "train": {"x": text, f"name {text}": 1},
        "env": {"x": [text]},
        "solve": {"metric": text},
    }
    settings[f"section {text}"] = {"x": text}
    facts = {"versions": {f"package {text}": text}, "git_commit": f"commit {text}", "policy_class": f"class {text}"}
    config = {
        "settings": settings,
        **facts,
        "seed": f"seed {text}",
        "computation": {"by": f"by {text}", "because": text},
    }
    run = RecordedRun(Path("experiments", "named"), config)
    run.__dict__.update(logs=[{**made_log(1), f"environment/{text}": 0.5}])  # as functools.cached_property keeps it
    run.__dict__.update(newest=run.logs[0], state=f"state {text}", begun=None)
    plots = {text: Markup("<svg></svg>")}  # see below
    evaluations = {f"kind {text}": {f"score {text}": Score(1.0, 0.1, 5)}}
    with mock.patch.object(page, "_changed", lambda run: [["train.x", text, "1"]]):
        return page._rendered(run, plots, evaluations, None, [f"note {text}"])


@each
def test_the_page_of_a_run_has_the_elements_that_it_would_have(text):
    read, plain = Structure(page_of(text)), Structure(page_of("plain"))
    outside = {element: count for element, count in plain.elements.items()}
    assert read.elements == outside or text == ""  # an empty environment's name stands for none
    for told in (f"note {text}", f"seed {text}", f"commit {text}", f"package {text}"):
        assert printable_lines(told).rstrip() in read.text


@each
def test_a_page_that_plays_has_the_elements_that_it_would_have(text):
    env = spaces_of(Box(-1.0, 1.0, (3,)), Discrete(2))
    writer = web_format.PackedWriter(network_of(Default(env, 4), env), is_short=True)

    def made(text):
        return web_format.page(f"title {text}", b"module", writer, {"keys": {"actions": [[[text], [0]]]}})

    read, plain = Structure(made(text)), Structure(made("plain"))
    assert read.elements == plain.elements
    assert read.texts.count(printable(f"title {text}")) == 2  # in the head and above the game
    facts = json.loads(next(part for part in read.texts if part.startswith('{"keys"')))
    assert facts["keys"]["actions"][0][0] == [text]


@pytest.mark.parametrize("text", OF_NAMES, ids=ascii)
def test_the_commands_of_a_page_are_words_to_a_shell(text):
    (commands,) = re.findall(r"<h2>Again</h2>(.*?)</section>", page_of(text), re.DOTALL)
    found = [html.unescape(each) for each in re.findall(r"<pre>(.*?)</pre>", commands, re.DOTALL)]
    assert [shlex.split(command)[:3] for command in found] == [
        ["puffer", verb, printable_lines(text)] for verb in ("train", "eval")
    ]


def state_of(text, path=Path("unused")):
    """A sweep in which everything that may be a stranger's text is one."""
    distributions = {
        f"train.{text}": optuna.distributions.FloatDistribution(0.0, 1.0),
        "train.optimizer": optuna.distributions.CategoricalDistribution((text, "other")),
    }

    def trial(state, share, score=None, **attributes):
        params = {f"train.{text}": share, "train.optimizer": text if share < 0.5 else "other"}
        known = {COST: 3.0, CURVE: [[0.5, 1.0, 0.1], [1.0, 3.0, 0.5]], RUN_FOLDER: f"folder {text}", **attributes}
        made = optuna.trial.create_trial(
            state=state, value=score, params=params, distributions=distributions, user_attrs=known
        )
        return made

    trials = [trial(TrialState.COMPLETE, share, score) for share, score in ((0.1, 0.5), (0.7, 0.6), (0.3, 0.9))]
    trials += [
        trial(TrialState.FAIL, 0.2, **{ERROR: f"error {text}"}),
        trial(TrialState.PRUNED, 0.3, **{STOPPED: text}),
    ]
    trials += [trial(TrialState.RUNNING, 0.4, **{HOST: f"host{text}"})]
    study = make_study(*trials, name=f"study {text}")
    runs = [Confirmation(2, 7, None, 1.0, "", f"why {text}"), Confirmation(2, 8, 0.5, 1.0, f"there {text}", "")]
    state = make_state(study, path, confirmations=runs)
    state.env_name, state.metric = f"env {text}", f"metric {text}"
    return state


@pytest.mark.quick(ascii(HOSTILE[8]))
@pytest.mark.parametrize("text", [*HOSTILE[8:14], " ".join(HOSTILE)], ids=lambda text: ascii(text)[:30])
def test_the_report_of_a_sweep_has_the_elements_that_it_would_have(text, monkeypatch):
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "")
    report, plain = report_html(state_of(text)), report_html(state_of("plain"))
    assert Structure(report).elements == Structure(plain).elements
    for told in (f"study {text}", f"error {text}", f"why {text}", f"there {text}"):
        assert printable_lines(told).rstrip() in Structure(report).text
    texts = report.lower()  # what plotly would take for a tag is one in its JSON
    assert not re.search(r"\\u003c(script|img|a href|/?b\\u003e(?!trial))", texts)


# --- pictures


def panels_of(text):
    curves = [Curve(f"first {text}", [1.0, 2.0], [0.1, 0.5]), Curve(f"{text} second", [1.0, 2.0], [0.2, 0.3])]
    return [Panel(f"title {text}", STEPS, curves), Panel(f"shares {text}", STEPS, curves, is_stacked=True)]


@pytest.mark.quick("'plain'")
@pytest.mark.filterwarnings("ignore:Glyph .* missing from")  # of scripts that its font does not have
@pytest.mark.parametrize(
    "text", ["plain", *HOSTILE[8:18:3], "$\\frac{$", "\x1b[2J", "\0\udcff"], ids=lambda text: ascii(text)[:30]
)
def test_a_plot_is_a_picture_and_nothing_else(text, tmp_path):
    with drawing(tmp_path / "plot.svg") as figure:
        draw_panels(figure, panels_of(text), f"all {text}")
    found = ElementTree.fromstring((tmp_path / "plot.svg").read_bytes())
    tags = {element.tag.rpartition("}")[2] for element in found.iter() if isinstance(element.tag, str)}
    assert tags <= {"svg", "metadata", "RDF", "Work", "type", "date", "format", "creator", "Agent", "title", "defs"} | {
        *("style", "g", "path", "use", "clipPath", "rect", "text", "tspan")
    }
    drawn = ElementTree.fromstring(panel_svg(panels_of(text)[0]).encode())
    told = "".join("".join(drawn.itertext()).split())
    assert "".join(printable(f"title {text}").split()) in told


# --- ini


@each
def test_an_ini_comes_back_as_it_was_meant_or_is_not_written(text, tmp_path):
    path = tmp_path / "best.ini"
    path.write_text(best_ini(f"env {text}", {"train": {"gamma": 0.5}}, [text, f"score {text}"]), encoding="utf-8")
    assert read_ini(path) == {"train": {"gamma": "0.5"}}
    assert_inert(path.read_text(encoding="utf-8"))
    settings = {"x": text, f"{text} ": 1, "size": 7}
    path.write_text(best_ini("env", {"env": settings, "train": {"gamma": 0.5}}, []), encoding="utf-8")
    found = read_ini(path)
    assert found["train"] == {"gamma": "0.5"} and found["env"]["size"] == "7"
    assert found["env"].keys() <= {"x", "size"} and parse_value(found["env"].get("x", repr(text))) == text
    assert_inert(path.read_text(encoding="utf-8"))


# --- scaffold


@each
def test_nothing_is_made_under_such_a_name(text):
    with pytest.raises(APIUsageError, match="the name of an environment must"):
        check_name(text)


# --- shells


def test_what_bash_completes_is_a_word_and_no_command(folder):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    make_runs()
    words = [name for name in OF_NAMES if printable(name) == name]
    program = shutil.which("puffer")
    script = f"""eval "$({program} completion bash)"
        COMP_LINE='puffer plot ' COMP_POINT=12 COMP_WORDS=({program}) COMP_WORDBREAKS=' =:'
        _puffer
        for each in "${{COMPREPLY[@]}}"; do eval "set -- $each"; printf '%s\\0' "$@"; done"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=600)
    assert sorted(done.stdout.decode().split("\0")[:-1]) == sorted(["latest", *words])
    assert not Path("owned").exists()


def test_completions_are_lines_without_control_codes(folder, capsys):
    make_runs()
    assert cli.main(["--complete", "puffer plot "]) == 0
    assert_inert(capsys.readouterr().out)


# --- spreadsheets


def test_the_table_of_trials_has_no_formulas_and_all_of_its_rows():
    for text in HOSTILE:
        rows = list(csv.reader(io.StringIO(trials_csv(state_of(text).results()))))
        assert len(rows) == 6 and len({*map(len, rows)}) == 1
        cells = [cell for row in rows for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
        assert_inert("".join(cells))


# --- terminals


def test_a_text_that_is_harmless_stays_as_it_is_and_all_keep_their_length():
    for text in ("é ☃ 日本", "a b  c", "no-break\xa0space", "[bold]", ""):
        assert printable(text) == text
    for text in HOSTILE:
        assert len(printable(text)) == len(printable_lines(text)) == len(text)
        assert_inert(printable(text))
    assert printable("a\tb\nc\x1b[m") == "a b\ufffdc\ufffd[m"
    assert printable_lines("a\nb\r") == "a\nb\ufffd"


def on_console(renderable, width=4000):
    console = Console(
        file=io.StringIO(), width=width, height=60, color_system=None, force_terminal=True, legacy_windows=False
    )
    console.print(renderable)
    return console.file.getvalue()


METRICS = {"agent_steps": 10, "sps": 5.0, "epoch": 1}


@each
def test_the_panel_and_the_lines_of_a_run_obey_nothing(text):
    metrics = {**METRICS, f"environment/{text}": 0.5, f"losses/{text}": 0.5}
    console = Console(width=4000, height=60)
    panel = on_console(dashboard.render(f"env {text}", {"Fact": text, f"fact {text}": "x"}, metrics, 100, console))
    assert_inert(panel)
    assert shows(panel, f"env {text}") and shows(panel, f"fact {text}")
    lines = io.StringIO()
    shown = dashboard.Dashboard(f"env {text}", {}, 100, lines)
    shown.show(metrics)
    assert_inert(lines.getvalue())
    assert lines.getvalue().count("\n") == 1


@each
def test_a_cell_of_a_notebook_has_the_elements_that_it_would_have(text, monkeypatch):
    contents = []
    monkeypatch.setattr("IPython.display.display", lambda panel, **_: contents.append(panel), raising=False)
    cell_output = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    for told in (text, "plain"):
        dashboard.Dashboard(told, {"Fact": told}, 100, cell_output()).show(METRICS)
    bundles = [panel._repr_mimebundle_((), ()) for panel in contents]  # as IPython asks for them
    hostile, plain = (Structure(bundle["text/html"]) for bundle in bundles)
    assert {*hostile.elements} == {*plain.elements}
    assert_inert(bundles[0]["text/plain"].replace("\x1b", "")) if "\x1b" not in text else None


@each
def test_the_lines_and_the_summary_of_a_sweep_obey_nothing(text, capsys, monkeypatch):
    monkeypatch.setattr("pufferlib.sweep.command.write_results", lambda state: None)
    state, lines = state_of(text), ProgressLines()
    lines.show(make_state(make_study()))
    lines.show(state)
    say(summary(state))
    told = capsys.readouterr().out
    assert_inert(told)
    assert shows(told, f"error {text}")


@each
def test_plots_on_a_terminal_obey_nothing(text, capsys, monkeypatch):
    for variables in ({"TERM": "dumb"}, {"TERM": "xterm", "FORCE_COLOR": "1"}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        print_panels(panels_of(text))
        assert_inert(re.sub(r"\x1b\[(\d+;)*\d*m(?!red)", "", capsys.readouterr().out))


@each
def test_tables_obey_nothing(text):
    told = plain_table(["first", text], [["x", text], [text, "y"]])
    assert_inert(told)
    assert told.count("\n") == 2


def test_the_list_of_runs_obeys_nothing(folder, capsys):
    make_runs()
    for name in OF_NAMES:
        Path("experiments", f"{name} broken").mkdir()
        Path("experiments", f"{name} broken", "config.json").write_text("{")
    changed = Path("experiments", OF_NAMES[0], "config.json")
    config = json.loads(changed.read_text())
    config["settings"]["train"].update(optimizer=" ".join(HOSTILE))
    config["settings"]["solve"] = {"metric": HOSTILE[0]}
    changed.write_text(json.dumps(config))
    for words in (["runs"], ["plot", "*bad*", "--terminal"], ["runs", "--env", "\x1b[2J"], ["plot", "\x1b[2J"]):
        cli.main(words)
        found = capsys.readouterr()
        assert_inert(found.out + found.err)
        assert found.out + found.err


@each
def test_sentences_and_warnings_obey_nothing(text, folder, capsys):
    for words in (["train", text], ["train", "puffer_squared", "--train.optimizer", text], [text or "-"]):
        assert cli.main(words) == 2
        assert_inert(capsys.readouterr().err)
    with cli._short_warnings():
        assert_inert(warnings.formatwarning(f"about {text}", PufferWarning, "file.py", 1))
    say(text)
    found = capsys.readouterr()
    assert_inert(found.out + found.err)
