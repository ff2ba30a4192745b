"""An agent: a trained policy in your own code, from the observations of an environment to its actions.

`agent.act(observations)` takes one observation or a row for each of many environments, and `agent.reset(rows)` resets
those whose episode ended: see docs/tutorials/agents_in_your_code.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete, Tuple
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib import ocean, vector
from pufferlib.config import TrainConfig, check_config, check_section
from pufferlib.distributed import Ranks
from pufferlib.emulation.emulated_env import LibraryEnv, flat_mask
from pufferlib.emulation.rows import ActionLayout, row_writer
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, CheckpointError, PufferError, UnknownEnvironmentError, kind_of, nearest
from pufferlib.families import catalog
from pufferlib.families.entry import importable_name
from pufferlib.metrics.finite import require_finite_weights
from pufferlib.play.player import clear_states, draw_actions
from pufferlib.policy import Logits, acting_forward, device_of, initial_state, normalized
from pufferlib.ppo.sampling import greedy_action, mask_logits
from pufferlib.runs import description
from pufferlib.runs.checkpoint import age_key, load_policy_weights
from pufferlib.runs.checks import check_acting
from pufferlib.runs.folder import NAMED
from pufferlib.runs.loaders import load_policy, resolve_device
from pufferlib.runs.making import ready_env
from pufferlib.spaces import Layout, Leaf, action_parts


def _read(observations: Any, layout: Layout) -> tuple[np.ndarray, bool]:
    # One or many observations of a space, packed into rows or not, as rows; and whether it is one.
    if isinstance(observations, Tensor):
        is_half = observations.dtype is torch.bfloat16  # which NumPy has not
        observations = (observations.float() if is_half else observations).cpu().numpy()
    if isinstance(layout.structure, (dict, tuple)):
        if isinstance(observations, list) and observations:
            return np.concatenate([_read(each, layout)[0] for each in observations]), False
        if isinstance(observations, np.ndarray):
            return _read_rows(observations, layout.row_space)
    row_shape, leaf = layout.row_space.shape, layout.leaves[0]
    is_structure = isinstance(layout.structure, (dict, tuple))
    if not is_structure and row_shape == (1,) and leaf.shape == () and np.ndim(observations) == 2:
        observations = np.asarray(observations)[:, 0]  # rows of a Discrete space, which have one column
    count = _count(observations, leaf)
    rows = np.zeros((1 if count is None else count, *row_shape), layout.row_space.dtype)
    write = row_writer(layout, rows[0, ...] if count is None else rows)
    write(observations)
    return rows, count is None


def _read_rows(rows: np.ndarray, space: gymnasium.Space) -> tuple[np.ndarray, bool]:
    is_one = rows.shape == space.shape
    if rows.dtype != space.dtype or not (is_one or rows.shape[1:] == space.shape):
        raise APIUsageError(
            f"an array of structured observations must be rows of {space.dtype} and shape {space.shape}, got "
            f"{rows.dtype} and {rows.shape}; pass the observations as the environment returns them"
        )
    return np.array(rows[None] if is_one else rows), is_one


def _count(observations: Any, leaf: Leaf) -> int | None:
    # None for one observation. The leaf is the first one.
    try:
        for key in leaf.path:
            observations = observations[key]
        shape = np.shape(observations)
    except (LookupError, TypeError, ValueError):  # the writer raises the right error
        return None
    if shape == leaf.shape:
        return None
    if not shape or shape[1:] != leaf.shape or not shape[0]:
        many = ", ".join(map(str, ("rows", *leaf.shape)))
        raise APIUsageError(f"{leaf.name} must have shape {leaf.shape} for one or ({many}) for many, got {shape}")
    return shape[0]


def _mask_of(rows: ArrayLike | Tensor, num_rows: int) -> np.ndarray:
    # (num_rows,) bools; rows are a bool for each, one bool for the only one, an index, or several.
    found = np.atleast_1d(rows.cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows))
    if found.dtype.kind == "i" and found.size and found.min() < 0:
        raise APIUsageError(f"rows must be in [0, {num_rows}), got {found.tolist()}")
    if found.dtype.kind in "iu" and len(np.unique(found)) < found.size:  # flags that are no bools
        raise APIUsageError(f"rows must be {num_rows} bools, or different indices of them, got {found.tolist()}")
    mask = np.zeros(num_rows, bool)
    try:
        mask[found if found.size else []] = True
    except IndexError as error:
        raise APIUsageError(f"rows must be {num_rows} bools, or indices of them: {error}") from error
    return mask


class Agent:
    """A policy that acts in one environment or in many at once, with the recurrent state of each.

    It can be pickled, with its state. One thread may use it at a time.

    Args:
        policy: any that `PuffeRL` would train, on its device; it is switched to evaluation mode.
        env: an environment or a vector of PufferLib's, or one of Gymnasium's or PettingZoo's. Only its spaces are used,
            and the policy must fit them. Of a class, a function or a name one is made, and closed again.
        settings: that it was trained with, for reference.
        seed: of sampled actions.

    Attributes:
        policy: the torch module that acts, in evaluation mode.
        device: of the policy.
        settings: the nested dict of `load_config` that it was trained with; empty where that is unknown.
        env: the environment that `load_agent` was given, for `evaluate`; None where the settings name it. It is not
            pickled.
        observation_space: of one observation, as the environment returns it.
        action_space: of one action, as the environment takes it.

    Raises:
        APIUsageError: if the policy does not fit the environment.
        DivergedError: if a weight is infinite or NaN.
    """

    def __init__(self, policy: nn.Module, env: object, settings: Mapping[str, Any] | None = None, seed: int = 0):
        if not isinstance(policy, nn.Module):
            raise APIUsageError(
                f"policy must be a torch module, got {type(policy).__name__}; the order is (policy, env)"
            )
        with ready_env(env) as ready:
            env = getattr(ready, "driver_env", ready)
            vector.check_env(env)
        self.policy = policy.eval()
        self.device = device_of(policy)
        self.settings = dict(settings or {})
        self.env: object = None
        require_finite_weights(policy)
        check_acting(policy, env, self.device)
        own_spaces = env.own_spaces if isinstance(env, LibraryEnv) else None
        rows = env.single_observation_space, env.single_action_space
        self.observation_space, self.action_space = own_spaces or rows
        self._observation_layout = Layout.of(self.observation_space)
        self._action_layout = ActionLayout(self.action_space)
        are_rows = self.action_space is env.single_action_space
        self._keeps_rows = are_rows and isinstance(self.action_space, (Dict, Tuple))
        self._parts = action_parts(env.single_action_space)
        self._forward = acting_forward(policy)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self._is_recurrent = hasattr(policy, "initial_state")
        self._state: dict[str, Tensor] = {}
        self._num_rows: int | None = None  # of the state

    @torch.inference_mode()
    def act(self, observations: object, sample: bool = False, action_masks: ArrayLike | Tensor | None = None) -> Any:
        """Chooses an action for one observation, or for each of many.

        Args:
            observations: one of `observation_space`, which may be a dict or a tuple; or many with a further first
                dimension, as vector environments return them; or rows of `single_observation_space`, as PufferLib's
                environments return them.
            sample: sample the action from the policy instead of taking the likeliest.
            action_masks: `(choices,)` bools for one, `(rows, choices)` for many: a column for each choice of each part
                of an action, as the `action_masks` of environments and Gymnasium's `info["action_mask"]` have them; for
                one also a tuple with an array for each part. False is not chosen. None allows everything.

        Returns:
            For one observation an action for `env.step`, that is an int, an array or a structure of them, inside
            `action_space`. For many the actions for a vector environment: arrays with a further first dimension.

        Raises:
            APIUsageError: if the observations or the masks have another form, a part of an action has nothing allowed,
                or a recurrent policy has state of another number.
            DivergedError: if the policy's logits are NaN and an action is sampled.
        """
        logits, _, state, is_one = self._forward_once(observations, action_masks)
        chosen = draw_actions(logits, self._generator) if sample else greedy_action(logits)
        chosen = chosen.cpu().numpy()
        if self._is_recurrent:
            self._state, self._num_rows = state, len(chosen)
        if not is_one:
            return chosen if self._keeps_rows else self._action_layout.split(chosen)
        action = self._action_layout.split(chosen[0])
        return int(action) if isinstance(self.action_space, Discrete) else action

    @torch.inference_mode()
    def value(self, observations: object) -> float | np.ndarray:
        """Returns the policy's value of observations as `act` takes them: a float for one, `(rows,)` float32 for many.

        That is the expected discounted sum of future rewards, as in training. The recurrent state stays unchanged: call
        it before `act`.
        """
        _, values, _, is_one = self._forward_once(observations)
        values = values.view(-1).float().cpu().numpy()
        return float(values[0]) if is_one else values

    @torch.inference_mode()
    def probabilities(self, observations: object, action_masks: ArrayLike | Tensor | None = None) -> Any:
        """Returns the probability of every choice; it takes what `act` takes, and leaves the recurrent state unchanged.

        It is `(choices,)` float32 for one observation, `(rows, choices)` for many; a tuple of those where an action
        consists of several choices. What the masks do not allow has probability 0. APIUsageError if actions are
        continuous, and so have densities instead.
        """
        logits, _, _, is_one = self._forward_once(observations, action_masks)
        parts = (logits,) if isinstance(logits, Tensor | Normal) else logits
        if any(isinstance(part, Normal) for part in parts):
            raise APIUsageError(f"probabilities() needs actions that are choices, got {self.action_space}; draw some")
        found = [part.float().softmax(-1).cpu().numpy() for part in parts]
        found = [each[0] if is_one else each for each in found]
        return found[0] if isinstance(logits, Tensor) else tuple(found)

    @torch.inference_mode()
    def reset(self, rows: ArrayLike | Tensor | None = None) -> None:
        """Resets the recurrent state where an episode begins; without recurrent layers it does nothing.

        Args:
            rows: with a new episode: a bool for each row, such as `terminated | truncated`; or indices; None for all,
                after which another number of rows may follow.
        """
        if rows is None:
            self._state, self._num_rows = {}, None
        elif self._num_rows is not None:
            clear_states(self._state, torch.from_numpy(_mask_of(rows, self._num_rows)).to(self.device))

    def __repr__(self) -> str:
        name = self.settings.get("env_name")
        return f"<Agent{'' if name is None else f' of {name}'}: {type(self.policy).__name__} on {self.device}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "env": None, "_forward": None, "_generator": self._generator.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forward = acting_forward(self.policy)
        self._generator = torch.Generator(self.device)
        self._generator.set_state(state["_generator"])

    def _read_masks(self, masks: ArrayLike | Tensor, num_rows: int, is_one: bool) -> Tensor:
        choices = [part.choices for part in self._parts if part.choices is not None]
        if is_one and isinstance(masks, tuple):
            masks = flat_mask(masks, sum(choices), "action_masks")
        found = torch.as_tensor(masks, device=self.device).bool()
        expected = (sum(choices),) if is_one else (num_rows, sum(choices))
        if found.shape != expected:
            raise APIUsageError(f"action_masks must have shape {expected}, got {tuple(found.shape)}")
        if not all(bool(part.any(-1).all()) for part in found.split(choices, -1)):
            raise APIUsageError("action_masks must allow a choice of each part in each row, got a row with none")
        return found.view(num_rows, -1)

    def _forward_once(
        self, observations: object, action_masks: ArrayLike | Tensor | None = None
    ) -> tuple[Logits, Tensor, dict[str, Tensor], bool]:
        # Masked logits, values, the recurrent state afterwards, and whether there is one observation; keeps no state.
        rows, is_one = _read(observations, self._observation_layout)
        masks = None if action_masks is None else self._read_masks(action_masks, len(rows), is_one)
        if self._num_rows is None:
            state = initial_state(self.policy, len(rows), self.device)
        elif self._num_rows == len(rows):
            state = {name: value.clone() for name, value in self._state.items()}
        else:
            raise APIUsageError(
                f"this agent has the state of {self._num_rows} rows, got {len(rows)}; call reset() before another "
                "number of rows, or use one agent for each"
            )
        logits, values = self._forward(torch.from_numpy(rows).to(self.device), state)
        return mask_logits(logits, masks), values, state, is_one


_BY_HAND = "make such a module and pass it, as load_agent(path, policy=module)"


def load_agent(
    source: str | Path,
    env: object = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
    policy: nn.Module | None = None,
) -> Agent:
    """Loads an agent that was trained by PufferLib.

    Args:
        source: the folder of a run, with its best weights if evaluations found any, else with the newest;
            or a file: weights in such a folder, weights beside a description of their own (`mine.json` beside
            `mine.pt`), or a file of `trainer.save_checkpoint(path)`; or the name of an environment of Ocean, such as
            `puffer_breakout`, for the agent of the package. Write `./puffer_breakout` for a folder of that name.
        env: the environment, where it has no known name: a class, a function, a name such as `package.module:MyEnv`, or
            a ready environment or vector. None is the one that it was trained in; a module that only the file names is
            not imported.
        device: `cpu`, `cuda`, `mps`, a device of torch, or `auto` for the first of cuda, mps and cpu that exists.
        seed: of sampled actions.
        policy: a module of the class that was trained, where that is one of your own; it is moved to `device` and gets
            the weights. None makes the policy that the settings name.

    Returns:
        An agent with the settings that it was trained with.

    Raises:
        CheckpointError: if the file is missing or damaged, a weight is infinite or NaN, the settings of its training
            are unknown, its policy has a class of your own and is not given, or its environment has no name and is not
            given.
        ConfigError: if the settings do not fit this version of PufferLib.
        MissingExtraError: if the environment needs a package that is not installed.
        APIUsageError: if the source is neither text nor a path.
    """
    path, device = _find_weights(source), str(device)
    described = _description(path)
    own_class = described["policy_class"]
    if own_class is not None and policy is None:
        raise CheckpointError(f"{path} was trained with the policy {own_class}, a class of your own; {_BY_HAND}")
    settings = described["settings"]
    settings |= {"train": {**settings["train"], "device": device}, "load_model_path": None, "resume": None}
    env = _as_recorded(env, settings)
    with closing(_make_named(settings, path)) if env is None else ready_env(env) as shown:
        if policy is None:
            policy = load_policy(settings, shown, _known_name(settings["env_name"]), path, Ranks())
        else:
            train = TrainConfig.from_dict(settings["train"])
            if train.normalize_observations:
                policy = normalized(shown, policy, train.normalization_clip)
            policy = policy.to(resolve_device(device))
        load_policy_weights(policy, path)
        agent = Agent(policy, shown, {**settings, "load_model_path": str(path)}, seed)
    agent.env = env
    return agent


def training_settings(source: str | Path) -> dict[str, Any]:
    """Returns the settings of an agent, with its file as `load_model_path`; the source is as for `load_agent`."""
    path = _find_weights(source)
    return {**_description(path)["settings"], "load_model_path": str(path.resolve())}


def _find_weights(source: str | Path) -> Path:
    if not isinstance(source, (str, os.PathLike)):
        raise APIUsageError(f"source must be a path or the name of an environment of Ocean, got {kind_of(source)}")
    if source in ocean.names():
        return description.pretrained_path(source)
    path = Path(source)
    if not path.exists():
        names = description.pretrained_names()
        remedy = nearest(str(path), names) or f"; agents of {', '.join(names)} come along"
        raise CheckpointError(f"there is no file and no folder of a run {path}{remedy}")
    if not path.is_dir():
        return path
    named = (path / f"{name}.pt" for name in NAMED)
    found = next(filter(Path.exists, named), None) or max(path.glob("model_*.pt"), key=age_key, default=None)
    if found is None:
        raise CheckpointError(f"there are no weights in {path}; pass the folder of a run that saved some")
    return found


def _description(path: Path) -> Mapping[str, Any]:
    found = description.describe_model(path)
    if found is None:
        raise CheckpointError(
            f"{path} does not say what it was trained with; load it from its run's folder, or {_BY_HAND}"
        )
    return found


def _as_recorded(env: object, settings: Mapping[str, Any]) -> object:
    if env == settings["env_name"] and catalog.needs_module(env):
        return partial(catalog.find(env).creator, **settings["env"])
    return partial(env, **settings["env"]) if importable_name(env) == settings["env_name"] else env


def _known_name(env_name: str) -> str | None:
    # None where a policy of the environment's own need not exist: it was given, and its name is unknown here.
    with suppress(PufferError):
        if not catalog.needs_module(env_name):
            catalog.lookup(env_name)
            return env_name
    return None


def _make_named(settings: Mapping[str, Any], path: Path) -> PufferEnv:
    name = settings["env_name"]
    try:
        entry = catalog.find_recorded(name)
        check_config(settings)
        arguments = check_section("env", settings["env"], name)
    except UnknownEnvironmentError as error:
        raise CheckpointError(
            f"{path} was trained in {name}, which is no name of an environment; pass its class or function as env="
        ) from error
    single = {"num_envs": 1} if "num_envs" in entry.settings else {}
    return entry.creator(**{**arguments, **single})
