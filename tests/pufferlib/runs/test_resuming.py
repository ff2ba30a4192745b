import copy

import pytest

from pufferlib.config import TrainConfig, load_config
from pufferlib.errors import ConfigError
from pufferlib.runs.description import CHANGEABLE, allowed_changes, with_new_length


def changed(**sections):
    saved = load_config("puffer_squared")
    settings = copy.deepcopy(saved)
    for name, values in sections.items():
        if isinstance(values, dict):
            settings[name].update(values)
        else:
            settings[name] = values
    return saved, settings


def test_what_the_state_was_made_for_are_settings():
    assert len(TrainConfig.settings()) - len(CHANGEABLE["train"]) == 15
    assert {"total_timesteps", "ent_coef", "device", "log_interval"} <= CHANGEABLE["train"]


def test_settings_that_are_the_same_do_not_change():
    saved, settings = changed(resume="latest", env={"report_interval": 128.0}, vec={"backend": "auto"})
    settings["train"]["update_epochs"] = int(settings["train"]["update_epochs"])
    settings["train"]["a_new_one"] = 1
    assert not allowed_changes(saved, settings, "it")


def test_changes_have_the_names_of_flags():
    changes = allowed_changes(*changed(train={"learning_rate": 0.5}, vec={"num_workers": 1}, log={"wandb": True}), "it")
    assert [(change.flag, change.now) for change in changes] == [
        ("--train.learning-rate", 0.5),
        ("--vec.num-workers", 1),
    ]


@pytest.mark.parametrize(
    ("sections", "flag"),
    [
        ({"train": {"seed": 1}}, "--train.seed"),
        ({"train": {"batch_size": 64}}, "--train.batch-size"),
        ({"train": {"optimizer": "sgd"}}, "--train.optimizer"),
        ({"vec": {"num_envs": 2}}, "--vec.num-envs"),
        ({"env": {"size": 9}}, "--env.size"),
        ({"policy": {"hidden_size": 9}}, "--policy.hidden-size"),
        ({"rnn_name": "LSTM"}, "--rnn-name"),
        ({"policy_name": "Mine"}, "--policy-name"),
    ],
    ids=str,
)
def test_what_the_saved_state_was_made_with_may_not_change(sections, flag):
    with pytest.raises(ConfigError, match=f"the run was begun with {flag} .* and cannot go on with"):
        allowed_changes(*changed(**sections), "the run")


def test_where_a_run_lies_and_the_weights_it_began_from_are_nothing_of_its_state():
    changes = allowed_changes(*changed(train={"data_dir": "./experiments/"}, load_model_path="gone.pt"), "it")
    assert [change.flag for change in changes] == ["--train.data-dir"]


def test_new_steps_count_where_iterations_were_asked_for_before():
    saved, settings = changed(train={"total_timesteps": 2048})
    for args in (saved, settings):
        args["train"]["num_iterations"] = 4
    longer = with_new_length(settings, allowed_changes(saved, settings, "it"))
    assert longer["train"]["num_iterations"] is None and settings["train"]["num_iterations"] == 4
    settings["train"]["num_iterations"] = 6
    assert with_new_length(settings, allowed_changes(saved, settings, "it")) is settings
