"""An agent: a trained policy in one's own code, from what an environment shows to what it takes.

    agent = pufferlib.load_agent("puffer_breakout")        # or the path of a run's folder, or of weights
    observation, info = env.reset()
    while True:
        observation, reward, terminated, truncated, info = env.step(agent.act(observation))
        if terminated or truncated:
            observation, info = env.reset()
            agent.reset()

Of a vector of environments, `agent.act(observations)` takes all rows at once and `agent.reset(terminated | truncated)`
forgets those whose episode ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib import vector
from pufferlib.agent.forms import ActionForms, ObservationForms, mask_of, own_spaces
from pufferlib.errors import APIUsageError
from pufferlib.metrics.finite import require_finite_weights
from pufferlib.policy import Logits, acting_forward
from pufferlib.ppo.sampling import greedy_action, sample_logits
from pufferlib.runs.policy_check import check_acting


class Agent:
    """A policy that acts in one environment or in many at once, and remembers what its recurrent layers do of each.

    It makes no environment, steps none and writes nothing. An agent of a small policy takes about a tenth of a
    millisecond for one observation, two where it draws, most of it torch's calls; a hundred rows in one call cost three
    times that. It may be pickled, memory included. One thread uses it at a time; agents share nothing with each other.

    Attributes:
        policy: the torch module that acts, in evaluation mode.
        device: where it is.
        settings: the nested dict of `load_config` that it was trained with; empty where nobody told.
        env: the environment that `load_agent` was given, for `evaluate`; None where the settings name it. It is not
            pickled.
        observation_space: of one observation, as the environment gives it.
        action_space: of one action, as the environment takes it.
    """

    def __init__(self, policy: nn.Module, env: Any, settings: Mapping[str, Any] | None = None, seed: int = 0):
        """Takes a policy and the spaces of an environment, which is asked for nothing else.

        Args:
            policy: any that `PuffeRL` would train, on its device; it is switched to evaluation mode.
            env: an environment or a vector of PufferLib's, or one of Gymnasium's or PettingZoo's.
            settings: what it was trained with, to be looked up.
            seed: of the actions that are drawn.

        Raises:
            APIUsageError: if the policy does not fit the environment.
            DivergedError: if a weight is infinite or NaN.
        """
        if not isinstance(policy, nn.Module):
            raise APIUsageError(
                f"policy must be a torch module, got {type(policy).__name__}; the order is (policy, env)"
            )
        env = vector.as_puffer_env(env)
        env = getattr(env, "driver_env", env)
        vector.check_env(env)
        self.policy = policy.eval()
        self.device = next((tensor.device for tensor in policy.state_dict().values()), torch.device("cpu"))
        self.settings = dict(settings or {})
        self.env: Any = None
        require_finite_weights(policy)
        check_acting(policy, env.single_observation_space, env.single_action_space, self.device)
        self.observation_space, self.action_space = own_spaces(env)
        self._observations = ObservationForms(self.observation_space)
        self._actions = ActionForms(self.action_space, self.action_space is env.single_action_space)
        self._forward = acting_forward(policy)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self._is_recurrent = hasattr(policy, "initial_state")
        self._state: dict[str, Tensor] = {}
        self._num_rows: int | None = None  # that the state is of

    @torch.inference_mode()
    def act(self, observations: Any, sample: bool = False) -> Any:
        """Chooses an action for one observation, or for each of many.

        Args:
            observations: one in the form of `observation_space`, dicts and tuples included; or many with a further
                first dimension, as vector environments give them; or rows of `single_observation_space`, as PufferLib's
                environments give them.
            sample: draw the action from the policy instead of taking the likeliest.

        Returns:
            For one observation what `env.step` takes, which is an int, an array or a structure of them, inside
            `action_space`. For many what a vector environment takes: arrays with a further first dimension.

        Raises:
            APIUsageError: if the observations have another form, or a recurrent policy remembers fewer or more rows.
            DivergedError: if the policy's logits are NaN and an action is to be drawn.
        """
        rows, is_one = self._observations.read(observations)
        state = self._remembered(len(rows))
        logits, _ = self._forward(self._tensor(rows), state)
        if self._is_recurrent:
            self._state, self._num_rows = state, len(rows)
        chosen = sample_logits(logits, generator=self._generator)[0] if sample else greedy_action(logits)
        chosen = chosen.cpu().numpy()
        return self._actions.one(chosen) if is_one else self._actions.many(chosen)

    @torch.inference_mode()
    def value(self, observations: Any) -> Any:
        """What the policy expects of observations: the discounted sum of the rewards to come, as it was trained on.

        It remembers nothing of them: call it before `act`.

        Args:
            observations: as for `act`.

        Returns:
            A float for one, `(rows,)` float32 for many.
        """
        (_, values), is_one = self._considered(observations)
        values = values.view(-1).float().cpu().numpy()
        return float(values[0]) if is_one else values

    @torch.inference_mode()
    def probabilities(self, observations: Any) -> Any:
        """How likely every choice is; it remembers nothing of the observations, as `value`.

        Args:
            observations: as for `act`.

        Returns:
            `(choices,)` float32 for one observation, `(rows, choices)` for many; a tuple of those where several choices
            make an action.

        Raises:
            APIUsageError: if actions are numbers, which have a density each and no probability.
        """
        (logits, _), is_one = self._considered(observations)
        parts = (logits,) if isinstance(logits, Tensor | Normal) else logits
        if any(isinstance(part, Normal) for part in parts):
            raise APIUsageError(f"probabilities() needs actions that are choices, got {self.action_space}; draw some")
        found = [part.float().softmax(-1).cpu().numpy() for part in parts]
        found = [each[0] if is_one else each for each in found]
        return found[0] if isinstance(logits, Tensor) else tuple(found)

    @torch.inference_mode()
    def reset(self, rows: Any = None) -> None:
        """Forgets what was before, where an episode begins. Policies without recurrent layers have nothing to forget.

        Args:
            rows: whose episode begins: a bool for each row, such as `terminated | truncated`; or indices; None for all,
                after which another number of rows may come.

        Raises:
            APIUsageError: if there are no such rows.
        """
        if rows is None:
            self._state, self._num_rows = {}, None
        elif self._num_rows is not None:
            begins = torch.from_numpy(mask_of(rows, self._num_rows)).to(self.device)
            for name, value in self._state.items():  # in no tensor of the policy's, which may be a view of another
                self._state[name] = value.masked_fill(begins.view(-1, *[1] * (value.dim() - 1)), 0)

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

    def _tensor(self, rows: np.ndarray) -> Tensor:
        return torch.from_numpy(rows).to(self.device)

    def _remembered(self, num_rows: int) -> dict[str, Tensor]:
        if not self._is_recurrent:
            return {}
        if self._num_rows is None:
            return dict(self.policy.initial_state(num_rows, self.device))
        if self._num_rows != num_rows:
            raise APIUsageError(
                f"this agent remembers {self._num_rows} rows and must get as many, got {num_rows}; call reset() before "
                "another number, or have one agent for each"
            )
        return self._state

    def _considered(self, observations: Any) -> tuple[tuple[Logits, Tensor], bool]:
        rows, is_one = self._observations.read(observations)
        state = {name: value.clone() for name, value in self._remembered(len(rows)).items()}
        return self._forward(self._tensor(rows), state), is_one
