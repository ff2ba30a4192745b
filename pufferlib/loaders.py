"""From a configuration to the things it names: device, environments, policy."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pufferlib import checkpoint, models, ocean, vector
from pufferlib.errors import ConfigError, nearest


def resolve_device(name: str) -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU.

    Raises:
        ConfigError: if torch does not see the device that is named.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, is_there in available.items() if is_there))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"train.device must be auto, cuda, mps or cpu, got {name!r}") from error
    if not available.get(device.type, False):
        raise ConfigError(f"train.device is {name!r} but torch sees no such device; use --train.device cpu or auto")
    return device


def load_env(env_name: str, args: dict[str, Any]) -> Any:
    """Makes the vector of environments that the `[vec]` and `[env]` settings describe."""
    settings = dict(args["vec"])
    if settings["num_envs"] == "auto":  # two buffers, so that one steps while the other is on the GPU
        settings["num_envs"] = 2 if resolve_device(args["train"]["device"]).type == "cuda" else 1
    if settings["seed"] is None:
        settings["seed"] = args["train"]["seed"]
    return vector.make(ocean.env_class(env_name), env_kwargs=args["env"], **settings)


def load_policy(args: dict[str, Any], vecenv: Any, env_name: str) -> nn.Module:
    """Makes the policy that `policy_name`, `rnn_name` and the `[policy]` and `[rnn]` settings describe.

    The same `train.seed` gives the same weights. `args['load_model_path']` loads trained ones: a path or `latest`.

    Raises:
        ConfigError: if there is no policy or wrapper of that name.
        CheckpointError: if the weights cannot be loaded or do not fit.
    """
    device = resolve_device(args["train"]["device"])
    env = vecenv.driver_env
    policy_class = find_policy(args["policy_name"], env_name)
    wrapper = find_wrapper(args["rnn_name"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(args["train"]["seed"])
        policy = policy_class(env, **args["policy"])
        if wrapper is not None:
            sizes = {"input_size": policy.hidden_size, "hidden_size": policy.hidden_size}
            policy = wrapper(env, policy, **{**sizes, **args["rnn"]})
    path = args.get("load_model_path")
    if path == "latest":
        path = checkpoint.latest_model(args["train"]["data_dir"], env_name)
    if path is not None:
        checkpoint.load_policy_weights(policy, Path(path))
    return policy.to(device)


def find_policy(name: str, env_name: str) -> type[nn.Module]:
    """The class `name` of the environment's own torch.py, or of pufferlib.models."""
    folder = f"pufferlib.ocean.{env_name.removeprefix(ocean.PREFIX)}"
    places = [models]
    if env_name in ocean.names() and importlib.util.find_spec(f"{folder}.torch"):
        places.insert(0, importlib.import_module(f"{folder}.torch"))
    for place in places:
        found = getattr(place, name, None)
        if isinstance(found, type) and issubclass(found, nn.Module):
            return found
    known = [key for key, value in vars(models).items() if isinstance(value, type) and hasattr(value, "decode_actions")]
    raise ConfigError(f"policy_name must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}")


def find_wrapper(name: str | None) -> type[nn.Module] | None:
    """The recurrent wrapper of that name, or None."""
    if name is None:
        return None
    if name not in models.WRAPPERS:
        raise ConfigError(f"rnn_name must be None, {' or '.join(models.WRAPPERS)}, got {name!r}")
    return models.WRAPPERS[name]
