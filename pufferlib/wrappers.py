"""Wrappers: they change what an environment shows or pays, for all agents at once.

A wrapper takes any PufferEnv, native or emulated, of one agent or of thousands:

    env = FrameStack(pufferlib.make("puffer_pong", num_envs=64), num_frames=4)
    vecenv = pufferlib.vector.make(lambda buf, seed: FrameStack(make_one(seed=seed), num_frames=4), num_envs=8)

If the shape of observations stays the same, a creator of wrapped environments may pass `buf` on to the environment
inside, which saves a copy; otherwise it ignores `buf`.

Use Gymnasium's own wrappers before emulation for what they do as well: `AtariPreprocessing`, images with colours last,
and the like. Some things need no wrapper: emulation clips actions to their space, and the trainer follows the episodes,
clips rewards (`reward_clip`) and normalizes by itself, so that its statistics are those of the true rewards.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from typing_extensions import override

from pufferlib import spaces
from pufferlib.environment import EpisodeTracker, PufferEnv, StepResult, check_env, store_result
from pufferlib.errors import APIUsageError


class _OfInside:
    def __get__(self, env: object, owner: type) -> NoReturn:
        raise AttributeError  # has Python call `__getattr__`, which it does not where PufferEnv has a value


class PufferWrapper(PufferEnv):
    """The base of wrappers, which passes on everything of the environment inside.

    A subclass overrides `step` and `reset`, calls those of this class, and returns arrays of its own for what it
    changes; the arrays that it got belong to the environment inside, which may need them as they are.

        class TimePenalty(PufferWrapper):
            def step(self, actions):
                observations, rewards, terminals, truncations, infos = super().step(actions)
                return observations, rewards - 0.05, terminals, truncations, infos

    All other attributes and methods are those of the environment inside. To change observations, see
    ObservationWrapper. A subclass whose own `step` changes them also changes each `final_observation` of the infos, and
    says so by `changes_final_observations`.

    Attributes:
        changes_final_observations: whether the `step` of a class with an observation space of its own changes final
            observations too; if not, environments in C give none through it.
        env: the environment inside, closed with this one.
        memory: arrays that the next step depends on, for `snapshot`; a subclass that remembers anything sets them.
    """

    changes_final_observations: ClassVar[bool] = False
    memory: tuple[np.ndarray, ...] = ()
    has_action_masks = action_masks = has_bot_moves = keys = simulator = cast(Any, _OfInside())

    def __init__(self, env: PufferEnv, observation_space: gymnasium.Space | None = None):
        """Takes the environment to wrap; an APIUsageError if it has not the parts of a PufferEnv.

        For another `observation_space` of one agent `self.observations` is allocated, which the subclass fills and
        returns; None leaves observations as they are.
        """
        check_env(env)
        self.env = env
        self.num_agents = env.num_agents
        if not hasattr(env, "masks"):  # one of another base class, whose agents are always there
            self.masks = np.ones(self.num_agents, bool)
        self.single_action_space = env.single_action_space
        self.single_observation_space = env.single_observation_space
        self._shows_the_same = observation_space is None
        if observation_space is not None:
            self.single_observation_space = observation_space
            self.observation_space = spaces.joint_space(observation_space, self.num_agents)
            self.observations = np.zeros((self.num_agents, *observation_space.shape), observation_space.dtype)

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not there yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    @override
    def emulated(self) -> Any:
        return getattr(self.env, "emulated", None) if self._shows_the_same else None

    @property
    def own_spaces(self) -> tuple[gymnasium.Space, gymnasium.Space] | None:
        """Those that the library of the environment inside declares, but for observations that are others here."""
        own = getattr(self.env, "own_spaces", None)
        return own if own is None or self._shows_the_same else (self.single_observation_space, own[1])

    @override
    def reset(self, seed: int | None = None, **kwargs: object) -> tuple[np.ndarray, list[dict]]:
        """Resets the environment inside, which gets every keyword."""
        return self.env.reset(seed=seed, **kwargs)

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        return self.env.step(actions)

    def tell_final_observations(self) -> None:
        """Makes the infos include final observations, where the environment inside does so only on request."""
        is_understood = self._shows_the_same or self.changes_final_observations
        if is_understood and hasattr(self.env, "tell_final_observations"):
            self.env.tell_final_observations()

    @override
    def render(self) -> np.ndarray | None:
        return self.env.render()

    @override
    def snapshot(self) -> bytes | None:
        inside = self.env.snapshot() if hasattr(self.env, "snapshot") else None
        return None if inside is None else b"".join([*(array.tobytes() for array in self.memory), inside])

    @override
    def restore(self, snapshot: bytes) -> None:
        begin, needed = 0, sum(array.nbytes for array in self.memory)
        if len(snapshot) < needed:
            name, found = type(self).__name__, len(snapshot)
            raise APIUsageError(f"a snapshot of {name} has {needed} bytes or more, got {found}; use another one")
        for array in self.memory:
            content = np.frombuffer(snapshot, array.dtype, array.size, begin)
            array[...] = content.reshape(array.shape)
            begin += array.nbytes
        self.env.restore(snapshot[begin:])

    @override
    def close(self) -> None:
        self.env.close()


class ObservationWrapper(PufferWrapper):
    """Changes each observation by itself; a subclass defines `transform`.

    It also changes the true final observations of truncated episodes.

        class Positions(ObservationWrapper):
            def __init__(self, env):
                super().__init__(env, Box(-np.inf, np.inf, (2,)))

            def transform(self, observations):
                return observations[:, ::2]
    """

    changes_final_observations = True

    def __init__(self, env: PufferEnv, observation_space: gymnasium.Space):
        super().__init__(env, observation_space)

    def transform(self, observations: np.ndarray) -> np.ndarray:
        """Changes some rows of observations: `(rows, *shape inside)` -> `(rows, *observation_space.shape)`."""
        raise NotImplementedError

    @override
    def reset(self, seed: int | None = None, **kwargs: object) -> tuple[np.ndarray, list[dict]]:
        observations, infos = super().reset(seed, **kwargs)
        store_result(self, "observations", self.observations, self.transform(observations))
        return self.observations, infos

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        observations, rewards, terminals, truncations, infos = super().step(actions)
        store_result(self, "observations", self.observations, self.transform(observations))
        infos = [self._with_final(info) if "final_observation" in info else info for info in infos]
        return self.observations, rewards, terminals, truncations, infos

    def _with_final(self, info: dict) -> dict:
        final = np.empty_like(self.observations[:1])
        store_result(self, "observations", final, self.transform(info["final_observation"][None]))
        return {**info, "final_observation": final[0]}


class FrameStack(PufferWrapper):
    """Shows the last observations together, the newest last.

    At the beginning of an episode, and when an absent agent comes back, its first observation fills the frames that are
    missing.

    Args:
        env: its observations are a Box.
        num_frames: how many, at least 1.
        axis: None puts them into a new first dimension, `(num_frames, *shape)`. A number joins them along that
            dimension of the observation: 0 makes channels of them if images are `(channels, height, width)`.

    Raises:
        APIUsageError: if the observations are no Box or have no such dimension, or `num_frames` is below 1.
    """

    changes_final_observations = True

    def __init__(self, env: PufferEnv, num_frames: int, axis: int | None = None):
        space = _box_of(env, "FrameStack")
        if num_frames < 1:
            raise APIUsageError(f"num_frames must be at least 1, got {num_frames}")
        dimensions = len(space.shape)
        if axis is not None and not -dimensions <= axis < dimensions:
            raise APIUsageError(f"axis must be None or a dimension of the shape {space.shape}, got {axis}")
        self._axis = None if axis is None else axis % dimensions
        bounds = (self._joined([bound] * num_frames) for bound in (space.low, space.high))
        super().__init__(env, Box(*bounds, dtype=space.dtype))
        self._present = np.ones(self.num_agents, bool)
        self.memory = (self.observations, self._present)
        place = self._axis or 0
        parts = (self.num_agents, *space.shape[:place], num_frames, *space.shape[place:])
        # Every frame of the rows by itself: (num_agents, num_frames, *shape), a view.
        self._frames = np.moveaxis(self.observations.reshape(parts), 1 + place, 1)

    @override
    def reset(self, seed: int | None = None, **kwargs: object) -> tuple[np.ndarray, list[dict]]:
        observations, infos = super().reset(seed, **kwargs)
        self._frames[:] = observations[:, None]
        self._present[:] = self.masks
        return self.observations, infos

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        observations, rewards, terminals, truncations, infos = super().step(actions)
        infos = [self._with_final(info) if "final_observation" in info else info for info in infos]
        for index in range(self._frames.shape[1] - 1):
            self._frames[:, index] = self._frames[:, index + 1]
        self._frames[:, -1] = observations
        masks = self.masks
        began = terminals | truncations | (masks > self._present)
        self._present[:] = masks
        if np.count_nonzero(began):  # in less than half of the time that any() takes
            self._frames[began] = observations[began][:, None]
        return self.observations, rewards, terminals, truncations, infos

    def _with_final(self, info: dict) -> dict:
        frames = [*self._frames[info["agent_id"], 1:], info["final_observation"]]
        return {**info, "final_observation": self._joined(frames)}

    def _joined(self, frames: list[np.ndarray]) -> np.ndarray:
        return np.stack(frames) if self._axis is None else np.concatenate(frames, self._axis)


class ResizeObservation(ObservationWrapper):
    """Shows images in another size: each new pixel is the mean of the area that it covers.

    Images are `(height, width)` or `(channels, height, width)`; for colours last use
    `gymnasium.wrappers.ResizeObservation` before emulation.
    """

    def __init__(self, env: PufferEnv, height: int, width: int):
        """Takes a height and a width in pixels; an APIUsageError if they, or the environment's images, do not fit."""
        space = _box_of(env, "ResizeObservation")
        if len(space.shape) < 2 or (len(space.shape) > 2 and space.shape[-1] <= 4 < space.shape[0]):
            raise APIUsageError(
                "ResizeObservation takes images (channels, height, width) or (height, width), got shape "
                f"{space.shape}; use gymnasium.wrappers.ResizeObservation before emulation where colours are last"
            )
        if height < 1 or width < 1:
            raise APIUsageError(f"height and width must be at least 1, got {height} and {width}")
        shape = (*space.shape[:-2], height, width)
        super().__init__(env, Box(space.low.min(), space.high.max(), shape, space.dtype))
        self._from_rows = _area_weights(space.shape[-2], height)
        self._from_columns = _area_weights(space.shape[-1], width).T

    @override
    def transform(self, observations: np.ndarray) -> np.ndarray:
        resized = np.empty((len(observations), *self.single_observation_space.shape), self.observations.dtype)
        for image, target in zip(observations, resized, strict=True):  # one by one: the float images stay in the cache
            mean = self._from_rows @ (image.astype(np.float32) @ self._from_columns)
            target[...] = mean if target.dtype.kind == "f" else np.rint(mean)
        return resized


def _area_weights(size: int, new_size: int) -> np.ndarray:
    # `(new_size, size)` float32: the share of each new pixel that every old one covers; rows sum to 1.
    edges = np.arange(new_size + 1) * (size / new_size)
    pixels = np.arange(size)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return (covered.clip(0.0) * (new_size / size)).astype(np.float32)


class ClipReward(PufferWrapper):
    """Clips rewards to two limits.

    For training, try the setting `reward_clip` first, which leaves the episodes' returns as they are.
    """

    def __init__(self, env: PufferEnv, low: float = -1.0, high: float = 1.0):
        if not low <= high:
            raise APIUsageError(f"low must be at most high, got {low} and {high}")
        super().__init__(env)
        self._low, self._high = np.float32(low), np.float32(high)

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        observations, rewards, terminals, truncations, infos = super().step(actions)
        clipped = np.minimum(np.maximum(rewards, self._low), self._high)
        return observations, clipped, terminals, truncations, infos


class EpisodeStatistics(PufferWrapper):
    """Reports every finished episode in an info: `{"episode_return": ..., "episode_length": ...}` of one agent.

    For loops of your own; the trainer follows episodes by itself, as `episode/...` in its metrics. Rewards are those of
    the environment inside: put a wrapper that changes them inside if the changes should count, else outside.
    """

    def __init__(self, env: PufferEnv):
        super().__init__(env)
        self._tracker = EpisodeTracker(self.num_agents)
        self.memory = (self._tracker.returns, self._tracker.lengths, self._tracker.has_acted)

    @override
    def reset(self, seed: int | None = None, **kwargs: object) -> tuple[np.ndarray, list[dict]]:
        results = super().reset(seed, **kwargs)
        self._tracker.restart()
        self._tracker.has_acted[:] = self.masks
        return results

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        observations, rewards, terminals, truncations, infos = super().step(actions)
        self._tracker.step(slice(None), rewards, terminals | truncations, self.masks)
        _, returns, lengths = self._tracker.take()
        pairs = zip(returns.tolist(), lengths.tolist(), strict=True)
        infos = [*infos, *({"episode_return": total, "episode_length": length} for total, length in pairs)]
        return observations, rewards, terminals, truncations, infos


def _box_of(env: PufferEnv, wrapper: str) -> Box:
    check_env(env)
    space = env.single_observation_space
    if isinstance(space, Box) and getattr(env, "emulated", None) is None:
        return space
    found = "packed structures" if getattr(env, "emulated", None) is not None else repr(space)
    raise APIUsageError(
        f"{wrapper} takes an environment whose observations are one Box, got {found}; "
        "use Gymnasium's wrappers before emulation for others"
    )
