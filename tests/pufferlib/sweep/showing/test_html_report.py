import math
import re
import warnings
from html.parser import HTMLParser

import pytest
from optuna.trial import TrialState, create_trial
from sweep_studies import failed, make_state, make_study, running, scored, stopped

from pufferlib.sweep.command import front_figure, report_html
from pufferlib.sweep.results import CONFIG, COST, CURVE, Confirmation, Results

PLOTS = {"front", "history", "slices", "parallel", "curves"}


class Page(HTMLParser):
    """What a browser would fetch, and the texts of a page without its scripts."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.texts, self.ids, self.hidden = [], [], set(), False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.sources += [attrs[name] for name in ("src", "href", "data", "srcset") if name in attrs]
        self.ids |= {attrs["id"]} if "id" in attrs else set()
        self.hidden = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden = False

    def handle_data(self, data):
        if not self.hidden:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page_of(*trials, goal="maximize", **changed):
    return Page(report_html(make_state(make_study(*trials, goal=goal), goal=goal, **changed)))


def test_the_page_needs_no_network_and_has_plotly_once():
    text = report_html(make_state(make_study(*[scored(0.1 * count, count) for count in range(1, 12)])))
    assert Page(text).sources == []
    assert not re.search(r"@import|url\(\s*['\"]?http", text.split("<script>")[0])
    assert text.count("<!DOCTYPE html>") == 1 and text.count("* plotly.js v") == 1
    assert 4e6 < len(text) < 7e6


def test_the_page_shows_what_was_found():
    known = [
        Confirmation(1, 7, 0.8, 40.0, "experiments/one"),
        Confirmation(1, 8, 0.9),
        Confirmation(0, 7, None, error="no"),
    ]
    page = page_of(
        *[scored(0.05 * count, count, rate=0.01 * count) for count in range(1, 22)],
        failed("used 5.1 GB of its 4.0"),
        stopped("its score is <low>", 4),
        running(),
        confirmations=known,
        confirm_best=0,  # none is awaited
        solve={"metric": "perf", "threshold": 0.3},
    )
    assert page.ids >= PLOTS | {"importance"}
    for words in (
        *("Sweep of puffer_squared", "maximize environment/perf", "solved at 0.3 by", "trial 5 in 6.0s"),
        *("trial 1: 0.1 in 2.0s of training, confirmed 0.85 ± 0.05 on 2 fresh seeds", "used 5.1 GB of its 4.0"),
        *("its score is <low>", "experiments/one", "train.learning_rate", "0.85 ± 0.05"),
    ):
        assert words in page.text


@pytest.mark.slow
@pytest.mark.parametrize(("count", "is_shown"), [(19, False), (20, True)])
def test_importance_needs_trials_that_differ(count, is_shown):
    trials = [scored(0.05 * place, place, rate=0.01 * place) for place in range(1, count + 1)]
    assert ("importance" in page_of(*trials).ids) == is_shown
    assert "importance" not in page_of(*[scored(0.5, place, rate=0.01 * place) for place in range(1, count + 1)]).ids


@pytest.mark.quick("1-maximize")
@pytest.mark.parametrize("goal", ["maximize", "minimize"])
@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_any_number_of_trials_makes_a_page(count, goal):
    trials = [scored(-0.5 * place, place, optimizer=("adam", "muon")[place % 2]) for place in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = page_of(*trials, goal=goal)
    assert page.ids >= PLOTS
    assert f"Winner trial {0 if goal == 'maximize' else count - 1}:" in page.text


def test_without_a_score_there_are_the_reasons():
    page = page_of(failed("it crashed"), failed("it crashed again"), failed(None), running())
    assert not page.ids & PLOTS
    for words in ("No trial ran to its end.", "it crashed again", "its driver was killed"):
        assert words in page.text
    assert "No trial ran" in page_of().text


def test_what_is_not_finite_is_left_out():
    hole = [[0.5, 5.0, math.nan], [1.0, 10.0, 0.5]]
    page = page_of(scored(0.5, 10, **{CURVE: hole}), scored(math.inf, 5), scored(0.7, None), scored(0.6, 5))
    assert page.ids >= PLOTS
    assert "Winner trial 2: 0.7 in - of training" in page.text


def test_trials_of_other_settings_are_shown_beside():
    odd = create_trial(state=TrialState.COMPLETE, value=0.3, params={}, distributions={}, user_attrs={COST: 3.0})
    ran = {"train": {"learning_rate": 0.02, "optimizer": "sgd"}, "rnn": {"input_size": 64}}
    page = page_of(scored(0.5, 10), odd, scored(0.6, 10, **{CONFIG: ran}))
    assert page.ids >= PLOTS and "input_size" in page.text


def test_names_of_a_user_are_text():
    state = make_state(make_study(scored(0.5, 10), failed("</script><script>alert(1)</script>")))
    state.env_name = state.metric = "</script><img src=x>"
    page = Page(report_html(state))
    assert page.sources == [] and "Sweep of </script><img src=x>" in page.text


def test_the_front_has_the_settings_where_one_points():
    study = make_study(scored(0.5, 10), scored(0.9, 40, gamma=0.9876), scored(0.4, 20), scored(0.1, 0))
    results = Results(study.trials, "maximize")
    figure = front_figure(results, "perf")
    line = next(trace for trace in figure.data if trace.name == "on the front")
    assert list(zip(line.x, line.y, strict=True)) == [(0.001, 0.1), (10, 0.5), (40, 0.9)]
    star = next(trace for trace in figure.data if trace.name == "winner")
    assert "trial 1" in star.hovertext[0] and "train.gamma 0.9876" in star.hovertext[0]
    assert figure.layout.xaxis.type == "log"
