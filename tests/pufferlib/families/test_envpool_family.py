"""EnvPool's names in the catalog, and the names of Gymnasium's that it steps in their place."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from fake_envpool import install

import pufferlib
from pufferlib import cli, vector
from pufferlib.config import load_config
from pufferlib.errors import APIUsageError, ConfigError, MissingExtraError, UnknownEnvironmentError
from pufferlib.families import catalog, envpool_family
from pufferlib.families.envpool_family import Compared, compared, make_vector
from pufferlib.pufferl import load_env
from pufferlib.vector.envpool_vector import EnvPoolEnv

NAME = "envpool/Script-v1"


# --------------------------------------------------------------------------------------------------------------- names


def test_a_name_leads_to_an_environment_whose_settings_are_those_of_envpool(monkeypatch):
    install(monkeypatch)
    entry = catalog.find(NAME)
    assert (entry.name, entry.family) == (NAME, "envpool")
    defaults = {name: one.default for name, one in entry.settings.items()}
    assert defaults == {"render_mode": None, "max_episode_steps": 9, "bonus": 0.0, "name": "script"}
    assert load_config(NAME)["train"]["lr_schedule"] == "linear"  # by the recipe of choices as actions
    with pytest.raises(ConfigError, match="no setting 'bonnus'.*did you mean 'bonus'"):
        pufferlib.config.check_section("env", {"bonnus": 1}, NAME)


def test_what_is_set_otherwise_for_a_kind_of_environments_counts_by_every_door(monkeypatch):
    install(monkeypatch)
    monkeypatch.setitem(envpool_family._PRESETS, envpool_family._world("Script-v1"), {"max_episode_steps": 5})
    entry = catalog.find(NAME)
    assert entry.settings["max_episode_steps"].default == 5

    def episode_steps(**given):
        with closing(entry.creator(**given)) as env, entry.make_vector(given, num_envs=2) as vecenv:
            return {made.env.config.max_episode_steps for made in (env, vecenv.driver_env)}

    assert (episode_steps(), episode_steps(max_episode_steps=7)) == ({5}, {7})


def test_a_name_that_envpool_does_not_have_says_the_nearest(monkeypatch):
    install(monkeypatch)
    with pytest.raises(UnknownEnvironmentError, match="did you mean 'envpool/Script-v1'"):
        catalog.find("envpool/Skript-v1")


def test_without_the_package_the_extra_is_named_and_the_environment_of_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(
        MissingExtraError, match=r"run `pip install 'pufferlib\[envpool\]'`; without it, `HalfCheetah-v5`"
    ):
        catalog.find("envpool/HalfCheetah-v5")
    assert not next(family for family in catalog.families() if family.name == "envpool").is_installed


def test_a_package_of_the_system_that_is_missing_is_named_in_one_sentence(monkeypatch):
    fake = install(monkeypatch)

    def make_spec(task, **config):
        raise ImportError("Script needs the system Qt 5. Install it by `apt install qt`.")

    fake.make_spec = make_spec
    with pytest.raises(MissingExtraError) as caught:
        catalog.find(NAME)
    assert str(caught.value) == (
        "envpool/Script-v1 cannot be loaded: Script needs the system Qt 5; Install it by `apt install qt`"
    )


def test_what_envpool_cannot_make_is_said_in_one_sentence(monkeypatch):
    fake = install(monkeypatch)

    def make_spec(task, **config):
        raise RuntimeError("there is no file script.cfg\nand more")

    fake.make_spec = make_spec
    with pytest.raises(APIUsageError, match="^envpool/Script-v1 cannot be made: there is no file script.cfg$"):
        catalog.find(NAME)


def test_games_of_several_players_are_refused(monkeypatch):
    fake = install(monkeypatch)
    plain = fake.make_spec
    fake.make_spec = lambda task, **config: plain(task, max_num_players=2)
    with pytest.raises(APIUsageError, match="envpool/Script-v1 has 2 players"):
        catalog.find(NAME)


def test_the_list_of_the_family_begins_with_its_kinds(monkeypatch, capsys):
    install(monkeypatch)
    assert cli.main(["envs", "envpool"]) in (0, None)
    lines = capsys.readouterr().out.split()
    assert lines == ["kind", "environments", "scripts", "2", "envpool/Other-v0", NAME]


# -------------------------------------------------------------------------------------------------------------- making


def test_several_are_made_in_one_pool(monkeypatch):
    fake = install(monkeypatch)
    with pufferlib.make(NAME, num_envs=6, bonus=2.0) as vecenv:
        assert type(vecenv) is vector.EnvPool and vecenv.num_envs == 6
        vecenv.reset()
        assert [pool.num_envs for pool in fake.pools] == [6]
    env = pufferlib.make(NAME)
    observations, _ = env.reset()
    assert observations.shape == (1, 4) and env.render is not None
    env.close()


@pytest.mark.parametrize("batch_size", ["auto", 4])
def test_workers_step_a_pool_each(batch_size, monkeypatch):
    monkeypatch.setattr(vector, "make", lambda creator, **keywords: keywords)
    given = make_vector("Script-v1", {}, num_envs=8, num_workers=2, batch_size=batch_size, backend="Ray", seed=5)
    batch = {"auto": "auto", 4: 1}[batch_size]
    assert given == {
        "env_kwargs": {"num_envs": 4},
        **{"num_envs": 2, "num_workers": 2, "batch_size": batch, "backend": "Ray"},
        "seed": 5,
    }
    limited = make_vector("Script-v1", {}, num_envs=8, num_workers=2, step_timeout_seconds=3.0)
    assert limited["backend"] is vector.Multiprocessing  # which can end a step


# --------------------------------------------------------------------------------------- chosen for Gymnasium's names


@pytest.fixture
def table(monkeypatch):
    """A table in which a registered environment is one of EnvPool's."""
    install(monkeypatch, "double")
    monkeypatch.setattr(envpool_family, "version", lambda: "0.0")

    def write(is_same=True, version="0.0"):
        rows = {"SameScript-v1": Compared("SameScript-v1", "Script-v1", version, is_same, "")}
        monkeypatch.setattr(envpool_family, "compared", lambda: rows)

    write()
    gymnasium.register("SameScript-v1", entry_point=Same, max_episode_steps=9)
    yield write
    gymnasium.registry.pop("SameScript-v1")


class Same(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9.0, 90.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(5)

    def __init__(self, render_mode=None, pace: float = 1.0):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(4, np.float32), 1.0, False, False, {}


def load(**vec):
    args = load_config("SameScript-v1")
    args["vec"].update(vec)
    return args, load_env("SameScript-v1", args)


def test_what_was_shown_to_be_the_same_is_stepped_by_envpool(table):
    _, vecenv = load()
    with vecenv:
        assert type(vecenv) is vector.EnvPool and isinstance(vecenv.driver_env, EnvPoolEnv)
        assert vecenv.single_observation_space == Same.observation_space  # with its bounds
        assert vecenv.driver_env.simulator == "EnvPool 0.0"


@pytest.mark.parametrize("why", ["differs", "another version", "another backend", "a setting", "not installed"])
def test_everything_else_is_stepped_as_before(why, table, monkeypatch):
    options, args = {}, load_config("SameScript-v1")
    if why == "differs":
        table(is_same=False)
    elif why == "another version":
        table(version="0.1")
    elif why == "not installed":
        monkeypatch.setattr(envpool_family, "version", lambda: None)
    elif why == "another backend":
        options = {"backend": "Serial"}
    else:
        args["env"]["pace"] = 2.0
    args["vec"].update(num_workers=1, **options)
    with load_env("SameScript-v1", args) as vecenv:
        assert type(vecenv) is vector.Serial and vecenv.driver_env.simulator is None


def test_envpool_may_be_asked_for_though_it_differs(table):
    table(is_same=False)
    with load(backend="EnvPool")[1] as vecenv:
        assert type(vecenv) is vector.EnvPool
    args = load_config("SameScript-v1")
    args["vec"]["backend"], args["env"]["pace"] = "EnvPool", 2.0
    with pytest.raises(APIUsageError, match="got the setting pace; train envpool/Script-v1, which has"):
        load_env("SameScript-v1", args)
    args = load_config("CartPole-v1")
    args["vec"]["backend"] = "EnvPool"
    with pytest.raises(APIUsageError, match="CartPole-v1 was not compared with EnvPool's"):
        load_env("CartPole-v1", args)


def test_a_run_says_what_steps_its_environments(table, tmp_path, capsys):
    words = ["--train.total-timesteps", "512", "--train.data-dir", tmp_path, "--train.device", "cpu"]
    words += ["--train.final-episodes", "0", "--vec.num-envs", "4", "--train.bptt-horizon", "16"]
    words += ["--train.minibatch-size", "64", "--train.log-interval", "1"]
    assert cli.main(["train", "SameScript-v1", *map(str, words)]) in (0, None)
    assert "stepped by EnvPool 0.0, on " in "".join(capsys.readouterr())
    (description,) = Path(tmp_path).glob("*/config.json")
    assert json.loads(description.read_text())["simulator"] == "EnvPool 0.0"


def test_the_table_is_whole():
    rows = compared()
    assert rows.keys() >= {
        *("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "LunarLander-v3", "BipedalWalker-v3"),
        *("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "ALE/Pong-v5", "ALE/Breakout-v5"),
        *("MiniGrid-DoorKey-8x8-v0", "MiniGrid-Empty-8x8-v0"),
    }
    for row in rows.values():
        assert row.found and row.is_same != row.found.startswith("differs: ") and row.version == "1.2.5"


# ------------------------------------------------------------------------------------------------- with the package


@pytest.mark.parametrize("options", [{"backend": "EnvPool"}, {"backend": "EnvPool", "batch_size": 4}], ids=str)
@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5", "MiniGrid-DoorKey-5x5-v0"])
def test_the_rollout_of_envpool_is_the_same_however_it_is_stepped(task, options):
    pytest.importorskip("envpool", reason="needs the extra envpool")

    def rollout(**keywords):
        with vector.make(catalog.find(f"envpool/{task}").creator, num_envs=8, seed=7, **keywords) as vecenv:
            found, batches = {}, vecenv.num_agents // vecenv.agents_per_batch
            space = vecenv.single_action_space
            space.seed(3)
            actions = np.array([[space.sample() for _ in range(8)] for _ in range(60)])
            columns = np.zeros(8, int)
            vecenv.async_reset()
            for _ in range(60 * batches):
                observations, rewards, terminals, truncations, _, ids, masks = vecenv.recv()
                column = columns[ids[0]]
                for row, agent in enumerate(ids.tolist()):
                    flags = terminals[row], truncations[row], masks[row]
                    found[column, agent] = observations[row].tobytes(), float(rewards[row]), *map(bool, flags)
                columns[ids] += 1
                if column < 59:
                    vecenv.send(actions[column, ids].astype(vecenv.driver_env.actions.dtype), ids)
        return found

    assert rollout(**options, num_workers=2) == rollout(backend="Serial")


@pytest.mark.parametrize("name", ["MiniGrid-DoorKey-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0"])
def test_the_view_of_a_grid_world_is_that_of_its_gymnasium_environment(name):
    pytest.importorskip("minigrid", reason="needs the extra minigrid")
    from pufferlib.families.envpool_family import grid_view
    from pufferlib.families.gymnasium_families import GridView

    env = GridView(gymnasium.make(name))
    space, write = grid_view(env.env.observation_space, env.num_words)
    assert space == env.observation_space
    seen = [env.env.reset(seed=seed)[0] for seed in range(3)]
    rows = np.ones((3, *space.shape), np.uint8)
    found = {key: np.stack([each[key] for each in seen]) for key in ("image", "direction")}
    missions = [each["mission"].encode() for each in seen]
    found["mission"] = np.stack([np.frombuffer(each.ljust(100, b"\0"), np.uint8) for each in missions])
    write(rows, found)  # as EnvPool gives them
    assert np.array_equal(rows, np.stack([env.observation(each) for each in seen]))


def test_the_words_of_a_view_are_those_of_the_newest_mission():
    from pufferlib.families.envpool_family import grid_view, word_numbers

    cells = gymnasium.spaces.Box(0, 255, (1, 1, 3), np.uint8)
    _, write = grid_view(gymnasium.spaces.Dict(image=cells), 4)
    for missions in ([b"go to", b"the key"], [b"go to", b"the box"], [b"the box", b"go to"], [b"get a key"], [b"the"]):
        padded = np.stack([np.frombuffer(each.ljust(20, b"\0"), np.uint8) for each in missions])
        rows = np.full((len(missions), 8), 99, np.uint8)
        write(rows, {"image": np.zeros((len(missions), 1, 1, 3), np.uint8), "direction": 0, "mission": padded})
        assert rows[:, 4:].tolist() == [word_numbers(each, 4).tolist() for each in missions]


def test_a_grid_world_of_envpools_is_a_row_of_categories():
    pytest.importorskip("envpool", reason="needs the extra envpool")
    entry = catalog.find("envpool/MiniGrid-Fetch-5x5-N2-v0")
    with closing(entry.creator()) as env, entry.make_vector({}, num_envs=2) as vecenv:
        assert env.single_observation_space == vecenv.single_observation_space
        assert env.single_observation_space.shape == (148 + 32,)
        observations, _ = vecenv.reset(seed=1)
        assert (observations <= env.single_observation_space.high).all() and observations[:, 148:151].all()
