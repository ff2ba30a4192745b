"""The two calls of a trainer: `PuffeRL(config, vecenv, policy)`, or `PuffeRL(env, policy, learning_rate=3e-4, ...)`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from pufferlib import distributed, models, vector
from pufferlib.config import ResolvedTrainConfig, SelfplayConfig, TrainConfig, env_settings, load_config, schema
from pufferlib.config.automatic import BATCH_SIZE, NUM_STEPS, PPO_DEFAULTS, Facts, environment_count
from pufferlib.config.configuration import WRAPPER, policy_classes
from pufferlib.config.schema import AUTO_SINGLE_ENVS
from pufferlib.config.sizes import nearest_divisor, require_multiple, resolve_sizes
from pufferlib.distributed import Ranks
from pufferlib.environment import Origin, PufferEnv
from pufferlib.errors import APIUsageError, ConfigError, kind_of
from pufferlib.families import catalog
from pufferlib.fast.device_collector import suits
from pufferlib.loggers.logger import Logger
from pufferlib.models import Default
from pufferlib.ocean.faults import warn_of_faults
from pufferlib.policy import init_args, initial_state, make_module, make_recurrent, normalized
from pufferlib.ppo.learner import Loss
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs import checks, making
from pufferlib.runs.checkpoint import resolve_run
from pufferlib.runs.loaders import borrowed_generator, resolve_device
from pufferlib.vector.ready import is_quick

ALIASES = {"n_epochs": "update_epochs", "num_steps": "bptt_horizon"}  # the names of other libraries

DEFAULTS = {**PPO_DEFAULTS, "log_interval": 1}  # users call `train` in loops of their own and look at each result

_FORMS = "call PuffeRL(env, policy) or, with a configuration, PuffeRL(config, vecenv, policy)"

_LEAST_STEPS = 16  # a batch that could only be cut into shorter segments is taken for a mistake
_MINIBATCHES = 4
_POOL_SIZE = 8  # of opponent="pool"
_MOST_MINIBATCHES = 128  # of a full vector's batch in a pass
_MOST_AGENTS = 2_048  # of as many environments as nobody asked for


def _named_settings(keywords: Mapping[str, Any]) -> dict[str, Any]:
    for alias, name in ALIASES.items():
        if alias in keywords and name in keywords:
            raise APIUsageError(f"{alias} and {name} are two names of one setting, got both; pass one")
    given = {ALIASES.get(name, name): value for name, value in keywords.items()}
    return {name: str(value) if isinstance(value, torch.device) else value for name, value in given.items()}


def _has_end(given: Mapping[str, Any]) -> bool:
    return given.get("total_timesteps") is not None or given.get("num_iterations") is not None


def settings_from_keywords(given: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """Returns the `[train]` settings that keywords ask for; sizes are those of all processes."""
    given = _named_settings(given)
    if "num_minibatches" in given:
        given = {"minibatch_size": "auto", **given}
    automatic = {**DEFAULTS, "anneal_lr": _has_end(given), **facts.settings("train")}
    if given.get("prio_alpha"):
        automatic["shuffle"] = "segments"  # only these are drawn by priority
    chosen = TrainConfig.from_dict({**automatic, **given})
    settings = {name: getattr(chosen, name) for name in TrainConfig.settings()}
    if "minibatch_size" not in given:
        settings["minibatch_size"] = "auto"
    num_agents, batch_size = facts.num_agents, settings["batch_size"]
    least = automatic.get("batch_size", BATCH_SIZE)
    if "bptt_horizon" not in given:
        is_given = given.get("batch_size", "auto") != "auto"
        settings["bptt_horizon"] = _num_steps(batch_size, num_agents) if is_given else facts.num_steps
    num_steps = settings["bptt_horizon"]
    unit = num_agents * num_steps
    if "batch_size" not in given:
        settings["batch_size"] = _batch_size(settings, least, unit)
    elif settings["batch_size"] == "auto":
        settings["batch_size"] = unit
    require_multiple("batch_size", settings["batch_size"], unit, f"{num_agents} agents * num_steps {num_steps}")
    if "minibatch_size" not in given:
        settings["minibatch_size"] = _minibatch_size(settings, automatic["minibatch_size"], least, facts)
    if "total_timesteps" not in given:
        settings["total_timesteps"] = max(chosen.total_timesteps, settings["batch_size"])
    return settings


def _batch_size(settings: dict[str, Any], least: int, unit: int) -> int:
    minibatch = settings["minibatch_size"]
    if minibatch != "auto" and minibatch <= BATCH_SIZE:
        least = max(least, minibatch)
        if settings["shuffle"] == "steps" and math.lcm(unit, minibatch) <= BATCH_SIZE:
            unit = math.lcm(unit, minibatch)  # every step belongs to one minibatch
    return math.ceil(least / unit) * unit


def _minibatch_size(settings: dict[str, Any], wanted: int, least: int, facts: Facts) -> int:
    # Single steps: what is wanted, and more as the batch is larger. Segments: a quarter of the batch, but of a full
    # vector what is wanted if that is less, and more only where it would be less than a 128th of the batch.
    batch_size, world_size = settings["batch_size"], facts.world_size
    growth = batch_size // _MOST_MINIBATCHES if facts.is_full_vector else wanted * batch_size // least
    share = min(max(wanted, growth), batch_size)
    if settings["shuffle"] == "steps":
        return world_size * nearest_divisor(batch_size // world_size, share / world_size)
    row = settings["bptt_horizon"] * world_size  # agent steps of one segment in every process
    quarter = math.ceil(batch_size // row / _MINIBATCHES) * row
    return min(quarter, math.ceil(share / row) * row) if facts.is_full_vector else quarter


def _num_steps(batch_size: int, num_agents: int) -> int:
    require_multiple("batch_size", batch_size, num_agents, f"{num_agents} agents")
    steps = batch_size // num_agents
    found = max(count for count in range(1, NUM_STEPS + 1) if steps % count == 0)
    if found < min(steps, _LEAST_STEPS):
        unit = f"{num_agents} agents * num_steps {NUM_STEPS}"
        require_multiple("batch_size", batch_size, num_agents * NUM_STEPS, unit)
    return found


AnyLogger = Logger | Sequence[Logger] | None


@dataclass(frozen=True)
class ResolvedCall:
    """Everything that a trainer is made of."""

    settings: Mapping[str, Any]  # of [train], as they were given
    config: ResolvedTrainConfig  # the settings, resolved for these environments and this device
    env_name: str  # of the run
    vecenv: vector.Vector
    policy: nn.Module  # on device, the same in all processes; normalises observations where settings say so
    logger: AnyLogger  # the user's
    loss: Loss
    ranks: Ranks
    device: torch.device
    make_evaluation_vecenv: Callable[[int], vector.Vector] | None  # from a seed; None where there is none
    selfplay: SelfplayConfig
    chosen: Sequence[str] = ()  # a sentence for each thing that was seen of the environment
    anneals_in_learn: bool = False  # over the steps that `learn` is given, as nobody set an end, or annealing itself

    def allocate_rollout(self) -> Rollout:
        """Allocates one rollout of this process."""
        config, policy, device = self.config, self.policy, self.device
        return Rollout.allocate(
            self.vecenv.single_observation_space,
            self.vecenv.single_action_space,
            config.segments,
            config.bptt_horizon,
            initial_state(policy, config.segments, device),
            device,
            torch.device("cpu") if config.cpu_offload else device,
            has_action_masks=self.vecenv.has_action_masks,
        )


def resolve_call(arguments: Sequence[Any], keywords: Mapping[str, Any], undo: ExitStack) -> ResolvedCall:
    """Resolves the arguments of `PuffeRL`; raises what it documents."""
    is_config_form = isinstance(arguments[0], Mapping) if arguments else "config" in keywords or "vecenv" in keywords
    resolve_form = _from_config if is_config_form else _from_keywords
    try:
        bound = inspect.signature(resolve_form).bind(undo, *arguments, **keywords)
    except TypeError as error:
        names = "config, vecenv, policy" if is_config_form else "env, policy"
        remedy = "settings belong into the configuration" if is_config_form else "other arguments are keywords"
        raise APIUsageError(f"PuffeRL({names}, logger): {error}; {remedy}") from None
    return resolve_form(*bound.args, **bound.kwargs)


def _resolve(
    settings: Mapping[str, Any],
    vecenv: vector.Vector,
    policy: nn.Module,
    logger: AnyLogger,
    eval_env: object,
    loss: Loss | None,
) -> ResolvedCall:
    if loss is not None and not callable(loss):
        raise APIUsageError(f"loss must be a function such as pufferlib.ppo.losses.ppo_loss, got {kind_of(loss)}")
    given, ranks = TrainConfig.from_dict(settings), distributed.connect()
    selfplay = SelfplayConfig.from_dict(settings.get("selfplay") or {})
    device = resolve_device(given.device)
    if device.type == "cuda":
        torch.backends.cudnn.deterministic = given.torch_deterministic
        torch.set_float32_matmul_precision("high")  # TF32: ten bits of fraction, several times the speed
    spaces = {name: repr(getattr(vecenv, name)) for name in ("single_observation_space", "single_action_space")}
    counted = {"the number of agents": f"{vecenv.num_agents:,}", "the device": device.type}
    ranks.require_same({**checks.facts_of_settings(given), **counted, **spaces})
    config = resolve_sizes(given, vecenv.num_agents, device.type, ranks.world_size)
    checks.prepare_policy(policy, vecenv, device)
    ranks.require_same(checks.facts_of_policy(policy))
    if ranks.is_first:
        warn_of_faults(vecenv.driver_env)
    if config.normalize_observations:
        policy = normalized(vecenv, policy, config.normalization_clip).to(device)
    if config.shuffle == "steps" and hasattr(policy, "initial_state"):
        raise ConfigError("[train] shuffle must be 'segments' for a recurrent policy, which needs order, got 'steps'")
    ranks.broadcast(list(policy.state_dict().values()))
    env_name = settings.get("env") or making.environment_name(vecenv)
    if "latest" in (members := schema.words(selfplay.pool_members)):  # which will be another run, such as this one
        latest = str(ranks.from_first(lambda: resolve_run(config.data_dir, env_name, "latest")))
        selfplay = replace(selfplay, pool_members=[latest if word == "latest" else word for word in members])
    return ResolvedCall(
        settings=settings,
        config=config,
        env_name=env_name,
        vecenv=vecenv,
        policy=policy,
        logger=logger,
        loss=ppo_loss if loss is None else loss,
        ranks=ranks,
        device=device,
        make_evaluation_vecenv=_evaluation_maker(eval_env, vecenv, config),
        selfplay=selfplay,
    )


def _evaluation_maker(
    given: object, vecenv: vector.Vector, config: ResolvedTrainConfig
) -> Callable[[int], vector.Vector] | None:
    if not config.evaluations:
        return None
    if given is None and not getattr(vecenv, "is_repeatable", False):
        raise APIUsageError(
            "evaluations need environments of their own, and none can be made from the ready "
            f"{type(vecenv.driver_env).__name__} that was given; pass eval_env=, such as its name or its class"
        )
    if given is vecenv or given is vecenv.driver_env:
        raise APIUsageError("eval_env must be another environment than that of the training, got the same; make two")

    def make(seed: int) -> vector.Vector:
        if given is None:
            return _more_like(vecenv, config.evaluation_envs, seed)
        whole_games = catalog.find(given).whole_games if isinstance(given, str) else {}
        is_to_be_made = making.is_to_be_made(given)
        env = _make(given, config.evaluation_envs, "auto", seed, **whole_games) if is_to_be_made else given
        made = env if making.is_vector(env) else vector.adopt(env, "auto", seed)
        for name in ("single_observation_space", "single_action_space"):
            expected, found = getattr(vecenv, name), getattr(made, name)
            if expected != found:
                made.close()
                raise APIUsageError(
                    f"eval_env must have the {name} of the training, {expected}, got {found}; make it alike"
                )
        return made

    return make


def _more_like(vecenv: vector.Vector, num_envs: int, seed: int) -> vector.Vector:
    # As all that score a policy: whole games, unless the settings say otherwise.
    origin = getattr(vecenv, "made_from", None)
    entry = None if origin is None else catalog.find(origin.creator or origin.env_name)
    if entry is None or not entry.whole_games:
        return vecenv.again(num_envs, seed)
    return entry.make_vector({**entry.whole_games, **origin.env}, backend=type(vecenv), num_envs=num_envs, seed=seed)


def _from_config(
    undo: ExitStack,
    /,
    config: Mapping[str, Any] | None = None,
    vecenv: object = None,
    policy: nn.Module | None = None,
    logger: AnyLogger = None,
    *,
    eval_env: object = None,
    loss: Loss | None = None,
) -> ResolvedCall:
    if not isinstance(config, (Mapping, type(None))):
        raise APIUsageError(f"config must be a mapping of [train] settings, got {kind_of(config)}; {_FORMS}")
    for name, value in (("config", config), ("vecenv", vecenv), ("policy", policy)):
        if value is None:
            raise APIUsageError(f"PuffeRL(config, vecenv, policy) needs {name}, got none")
    if isinstance(config.get("train"), Mapping):
        raise APIUsageError("config must be the [train] settings, got the whole configuration; pass args['train']")
    vecenv = vector.as_puffer_env(vecenv)
    if isinstance(vecenv, (Mapping, nn.Module, str)):
        raise APIUsageError(
            f"vecenv must be a vector from load_env or pufferlib.vector.make, got {kind_of(vecenv)}; {_FORMS}"
        )
    _check_parts(policy, logger)
    settings = TrainConfig.from_dict(config)
    if making.is_to_be_made(vecenv):
        eval_env = vecenv if eval_env is None else eval_env
        vecenv = making.make(vecenv)
        undo.callback(vecenv.close)
    if not making.is_vector(vecenv):
        vecenv = _adopt(vecenv, "auto", settings, undo)
    return _resolve(config, vecenv, policy, logger, eval_env, loss)


def _from_keywords(
    undo: ExitStack,
    /,
    env: object = None,
    policy: nn.Module | None = None,
    logger: AnyLogger = None,
    *,
    num_envs: int | str = "auto",
    num_workers: int | str = "auto",
    eval_env: object = None,
    loss: Loss | None = None,
    opponent: str | None = None,
    **settings: Any,
) -> ResolvedCall:
    _check_keyword_call(env, policy, logger, settings)
    selfplay = {name: settings.pop(name) for name in SelfplayConfig.settings() if name in settings}
    if opponent == "pool":
        selfplay.setdefault("pool_size", _POOL_SIZE)
    played = {} if opponent is None else {"opponent": "self" if opponent == "pool" else opponent}
    seed = TrainConfig.settings()["seed"].check(settings.get("seed", TrainConfig.seed))
    ready = vector.as_puffer_env(env)
    if making.is_to_be_made(ready):
        if opponent == "pool" and "opponent" not in catalog.find(ready).settings:
            played = {}  # it is a game of several agents anyway, or the pool refuses it
        if num_envs == "auto" and isinstance(ready, partial):
            num_envs = ready.keywords.get("num_envs", num_envs)
        eval_env = ready if eval_env is None else eval_env
        ready = _make(ready, num_envs, num_workers, seed, **played)
        undo.callback(ready.close)
    elif played:
        raise APIUsageError(
            f"opponent={opponent!r} is for an environment that is made here, got a ready one; make it with "
            f"opponent={played['opponent']!r}, and pass pool_size for a pool"
        )
    else:
        if not making.is_vector(ready):
            vector.check_env(ready)
        _check_fits(ready, num_envs, num_workers)
    given, world_size = _named_settings(settings), distributed.connect().world_size
    driver = ready.driver_env if making.is_vector(ready) else ready
    facts = Facts.of(driver, ready.num_agents * world_size, policy, world_size)
    config = settings_from_keywords(given, facts)
    if not making.is_vector(ready):
        ready = _adopt(ready, num_workers, TrainConfig.from_dict(config), undo)
    config["selfplay"] = selfplay
    config["env"] = catalog.find(env).name if isinstance(env, str) else making.environment_name(ready)
    policy = _default_policy(env, ready, seed, facts) if policy is None else policy
    call = _resolve(config, ready, policy, logger, eval_env, loss)
    anneals_in_learn = "anneal_lr" not in given and not _has_end(given)
    return replace(call, chosen=_chosen_texts(facts, config, given, policy), anneals_in_learn=anneals_in_learn)


def _check_keyword_call(env: object, policy: nn.Module | None, logger: AnyLogger, settings: Mapping[str, Any]) -> None:
    known = [*TrainConfig.settings(), *SelfplayConfig.settings(), *ALIASES, "num_envs", "num_workers", "opponent"]
    for name in settings.keys() - known:
        remedy = schema.remedy(name, [*known, "env", "policy", "logger"])
        raise APIUsageError(
            f"PuffeRL has no keyword {name!r}{remedy or '; keywords of the environment go to pufferlib.make'}"
        )
    if env is None or isinstance(env, (Mapping, nn.Module)):
        found = "none" if env is None else kind_of(env)
        raise APIUsageError(f"PuffeRL needs an environment first, got {found}; {_FORMS}")
    _check_parts(policy, logger)


def _make(
    env: str | Callable, num_envs: int | str, num_workers: int | str, seed: int, **arguments: Any
) -> PufferEnv | vector.Vector:
    counts = "num_envs" in env_settings(env) if isinstance(env, str) else making.has_num_envs(env)
    if num_envs == "auto":
        most = making.NUM_ENVS if counts else AUTO_SINGLE_ENVS
        made = _make(env, most, num_workers, seed, **arguments)
        fewer = max(1, most * _MOST_AGENTS // made.num_agents) if counts else environment_count(made.driver_env)
        if fewer >= most:
            return made
        made.close()
        num_envs = fewer
    if counts:
        return making.make(env, num_envs=num_envs, **arguments)
    sizes = {"num_envs": num_envs, "num_workers": num_workers, "seed": seed}
    if isinstance(env, str):
        entry, arguments = catalog.find(env), making.env_arguments(env, arguments)
        vecenv = entry.make_vector(arguments, **sizes)
        vecenv.made_from = Origin(entry.name, arguments, {"num_envs": num_envs, "num_workers": num_workers})
        return vecenv
    is_serial = num_workers == "auto" and num_envs > 1 and is_quick(env, arguments, seed)
    vecenv = vector.make(env, env_kwargs=arguments, backend="Serial" if is_serial else "auto", **sizes)
    vecenv.made_from = making.origin_of_call(env, arguments, {"num_envs": num_envs, "num_workers": num_workers})
    return vecenv


def _check_fits(env: PufferEnv | vector.Vector, num_envs: int | str, num_workers: int | str) -> None:
    found = {"num_envs": [getattr(env, "num_envs", env.num_agents)]}
    if making.is_vector(env):
        inside = getattr(env.driver_env, "num_envs", 1)  # each PufferEnv of a vector may be many environments
        found = {"num_envs": [env.num_envs * inside, env.num_envs], "num_workers": [env.num_workers]}
    for name, value in (("num_envs", num_envs), ("num_workers", num_workers)):
        if value not in ("auto", *found.get(name, [value])):
            raise APIUsageError(
                f"{name} must be left out or be the {found[name][0]} of the environment that is given, "
                f"got {value}; make the environment with {name}={value}"
            )


def _default_policy(env: object, vecenv: vector.Vector, seed: int, facts: Facts) -> nn.Module:
    base, settings = facts.settings("base"), facts.settings("policy")
    policy_class = vars(models)[base.get("policy_name", Default.__name__)]
    if isinstance(env, str):
        own_class = policy_classes(load_config(env))[0]
        if own_class not in (Default, policy_class):
            policy_class, base, settings = own_class, {}, {}
    with borrowed_generator(seed):
        policy = make_module(policy_class, vecenv, **settings)
        if "rnn_name" not in base:
            return policy
        return make_recurrent(vars(models)[base["rnn_name"] + WRAPPER], vecenv, policy)


def _chosen_texts(facts: Facts, config: Mapping[str, Any], given: Mapping[str, Any], policy: nn.Module) -> list[str]:
    base = {} if facts.is_own_policy else facts.settings("base")
    made_with = {} if facts.is_own_policy else init_args(getattr(policy, "policy", policy)) or {}
    values = {
        **{f"base.{name}": value for name, value in base.items() if name == "rnn_name"},
        **{f"train.{name}": value for name, value in config.items() if name not in given},
        **{f"policy.{name}": value for name, value in made_with.items()},
    }
    decided = facts.reasons(without=[f"train.{name}" for name in given])
    texts = []
    for seen, names in decided.items():
        shown = [f"{name.partition('.')[2]} {values[name]}" for name in names if name in values]
        texts += [f"{seen}: {', '.join(shown)}"] if shown else []
    return texts


def _adopt(env: PufferEnv, num_workers: int | str, config: TrainConfig, undo: ExitStack) -> vector.Vector:
    may_be_lent = resolve_device(config.device).type == "cuda" and suits(config)
    vecenv = vector.adopt(env, num_workers, config.seed, may_be_lent)
    undo.callback(vecenv.hand_over)
    return vecenv


def _check_parts(policy: object, logger: object) -> None:
    if policy is not None and not isinstance(policy, nn.Module):
        raise APIUsageError(f"policy must be an instance of torch.nn.Module, got {kind_of(policy)}; {_FORMS}")
    if logger is None:
        return
    for each in logger if isinstance(logger, Sequence) else [logger]:
        if not all(hasattr(each, name) for name in ("log", "close", "run_id")):
            raise APIUsageError(
                f"logger must have log, close and run_id, got {kind_of(each)}; pass settings by keyword"
            )
