"""When it is clear that there is no metric of the name that a sweep goes by."""

from pufferlib.sweep.trial_training import MetricSearch

FIRST = {"agent_steps": 10, "losses/entropy": 1.0, "episode/return_mean": 2.0, "episode/count": 7.0}
REPORT = {**FIRST, "environment/perf": 0.5, "environment/score": 3.0, "environment/n": 6.0}


def test_a_metric_is_missing_where_episodes_ended_without_it():
    search = MetricSearch("prf", "puffer_game")
    assert search.score({"agent_steps": 10, "losses/entropy": 1.0}) is None and not search.is_hopeless
    search.score(REPORT)
    assert search.is_hopeless
    assert search.missing_text() == (
        "[sweep] metric must be one that puffer_game logs, got 'prf'; did you mean 'perf'? There are "
        "episode/return_mean, episode/count, environment/perf, environment/score, environment/n, and those of losses"
    )
    search = MetricSearch("perf", "puffer_game")
    search.score(REPORT)
    assert search.name == "environment/perf" and not search.is_hopeless


def test_what_another_trial_has_had_and_what_evaluations_will_bring_is_waited_for():
    known = MetricSearch("goals", "puffer_game", is_known=True)
    later = MetricSearch("eval/return_mean", "puffer_game")
    for search in (known, later):
        for _ in range(3):
            search.score(REPORT)
    assert [known.is_hopeless, later.is_hopeless] == [False, False]
    assert later.score({**REPORT, "eval/return_mean": 4.0}) == 4.0


def test_a_training_that_was_too_short_says_so():
    search = MetricSearch("perf", "puffer_game")
    search.score({"agent_steps": 10})
    assert search.missing_text() == (
        "[sweep] metric 'perf' was not logged before the training ended; train for more steps"
    )
