"""Checks what a trainer is given, whether all processes agree about it, and what may keep a policy from learning."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils._pytree import tree_leaves

from pufferlib import spaces, vector
from pufferlib.config import ResolvedTrainConfig, TrainConfig
from pufferlib.dashboard.output import say
from pufferlib.emulation.tensors import leaf_view
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, kind_of
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.faults import find_faults
from pufferlib.policy import (
    EnvSpaces,
    Forward,
    Logits,
    acting_forward,
    device_of,
    initial_state,
    training_forward,
    uncompiled,
)
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.description import pretrained_names
from pufferlib.runs.loaders import borrowed_generator
from pufferlib.runs.making import is_vector, ready_env
from pufferlib.setting import shown
from pufferlib.vector import Vector

_ROWS, _HORIZON = 5, 3  # of the observations that a policy is checked with: sizes that few spaces have


def prepare_policy(policy: nn.Module, env: EnvSpaces, device: torch.device) -> None:
    """Moves a policy to a device, and calls it on observations of zeros, to act and to train.

    Raises APIUsageError if it does not fit, or a parameter on `meta` has no numbers.
    """
    empty = next((name for name, parameter in policy.named_parameters() if parameter.is_meta), None)
    if empty is not None:
        raise APIUsageError(
            f"the policy's parameter {empty!r} must have numbers, got one on the meta device; give it some by "
            "to_empty() and initialise it"
        )
    _check_kept(policy)
    policy.to(device)
    if not any(parameter.requires_grad for parameter in policy.parameters()):
        raise APIUsageError(f"{type(policy).__name__} must have parameters to train, got none that require gradients")
    check_acting(policy, env, device)
    policy = uncompiled(policy)
    with unchanged(policy), torch.enable_grad():
        observations, state = _zeros(env, device), _first_state(policy, device)
        if hasattr(policy, "initial_state"):
            observations = observations.unsqueeze(1).repeat_interleave(_HORIZON, 1)
            state["resets"] = torch.zeros(_ROWS, _HORIZON, dtype=torch.bool, device=device)
        forward = training_forward(policy, policy)
        output = _check_call(policy, "forward", forward, observations, state, env.single_action_space)
    leaves = [part.mean if isinstance(part, Normal) else part for part in tree_leaves(output)]
    if not any(leaf.requires_grad for leaf in leaves):
        raise APIUsageError(
            f"{type(policy).__name__}.forward must return logits and values that have gradients, got both without; "
            "take away detach() or torch.no_grad(), or free a parameter that they use"
        )


def _check_kept(policy: nn.Module) -> None:  # while nothing is lost that a checkpoint could not give back
    for name, kept in policy.state_dict().items():
        if not isinstance(kept, Tensor):
            found = f"a {type(kept).__name__}"
        elif kept.layout is not torch.strided or kept.is_quantized:
            found = "a sparse or quantized one"
        elif kept.is_floating_point() and kept.itemsize == 1:
            found = f"one of {kept.dtype}"
        elif any(stride == 0 and size > 1 for stride, size in zip(kept.stride(), kept.shape, strict=True)):
            found = "an expanded one"
        else:
            continue
        raise APIUsageError(
            f"the policy's {name!r} must be a dense tensor, which a checkpoint can hold, got {found}; convert it by "
            "to_dense(), float() or clone(), or leave it out by persistent=False"
        )


def check_acting(policy: nn.Module, env: EnvSpaces, device: torch.device) -> None:
    """Checks what a policy that acts returns of observations of zeros; raises as `prepare_policy`, which calls it."""
    policy = uncompiled(policy)  # checked as it is, without compiling it for these sizes
    with unchanged(policy):
        state = _first_state(policy, device)
        name = "forward_eval" if hasattr(policy, "forward_eval") else "forward"
        # Writes are counted by `_version`, except those of a kernel that torch does not know: hence the copy.
        before = {name: (entry, entry._version, entry.clone()) for name, entry in state.items()}
        _check_call(policy, name, acting_forward(policy), _zeros(env, device), state, env.single_action_space)
    expected = {name: tuple(entry.shape) for name, (*_, entry) in before.items()}
    found = {name: tuple(entry.shape) for name, entry in state.items()}
    if expected.keys() != found.keys() or not all(map(_is_stretched, found.values(), expected.values())):
        raise APIUsageError(
            f"{type(policy).__name__}.{name} must leave the entries that initial_state has in the state, {expected}, "
            f"got {found}; return them all from initial_state, as they are left"
        )
    if before and all(
        state[name] is entry and entry._version == version and torch.equal(entry, values)
        for name, (entry, version, values) in before.items()
    ):
        raise APIUsageError(
            f"{type(policy).__name__}.{name} must write the next state into the dict that it is given, left all of "
            f"{list(before)} as they were; replace its entries, as in state[{next(iter(before))!r}] = ..."
        )


def _is_stretched(found: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    # Whether numbers of one shape can be written into another.
    places = zip(found[::-1], expected[::-1], strict=False)
    return len(found) <= len(expected) and all(size in (1, wanted) for size, wanted in places)


def _first_state(policy: nn.Module, device: torch.device) -> dict[str, Tensor]:
    state = policy.initial_state(_ROWS, device) if hasattr(policy, "initial_state") else {}
    is_named = isinstance(state, Mapping) and all(isinstance(entry, Tensor) for entry in state.values())
    if not is_named or any(entry.shape[:1] != (_ROWS,) for entry in state.values()):
        found = {name: tuple(entry.shape) for name, entry in state.items()} if is_named else type(state).__name__
        raise APIUsageError(
            f"{type(policy).__name__}.initial_state must return a dict of tensors whose first dimension is the agent, "
            f"({_ROWS}, ...) for {_ROWS} agents, got {found}; give each a name, and put layers behind the agents"
        )
    name = next((name for name, entry in state.items() if entry.any()), None)
    if name is not None:
        raise APIUsageError(
            f"{type(policy).__name__}.initial_state must return zeros, with which every episode begins, got "
            f"other numbers in {name!r}; add a parameter in forward_eval and forward for another beginning"
        )
    return dict(state)


@contextlib.contextmanager
def unchanged(policy: nn.Module) -> Iterator[None]:
    """Restores a policy's buffers and torch's generators after calls of it, which compute no gradients."""
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in policy.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    device = device_of(policy)
    with torch.no_grad(), borrowed_generator(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            for module, name, buffer, value in buffers:
                module._buffers[name] = buffer.copy_(value)  # also where the policy has assigned another one


def _zeros(env: EnvSpaces, device: torch.device) -> Tensor:
    space = env.single_observation_space
    return torch.zeros(_ROWS, *space.shape, dtype=getattr(torch, space.dtype.name), device=device)


def check_state(policy: nn.Module, expected: dict[str, Tensor], device: torch.device) -> None:
    """Checks that a policy's recurrent state is of a given form; if it is not, it raises APIUsageError."""
    states = expected, initial_state(policy, _ROWS, device)
    wanted, found = ({name: tuple(tensor.shape[1:]) for name, tensor in state.items()} for state in states)
    if wanted != found:
        raise APIUsageError(
            f"the policy's state must stay of the shapes that the trainer was made for, {wanted}, got {found}; "
            "make a new PuffeRL for it"
        )


def _check_call(
    policy: nn.Module,
    name: str,
    forward: Forward,
    observations: Tensor,
    state: dict[str, Tensor],
    action_space: gymnasium.Space,
) -> tuple[Logits, Tensor]:
    label = f"{type(policy).__name__}.{name}"
    leading = (_ROWS, _HORIZON) if "resets" in state else (_ROWS,)
    rows = "segments, horizon" if "resets" in state else "rows"
    try:
        output = forward(observations, state)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = ""
        if name == "forward" and state and "resets" not in state:
            remedy = "; with initial_state, add forward_eval(observations, state), which acts one step"
        raise APIUsageError(
            f"{label} must take observations ({rows}, ...) as the environment gives them, "
            f"fails for {tuple(observations.shape)} of {observations.dtype} ({type(error).__name__}: {reason}){remedy}"
        ) from error
    if not isinstance(output, (tuple, list)) or len(output) != 2:
        found = f"{len(output)} of them" if isinstance(output, (tuple, list)) else type(output).__name__
        raise APIUsageError(f"{label} must return two things, (logits, values), got {found}")
    logits, values = output
    _check_logits(label, logits, action_space, leading, rows)
    if not isinstance(values, Tensor) or tuple(values.shape) not in (leading, (*leading, 1)):
        raise APIUsageError(
            f"{label} must return values of shape ({rows}) or ({rows}, 1), got {_found(values)} for {leading}"
        )
    return output


def _check_logits(label: str, logits: object, space: gymnasium.Space, leading: tuple[int, ...], rows: str) -> None:
    is_alone = isinstance(space, (Discrete, Box))
    expected = [
        (Normal if part.choices is None else Tensor, space.shape if isinstance(space, Box) else (part.outputs,))
        for part in spaces.action_parts(space)
    ]
    found = [logits] if is_alone else list(logits) if isinstance(logits, (tuple, list)) else []
    if len(found) == len(expected) and all(
        isinstance(part, kind) and _shape(part) == (*leading, *width)
        for part, (kind, width) in zip(found, expected, strict=True)
    ):
        return
    names = {Tensor: "a tensor", Normal: "a torch.distributions.Normal"}
    wanted = " and ".join(f"{names[kind]} of shape ({', '.join([rows, *map(str, width)])})" for kind, width in expected)
    raise APIUsageError(
        f"{label} must return logits as {'' if is_alone else 'a tuple of '}{wanted} for {space}, "
        f"got {_found(logits)} for {leading}"
    )


def _shape(part: Tensor | Normal) -> tuple[int, ...]:
    return tuple(part.mean.shape if isinstance(part, Normal) else part.shape)


def _found(value: object) -> str:
    if isinstance(value, (Tensor, Normal)):
        return f"a {'tensor' if isinstance(value, Tensor) else 'Normal'} of shape {_shape(value)}"
    if isinstance(value, (tuple, list)):
        return f"{len(value)} parts: {', '.join(_found(part) for part in value)}"
    return type(value).__name__


def whole_number(name: str, value: float) -> int:
    """Returns a number of steps or episodes, or raises APIUsageError if it is no whole number above 0."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not 1 <= value < math.inf or int(value) != value:
        raise APIUsageError(f"{name} must be a whole number, 1 or more, got {value!r}")
    return int(value)


def list_callbacks(callbacks: object) -> list[object]:
    """Returns the callbacks that were given, of which there may be one alone, or None; APIUsageError if one is none."""
    if callbacks is None:
        return []
    is_single = not isinstance(callbacks, Iterable) or callable(callbacks) or hasattr(callbacks, "on_iteration")
    listed = [callbacks] if is_single else list(callbacks)
    for callback in listed:
        if isinstance(callback, type) or not (hasattr(callback, "on_iteration") or callable(callback)):
            raise APIUsageError(
                "callbacks must be objects with on_iteration(trainer, logs), or functions of these two, "
                f"got {kind_of(callback)}; see pufferlib.callbacks"
            )
    return listed


# Settings of [train] that may differ: where and how fast the same is computed, and what is drawn.
OWN_SETTINGS = {
    *("seed", "data_dir", "dashboard_interval_seconds", "device", "torch_deterministic", "cpu_offload"),
    *("compile", "compile_mode", "compile_fullgraph", "cuda_graphs", "fused", "max_minibatch_size"),
}


def facts_of_settings(config: TrainConfig) -> dict[str, str]:
    """Returns every setting that must be the same in all processes."""
    return {f"[train] {name}": repr(getattr(config, name)) for name in config.settings() if name not in OWN_SETTINGS}


def facts_of_arguments(env_name: str, args: Mapping[str, Any]) -> dict[str, str]:
    """Returns what `pufferl.train` was called with beside the settings of [train]."""
    own = {name: args.get(name) for name in ("policy_name", "rnn_name", "resume", "load_model_path")}
    of_policy = {f"[{section}] {name}": value for section in ("policy", "rnn") for name, value in args[section].items()}
    return {name: repr(value) for name, value in {"the environment": env_name, **own, **of_policy}.items()}


def facts_of_policy(policy: nn.Module) -> dict[str, str]:
    """Returns the class, and of every parameter and buffer the shape, the type and whether it is frozen."""
    parameters = {
        f"the policy's parameter {name}": f"{tuple(each.shape)} {each.dtype}{'' if each.requires_grad else ', frozen'}"
        for name, each in policy.named_parameters()
    }
    buffers = {f"the policy's buffer {name}": f"{tuple(b.shape)} {b.dtype}" for name, b in policy.named_buffers()}
    return {"the policy's class": type(policy).__name__, **parameters, **buffers}


# ----------------------------------------------------------------- what may keep a policy from learning


LARGE = 100.0  # of a reward or an observation, where a network expects about 1
FAR_SHARE = 0.5  # of the numbers in actions that lie outside of the action space
FEW_UPDATES = 100  # steps of the optimizer
FEW_PRESENT = 0.1  # of the agent steps in a batch
LONG_EPISODE = 30.0  # times 1 / (1 - gamma), the steps over which a reward counts
SLOW_SECONDS = 1e-3  # in the environment for a step of one agent, as they pass on the clock


def _notes_on_environment(
    observations: Tensor, rewards: Tensor, config: ResolvedTrainConfig | None = None
) -> Iterator[str]:
    # Of some steps; with the setting that helps, if there is a training.
    largest = _largest(rewards[rewards != 0])  # of those that come once in an episode, too
    clip = 0.0 if config is None else config.reward_clip
    if largest > LARGE and not (config and config.normalize_rewards):
        found = f", and are clipped to {clip:g}" if clip > 0 else ""
        remedy = "reward_clip=0 and normalize_rewards=True scale" if clip > 0 else "normalize_rewards=True scales"
        yield f"rewards are as large as {largest:,.0f}{found}, where 1 is what trains well; {remedy} them"
    largest = _largest(observations) if observations.is_floating_point() else 0.0
    if largest > LARGE and not (config and config.normalize_observations):
        yield (
            f"observations are as large as {largest:,.0f}, where 1 is what trains well; normalize_observations=True "
            "scales them"
        )


def _notes_on_episodes(length: float, gamma: float = 0.99) -> Iterator[str]:
    horizon = 1.0 / max(1.0 - gamma, 1e-6)
    if length > LONG_EPISODE * horizon:
        yield (
            f"episodes last {length:,.0f} steps, and gamma {gamma:g} sees {horizon:,.0f} steps ahead; "
            "a larger gamma sees further"
        )


class EarlyNotes:
    """Prints what may keep a policy from learning, such as a small number of epochs, each note once."""

    def __init__(self, config: ResolvedTrainConfig, env_name: str, epochs: int):
        self._config = config
        self._is_tuned = env_name in pretrained_names()  # rewards, observations and episodes suit the settings
        self.is_length_awaited = not self._is_tuned  # of episodes, until some ended
        self._is_rollout_awaited = True
        steps, updates = epochs * config.batch_size, round(epochs * config.minibatches_per_epoch)
        if updates < FEW_UPDATES:
            remedy = "train for longer, or set a smaller batch_size or minibatch_size"
            say(f"note: {steps:,} steps are {updates} optimizer steps, where a policy needs hundreds; {remedy}")

    def of_rollout(
        self, rollout: Rollout, vecenv: Vector, episodes: Mapping[str, float], seconds: float, share: float
    ) -> Iterator[str]:
        """Returns what is unusual about episodes, and the first rollout, of whose time the environment took a share."""
        if self.is_length_awaited and "episode/length_mean" in episodes:
            self.is_length_awaited = False
            yield from _notes_on_episodes(episodes["episode/length_mean"], self._config.gamma)
        if not self._is_rollout_awaited:
            return
        self._is_rollout_awaited = False
        if not self._is_tuned:
            rewards = rollout.rewards.T[1:]
            if self._config.reward_clip > 0:  # what the environment gave is known of episodes alone
                length = max(episodes.get("episode/length_mean", 0.0), 1.0)
                rewards = torch.tensor(episodes.get("episode/return_mean", 0.0) / length)
            yield from _notes_on_environment(rollout.by_column, rewards, self._config)
        space = vecenv.single_action_space
        if isinstance(space, Box):
            low, high = (torch.from_numpy(bound).to(rollout.actions) for bound in (space.low, space.high))
            outside = float(((rollout.actions < low) | (rollout.actions > high)).float().mean())
            if outside > FAR_SHARE:
                yield (
                    f"{outside:.0%} of the numbers in the policy's actions lie outside of the action space, and "
                    "environments clip them; scale the action space to about -1 to 1"
                )
        present, steps = float(rollout.masks[:, :-1].float().mean()), rollout.logprobs.numel()
        if present < FEW_PRESENT:
            yield (
                f"agents are there in {present:.1%} of the {steps:,} steps of a rollout, and only these are learned "
                "from; a larger batch_size has more of them"
            )
        if share * seconds > SLOW_SECONDS * steps and vecenv.num_workers < vecenv.num_envs:
            yield (
                f"a step of one agent takes {1e3 * seconds / steps:.1f} ms, {share:.0%} of it in the environment; "
                f"where that waits rather than computes, num_workers={vecenv.num_envs} has all wait at once"
            )


def observation_far_outside(rollout: Rollout, vecenv: PufferEnv | Vector) -> str | None:
    """Names a number of observed rows that lies farther outside its Box than that is wide, or returns None."""
    layout, rows, masks = vecenv.emulated, rollout.by_column, rollout.masks.T
    if layout is None:
        parts = [("observation", vecenv.single_observation_space, rows)]
    else:
        parts = [(leaf.name, leaf.space, leaf_view(rows, leaf, layout)) for leaf in layout.leaves]
    for name, space, values in parts:
        if not isinstance(space, Box) or (space.dtype == np.uint8 and (space.high - space.low >= 128).all()):
            continue  # no uint8 is far from such a Box
        dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
        low, high = (torch.as_tensor(bound).to(values.device, dtype) for bound in _far_bounds(space))
        for column in range(rollout.horizon):  # one step at a time, as images are large
            seen = values[column][masks[column].to(values.device)]  # zeros stand for what an absent agent sees
            far = seen[(seen < low) | (seen > high)]
            if len(far):
                return (
                    f"{name} is {far[0].item():g} in the first rollout, far outside its space {shown(space)}; declare "
                    "the bounds that it keeps, or scale it into these"
                )
    return None


def _far_bounds(space: Box) -> tuple[np.ndarray, np.ndarray]:
    # A whole width of the Box away, or as far as the bound is from 0 where it has no width; at least 1 then.
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    margins = (np.where(np.isfinite(high - low), high - low, np.maximum(1.0, np.abs(bound))) for bound in (low, high))
    return low - next(margins), high + next(margins)


def check_env(env: object, steps: int = 1_000, seed: int = 0) -> list[str]:
    """Plays an environment by random actions, and says what would keep a policy from learning in it.

    Environments of Ocean are played on arrays of their own first: a fault of their C comes alone, before all else.

    Args:
        env: what `PuffeRL` takes: a PufferEnv, an environment of Gymnasium or PettingZoo, a name, or a class or
            function that makes one. One that is given ready is reset, and stays open.
        steps: of every agent.
        seed: of the environment and the actions.

    Returns:
        A sentence for each finding, with what helps; empty where nothing is wrong.

    Raises:
        APIUsageError: if it is no environment, or cannot be stepped as one, or its C writes outside of its arrays.
    """
    with ready_env(env) as ready:
        if not is_vector(ready):
            vector.check_env(ready)
        driver = getattr(ready, "driver_env", ready)
        faults = find_faults(driver, steps, seed) if isinstance(driver, OceanEnv) else []
        return faults or list(_findings(ready, steps, seed))


def _findings(env: PufferEnv | Vector, steps: int, seed: int) -> Iterator[str]:
    observations, _ = env.reset(seed)
    space, action_space = env.single_observation_space, env.action_space
    action_space.seed(seed)
    generator = np.random.default_rng(seed)
    seen, rewards, lengths = [observations.copy()], [], np.zeros(env.num_agents)
    complete: list[float] = []  # lengths of episodes
    for _ in range(steps):
        actions = action_space.sample()
        if getattr(env, "has_action_masks", False):
            actions = spaces.allowed_actions(actions, env.action_masks, env.single_action_space, generator)
        observations, reward, terminals, truncations, _ = env.step(actions)
        seen.append(observations.copy())
        rewards.append(reward.copy())
        ended = terminals | truncations
        lengths += 1
        complete.extend(lengths[ended])
        lengths[ended] = 0
    stacked, gained = np.stack(seen), np.stack(rewards)
    if not np.isfinite(gained).all() or (stacked.dtype.kind == "f" and not np.isfinite(stacked).all()):
        yield "an observation or a reward is infinite or NaN, which ends a training; look at what step() returns"
        return
    if isinstance(space, Box) and ((stacked < space.low) | (stacked > space.high)).any():
        yield (
            f"observations from {stacked.min():g} to {stacked.max():g} leave the bounds of {space}; "
            "declare the bounds that they keep"
        )
    if not complete:
        yield f"no episode ended in {steps:,} steps; set terminals or truncations where they end, or look at more steps"
    if not gained.any():
        yield f"every reward of {steps:,} random steps was 0; a policy that explores finds nothing to learn from"
    elif len(np.unique(gained)) == 1 and len(np.unique(complete)) <= 1:
        yield "every reward and every episode's length is the same, whatever the actions are"
    length = float(np.mean(complete)) if complete else float(lengths.mean())
    yield from _notes_on_environment(torch.from_numpy(stacked), torch.from_numpy(gained))
    yield from _notes_on_episodes(length)


def _largest(numbers: Tensor) -> float:
    # The absolute value that one number in a hundred exceeds, so that a rare one does not count.
    flat = numbers.flatten()[:: max(1, numbers.numel() // 100_000)].abs().float()
    flat = flat[flat.isfinite()]
    return float(flat.quantile(0.99)) if len(flat) else 0.0
