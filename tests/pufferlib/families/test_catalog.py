import importlib
import pickle
import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import registry
from gymnasium.spaces import Box, Discrete

from pufferlib import PufferEnv, PuffeRL, cli, errors, ocean
from pufferlib.config import check_config, check_section, env_settings, load_config
from pufferlib.config.flags import FlagTable
from pufferlib.errors import APIUsageError, ConfigError, MissingExtraError, PufferWarning, UnknownEnvironmentError
from pufferlib.families import catalog

PACKAGES = {
    "CartPole-v1": [],
    "FrozenLake-v1": [],
    "LunarLander-v3": ["Box2D"],
    "HalfCheetah-v5": ["mujoco", "imageio"],
    "ALE/Pong-v5": ["ale_py", "cv2"],
    "MiniGrid-DoorKey-5x5-v0": ["minigrid"],
    "pettingzoo:butterfly/pistonball_v6": ["pettingzoo", "pymunk", "pygame"],
    "dm_control/cheetah/run": ["dm_control", "shimmy", "imageio"],
}
FAMILIES = dict(
    zip(
        PACKAGES,
        ["classic_control", "toy_text", "box2d", "mujoco", "atari", "minigrid", "pettingzoo", "dm_control"],
        strict=True,
    )
)


def require(name):
    """Skips where a package is missing; without importing it, for that is the catalog's to do."""
    missing = [package for package in PACKAGES[name] if not errors.is_installed(package)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if name.startswith("dm_control"):
        from importlib import metadata

        if metadata.version("mujoco") >= "4":
            pytest.skip("dm_control does not know this version of mujoco")


class Walk(gymnasium.Env):
    """Five places in a row; the last one ends it."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)

    def __init__(self, length: int = 5, reward: float = 1.0, names=None):
        self.length, self.reward, self.names, self.place = length, reward, names, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(1), {}

    def step(self, action):
        self.place = max(0, self.place + 2 * int(action) - 1)
        return np.full(1, self.place, float), self.reward, self.place == self.length, False, {}


class Anything(gymnasium.Wrapper):
    """Takes keywords that its signature does not tell."""

    def __init__(self, **keywords):
        super().__init__(Walk(**keywords))


@pytest.fixture
def registered():
    for name, entry_point in {"CatalogWalk-v3": Walk, "CatalogAnything-v0": Anything}.items():
        gymnasium.register(name, entry_point, max_episode_steps=20, kwargs={"reward": 2.0})
    yield
    for name in ("CatalogWalk-v3", "CatalogAnything-v0"):
        registry.pop(name, None)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_leads_to_an_environment_that_can_be_made_anywhere_and_stepped(name):
    require(name)
    entry = catalog.find(name)
    env = pickle.loads(pickle.dumps(entry.creator))(buf=None, seed=3)
    assert isinstance(env, PufferEnv) and entry.family == FAMILIES[name]
    assert env.single_observation_space.dtype != np.float64
    env.reset(1)
    env.action_space.seed(0)
    for _ in range(3):
        actions = env.action_space.sample().astype(env.actions.dtype)
        observations, *_ = env.step(actions)
    assert observations.shape == (env.num_agents, *env.single_observation_space.shape)
    env.close()


@pytest.mark.parametrize("name", PACKAGES)
def test_every_family_has_a_valid_configuration(name):
    require(name)
    args = load_config(name)
    assert args["package"] == FAMILIES[name] and args["env_name"] == catalog.find(name).name
    assert isinstance(args["vec"]["num_envs"], int)
    sees_pictures = "pistonball" in name  # they have no recipe
    assert args["train"]["optimizer"] == ("muon" if sees_pictures else "adam")
    expected = {
        "atari": "Convolutional",
        "mujoco": "Continuous",
        "dm_control": "Continuous",
        "pettingzoo": "Default" if sees_pictures else "Continuous",
    }
    assert args["policy_name"] == expected.get(FAMILIES[name], "Default")
    check_config(args)


def test_every_tuned_configuration_is_one_of_an_environment_and_valid():
    tuned = {path.stem for path in (catalog.find("CartPole-v1").ini_files[0].parent / "tuned").glob("*.ini")}
    known = {catalog.slug(name): name for family in catalog.families()[:5] for name in family.names()}
    assert tuned and tuned <= known.keys()
    for name in (known[each] for each in tuned):
        if catalog.find(name).family == "box2d":
            pytest.importorskip("Box2D")
        check_config(load_config(name))


def test_the_recipe_follows_the_actions():
    assert [path.name for path in catalog.find("CartPole-v1").ini_files][0] == "discrete.ini"
    assert [path.name for path in catalog.find("Pendulum-v1").ini_files][0] == "continuous.ini"
    assert load_config("Pendulum-v1")["policy_name"] == "Continuous"


def test_pictures_have_no_recipe():
    pytest.importorskip("Box2D")
    assert catalog.find("CarRacing-v3").ini_files == ()


def test_both_names_of_a_control_task_are_one_environment():
    require("dm_control/cheetah/run")
    assert catalog.find("dm_control/cheetah/run").name == catalog.find("dm_control/cheetah-run-v0").name


@pytest.mark.parametrize("name", ocean.names())
def test_ocean_goes_through_the_catalog_too(name):
    entry = catalog.find(name)
    assert (entry.name, entry.family, entry.creator) == (name, "ocean", ocean.env_class(name))
    assert entry.ini_files == (ocean.config_path(name),)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CartPole-v7", "did you mean 'CartPole-v1'"),
        ("LunarLander-v2", "did you mean 'LunarLander-v3'"),
        ("Hopper-v3", "did you mean 'Hopper-v5'"),
        ("cartpole", "'puffer_cartpole' or 'CartPole-v1'"),
        ("puffer_breakot", "did you mean 'puffer_breakout'"),
        ("atari", "atari is a family, with environments such as 'ALE/Pong-v5': `puffer envs atari`"),
        ("babyai", "minigrid is a family"),
        ("procgen-coinrun-v0", "envpool is a family"),
        ("coinrun", "envpool is a family"),
        ("minecraft", "it belongs to the library minerl, .* train minerl:ID where it registers ids"),
        ("puffer_nmmo3", "it belongs to the library nmmo"),
        ("maze", "did you mean 'puffer_maze'"),
        ("xyzzy", "no environment 'xyzzy'; `puffer envs` lists"),
    ],
)
def test_an_unknown_name_says_the_nearest(name, words):
    with pytest.raises(UnknownEnvironmentError, match=words):
        catalog.find(name)
    assert catalog.lookup(name) is None


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("ALE/Pong-v5", "ale_py", "atari"),
        ("LunarLander-v3", "Box2D", "box2d"),
        ("HalfCheetah-v5", "mujoco", "mujoco"),
        ("dm_control/cheetah/run", "shimmy", "dm_control"),
        ("MiniGrid-DoorKey-5x5-v0", "minigrid", "minigrid"),
        ("pettingzoo:butterfly/pistonball_v6", "pettingzoo", "pettingzoo"),
    ],
)
def test_a_missing_package_says_which_extra_to_install(name, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"{package} is not installed; run `pip install 'pufferlib\[{extra}\]'`"
    ):
        load_config(name)
    assert not next(family for family in catalog.families() if family.name == extra).is_installed
    with pytest.raises(UnknownEnvironmentError):  # and everything else goes on without it
        catalog.find("xyzzy")


def test_a_package_that_only_one_environment_needs_is_named(monkeypatch):
    gymnasium.register("CatalogNeedy-v0", "no_such_package_at_all.env:Env")
    try:
        with pytest.raises(MissingExtraError, match="CatalogNeedy-v0 needs the package no_such_package_at_all"):
            catalog.find("CatalogNeedy-v0")
    finally:
        registry.pop("CatalogNeedy-v0")


def test_the_settings_of_any_environment_are_those_of_its_class(registered):
    settings = env_settings("CatalogWalk-v3")
    assert list(settings) == ["render_mode", "max_episode_steps", "length", "reward", "names"]
    assert settings["reward"].default == 2.0 and settings["max_episode_steps"].default == 20
    assert check_section("env", {"length": 7.0, "names": (1, 2)}, "CatalogWalk-v3") == {"length": 7, "names": (1, 2)}
    with pytest.raises(ConfigError, match=r"no setting 'lenght' in \[env\]; did you mean 'length'"):
        check_section("env", {"lenght": 7}, "CatalogWalk-v3")
    with pytest.raises(ConfigError, match=r"\[env\] length must be an integer, got 'long'"):
        check_section("env", {"length": "long"}, "CatalogWalk-v3")
    with pytest.raises(ConfigError, match="there is no flag --env.lenght; did you mean '--env.length'"):
        FlagTable("CatalogWalk-v3").parse(["--env.lenght", "7"])


@pytest.mark.parametrize("flag", ["--env.widht", "--env.height"])
def test_an_argument_without_a_default_has_no_flag(flag):
    entry = catalog.find(lambda height, width=3: None)
    with pytest.raises(ConfigError, match=f"no flag {flag}.*an argument without a default has no flag"):
        FlagTable(entry).parse([flag, "7"])


def test_settings_reach_the_environment(registered):
    env = catalog.find("CatalogWalk-v3").creator(buf=None, seed=0, length=2, max_episode_steps=9)
    env.reset(1)
    assert env.step(np.ones((1, 1), np.int32).reshape(env.actions.shape))[1][0] == 2.0
    assert env.step(np.ones(env.actions.shape, np.int32))[2][0]
    env.reset(1)
    flags = [env.step(np.zeros(env.actions.shape, np.int32))[3][0] for _ in range(9)]
    assert flags == [False] * 8 + [True]
    env.close()


class Measured(gymnasium.Env):
    """Declares double precision, in a space that cannot be set, and looks whether it is still there."""

    action_space = Discrete(2)

    @property
    def observation_space(self):
        return Box(-np.inf, np.inf, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        assert self.observation_space.contains(np.zeros(1))
        return np.zeros(1), {}

    def step(self, action):
        return np.ones(1), 1.0, False, False, {}


class Declaring(Walk):
    def step(self, action):
        observation, *others = super().step(action)
        assert self.observation_space.contains(observation)
        return observation, *others


@pytest.mark.parametrize("kind", [Measured, Declaring])
def test_the_space_of_a_registered_environment_stays_as_it_declares_it(kind):
    gymnasium.register("CatalogMeasured-v0", kind)  # without a limit, so that no wrapper is around it
    try:
        env = catalog.find("CatalogMeasured-v0").creator(buf=None, seed=0)
        assert env.single_observation_space == Box(-np.inf, np.inf, (1,), np.float32)
        env.reset(1)
        env.step(np.ones(env.actions.shape, np.int32))
        assert env.env.unwrapped.observation_space.dtype == np.float64
        env.close()
    finally:
        registry.pop("CatalogMeasured-v0")


def test_an_environment_with_open_keywords_takes_flags_that_nobody_knows(registered):
    assert catalog.find("CatalogAnything-v0").takes_any_setting
    ((setting, value),) = FlagTable("CatalogAnything-v0").parse(["--env.length", "3"])
    assert (setting.name, value) == ("length", 3)
    assert check_section("env", {"other": [1]}, "CatalogAnything-v0") == {"other": [1]}
    with catalog.find("CatalogAnything-v0").make_vector({"length": 3}, num_envs=1) as vecenv:
        assert vecenv.driver_env.env.unwrapped.length == 3


def test_a_process_where_an_id_is_not_registered_makes_it_all_the_same(registered):
    creator = pickle.dumps(catalog.find("CatalogWalk-v3").creator)
    registry.pop("CatalogWalk-v3")
    env = pickle.loads(creator)(buf=None, seed=0)
    assert env.single_observation_space == Box(-np.inf, np.inf, (1,), np.float32)
    env.close()


def test_a_module_before_the_id_is_imported(tmp_path, monkeypatch):
    entry_point = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    code = f"import gymnasium\ngymnasium.register('CatalogThere-v0', '{entry_point}')\n"
    (tmp_path / "catalog_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        entry = catalog.find("catalog_module:CatalogThere-v0")
        assert entry.name == "catalog_module:CatalogThere-v0" and "sutton_barto_reward" in entry.settings
        assert catalog.slug(entry.name) == "catalog_module_CatalogThere-v0"
        with pytest.raises(UnknownEnvironmentError, match="catalog_module:Missing-v0"):
            catalog.find("catalog_module:Missing-v0")
    finally:
        registry.pop("CatalogThere-v0", None)
    with pytest.raises(APIUsageError, match="there is no module 'no_such_module'"):
        catalog.find("no_such_module:Id-v0")


def test_a_wrong_id_of_a_module_is_told_the_right_one_with_the_module(registered):
    module = registry["CatalogWalk-v3"].entry_point.__module__
    with pytest.raises(UnknownEnvironmentError, match=rf"did you mean '{module}:CatalogWalk-v3'\?"):
        catalog.find(f"{module}:CatalogWalk")


def test_an_id_that_nobody_registered_is_told_how_to_name_its_module():
    with pytest.raises(UnknownEnvironmentError, match="is called my_module:Zxqwkj-v0; `puffer envs`"):
        catalog.find("Zxqwkj-v0")


def test_a_callable_is_an_entry():
    entry = catalog.find(ocean.env_class("puffer_squared"))
    assert entry.creator is ocean.env_class("puffer_squared") and "size" in entry.settings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ALE/Pong-v5", "ALE_Pong-v5"),
        ("pettingzoo:butterfly/pistonball_v6", "pettingzoo_butterfly_pistonball_v6"),
        ("puffer_squared", "puffer_squared"),
    ],
)
def test_a_slug_is_a_file_name(name, text):
    assert catalog.slug(name) == text


@pytest.mark.quick("load_config('CartPole-v1')")
@pytest.mark.parametrize(
    "command",
    ["load_config('puffer_squared')", "load_config('CartPole-v1')", "__import__('pufferlib.cli').cli.main(['envs'])"],
)
def test_what_needs_no_family_imports_none(command):
    code = (
        f"import sys; from pufferlib.config import load_config; {command};"
        "heavy = {'torch', 'ale_py', 'mujoco', 'minigrid', 'pettingzoo', 'shimmy', 'dm_control', 'Box2D', 'pygame'};"
        "found = heavy & set(sys.modules); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_family_that_imports_pygame_says_nothing():
    require("MiniGrid-DoorKey-5x5-v0")
    code = "from pufferlib.families import catalog; catalog.find('MiniGrid-DoorKey-5x5-v0')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


MODULE = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

class Corridor(gymnasium.Env):
    observation_space = Box(0, 1, (2,), np.float32)
    action_space = Discrete(2)
    def __init__(self, length: int = 4):
        self.length, self.steps = length, 0
    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}
    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps >= self.length, False, {}

def long(**keywords):
    return Corridor(length=100, **keywords)

NUMBER = 3
gymnasium.register("Both", "worlds_of_one:Corridor")
Both = Corridor
"""


@pytest.fixture
def module_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "worlds_of_one.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "worlds_of_one"
    registry.pop("Both", None)
    sys.modules.pop("worlds_of_one", None)


def test_a_class_or_function_of_a_module_is_a_name(module_of_ones_own):
    entry = catalog.find(f"{module_of_ones_own}:Corridor")
    assert entry.name == "worlds_of_one:Corridor" and list(entry.settings) == ["length"]
    env = pickle.loads(pickle.dumps(entry.creator))(length=2)
    env.reset()
    assert [bool(env.step([0])[2][0]) for _ in range(2)] == [False, True]
    unclipped = {"vf_clip_coef": 0.2}  # which means nothing, as clip_vloss is False
    assert load_config("worlds_of_one:Corridor")["train"] == {**load_config("Acrobot-v1")["train"], **unclipped}
    vecenv = catalog.find(f"{module_of_ones_own}:long").make_vector({}, num_envs=2)
    assert vecenv.num_agents == 2
    vecenv.close()


def test_what_a_module_lacks_is_told_with_what_it_has(module_of_ones_own):
    with pytest.raises(UnknownEnvironmentError, match="did you mean 'worlds_of_one:Corridor'"):
        catalog.find("worlds_of_one:Coridor")
    with pytest.raises(UnknownEnvironmentError, match=r"'worlds_of_one\.Corridor'; did you mean 'worlds_of_one:C"):
        catalog.find("worlds_of_one.Corridor")
    with pytest.raises(UnknownEnvironmentError, match=r"'world_of_one\.Corridor'; `puffer envs`"):
        catalog.find("world_of_one.Corridor")
    with pytest.raises(APIUsageError, match="worlds_of_one:NUMBER must be a class or function .* got int"):
        catalog.find("worlds_of_one:NUMBER")
    with pytest.raises(APIUsageError, match="there is no module 'world_of_one' in .* or among the installed packages"):
        catalog.find("world_of_one:Corridor")


def test_a_registered_environment_counts_before_a_class_of_the_same_name(module_of_ones_own):
    with pytest.warns(PufferWarning, match="is both an environment registered with Gymnasium and a name in the module"):
        assert catalog.find("worlds_of_one:Both").family == "gymnasium"


def test_a_run_begun_in_python_by_a_class_is_played_by_its_name(module_of_ones_own, in_tmp_path, capsys):
    creator = importlib.import_module(module_of_ones_own).Corridor
    trainer = PuffeRL(partial(creator, length=3), num_envs=4, num_workers=1, batch_size=256, num_steps=16)
    trainer.learn(256, dashboard=False)
    trainer.close()
    assert trainer.env_name == "worlds_of_one:Corridor"
    command = ["eval", "worlds_of_one:Corridor", "--load-model-path", "latest", "--headless", "--episodes", "4"]
    assert cli.main(command) == 0
    assert "episode_length   3.000 +- 0.000 (n = 4)" in capsys.readouterr().out
