"""Makes the parts of a trainer from a configuration: vector, policy, generator and loggers."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from pufferlib import distributed
from pufferlib.config import LogConfig, TrainConfig, VecConfig, check_section, require_sections, resolve_env_count
from pufferlib.config.configuration import policy_arguments, policy_classes
from pufferlib.config.schema import words
from pufferlib.distributed import Ranks
from pufferlib.environment import Buffers, Origin, PufferEnv
from pufferlib.errors import CheckpointError, ConfigError, PufferError, describe_lack
from pufferlib.families import catalog
from pufferlib.families.catalog import Entry
from pufferlib.fast.device_collector import suits
from pufferlib.loggers.logger import JsonLogger, Logger
from pufferlib.loggers.services import NeptuneLogger, TensorBoardLogger, WandbLogger
from pufferlib.machine import require_memory
from pufferlib.policy import make_module, make_recurrent, normalized
from pufferlib.runs import checkpoint
from pufferlib.vector import Vector
from pufferlib.vector.native import is_stepped_in_c
from pufferlib.vector.ready import is_quick

_lock = threading.RLock()


@contextmanager
def borrowed_generator(seed: int | None = None, devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Gives torch's generator to one thread at a time, and restores it and those of the devices afterwards.

    It is what layers draw their weights from; `seed` is that of the CPU, None leaves it as it is.
    """
    with _lock, torch.random.fork_rng(list(devices)):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield


def resolve_device(name: str) -> torch.device:
    """Returns the device of a name; `auto` is CUDA, then MPS, then the CPU, and each process takes its own GPU."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(kind for kind, is_there in available.items() if is_there) if name == "auto" else name
    if kind == "cuda" and distributed.connect().world_size > 1:
        kind = f"cuda:{distributed.take_gpu()}"
    try:
        device = torch.device(kind)
    except RuntimeError as error:
        raise ConfigError(f"train.device must be auto, cuda, mps or cpu, got {name!r}") from error
    is_beyond = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if name != "auto" and (is_beyond or not available.get(device.type, False)):
        raise ConfigError(f"train.device is {name!r} but torch sees no such device; use --train.device cpu or auto")
    return device


def load_env(env_name: str, args: dict[str, Any]) -> Vector:
    """Makes the vector of environments that the `[vec]` and `[env]` settings describe.

    Of several processes that train together each makes that many; `[env] num_envs = auto` on CPUs is shared by them.
    """
    require_sections(args)
    train = TrainConfig.from_dict(args["train"])
    device_type = resolve_device(train.device).type
    entry, env_kwargs = catalog.find(env_name), check_section("env", args["env"], env_name)
    are_single = "num_envs" not in entry.settings
    vec = VecConfig.from_dict(args["vec"])
    keywords = vec.keywords(device_type, train.seed, are_single)
    is_free = vec.backend in ("auto", "Device") and vec.batch_size in ("auto", vec.num_envs)
    can_be_lent = device_type == "cuda" and suits(train) and is_free and is_stepped_in_c(entry.creator)
    given = env_kwargs.get("num_envs", None if are_single else entry.settings["num_envs"].default)
    lent_buffers = 1 if vec.num_envs == "auto" else vec.num_envs  # nothing overlaps with the GPU's work

    def count_in(buffers: int) -> int:
        world_size, agents = distributed.connect().world_size, entry.agents_per_env
        return resolve_env_count(given, device_type, buffers, agents, world_size, train)

    has_many = can_be_lent and given is not None and lent_buffers * count_in(lent_buffers) >= _GPU_ENVS
    if can_be_lent and (vec.backend == "Device" or has_many):
        keywords |= {"backend": "Device", "num_envs": lent_buffers}
    if "num_envs" in env_kwargs:
        env_kwargs["num_envs"] = count_in(keywords["num_envs"])
        horizon = train.bptt_horizon if device_type == "cpu" else 1
        _require_room(entry, env_kwargs, keywords["num_envs"], horizon)
    are_free = vec.backend == "auto" and vec.num_workers == "auto" and are_single and not entry.ini_files
    if are_free and is_quick(entry.creator, env_kwargs, train.seed):
        keywords["backend"] = "Serial"
    vecenv = entry.make_vector(env_kwargs, **keywords)
    creator = None if isinstance(env_name, str) else env_name
    vecenv.made_from = Origin(entry.name, dict(args["env"]), dict(args["vec"]), creator)
    return vecenv


_GPU_ENVS = 2_048  # C environments, a thread each, from which on a GPU is expected to step them faster than a CPU
_MANY_STEPS = 2**22  # of a rollout, from which on one environment is made first, to see what all need
_ENDS = ("hidden_size", "encode_observations", "decode_actions")  # of a policy, that a recurrent layer stands between
_LARGE_LAYER = 8_192


def _require_room(entry: Entry, env_kwargs: dict[str, Any], num_buffers: int, horizon: int) -> None:
    count = env_kwargs["num_envs"] * num_buffers
    if count * entry.agents_per_env * horizon < _MANY_STEPS:
        return
    with closing(entry.creator(**{**env_kwargs, "num_envs": 1})) as env:
        env.reset(0)
        state_bytes = env.structs().nbytes if hasattr(env, "structs") else 0
        has_masks = getattr(env, "has_action_masks", False)
        row_bytes = Buffers.row_bytes(env.single_observation_space, env.single_action_space, has_masks)
    needed = count * (state_bytes + env.num_agents * (1 + horizon) * row_bytes)
    steps = f", each with {horizon:,} steps of a rollout," if horizon > 1 else ""
    what = f"a training of {count * env.num_agents:,} agents{steps}"
    require_memory(needed, what, "have a smaller --env.num-envs or bptt_horizon")


def load_policy(
    args: dict[str, Any],
    vecenv: PufferEnv | Vector,
    env_name: str | None,
    weights_path: Path | None = None,
    ranks: Ranks | None = None,
) -> nn.Module:
    """Makes the policy that `policy_name`, `rnn_name` and the `[policy]` and `[rnn]` settings describe.

    The same `train.seed` gives the same weights. `args['load_model_path']` loads trained ones: a path or `latest`, but
    not where those of a file, `weights_path`, will be loaded later; its shapes are compared before the policy is made.
    All of several processes call it together, unless `ranks` is another group, such as `Ranks()`, this process alone.

    Raises:
        ConfigError: if there is no policy or recurrent layer of that name, or a setting does not fit it.
        CheckpointError: if the weights cannot be loaded, do not fit, or are infinite or NaN.
    """
    require_sections(args)
    device = resolve_device(args["train"]["device"])
    env = vecenv.driver_env
    named = {**args, "env_name": env_name}
    policy_class, wrapper = policy_classes(named)
    for setting, found in (("policy_name", policy_class), ("rnn_name", wrapper or nn.Module)):
        if not issubclass(found, nn.Module):
            raise ConfigError(f"[base] {setting} must name a class of torch modules, got {args[setting]!r}")
    train = TrainConfig.from_dict(args["train"])
    arguments = policy_arguments(named, "policy", policy_class)
    recurrent = {} if wrapper is None else policy_arguments(named, "rnn", wrapper)

    def make() -> nn.Module:
        policy = make_module(policy_class, env, **arguments)
        if wrapper is not None:
            lacking = [name for name in _ENDS if not hasattr(policy, name)]
            if lacking:
                raise ConfigError(
                    f"[base] rnn_name {args['rnn_name']} needs a policy with {', '.join(_ENDS)}, found no "
                    f"{', '.join(lacking)} in {policy_class.__name__}; add --rnn-name None, or what is missing"
                )
            policy = make_recurrent(wrapper, env, policy, **recurrent)
        return normalized(env, policy, train.normalization_clip) if train.normalize_observations else policy

    model, ranks = args.get("load_model_path") if weights_path is None else None, ranks or distributed.connect()
    if model is not None:
        weights_path = ranks.from_first(lambda: checkpoint.resolve_model(args["train"]["data_dir"], env_name, model))
    numbers = [value for value in (*arguments.values(), *recurrent.values()) if isinstance(value, int)]
    if weights_path is not None or max(numbers, default=0) >= _LARGE_LAYER:
        ranks.from_first(lambda: _check_outline(make, weights_path))
    with borrowed_generator(train.seed):
        policy = make()
    if model is not None:
        ranks.from_first(lambda: checkpoint.load_policy_weights(policy, weights_path))
        ranks.broadcast(list(policy.state_dict().values()))
    return policy.to(device)


def _check_outline(make: Callable[[], nn.Module], path: Path | None) -> None:
    # Makes the policy on `meta`, where it takes no memory: its weights fit into memory, and those of a file into it.
    weights = None if path is None else checkpoint.require_weights(checkpoint.load(path, has_numbers=False), path)
    most = math.inf if weights is None else 2 * len(weights) + 64  # a class may make some that it does not keep
    made, thread = itertools.count(1), threading.get_ident()

    def count(*parameter: object) -> None:
        if threading.get_ident() == thread and next(made) > most:
            raise CheckpointError(
                f"{path} has {len(weights)} tensors, the policy many more; use the settings that it was trained with"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        with borrowed_generator(), torch.device("meta"):
            policy = make()
    except PufferError:
        raise
    except Exception as error:  # a module of a user's own may do anything in it; it is made in earnest next
        if weights is None or describe_lack(error) is None:
            return
        raise CheckpointError(
            f"{path} cannot have weights of a policy of these settings, which is larger than any memory; use the "
            "settings that it was trained with"
        ) from error
    finally:
        hook.remove()
    if weights is not None:
        checkpoint.check_policy_weights(policy, weights, path)
    needed = sum(weight.numel() * weight.element_size() for weight in policy.parameters())
    require_memory(needed, "a policy of such layers", "have smaller ones, by [policy] and [rnn]")


def make_loggers(
    log_settings: Mapping[str, Any], run_folder: Path, run_id: str, resume_step: int | None = None
) -> list[Logger]:
    """Makes the loggers of a run: a JsonLogger, then those that the `[log]` settings ask for."""
    config = LogConfig.from_dict(log_settings)
    mode = "offline" if config.offline else None
    common = {"name": config.name, "tags": words(config.tags), "run_id": run_id, "mode": mode}
    loggers: list[Logger] = [JsonLogger(run_folder / "metrics.jsonl", resume_step, run_id)]
    if config.tensorboard:
        loggers.append(TensorBoardLogger(run_folder / "tensorboard", run_id, resume_step))
    if config.wandb:
        loggers.append(WandbLogger(config.project, config.entity, **common, folder=run_folder))
    if config.neptune:
        project = f"{config.entity}/{config.project}" if config.entity else config.project
        loggers.append(NeptuneLogger(project, **common, folder=run_folder / "neptune"))
    return loggers
