"""The advantages of a rollout, computed anew whenever its values and ratios have changed."""

from __future__ import annotations

import torch
from torch import Tensor

from pufferlib.config import ResolvedTrainConfig
from pufferlib.extensions import compute_puff_advantage
from pufferlib.ppo import losses
from pufferlib.ppo.rollout import Rollout


class Advantages:
    """Keeps what does not change while a rollout is trained on in the form that the kernel takes.

    Attributes:
        resets: `(S, T)` bool, set where an episode begins, and where an absent agent waits for its next one.
    """

    def __init__(self, rollout: Rollout, config: ResolvedTrainConfig):
        """Allocates for a rollout that is filled again and again; `take` follows each time."""
        self._rollout = rollout
        self._config = config
        self.resets = torch.zeros_like(rollout.logprobs, dtype=torch.bool)
        # All (S, T + 1) float32: 1 where the observation is not of the same episode as the one before; 1 where a limit
        # ended the episode and no value of its final observation is known; rewards; rewards with all bootstraps; the
        # result.
        self._ends, self._cuts, self._rewards, self._bootstrapped, self._result = (
            torch.zeros_like(rollout.values) for _ in range(5)
        )

    def take(self) -> None:
        """Takes the rewards and the ends of episodes from the rollout, which was just filled."""
        rollout, finals = self._rollout, self._rollout.finals
        ends = rollout.terminals | rollout.truncations | rollout.pending
        self._ends.copy_(ends)
        self.resets.copy_(ends[:, :-1])
        self._rewards.copy_(rollout.rewards)
        if not self._config.truncation_bootstrap:
            self._cuts.zero_()
            return
        self._cuts.copy_(rollout.truncations & ~rollout.terminals)
        if finals is not None:
            self._rewards[finals.segments, finals.columns] += self._config.gamma * finals.values
            self._cuts[finals.segments, finals.columns] = 0.0

    def compute(self) -> Tensor:
        """`(S, T)` from the values and ratios as they are now; a view of a tensor that the next call overwrites."""
        rollout, config = self._rollout, self._config
        rewards = losses.bootstrap_truncations(
            self._rewards, rollout.values, self._cuts, config.gamma, out=self._bootstrapped
        )
        compute_puff_advantage(
            rollout.values,
            rewards,
            self._ends,
            rollout.ratios,
            self._result,
            config.gamma,
            config.gae_lambda,
            config.vtrace_rho_clip,
            config.vtrace_c_clip,
        )
        return self._result[:, :-1]
