import math

import pytest
from sweep_studies import failed, make_state, make_study, running, scored, stopped

from pufferlib.sweep.results import CONFIG, RETRY_OF, Results


def numbers(found):
    return [trial.number for trial in found]


def test_the_best_comes_first_and_the_front_rises_with_the_cost():
    study = make_study(scored(0.5, 10), scored(0.9, 40), scored(0.4, 20), scored(0.9, 30), scored(0.2, 1))
    found = Results(study.trials, "maximize")
    assert numbers(found.complete) == [3, 1, 0, 2, 4]
    assert numbers(found.front) == [4, 0, 3]
    assert found.winner.number == 3
    assert found.total_cost == 101


def test_the_least_is_best_where_the_goal_is_to_minimize():
    study = make_study(scored(0.5, 10), scored(0.1, 40), scored(0.6, 20), goal="minimize")
    found = Results(study.trials, "minimize")
    assert numbers(found.complete) == [1, 0, 2]
    assert numbers(found.front) == [0, 1]
    assert found.cheapest_past(0.3).number == 1
    assert found.cheapest_past(0.05) is None


def test_every_trial_counts_once():
    study = make_study(
        scored(0.5, 10),
        stopped("its score stays low", 4),
        failed("used 5.1 GB of its 4.0"),
        failed("its driver is gone", is_counted=False),
        running(RETRY_OF, 3),
        running(),
    )
    found = Results(study.trials, "maximize")
    assert [(each.number, each.reason) for each in found.in_state("stopped")] == [(1, "its score stays low")]
    assert [(each.number, each.reason) for each in found.in_state("failed")] == [(2, "used 5.1 GB of its 4.0")]
    assert (found.running, found.num_ended, found.total_cost) == (2, 3, 14)


def test_a_study_without_trials_has_no_best():
    found = Results([], "maximize")
    assert found.winner is None
    assert not found.front
    assert found.cheapest_past(0.0) is None
    assert found.num_ended == 0


def test_scores_that_are_not_finite_are_failures():
    study = make_study(scored(math.inf, 10), scored(0.5, 10))
    found = Results(study.trials, "maximize")
    assert numbers(found.complete) == [1]
    assert numbers(found.in_state("failed")) == [0]


def test_a_trial_of_unknown_cost_is_not_on_the_front():
    study = make_study(scored(0.9, None), scored(0.5, 10), scored(0.9, 20))
    found = Results(study.trials, "maximize")
    assert numbers(found.complete) == [2, 0, 1]
    assert numbers(found.front) == [1, 2]
    assert found.total_cost == 30


def test_the_cheapest_that_solves_is_found_on_the_front():
    study = make_study(scored(0.5, 10), scored(0.96, 30), scored(0.99, 60))
    assert Results(study.trials, "maximize").cheapest_past(0.95).number == 1


def test_the_settings_are_those_that_it_ran_with():
    config = {"train": {"learning_rate": 0.01, "minibatch_size": 4096}, "rnn": {"input_size": 64}}
    study = make_study(scored(0.5, 10, **{CONFIG: config}), scored(0.5, 10))
    ran, proposed = (trial.settings for trial in Results(study.trials, "maximize").ended)
    assert ran["train.minibatch_size"] == 4096
    assert ran["rnn.input_size"] == 64
    assert list(ran)[: len(proposed)] == list(proposed)
    assert proposed == study.trials[1].params


@pytest.mark.parametrize(
    ("metric", "threshold"), [("environment/perf", 0.95), ("perf", 0.95), ("environment/score", None)]
)
def test_the_threshold_is_of_the_metric_that_solves(metric, threshold):
    state = make_state(make_study(), solve={"metric": "perf", "threshold": 0.95})
    state.metric = metric
    assert state.threshold == threshold
    state.args = {"sweep": {}}
    assert state.threshold is None
