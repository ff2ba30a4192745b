import optuna
import pytest
from sweep_studies import make_state, make_study, scored

from pufferlib.sweep.results import (
    FIRST_SEED,
    Confirmation,
    Results,
    known_confirmations,
    outstanding,
    remember,
)


def found(*trials, goal="maximize", known=()):
    return Results(make_study(*trials, goal=goal).trials, goal, known)


def runs(trial, *scores):
    return [Confirmation(trial, seed, score) for seed, score in enumerate(scores)]


def chosen(results, count, threshold=None):
    args = {"train": {"seed": 42}, "sweep": {"confirm_best": count, "confirm_seeds": 1}}
    return [trial.number for trial, _ in outstanding(results, args, threshold)]


def test_the_best_trials_that_differ_are_chosen():
    results = found(scored(0.5, 1), scored(0.9, 9, 0.02), scored(0.8, 9, 0.02), scored(0.7, 9, 0.03), scored(0.6, 9))
    assert chosen(results, 3) == chosen(results, 9) == [1, 3, 4]
    assert chosen(results, 0) == []
    assert chosen(found(), 3) == []


def test_the_cheapest_that_solves_is_chosen_too():
    results = found(scored(0.9, 40), scored(0.99, 90, 0.02), scored(0.96, 7, 0.03), scored(0.7, 2, 0.04))
    assert chosen(results, 1, 0.95) == chosen(results, 2, 0.95) == [1, 2]
    assert chosen(results, 0, 0.95) == []
    assert chosen(results, 1, 1.5) == [1]


def test_what_has_run_is_not_run_again():
    state = make_state(make_study(scored(0.5, 1, 0.01), scored(0.9, 9, 0.02)))
    first, second, third = seeds = [42 + FIRST_SEED + index for index in range(3)]
    assert [seed for _, seed in outstanding(state.results(), state.args, None)] == seeds * 2
    for number, seed, score in ((1, first, 0.8), (1, second, None), (0, third, 0.4)):
        remember(state.study, Confirmation(number, seed, score, 3.0, "run", "" if score else "it crashed"))
    state.confirmations = known_confirmations(state.study)
    left = outstanding(state.results(), state.args, state.threshold)
    assert [(trial.number, seed) for trial, seed in left] == [(1, third), (0, first), (0, second)]


def test_what_it_led_to_survives_the_storage(tmp_path):
    url = f"sqlite:///{tmp_path}/sweep.db"
    study = optuna.create_study(storage=url, study_name="one")
    told = [Confirmation(3, 7, 0.5, 1.5, "experiments/one"), Confirmation(3, 8, None, error="it crashed")]
    for run in told:
        remember(study, run)
    study.set_user_attr("env_name", "puffer_squared")
    assert known_confirmations(optuna.load_study(study_name="one", storage=url)) == told


@pytest.mark.parametrize(("goal", "first", "text"), [("maximize", 2, "0.75 ± 0.05"), ("minimize", 1, "0.5 ± 0.4")])
def test_the_winner_is_who_confirms_best(goal, first, text):
    known = [*runs(0, 0.5, 0.6), *runs(1, 0.9, 0.1), *runs(2, 0.8, 0.7)]
    results = found(scored(0.7, 1, 0.01), scored(0.9, 9, 0.02), scored(0.8, 9, 0.03), goal=goal, known=known)
    assert results.winner.number == first
    assert results.winner.confirmed_text == f"{text} on 2 fresh seeds"


@pytest.mark.parametrize(("sign", "goal"), [(1, "maximize"), (-1, "minimize")])
def test_until_all_are_confirmed_scores_of_trials_count_too(sign, goal):
    first = 42 + FIRST_SEED
    trials = [scored(sign * score, 9, rate) for score, rate in ((0.9, 0.01), (0.8, 0.02), (0.7, 0.03), (0.6, 0.04))]
    state = make_state(make_study(*trials, goal=goal), confirm_best=3, confirm_seeds=2)

    def winner(*known):
        state.confirmations = [Confirmation(trial, first + seed, sign * score) for trial, seed, score in known]
        return state.results().winner.number

    assert winner() == 0
    assert winner((2, 0, 0.85)) == winner((2, 0, 0.85), (1, 0, 0.85)) == 0  # which may be luck
    assert winner((0, 0, 0.1), (0, 1, 0.2), (2, 0, 0.7)) == 1
    confirmed = [(trial, seed, score) for trial, score in ((0, 0.5), (1, 0.52), (2, 0.56)) for seed in (0, 1)]
    assert winner(*confirmed[:-1]) == 0 and winner(*confirmed) == 2


def test_who_fails_is_behind_who_does_not():
    known = [*runs(0, 0.5, 0.6), *runs(1, 0.9, None)]
    results = found(scored(0.7, 1, 0.01), scored(0.9, 9, 0.02), known=known)
    best = results.complete[0]
    assert (results.winner.number, best.number, best.scores) == (0, 1, [0.9])
    assert best.confirmed_text == "0.9 ± 0 on 2 fresh seeds, 1 failed"


def test_without_confirmations_the_best_score_wins():
    trials = scored(0.7, 1, 0.01), scored(0.9, 9, 0.02)
    assert found(*trials).winner.number == 1
    assert found(*trials, known=runs(0, None, None)).winner.number == 1
    assert found(*trials, known=runs(0, None)).ended[0].confirmed_text == "- on 1 fresh seed, 1 failed"
    assert found().winner is None
