"""The class under every Ocean environment: many C environments behind one PufferEnv."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from pufferlib.environment import Buffers, PufferEnv, StepResult, fitting_actions, refuse_to_copy
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.ocean.sources import fingerprint

if TYPE_CHECKING:
    from pufferlib.ocean.rendering import Drawing

MOST_AGENTS = 2**20  # of a C environment


class OceanEnv(PufferEnv):
    """`num_envs` C environments stepped together.

    A subclass names its `binding` module, sets `single_observation_space` and `single_action_space`, and calls
    `super().__init__(num_envs, arguments_for_c, **kwargs)`.

    Attributes:
        binding: the compiled module of the environment.
        handle: its vec handle, which a backend may step in place of this object.
        arguments: those of the C side, by name.
        agents_per_env: agents of one C environment, at most MOST_AGENTS. It may be an argument, unchecked: what is no
            such number counts as 1 until the C side refuses it.
        counts_episodes_by_agent: how evaluations count. False: an episode is one of the environment, with all agents,
            as in a match. True: one of an agent, where many that are alike begin and end apart.
        match_settings: values of arguments in a match, which the larger return wins: by which nothing but the result of
            a game is paid.
        has_turns: whether the C side writes `masks`: which agents act on their observations and which wait.
        has_truncations: whether a limit may cut an episode. A class whose environments set no truncation says False,
            which saves training the work of looking for them.
    """

    binding: ClassVar[ModuleType]
    has_truncations: ClassVar[bool] = True
    has_turns: ClassVar[bool] = False
    agents_per_env: int = 1
    counts_episodes_by_agent: ClassVar[bool] = False
    match_settings: ClassVar[Mapping[str, Any]] = {}
    __reduce_ex__ = refuse_to_copy

    def __init__(
        self,
        num_envs: int,
        arguments: dict[str, Any],
        *,
        buf: Buffers | None = None,
        seed: int = 0,
        report_interval: int = 64,
    ):
        """Makes the C environments; they need a `reset` before the first step.

        Args:
            num_envs: C environments in this PufferEnv, at least 1.
            arguments: keyword arguments for the C side; it checks their ranges.
            buf: arrays to fill, or None to allocate them.
            seed: environment `i` has the random stream (seed, i).
            report_interval: steps between two reports of episode statistics in `infos`.

        Raises:
            APIUsageError: if num_envs or report_interval is below 1, or an argument is out of its range.
        """
        if num_envs < 1 or report_interval < 1:
            raise APIUsageError(
                f"num_envs and report_interval must be at least 1, got {num_envs} and {report_interval}"
            )
        warn_where_outdated(self.binding)
        self.num_envs = num_envs
        agents = self.agents_per_env  # may be an argument of any kind or size, which the C side refuses by its name
        is_possible = isinstance(agents, (int, np.integer)) and 1 <= agents <= MOST_AGENTS
        self.agents_per_env = int(agents) if is_possible else 1
        self.num_agents = num_envs * self.agents_per_env
        super().__init__(buf)
        self._results = (self.observations, self.rewards, self.terminals, self.truncations)
        self.report_interval = report_interval
        self._steps = 0
        self._is_drawn = False
        self._final_observations: np.ndarray | None = None
        self._tells_final_observations = False
        self._envs: dict[int, object] = {}  # handles of single environments, by index
        self.arguments = dict(arguments)
        with _sentences_of_c():
            self.handle = self.make_handle(arguments, seed)

    def make_handle(self, arguments: dict[str, Any], seed: int) -> object:
        """Makes the C environments over this object's arrays; returns their vec handle.

        A subclass overrides this to make its environments one by one, see ocean/template/README.md.
        """
        return self.binding.vec_init(*self.arrays_for_c(), self.num_envs, seed, **arguments)

    def arrays_for_c(self) -> list[np.ndarray]:
        """The arrays that `env_init` and `vec_init` of the binding take."""
        arrays = [self.observations, self.actions, self.rewards, self.terminals, self.truncations]
        return arrays + [self.action_masks] * self.has_action_masks + [self.masks] * self.has_turns

    @override
    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        with _sentences_of_c():
            self.binding.vec_reset(self.handle, seed)
        return self.observations, []

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        self._require_own_arrays()
        if actions is not self.actions:
            self.actions[...] = fitting_actions(actions, self.actions)
        try:  # not _sentences_of_c(), which takes longer than the step of a small game
            self.binding.vec_step(self.handle)
        except ValueError as error:
            raise APIUsageError(str(error)) from error
        return self.observations, self.rewards, self.terminals, self.truncations, self.report()

    def _require_own_arrays(self) -> None:
        observations, rewards, terminals, truncations = self._results
        if not (
            self.observations is observations
            and self.rewards is rewards
            and self.terminals is terminals
            and self.truncations is truncations
        ):
            raise APIUsageError(
                f"the arrays of {type(self).__name__} must stay those it was made with, and one was replaced; "
                "change it in place, as in self.rewards *= 2, or return another array from step"
            )

    def keep_final_observations(self) -> np.ndarray:
        """Has every episode's last observation kept, which the first one of the next episode takes the place of.

        Returns:
            An array like `observations`, which this object keeps writing to. A row holds what its agent saw last as of
            the step that set one of its flags, until the agent's next episode ends.
        """
        if self._final_observations is None:
            self._final_observations = np.zeros_like(self.observations)
            self.binding.vec_keep_final(self.handle, self._final_observations)
        return self._final_observations

    def tell_final_observations(self) -> None:
        """Has the infos of `step` tell the last observation of every episode that a limit cut, from now on."""
        if self.has_truncations:
            self.keep_final_observations()
            self._tells_final_observations = True

    def report(self) -> list[dict]:
        """Counts one step; returns its infos.

        These are, every `report_interval` steps, the statistics of the episodes finished since, and, where
        `tell_final_observations` was called, a dict with `final_observation` and `agent_id` for every agent whose
        episode this step truncated.
        """
        self._steps += 1
        infos = self.episode_statistics() if self._steps % self.report_interval == 0 else []
        if self._tells_final_observations and np.count_nonzero(self.truncations):  # faster than any()
            agents = np.flatnonzero(self.truncations > self.terminals)
            finals = zip(self._final_observations[agents], agents.tolist(), strict=True)
            infos += [{"final_observation": row, "agent_id": agent} for row, agent in finals]
        return infos

    def episode_statistics(self) -> list[dict]:
        """Means over the episodes finished since the last call and their count `n`; empty when there were none."""
        return means_of(self.binding.vec_log(self.handle))

    def render(self, index: int = 0) -> np.ndarray:
        """Draws environment `index` on a screen of its own; returns the frame, `(height, width, 3)` uint8."""
        frame = self.binding.env_render(self._env(index))
        self._is_drawn = True
        return frame

    def drawing(self, index: int = 0) -> Drawing:
        """What draws environment `index` anywhere on a screen; the environment must have been reset."""
        from pufferlib.ocean.rendering import Drawing

        return Drawing(self.binding.__name__.split(".")[-2], self._env(index))

    def _env(self, index: int) -> object:
        if index not in self._envs:
            self._envs[index] = self.binding.vec_env(self.handle, index)
        return self._envs[index]

    @override
    def snapshot(self) -> bytes:
        return self._steps.to_bytes(8, "little") + self.binding.vec_snapshot(self.handle)

    @override
    def restore(self, snapshot: bytes) -> None:
        """Puts back what `snapshot` returned.

        Raises:
            APIUsageError: if it is of other environments, of other arguments, damaged or forged; all stays as it was.
        """
        with _sentences_of_c():
            self.binding.vec_restore(self.handle, snapshot[8:])
        self._steps = int.from_bytes(snapshot[:8], "little")

    def structs(self) -> np.ndarray:
        """The C environments as they are, `(num_envs, bytes of one)` uint8: a copy without their arrays."""
        return np.frombuffer(self.binding.vec_structs(self.handle), np.uint8).reshape(self.num_envs, -1)

    def put_structs(self, structs: np.ndarray, steps: int) -> None:
        """Goes on from what `structs` returned and was stepped elsewhere, `steps` times; the arrays stay as they are.

        Raises:
            APIUsageError: if they are of other arguments or hold what no game reaches; all stays as it was.
        """
        with _sentences_of_c():
            self.binding.vec_put_structs(self.handle, structs)
        self._steps += steps

    @override
    def close(self) -> None:
        if self._is_drawn:
            from pufferlib.ocean import rendering

            rendering.close()
            self._is_drawn = False
        self.binding.vec_close(self.handle)


@contextlib.contextmanager
def _sentences_of_c() -> Iterator[None]:
    # The C side's errors are mistakes of the user's.
    try:
        yield
    except ValueError as error:
        raise APIUsageError(str(error)) from error


class TurnGame(OceanEnv):
    """`num_envs` games of an agent against the environment's bot, or of two agents, who take turns at legal moves."""

    has_truncations = False
    has_action_masks = True
    has_turns = True
    has_bot_moves = True

    def __init__(self, num_envs: int, opponent: str, arguments: dict[str, Any], **kwargs):
        self.agents_per_env = agents_against(opponent)
        super().__init__(num_envs, {**arguments, "agents": self.agents_per_env}, **kwargs)


def agents_against(opponent: str) -> int:
    """Agents of one game: 1 where the opponent is the environment's `bot`, 2 where it is the agent's `self`.

    Any other opponent is an APIUsageError.
    """
    return 1 + index_of("opponent", opponent, ("bot", "self"))


def index_of(name: str, value: str, words: Sequence[str]) -> int:
    """The place of an argument's value among the words that it may be; an APIUsageError if it is none of them."""
    if value not in words:
        raise APIUsageError(f"{name} must be {' or '.join(map(repr, words))}, got {value!r}")
    return words.index(value)


def means_of(sums: dict[str, float]) -> list[dict]:
    """The means that a report has, of the sums over episodes and their count `n`; empty when there were none."""
    count = sums["n"]
    means = {name: total / count for name, total in sums.items() if name != "n"} if count else {}
    return [{**means, "n": count}] if count else []


def warn_where_outdated(binding: ModuleType) -> None:
    """Warns where a compiled module does not follow its sources any more."""
    folder = Path(binding.__file__).parent
    if is_outdated(folder, getattr(binding, "__sources__", "")):
        warnings.warn(
            f"the C source of {folder.name} changed since it was compiled, and the old one is what runs; compile it by "
            "`python setup.py -q build_ext --inplace`",
            PufferWarning,
            stacklevel=4,
        )


@functools.cache
def is_outdated(folder: Path, compiled: str) -> bool:
    """Whether the sources in a folder are others than those that were `compiled`; False where nobody can tell."""
    return compiled != "" and (folder / "binding.c").exists() and fingerprint(folder) != compiled
