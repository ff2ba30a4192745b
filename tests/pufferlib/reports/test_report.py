"""`puffer report`: what the page of a run shows, in itself and in a browser."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import command
import pytest
from made_runs import made_run

from pufferlib import cli
from pufferlib.config.flags import ReportOptions
from pufferlib.dashboard.score import Score
from pufferlib.reports.page import page, report_command
from pufferlib.reports.recorded_run import RecordedRun, read_run

RUN_ID = "20260101_120000_000000_aaaa0001"
SMALL = ("--env.num-envs", "64", "--train.batch-size", "2048", "--train.minibatch-size", "1024")


class Reader(HTMLParser):
    """What a page holds: its elements with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def run(in_tmp_path):
    return read_run(made_run("experiments", RUN_ID, learning_rate=0.5))


def test_the_page_tells_of_the_run(run):
    read = Reader(page(run, episodes=0, video=False))
    for told in ("puffer_cartpole", RUN_ID, "stopped", "0.4", "8.0s", "git commit abc", "computed by C kernel"):
        assert told in read.text
    assert "train.learning_rate 0.5 0.01" in read.text  # what is not the default comes with what is
    assert f"puffer train puffer_cartpole --config {run.folder}/config.json" in read.text
    assert "[train]" in read.text and "vtrace_rho_clip 1.0" in read.text and "[sweep]" not in read.text
    titles = [figure["aria-label"] for figure in read.all("figure")]
    assert titles[0] == "environment/perf over agent steps, in the end 0.4" and len(read.all("svg")) == len(titles) == 6


@pytest.fixture
def played(run, monkeypatch):
    """The page of a run whose weights were played: of the last ones there is a video, of a kind that a test says."""
    for name in ("last", "best"):
        (run.folder / f"{name}.pt").touch()
    scores = {"perf": Score(0.95, 0.01234, 50), "episode_return": Score(475.0, 113.0, 50)}
    evaluations = {"last": scores, "best": {"perf": Score(1.0, float("nan"), 1)}}
    monkeypatch.setattr("pufferlib.reports.page._evaluate", lambda run, weights, episodes: evaluations[weights])

    def page_with(source):
        monkeypatch.setattr("pufferlib.reports.page._record", lambda *_: source)
        return page(run, episodes=50, video=True)

    return page_with


def test_the_page_asks_no_network_for_anything(played):
    text = played("data:video/mp4;base64,AA==")
    read = Reader(text)
    links = [value for _, each in read.elements for name, value in each.items() if name.endswith(("href", "src"))]
    assert links and all(link.startswith(("data:", "#")) for link in links)
    styles = "".join(re.findall(r"<style.*?</style>", text, re.DOTALL)) + "".join(re.findall(r'style="[^"]*"', text))
    assert not re.search(r"@import|url\((?!#)|url\(.?http", styles)
    assert not {"script", "iframe", "object", "embed"} & {tag for tag, _ in read.elements}


@pytest.mark.slow
def test_scores_and_pictures_are_shown(played):
    read = Reader(played("data:image/gif;base64,AA=="))
    assert "statistic last weights best weights perf 0.95 ± 0.012 1 episode_return 475 ± 110 -" in read.text
    assert read.all("img")[0]["src"] == "data:image/gif;base64,AA=="
    (video,) = Reader(played("data:video/mp4;base64,AA==")).all("video")
    assert video["src"].startswith("data:video/mp4;base64,") and "controls" in video


def test_what_a_run_holds_means_nothing_to_html(in_tmp_path):
    folder = made_run("experiments", RUN_ID)
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["log"]["name"] = config["git_commit"] = "<script>alert('\"&')</script>"
    (folder / "config.json").write_text(json.dumps(config))
    read = Reader(page(read_run(folder), 0, False))
    assert read.all("script") == [] and "<script>alert('\"&')</script>" in read.text


def test_what_is_missing_is_said_on_the_page(run, monkeypatch):
    monkeypatch.setattr("pufferlib.errors.is_installed", lambda package: package != "matplotlib")
    text = Reader(page(run, episodes=3, video=True)).text
    assert "No curves: " in text and "pip install 'pufferlib[plot]'" in text
    assert "Nothing was played: the run has saved no weights yet." in text


def test_an_environment_that_fails_is_a_note(run, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("no simulator here")

    (run.folder / "last.pt").touch()
    monkeypatch.setattr("pufferlib.reports.page._evaluate", fail)
    text = Reader(page(run, episodes=3, video=False)).text
    assert "The last weights are not evaluated: RuntimeError: no simulator here" in text


def test_a_run_of_an_unknown_environment_has_a_page(in_tmp_path):
    folder = made_run("experiments", RUN_ID)
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["env_name"] = "my_game"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "last.pt").touch()
    text = Reader(page(read_run(folder), episodes=3, video=False)).text
    assert "The last weights are not evaluated: " in text and "my_game" in text
    assert "differ from the defaults" not in text and "Means over" not in text


def test_a_module_of_ones_own_is_imported_where_it_is_named_alone(in_tmp_path, monkeypatch):
    Path("mine.py").write_text("raise ImportError('imported')")
    monkeypatch.syspath_prepend(in_tmp_path)
    folder = made_run("experiments", RUN_ID)
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["env_name"] = "mine:Game"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "last.pt").touch()
    for word, said in ((folder.name, "`puffer report mine:Game`"), ("mine:Game", "not evaluated: ")):
        report_command(word, ReportOptions(episodes=3, video=False, data_dir="experiments"))
        text = Reader((folder / "report.html").read_text()).text
        assert said in text and ("imported only where" in text) == (word != "mine:Game")


def test_a_run_that_has_only_begun_has_a_page(in_tmp_path):
    text = Reader(page(read_run(made_run("experiments", RUN_ID, logs=0, saved=False)), episodes=3, video=True)).text
    assert "logged nothing yet" in text and "steps a second -" in text


@pytest.mark.slow
def test_the_command_writes_the_page_of_a_trained_run(tmp_path):
    steps = ("--train.total-timesteps", "8192", "--train.log-interval", "1", "--train.evaluations", "1")
    assert command.run(tmp_path, "train", "puffer_cartpole", *SMALL, *steps) == (0, "")
    code, err = command.run(tmp_path, "report", "latest", "--episodes", "5", "--no-video")
    assert (code, err) == (0, "")
    path = command.only_run(tmp_path) / "report.html"
    said = (tmp_path / "stdout").read_text().splitlines()
    assert said[-1] == f"reported {path.parent.name} in {path.relative_to(tmp_path)}"
    text = Reader(path.read_text()).text
    assert "statistic last weights best weights" in text and "Means over 5 episodes" in text


def test_the_command_that_trains_again_names_the_weights_that_the_run_began_from(run):
    settings = {**run.settings, "load_model_path": "first.pt"}
    began = RecordedRun(run.folder, {**run.config, "settings": settings})
    assert "config.json --load-model-path first.pt" in Reader(page(began, episodes=0, video=False)).text


def test_the_page_is_written_where_one_says(run, capsys):
    assert cli.main(["report", "latest", "--episodes", "0", "--no-video", "--output", "my.html"]) == 0
    assert capsys.readouterr().out == f"reported {run.name} in my.html\n"
    with open("my.html") as file:
        assert "Evaluation" not in file.read()


def test_mistakes_are_told(run, capsys):
    for words, message in (
        ("report", "takes one RUN, got ''"),
        ("report gone", "there is no run 'gone' in experiments"),
        ("report latest --episodes -1", "episodes must be"),
    ):
        assert cli.main(words.split()) == 2
        assert message in capsys.readouterr().err


def trained(tmp_path):
    """A run of cartpole that learned for a moment."""
    assert command.run(tmp_path, "train", "puffer_cartpole", *SMALL, "--train.total-timesteps", "4096") == (0, "")
    return read_run(command.only_run(tmp_path))


@pytest.mark.slow
def test_the_video_is_of_the_newest_weights(tmp_path):
    (video,) = Reader(page(trained(tmp_path), episodes=0, video=True)).all("video")
    kind, _, data = video["src"].partition(",")
    assert kind == "data:video/mp4;base64" and base64.b64decode(data)[4:8] == b"ftyp"


@pytest.mark.slow
def test_the_video_is_a_gif_where_nothing_makes_an_mp4(tmp_path, monkeypatch):
    monkeypatch.setattr("pufferlib.reports.page.is_installed", lambda package: package != "imageio_ffmpeg")
    read = Reader(page(trained(tmp_path), episodes=0, video=True))
    kind, _, data = read.all("img")[0]["src"].partition(",")
    assert kind == "data:image/gif;base64" and base64.b64decode(data).startswith(b"GIF8")
    assert "pip install 'pufferlib[video]'" in read.text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="a browser looks at the page")
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_the_page(tmp_path, width):
    run = trained(tmp_path)
    path = run.folder / "report.html"
    path.write_text(page(run, 1, True) + BROWSER_SAYS.replace("WIDTH", str(width)))
    browser = ["chromium", "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = ["--window-size=1280,900", "--virtual-time-budget=10000", "--dump-dom", path.as_uri()]
    done = subprocess.run([*browser, *shown], capture_output=True, text=True, timeout=120)
    seen = json.loads(re.search(r"<title>(\{.*?\})</title>", done.stdout)[1])
    assert seen["requests"] == 0
    assert seen["width"] <= width, "nothing is wider than the window"
    assert len(seen["plots"]) > 5 and all(150 < size[0] <= width and size[1] > 100 for size in seen["plots"])
    assert min(seen["video"]) > 100, "the video's own size is known once it was read"


BROWSER_SAYS = """<script>
document.documentElement.style.width = "WIDTHpx";  // a window of its own has 500 pixels at least
const video = document.querySelector("video");
const tell = () => { document.title = JSON.stringify({
  requests: performance.getEntriesByType("resource").filter(each => !each.name.startsWith("data:")).length,
  width: document.body.scrollWidth,
  plots: [...document.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect())
    .map(box => [box.width, box.height]),
  video: [video.videoWidth, video.videoHeight],
}) };
video.readyState ? tell() : video.addEventListener("loadedmetadata", tell);
</script>"""
