"""How a trainer may be called: `PuffeRL(config, vecenv, policy)`, or `PuffeRL(env, policy, learning_rate=3e-4, ...)`.

Both forms end in the same four things: a configuration, a vector, a policy and a logger.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import nn
from typing_extensions import overload

from pufferlib import distributed, making, vector
from pufferlib.config import ResolvedTrainConfig, TrainConfig, env_settings, hints, load_config, policy_classes
from pufferlib.environment import Origin
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.loggers import Logger
from pufferlib.models import Default
from pufferlib.policy import make_module
from pufferlib.runs.keyword_settings import ALIASES, settings_from_keywords
from pufferlib.runs.torch_generator import borrowed_generator

_CONFIG_FORM = ("config", "vecenv", "policy", "logger")
_ENV_FORM = ("env", "policy", "logger")
_ENV_KEYWORDS = {"num_envs": making.NUM_ENVS, "num_workers": "auto"}


AnyLogger = Logger | Sequence[Logger] | None


class Construction(abc.ABC):
    """What may be given to a trainer."""

    @overload
    def __init__(
        self,
        config: Mapping[str, Any],
        vecenv: Any,
        policy: nn.Module,
        logger: AnyLogger = None,
        *,
        eval_env: Any = None,
    ): ...

    @overload
    def __init__(
        self,
        env: Any,
        policy: nn.Module | None = None,
        logger: AnyLogger = None,
        *,
        device: str | torch.device = "auto",
        learning_rate: float = 3e-4,
        batch_size: int = 32_768,
        n_epochs: float = 4,
        num_envs: int = 256,
        num_steps: int = 128,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_coef: float = 0.2,
        ent_coef: float = 0.01,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        compile: bool = False,
        num_workers: int | str = "auto",
        eval_env: Any | None = None,
        **settings: Any,
    ): ...

    _eval_env: Any  # what was given to evaluate in; what the training environment was made from; or None

    def __init__(self, *arguments: Any, **keywords: Any):  # noqa: D417 - it documents what the overloads name
        """Allocates the rollout and resets the environments; the run's folder is made with the first log or checkpoint.

        By configuration, `PuffeRL(config, vecenv, policy, logger=None)`:

        Args:
            config: the `[train]` settings, as in `load_config(name)['train']`; an `env` key names the run, which
                otherwise has the environment's name.
            vecenv: a vector from `load_env` or `pufferlib.vector.make`, or one environment, or its class or a function
                that makes it, called without arguments.
            policy: any module that pufferlib.models describes.
            logger: where `mean_and_log` sends metrics beside `metrics.jsonl` in the run's folder: one, several, or
                None; a NoLogger alone for nowhere at all. One that fails is warned about once, and the training goes
                on.
            eval_env: what the `evaluations` of the settings play in; see below.

        By keyword, `PuffeRL(env, policy=None, logger=None, **settings)`; the first argument tells the two apart:

        Args:
            env: a PufferEnv (or a wrapper that has its methods), an environment of Gymnasium or PettingZoo, a
                `gymnasium.vector.VectorEnv`, a vector, a name for `pufferlib.make`, or a class or function that makes
                one of these. Closing the trainer closes it. A PufferEnv has one trainer at a time: a second one takes
                it over, and the first can then only be saved and closed.
            policy: as above; None makes the class that a name's configuration has, such as `Convolutional` for Atari,
                or `pufferlib.models.Default`, for the environment's spaces, with the same weights for the same `seed`.
            device: `auto` (CUDA, then MPS, then the CPU), `cpu`, `cuda`, `cuda:N` or `mps`.
            learning_rate: 3e-4.
            batch_size: agent steps in one rollout, 32768; by default rounded up to whole segments of all agents.
            n_epochs: passes over each rollout, 4; `[train] update_epochs` by another name.
            num_envs: 256; environments to make where `env` is a name, a class or a function. One that has `num_envs`
                itself is called once with it, any other once for each environment; a `functools.partial` that fixes
                `num_envs` keeps it.
            num_steps: steps in one segment, 128; `[train] bptt_horizon` by another name. With `batch_size` alone it is
                the largest number up to 128 that divides it for all agents.
            gamma: discount, 0.99.
            gae_lambda: 0.95.
            clip_coef: 0.2.
            ent_coef: 0.01.
            vf_coef: 0.5.
            max_grad_norm: 0.5.
            compile: False, because the first call then compiles for long, and small policies, which kernels and CUDA
                graphs run with few launches already, gain nothing.
            num_workers: threads that step C environments, or processes where `env` is a class or function for Python
                ones; `auto` follows the cores.
            eval_env: what the `evaluations` of the settings play in, in any form that `env` may have; closed with the
                trainer. None makes `evaluation_envs` environments as those of the training were made, of other seeds,
                which needs an `env` that is a name, a class, a function, or a vector from `pufferlib.vector.make`.
            settings: every other `[train]` setting. Where nobody sets them, the optimizer is adam (beta 0.9, eps 1e-5),
                the learning rate stays as it is unless `total_timesteps` or `num_iterations` gives it an end to anneal
                to, rewards are not clipped, segments are drawn evenly, a minibatch is a quarter of the batch, and
                every epoch is logged.

        Raises:
            APIUsageError: if the arguments fit neither form, or an output of the policy does not fit the environment.
            ConfigError: if a setting is wrong, or does not fit the number of agents.
            UnknownEnvironmentError: if `env` is a name that no environment has.
        """
        self._eval_env = keywords.pop("eval_env", None)
        if self._eval_env is None:
            env = _given_env(arguments, keywords)
            self._eval_env = env if _is_to_be_made(env) else None
        with ExitStack() as undo:
            self._begin(*_resolve(arguments, keywords, undo))
            undo.pop_all()  # it worked: nothing is to be undone

    @abc.abstractmethod
    def _begin(self, config: Mapping[str, Any], vecenv: Any, policy: nn.Module, logger: AnyLogger) -> None:
        """Does what a constructor does, with what all forms come to."""

    def _evaluation_maker(self, config: ResolvedTrainConfig, vecenv: Any) -> Callable[[int], Any] | None:
        """How to make the vector that evaluations play in, from its seed; None where there are none.

        Args:
            config: says whether there are any, and in how many environments.
            vecenv: of the training.

        Raises:
            APIUsageError: if there is nothing to make it from.
        """
        given = self._eval_env
        if not config.evaluations:
            return None
        if given is None and not getattr(vecenv, "is_repeatable", False):
            raise APIUsageError(
                "evaluations need environments of their own, and none can be made from the ready "
                f"{type(vecenv.driver_env).__name__} that was given; pass eval_env=, such as its name or its class"
            )
        if given is vecenv or given is vecenv.driver_env:
            raise APIUsageError(
                "eval_env must be another environment than that of the training, got the same; make two"
            )
        return partial(_make_for_evaluation, given, vecenv, config.evaluation_envs)


def _make_for_evaluation(given: Any, training: Any, num_envs: int, seed: int) -> Any:
    """The vector that evaluations play in."""
    if given is None:
        return training.again(num_envs, seed)
    env = _make(given, num_envs, "auto", seed) if _is_to_be_made(given) else given
    vecenv = env if _is_vector(env) else vector.adopt(env, "auto", seed)
    for name in ("single_observation_space", "single_action_space"):
        expected, found = getattr(training, name), getattr(vecenv, name)
        if expected != found:
            vecenv.close()
            raise APIUsageError(
                f"eval_env must have the {name} of the training, {expected}, got {found}; make it alike"
            )
    return vecenv


Parts = tuple[Mapping[str, Any], Any, nn.Module, AnyLogger]


def _resolve(arguments: Sequence[Any], keywords: dict[str, Any], undo: ExitStack) -> Parts:
    """What a call asks for; `undo` gets how to let go of what was made for it."""
    is_config_form = _is_config_form(arguments, keywords)
    names = _CONFIG_FORM if is_config_form else _ENV_FORM
    if len(arguments) > len(names):
        raise APIUsageError(f"PuffeRL({', '.join(names)}) takes no more by position, got {len(arguments)} arguments")
    named = dict(zip(names, arguments, strict=False))
    for name in named.keys() & keywords.keys():
        raise APIUsageError(f"PuffeRL got {name} twice, by position and by keyword; pass one")
    named.update((name, keywords.pop(name)) for name in names if name in keywords)
    return (_from_config if is_config_form else _from_keywords)(named, keywords, undo)


def _given_env(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a call of either form says the environment is; None where it says nothing."""
    names = _CONFIG_FORM if _is_config_form(arguments, keywords) else _ENV_FORM
    named = {**dict(zip(names, arguments, strict=False)), **keywords}
    return named.get("vecenv", named.get("env"))


def _is_config_form(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    if arguments:
        return isinstance(arguments[0], Mapping)
    return "config" in keywords or "vecenv" in keywords


# ----------------------------------------------------------------------------------------------------- by configuration


def _from_config(named: dict[str, Any], keywords: dict[str, Any], undo: ExitStack) -> Parts:
    for name in keywords:
        raise APIUsageError(
            f"PuffeRL(config, vecenv, policy) has no keyword {name!r}; put settings into the configuration"
        )
    if "config" in named and not isinstance(named["config"], Mapping):
        raise APIUsageError(
            f"config must be a mapping of [train] settings, got {_described(named['config'])}; "
            "an environment is given as PuffeRL(env, policy)"
        )
    for name in _CONFIG_FORM[:3]:
        if named.get(name) is None:
            raise APIUsageError(f"PuffeRL(config, vecenv, policy) needs {name}, got none")
    config, vecenv, policy = (named[name] for name in _CONFIG_FORM[:3])
    vecenv = vector.as_puffer_env(vecenv)
    if isinstance(config.get("train"), Mapping):
        raise APIUsageError("config must be the [train] settings, got the whole configuration; pass args['train']")
    if isinstance(vecenv, (Mapping, nn.Module, str)):
        raise APIUsageError(
            f"vecenv must be a vector from load_env or pufferlib.vector.make, got {_described(vecenv)}; "
            "the order is PuffeRL(config, vecenv, policy)"
        )
    _check_policy(policy)
    _check_logger(named.get("logger"))
    if not _is_vector(vecenv):
        settings = TrainConfig.from_dict(config)
        if _is_to_be_made(vecenv):
            vecenv = making.make(vecenv)
            undo.callback(vecenv.close)
        if not _is_vector(vecenv):
            vecenv = _adopt(vecenv, "auto", settings.seed, undo)
    return config, vecenv, policy, named.get("logger")


# ----------------------------------------------------------------------------------------------------------- by keyword


def _from_keywords(named: dict[str, Any], keywords: dict[str, Any], undo: ExitStack) -> Parts:
    _check_keyword_call(named, keywords)
    env, policy = named["env"], named.get("policy")
    settings = {name: value for name, value in keywords.items() if name not in _ENV_KEYWORDS}
    making_keywords = {name: value for name, value in keywords.items() if name in _ENV_KEYWORDS}
    seed = TrainConfig.settings()["seed"].check(settings.get("seed", TrainConfig.seed))
    ready = _ready_env(env, making_keywords, seed, undo)
    config = settings_from_keywords(settings, ready.num_agents, distributed.connect().world_size)
    if not _is_vector(ready):
        ready = _adopt(ready, making_keywords.get("num_workers", "auto"), seed, undo)
    config["env"] = catalog.find(env).name if isinstance(env, str) else making.environment_name(ready)
    policy = _default_policy(env, ready, seed) if policy is None else policy
    return config, ready, policy, named.get("logger")


def _check_keyword_call(named: dict[str, Any], keywords: dict[str, Any]) -> None:
    env, policy = named.get("env"), named.get("policy")
    known = [*TrainConfig.settings(), *ALIASES, *_ENV_KEYWORDS]
    for name in keywords:
        if name not in known:
            remedy = hints.remedy(name, [*known, *_ENV_FORM]) or "; keywords of the environment go to pufferlib.make"
            raise APIUsageError(f"PuffeRL has no keyword {name!r}{remedy}")
    if env is None:
        raise APIUsageError(
            "PuffeRL needs an environment, got none; "
            "call PuffeRL(env=..., policy=...) or, with a configuration, PuffeRL(config, vecenv, policy)"
        )
    for name, found in (("env", env), ("policy", policy)):
        if isinstance(found, Mapping):
            raise APIUsageError(
                f"{name} must be {'an environment' if name == 'env' else 'a torch module'}, got a {_described(found)}; "
                "a configuration goes first, as in PuffeRL(config, vecenv, policy)"
            )
    if isinstance(env, nn.Module):
        raise APIUsageError(f"env must be an environment, got {_described(env)}; the order is PuffeRL(env, policy)")
    if policy is not None:
        _check_policy(policy)
    _check_logger(named.get("logger"))


def _ready_env(env: Any, keywords: dict[str, Any], seed: int, undo: ExitStack) -> Any:
    """The environment or vector that was given, or that a name or callable makes."""
    env = vector.as_puffer_env(env)
    if not _is_to_be_made(env):
        if not _is_vector(env):
            vector.check_env(env)
        _check_fits(env, keywords)
        return env
    fixed = env.keywords if isinstance(env, partial) else {}
    fixed = {name: value for name, value in fixed.items() if name == "num_envs"}
    made = _make(env, seed=seed, **{**_ENV_KEYWORDS, **fixed, **keywords})
    undo.callback(made.close)
    return made


def _is_to_be_made(env: Any) -> bool:
    """Whether it is a name or a callable, and no environment."""
    return not _is_vector(env) and (isinstance(env, (str, type)) or _is_creator(env))


def _is_creator(env: Any) -> bool:
    """Whether it is a function and no environment, whose class may have a `__call__` too."""
    return callable(env) and not hasattr(env, "step")


def _make(env: str | Callable, num_envs: int, num_workers: int | str, seed: int) -> Any:
    counts = "num_envs" in env_settings(env) if isinstance(env, str) else making.has_num_envs(env)
    if counts:
        return making.make(env, num_envs=num_envs)
    sizes = {"num_envs": num_envs, "num_workers": num_workers, "seed": seed}
    if isinstance(env, str):
        entry, arguments = catalog.find(env), making.env_arguments(env, {})
        vecenv = entry.make_vector(arguments, **sizes)
        vecenv.made_from = Origin(entry.name, arguments, {"num_envs": num_envs, "num_workers": num_workers})
        return vecenv
    return vector.make(env, **sizes)


def _check_fits(env: Any, keywords: dict[str, Any]) -> None:
    """Checks keywords that would count if the environment were to be made."""
    found = {"num_envs": [getattr(env, "num_envs", env.num_agents)]}
    if _is_vector(env):
        inside = getattr(env.driver_env, "num_envs", 1)  # each PufferEnv of a vector may be many environments
        found = {"num_envs": [env.num_envs * inside, env.num_envs], "num_workers": [env.num_workers]}
    for name, values in found.items():
        if keywords.get(name, "auto") not in ("auto", *values):
            raise APIUsageError(
                f"{name} must be left out or be the {values[0]} of the environment that is given, "
                f"got {keywords[name]}; make the environment with {name}={keywords[name]}"
            )


def _default_policy(env: Any, vecenv: Any, seed: int) -> nn.Module:
    """The policy class of a name's configuration, Default for everything else."""
    policy_class = policy_classes(load_config(env))[0] if isinstance(env, str) else Default
    with borrowed_generator(seed):
        return make_module(policy_class, vecenv)


# --------------------------------------------------------------------------------------------------------- both of them


def _adopt(env: Any, num_workers: int | str, seed: int, undo: ExitStack) -> vector.Vector:
    vecenv = vector.adopt(env, num_workers, seed)
    undo.callback(vecenv.hand_over)
    return vecenv


def _is_vector(env: Any) -> bool:
    return isinstance(env, vector.Vector) or (hasattr(env, "recv") and hasattr(env, "send"))


def _check_policy(policy: Any) -> None:
    if isinstance(policy, type):
        raise APIUsageError(f"policy must be a torch module, got the class {policy.__name__}; make an instance of it")
    if not isinstance(policy, nn.Module):
        raise APIUsageError(f"policy must be a torch.nn.Module, got {_described(policy)}")


def _check_logger(logger: Any) -> None:
    loggers = logger if isinstance(logger, Sequence) else [] if logger is None else [logger]
    for each in loggers:
        if not all(hasattr(each, name) for name in ("log", "close", "run_id")):
            raise APIUsageError(
                f"logger must have log, close and run_id, got {_described(each)}; pass settings by keyword"
            )


def _described(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
