import pytest

from pufferlib import ocean
from pufferlib.config import SweepConfig, check_config, load_config
from pufferlib.config.sections import DEFAULT_DIMENSIONS, dimensions_of, multiple, section_settings
from pufferlib.errors import ConfigError

SQUARED = "puffer_squared"


@pytest.fixture
def ini(tmp_path, monkeypatch):
    """Writes an ini in place of squared's own."""
    path = tmp_path / "squared.ini"
    monkeypatch.setattr(ocean, "config_path", lambda name: path)
    return path


def test_an_ini_changes_and_adds_dimensions_key_by_key(ini):
    ini.write_text(
        "[sweep]\nnum_trials = 7\n[sweep.train.gamma]\nmax = 0.99\n"
        "[sweep.env.size]\ndistribution = int_uniform\nmin = 3\nmax = 2x\n[sweep.train.ent_coef]\ndistribution = none\n"
    )
    sweep = load_config(SQUARED)["sweep"]
    assert SweepConfig.from_dict(sweep).num_trials == 7
    assert sweep["train"]["gamma"] == {**DEFAULT_DIMENSIONS["train.gamma"], "max": 0.99}
    assert sweep["env"] == {"size": {"distribution": "int_uniform", "min": 3.0, "max": "2x"}}
    assert sweep["train"]["ent_coef"]["distribution"] is None
    assert list(dimensions_of(sweep)) == [*DEFAULT_DIMENSIONS, "env.size"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sweep]\nnum_trails = 1\n", r"no setting 'num_trails' in \[sweep\]; did you mean 'num_trials'"),
        ("[sweep]\ngoal = minimise\n", "'maximize' or 'minimize', got 'minimise'; did you mean 'minimize'"),
        ("[sweep.gamma]\nmin = 1\n", r"no section \[sweep.gamma\]; name a setting of base, vec,"),
        ("[sweep.trian.gamma]\nmin = 1\n", r"no section \[sweep.trian.gamma\]; did you mean 'train'"),
        ("[sweep.log.tags]\nmin = 1\n", r"no section \[sweep.log.tags\]"),
        ("[sweep.train.gama]\nmin = 1\n", r"no setting 'gama' in \[train\]; did you mean 'gamma'"),
        ("[sweep.env.sise]\nmin = 1\n", r"no setting 'sise' in \[env\]; did you mean 'size'"),
        ("[sweep.train.gamma]\nmix = 1\n", r"no setting 'mix' in \[sweep.train.gamma\]; did you mean 'min'"),
        ("[sweep.train.gamma]\nmin = low\n", r"\[sweep.train.gamma\] min must be a number, or a multiple .* got 'low'"),
        ("[sweep.train.gamma]\ndistribution = norml\n", "'norml'; did you mean 'uniform' or 'log_normal'"),
        ("[sweep.train.gamma]\nscale = 2\n", r"scale must be a number in \(0, 1\] or 'auto', got 2"),
    ],
)
def test_a_mistake_in_an_ini_names_the_file_and_the_remedy(ini, text, message):
    ini.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        load_config(SQUARED)
    assert "squared.ini" in str(error.value) and "\n" not in str(error.value)


def test_flags_reach_every_key():
    flags = "--sweep.num-trials 9 --sweep.train.learning-rate.max 0.1 --sweep.train.gamma.distribution none"
    flags += " --sweep.policy.hidden-size.min=16 --sweep.env.size.max 3x"
    sweep = load_config(SQUARED, argv=flags.split())["sweep"]
    assert sweep["num_trials"] == 9 and sweep["train"]["gamma"]["distribution"] is None
    assert (sweep["train"]["learning_rate"]["min"], sweep["train"]["learning_rate"]["max"]) == ("0.1x", 0.1)
    assert sweep["policy"] == {"hidden_size": {"min": 16.0}} and sweep["env"] == {"size": {"max": "3x"}}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--sweep.num-trial", "did you mean '--sweep.num-trials'"),
        ("--num-trials", "did you mean '--sweep.num-trials'"),
        ("--sweep.train.gamma", r"name a setting of .*, such as \[sweep.train.learning_rate\]"),
        ("--sweep.train.gama.max", r"no flag --sweep.train.gama.max: there is no setting 'gama' in \[train\]; did you"),
        ("--sweep.train.gamma.mix", "--sweep.train.gamma has distribution, min, max, mean, scale"),
        (
            "--sweep.train.gamma.max",
            "max must be a number, or a multiple of the configured value such as 0.1x, got 'x'",
        ),
    ],
)
def test_a_wrong_flag_is_one_sentence(flag, message):
    with pytest.raises(ConfigError, match=message):
        load_config(SQUARED, argv=[flag, "x"])


def test_a_configuration_is_checked_with_what_it_would_sweep(models):
    args = load_config(SQUARED)
    check_config(args)
    args["sweep"]["train"]["optimizer"] = ["adam", "muon"]  # as Python may say it
    check_config(args)
    for given, message in (({"mix": 1}, "'mix'"), ("adam", "a dict of a range or a list of values, got 'adam'")):
        args["sweep"]["train"]["optimizer"] = given
        with pytest.raises(ConfigError, match=message):
            check_config(args)
    with pytest.raises(ConfigError, match="did you mean 'num_trials'"):
        check_config({**args, "sweep": {"num_trails": 1}})


def test_keywords_of_an_environment_that_takes_any_are_not_judged():
    assert "distribution" in section_settings("sweep.env.anything", lambda buf=None, seed=0, **settings: None)


@pytest.mark.parametrize(
    ("text", "factor"),
    [("0.1x", 0.1), ("2x", 2.0), (".5x", 0.5), ("x", None), ("-1x", None), ("2", None), ("1e1x", None)],
)
def test_a_multiple_is_a_number_with_an_x(text, factor):
    assert multiple(text) == factor
