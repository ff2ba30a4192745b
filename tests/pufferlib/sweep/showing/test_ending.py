import configparser
import csv
import io

import pytest
from sweep_studies import failed, make_state, make_study, running, scored, stopped

from pufferlib.config import load_config
from pufferlib.errors import StorageError
from pufferlib.sweep.command import ProgressLines, finish, trials_csv
from pufferlib.sweep.results import CONFIG, RUN_FOLDER, Confirmation, Results

RAN = {"train": {"learning_rate": 0.02, "gamma": 0.97, "optimizer": "adam", "minibatch_size": 512}}


def squared_state(study, folder, argv=(), **changed):
    """A state with all settings of an environment."""
    state = make_state(study, folder, **changed)
    state.args = {**load_config("puffer_squared", list(argv)), "sweep": state.args["sweep"]}
    return state


def ini_of(path):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(path)
    return {section: dict(parser[section]) for section in parser.sections()}


def finished(state):
    stream = io.StringIO()
    finish(state, stream)
    return stream.getvalue()


def test_a_sweep_ends_with_its_files_and_how_to_train_by_the_best(tmp_path):
    study = make_study(
        scored(0.5, 10), scored(0.9, 40, **{CONFIG: RAN}), stopped("it was low", 4), failed("it crashed")
    )
    text = finished(squared_state(study, tmp_path / "a sweep"))
    for words in (
        *(
            "puffer_squared: 4 trials (2 complete, 1 stopped, 1 failed) in 54s of training",
            "trial 3 failed: it crashed",
        ),
        *(
            "the winner is trial 1: 0.9 in 40s of training",
            f"puffer train puffer_squared --config '{tmp_path}/a sweep/",
        ),
    ):
        assert words in text
    lines = text.splitlines()
    header = next(line.split() for line in lines if line.startswith("trial  score"))
    assert header[:4] == ["trial", "score", "cost", "learning_rate"]
    assert sorted(path.name for path in (tmp_path / "a sweep").iterdir()) == ["best.ini", "report.html", "trials.csv"]
    assert ini_of(tmp_path / "a sweep" / "best.ini")["train"] == {
        **{"learning_rate": "0.02", "gamma": "0.97", "optimizer": "adam", "minibatch_size": "512"}
    }


def test_the_best_settings_are_those_of_who_confirms_best(tmp_path):
    study = make_study(scored(0.8, 10, rate=0.03), scored(0.9, 40, rate=0.01))
    known = [Confirmation(0, 7, 0.7), Confirmation(0, 8, 0.8), Confirmation(1, 7, 0.1), Confirmation(1, 8, None)]
    text = finished(squared_state(study, tmp_path, confirmations=known, confirm_best=0))  # none is awaited
    sentence = "trial 0: 0.8 in 10s of training, confirmed 0.75 ± 0.05 on 2 fresh seeds"
    assert f"the winner is {sentence}" in text and "0.1 ± 0 on 2 fresh seeds, 1 failed" in text
    content = (tmp_path / "best.ini").read_text()
    assert content.startswith(f"; The best of 2 trials of puffer sweep puffer_squared, {sentence}\n")
    assert ini_of(tmp_path / "best.ini")["train"]["learning_rate"] == "0.03"


def test_the_cheapest_that_solves_has_a_file_of_its_own(tmp_path):
    study = make_study(scored(0.99, 90, rate=0.03), scored(0.96, 7, rate=0.01), scored(0.5, 2))
    state = squared_state(study, tmp_path, confirmations=[Confirmation(1, 7, 0.97)])
    state.args["solve"] = {"metric": "perf", "threshold": 0.95}
    sentence = "trial 1: 0.96 in 7.0s of training, confirmed 0.97 ± 0 on 1 fresh seed"
    state.confirmations.append(Confirmation(0, 7, 0.99))
    assert f"the cheapest past 0.95 is {sentence}" in finished(state)
    assert ini_of(tmp_path / "cheapest.ini")["train"]["learning_rate"] == "0.01"
    assert sentence in (tmp_path / "cheapest.ini").read_text()
    assert ini_of(tmp_path / "best.ini")["train"]["learning_rate"] == "0.03"


def test_the_cheapest_that_became_the_winner_has_no_file_any_more(tmp_path):
    state = squared_state(make_study(scored(0.99, 90, rate=0.03), scored(0.96, 7, rate=0.01)), tmp_path)
    state.args["solve"] = {"metric": "perf", "threshold": 0.95}
    finished(state)
    assert (tmp_path / "cheapest.ini").exists()
    state.confirmations = [Confirmation(0, 7, 0.5), Confirmation(1, 7, 0.97)]
    finished(state)
    assert ini_of(tmp_path / "best.ini")["train"]["learning_rate"] == "0.01"
    assert not (tmp_path / "cheapest.ini").exists()


def test_what_flags_gave_the_sweep_is_among_the_best_settings(tmp_path):
    flags = ("--train.bptt-horizon", "16", "--env.size", "7", "--train.data-dir", "elsewhere")
    flags += ("--selfplay.pool-size", "4", "--load-model-path", "first.pt")
    state = squared_state(make_study(scored(0.8, 10)), tmp_path, flags)
    state.args["rnn"]["object"] = object()  # of a program; no ini can hold it
    finished(state)
    found = ini_of(tmp_path / "best.ini")
    assert found["env"] == {"size": "7"} and found["selfplay"] == {"pool_size": "4"}
    assert found["base"] == {"load_model_path": "first.pt"}
    assert found["train"] == {"bptt_horizon": "16", "learning_rate": "0.01", "gamma": "0.98", "optimizer": "muon"}


def test_without_a_score_there_is_no_best(tmp_path):
    text = finished(squared_state(make_study(failed("it crashed"), running()), tmp_path))
    assert "no trial has run to its end" in text and "it crashed" in text and "puffer train" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "trials.csv"]
    assert "no trial has run to its end" in finished(squared_state(make_study(), tmp_path))


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        finished(squared_state(make_study(scored(0.5, 1)), tmp_path / "file" / "sweep"))


def test_the_table_has_every_trial_that_ended():
    other = scored(0.9, None, **{CONFIG: {**RAN, "env": {"size": 3}}, RUN_FOLDER: "experiments/one, two"})
    study = make_study(
        scored(0.5, 10), other, stopped("it was low", 4), failed('"no"'), failed("gone", is_counted=False), running()
    )
    rows = list(csv.DictReader(io.StringIO(trials_csv(Results(study.trials, "maximize")))))
    assert [row["state"] for row in rows] == ["complete", "complete", "stopped", "failed", "uncounted"]
    assert [row["score"] for row in rows] == ["0.5", "0.9", "", "", ""]
    assert [row["cost"] for row in rows] == ["10.0", "", "4.0", "0.0", "0.0"]
    assert [row["env.size"] for row in rows] == ["", "3", "", "", ""]
    assert [row["reason"] for row in rows] == ["", "", "it was low", '"no"', "gone"]
    assert rows[1]["run_folder"] == "experiments/one, two" and rows[0]["started"] < rows[0]["ended"]


def test_the_files_are_there_while_it_runs(tmp_path):
    study, lines = make_study(), ProgressLines()
    lines.show(squared_state(study, tmp_path))
    study.add_trial(scored(0.5, 10))
    lines.show(squared_state(study, tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.ini", "trials.csv"]
