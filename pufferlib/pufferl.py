"""PuffeRL: the PPO trainer. `python -m pufferlib.pufferl train puffer_breakout` runs it from the command line.

One iteration is `evaluate()`, which collects a rollout, and `train()`, which learns from it. The algorithm is in ppo/:
collector.py steps the environments, learner.py the optimizer, losses.py has the formulas; fast/choose.py says what
computes it. This file puts them in order; runs/ has how a trainer is called and what it leaves on disk, metrics/ what
it tells.
"""

from __future__ import annotations

if __name__ == "__main__":  # a program that only starts the command line, before the imports below: torch takes a while
    import runpy

    runpy.run_module("pufferlib", run_name="__main__")

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from typing_extensions import overload

from pufferlib.config import load_config
from pufferlib.distributed import ROUNDING
from pufferlib.errors import APIUsageError, DivergedError, PufferWarning, StorageError
from pufferlib.extensions import compute_puff_advantage
from pufferlib.fast.choose import choose
from pufferlib.fast.device_collector import DeviceCollector
from pufferlib.loggers import NeptuneLogger, WandbLogger
from pufferlib.metrics.finite import describe_update, explaining
from pufferlib.metrics.report import Counts, Report
from pufferlib.metrics.score import Score, final_metrics
from pufferlib.ocean import PREFIX
from pufferlib.play.periodic_evaluation import PeriodicEvaluation
from pufferlib.play.whole_episodes import final_episodes, play_whole_episodes
from pufferlib.policy.normalized import NormalizedObservations
from pufferlib.ppo.gradients import Loss
from pufferlib.runs import checkpoint_file, learning, run_checkpoint, training
from pufferlib.runs.agreement import Agreement
from pufferlib.runs.calls import AnyLogger, resolve_call
from pufferlib.runs.early_notes import observation_far_outside
from pufferlib.runs.loaders import load_env, load_policy
from pufferlib.runs.metadata import plain_metadata
from pufferlib.runs.policy_check import check_policy, check_state, move_policy
from pufferlib.runs.run import Run
from pufferlib.runs.trainer_state import Collected, Progress, TrainerParts
from pufferlib.seeding import mix_seed

__all__ = [
    "NeptuneLogger",
    "PuffeRL",
    "WandbLogger",
    "compute_puff_advantage",
    "load_config",
    "load_env",
    "load_policy",
    "train",
]


def _of_rollout(name: str, meaning: str) -> property:
    """A tensor of the last rollout, `(segments, bptt_horizon, ...)`, without the column that bootstraps."""

    def get(trainer: PuffeRL) -> torch.Tensor:
        return getattr(trainer.rollout, name)[:, : trainer.rollout.horizon]

    return property(get, doc=f"`(segments, bptt_horizon{meaning}")


_SCORE_SEED = 0x73636F7265  # no rank of a run has this number, so no training environment has such a seed


class PuffeRL:
    """Trains a policy in a vector of environments.

    Of several processes that torchrun started each makes a trainer, with environments of its own; all of them call the
    same methods in the same order.

    Attributes:
        config: the settings, resolved for these environments and this device.
        vecenv: the vector of environments.
        policy: the module that is trained, on `device`.
        device: of the policy.
        ranks: this process among those that train together.
        rollout: what was collected last.
        epoch: iterations of `evaluate` and `train` done so far.
        run: its name and folder, loggers and checkpoints.
        report: what is measured and shown of it.
        final_scores: of the policy after the last epoch, where `score_finally` asked for them; as `score` gives them.
        chosen: a sentence for each thing that was seen of the environment, with the settings that follow from it; see
            pufferlib/config/automatic.py. Empty where the settings are a configuration's.
    """

    @overload
    def __init__(
        self,
        config: Mapping[str, Any],
        vecenv: Any,
        policy: nn.Module,
        logger: AnyLogger = None,
        *,
        eval_env: Any = None,
        loss: Loss | None = None,
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
        loss: Loss | None = None,
        **settings: Any,
    ): ...

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
            loss: what is minimised; see below.

        By keyword, `PuffeRL(env, policy=None, logger=None, **settings)`; the first argument tells the two apart:

        Args:
            env: a PufferEnv (or a wrapper that has its methods), an environment of Gymnasium or PettingZoo, a
                `gymnasium.vector.VectorEnv`, a vector, a name for `pufferlib.make`, or a class or function that makes
                one of these. Closing the trainer closes it. A PufferEnv has one trainer at a time: a second one takes
                it over, and the first can then only be saved and closed.
            policy: as above; None makes one for the environment's spaces, with the same weights for the same `seed`:
                the class that a name's configuration has, such as `Convolutional` for Atari, or what is chosen, see
                below.
            device: `auto` (CUDA, then MPS, then the CPU), `cpu`, `cuda`, `cuda:N` or `mps`.
            learning_rate: 3e-4.
            batch_size: agent steps in one rollout, 32768; by default rounded up to whole segments of all agents.
            n_epochs: passes over each rollout, 4; `[train] update_epochs` by another name.
            num_envs: 256, or 16 of those that are one environment each; environments to make where `env` is a name, a
                class or a function. One that has `num_envs` itself is called once with it, any other once for each
                environment; a `functools.partial` that fixes `num_envs` keeps it.
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
                ones; `auto` follows the cores, and steps an environment in this process where a step takes less than
                handing it over.
            eval_env: what the `evaluations` of the settings play in, in any form that `env` may have; closed with the
                trainer. None makes `evaluation_envs` environments as those of the training were made, of other seeds,
                which needs an `env` that is a name, a class, a function, or a vector from `pufferlib.vector.make`.
            loss: a function of the signature of `pufferlib.ppo.losses.ppo_loss`, which it is where none is given. It is
                called with the `[train]` settings that its keywords name, runs through torch, and its metrics are
                logged as `losses/...`.
            settings: every other `[train]` setting. Where nobody sets them, the optimizer is adam (beta 0.9, eps 1e-5),
                the learning rate stays as it is unless `total_timesteps` or `num_iterations` gives it an end to anneal
                to, rewards are not clipped, segments are drawn evenly, a minibatch is a quarter of the batch, but
                of more than 1,024 steps at most a 32nd, and every epoch is logged.

        These numbers are for a full vector: a PufferEnv of 64 agents or more, as C environments make. With fewer they
        would be few steps of the optimizer, so what is not given then follows from what is seen: the spaces, the
        number of agents, and whether the policy remembers. A batch has 2,048 steps or more, minibatches of single
        steps, more passes and normalised rewards. `chosen` and the first lines of `learn` tell the values;
        pufferlib/config/automatic.py is the table. What is given is never changed.

        Raises:
            APIUsageError: if the arguments fit neither form, or an output of the policy does not fit the environment.
            ConfigError: if a setting is wrong, or does not fit the number of agents.
            UnknownEnvironmentError: if `env` is a name that no environment has.
        """
        with ExitStack() as undo:
            call = resolve_call(arguments, keywords, undo)
            self.config, self.ranks, self.device = config, ranks, device = call.config, call.ranks, call.device
            self.env_name, self.vecenv, self.policy = call.env_name, call.vecenv, call.policy
            self.chosen = tuple(call.chosen)
            self._generator = torch.Generator(device).manual_seed(ranks.seed(config.seed))
            self.report = Report(device, config.total_timesteps, config.dashboard_interval_seconds)
            self.phases = self.report.phases
            self.rollout = call.allocate_rollout()
            self._choice = choose(self.policy, self.rollout, config, device, call.loss)
            self._reward_normalizer = call.make_reward_normalizer()
            actor = self._choice.actor(self.rollout, self.vecenv.num_agents, self._generator)
            settings = config.reward_clip, self.phases, self._reward_normalizer, config.skip_nonfinite
            self._collector = self._choice.collector(self.vecenv, actor, *settings)
            learned = self.rollout.single_steps() if config.shuffle == "steps" else self.rollout
            learning = self._choice.gradients(learned), self._generator, self.phases, ranks
            self._learner = self._choice.learner(self.rollout, *learning)
            playing = self.policy, device, self._choice.autocast, self.phases
            self._evaluation = PeriodicEvaluation(config, call.make_evaluation_vecenv, *playing)
            parts = self.policy, self._learner, self._reward_normalizer, self._collector, self.report, self._generator
            self._parts = TrainerParts(*parts)
            self.run = Run(call, lambda: self._choice.describe())
            self.vecenv.tells_final_observations = config.truncation_bootstrap
            self._collector.reset(None if ranks.is_first else ranks.seed(self.vecenv.seed))  # the first keeps its own
            self._learning_rate = config.learning_rate
            self.epoch = self._steps = 0  # steps but for those that are being summed over all processes
            self._steps_underway: Any = None  # the Total of the others
            self._skipped_steps = self._skipped_minibatches = 0
            self._collected: Collected | None = None
            self._stats: dict[str, float] = {}
            self._is_final_wanted: Callable[[], bool] | None = None
            self.final_scores: dict[str, Score] = {}
            self._agreement = Agreement(ranks, self.policy)
            self._are_weights_compared = False  # with those of the other processes, since the run began or was loaded
            self._is_closed = False
            undo.pop_all()  # it worked: nothing is to be undone

    # ------------------------------------------------------------------------------------------------ the iterations

    def learn(
        self,
        total_timesteps: float | None = None,
        callbacks: Iterable[Any] | Callable[..., Any] = (),
        *,
        dashboard: bool = True,
    ) -> PuffeRL:
        """Trains for a number of agent steps, iteration after iteration, and saves a checkpoint at the end.

        Ctrl-C, or SIGTERM, lets the running iteration end, saves a checkpoint and raises KeyboardInterrupt; `learn` may
        be called again then, as after any other end but an error.

        Args:
            total_timesteps: of all agents and processes, in addition to those before, rounded up to whole iterations.
                A learning rate that is annealed reaches 0 after them. None goes on to the end that the settings name.
            callbacks: what is asked after each iteration, in this order, whether to stop: objects with
                `on_iteration(trainer, logs)`, or functions of these two, which return True to stop, False or None to go
                on; or a single one. `pufferlib.callbacks` has some, and tells of `logs`. Of several processes each asks
                its own, and the answer of the first counts.
            dashboard: whether to show how it goes, as `print_dashboard` does.

        Returns:
            The trainer.

        Raises:
            APIUsageError: if an argument is wrong, or the trainer is closed.
            CallbackError: if a callback raised: a checkpoint was saved, and the trainer is closed.
            DivergedError: if there is nothing finite to go on from.
        """
        self._require_open()
        self._agree("learn")
        learning.learn(self, total_timesteps, callbacks, dashboard)
        return self

    def evaluate(self) -> dict[str, float]:
        """Collects one rollout with the current policy.

        Between iterations the policy may be changed: parameters frozen (`requires_grad_(False)`) and freed, layers
        replaced. Where `load_checkpoint` has just brought a rollout that `train` had not learned from, this is taken.

        Returns:
            Means of what the environments report of the episodes that ended, and their number `n`; and the trainer's
            own `episode/...` of `mean_and_log`. Empty when none ended. Environments may report later than the
            episodes end, or never.

        Raises:
            DivergedError: if a reward is infinite or NaN, or an observation is and the policy cannot act on it; it
                names agent and step.
        """
        self._require_open()
        self._follow_policy("evaluate")
        if not self._are_weights_compared:
            self._require_same_weights()
            self._are_weights_compared = True
        if self._collected is not None and not self._collected.is_returned:
            self._collected.is_returned = True
            self._stats = self._collected.statistics
            return self.stats
        self._collected = None
        with self.run.telling_what_is_kept(), self.report.iteration:
            with self._explaining():
                with self._learner.gradients.limit_caller():
                    steps = self._collector.collect(self.global_step)
                self._learner.prepare()
            self._collector.require_steps()
        if self.epoch == 0 and self.ranks.is_first and not self.env_name.startswith(PREFIX):
            found = observation_far_outside(self.rollout, self.vecenv)
            if found is not None:
                warnings.warn(found, PufferWarning, stacklevel=2)
        self._steps, self._steps_underway = self.global_step, self.ranks.start_total(steps)
        self.report.episodes.merge(self._collector.statistics)
        self._collected = Collected(self._steps_underway, self._collector.statistics.take())
        self._stats = self._collected.statistics
        return self.stats

    def train(self) -> dict[str, float]:
        """Learns from the rollout that `evaluate` collected, logs and saves where the intervals say so.

        Returns:
            `policy_loss, value_loss, entropy, old_approx_kl, approx_kl, clipfrac, importance`, means over the
            minibatches of this call, and `explained_variance`. With `skip_nonfinite` also `skipped_steps` and
            `skipped_minibatches`: how many this process has left out since it began.

        Raises:
            APIUsageError: if `evaluate` was not called since the last `train`.
            DivergedError: if a loss or a weight is not finite any more; nothing was logged or saved since.
        """
        self._require_open()
        if self._collected is None:
            raise APIUsageError("train() needs a new rollout; call evaluate() first")
        self._follow_policy("train")
        collected, self._collected = self._collected, None
        with self.run.telling_what_is_kept(), self.report.iteration:
            is_full = collected.steps.result() == self.config.batch_size  # no agent was absent, in any process
            with self._explaining():
                losses = self._learner.learn(self.learning_rate, self._progress, is_full)
            self._check_update(losses)
            if self.config.skip_nonfinite:
                losses |= self._count_skipped()
            if isinstance(self.policy, NormalizedObservations):
                with self._explaining():
                    self.policy.update(self.rollout.seen, self.ranks)
        self.report.losses = losses
        self.epoch += 1
        self._do_what_is_due()
        return dict(losses)

    def _count_skipped(self) -> dict[str, int]:
        self._skipped_steps += self._collector.skipped_steps
        self._skipped_minibatches += self._learner.skipped_minibatches
        return {"skipped_steps": self._skipped_steps, "skipped_minibatches": self._skipped_minibatches}

    def _check_update(self, losses: Mapping[str, float]) -> None:
        """Raises DivergedError where an update left anything not finite, or skipped all of its minibatches."""
        self._learner.require_steps()
        found = describe_update(losses, self._learner.weight_norm, self.policy, self._learner.learning_rate)
        if found is not None:  # an observation may be to blame: nobody has waited for a GPU to say so
            raise DivergedError(self._collector.find_not_finite() or found)

    def _do_what_is_due(self) -> None:
        """What comes after some epochs: a check of the weights, an evaluation, a log, a checkpoint."""
        config = self.config
        if config.weights_check_interval and self.epoch % config.weights_check_interval == 0:
            self.ranks.check_same(list(self.policy.state_dict().values()), "weights")
        is_last = self.epoch >= config.total_epochs
        is_evaluated = self._evaluation.is_due(self.epoch, config.total_epochs)
        if is_evaluated:
            self.run.require_finite(self._parts, self._learning_rate)  # before they are the best
            self.ranks.wait_for_first(self._evaluate_apart)
        if is_last and self._is_final_wanted is not None:
            self._play_finally(self._is_final_wanted)
        if is_evaluated or is_last or self.epoch % config.log_interval == 0:
            self.mean_and_log()
        if self.epoch % config.checkpoint_interval == 0:
            with self.run.outliving_full_disks():
                self.save_checkpoint()

    def _evaluate_apart(self) -> None:
        with self.run.outliving_full_disks():
            self.run.open()
            self._evaluation.run(self.run.folder, run_checkpoint.note(self.env_name, self._how_far()))

    def _play_finally(self, is_wanted: Callable[[], bool]) -> None:
        """Scores the final policy; what goes wrong there, as in a user's environment, is only warned about."""
        with self.run.outliving_full_disks():
            self.save_checkpoint()  # before anything that takes its time
        try:
            self.final_scores = self.ranks.from_first(lambda: self.score(is_wanted=is_wanted))
        except Exception as error:
            message = f"the final policy could not be scored: {type(error).__name__}: {error}; its weights are saved"
            warnings.warn(message, PufferWarning, stacklevel=5)

    def _explaining(self) -> AbstractContextManager[None]:
        """Replaces an error of the policy by the number that led to it, see `explaining`."""
        return explaining(self._collector.find_not_finite, self.policy, self._collector.find_layer)

    def _agree(self, call: str, changed: nn.Module | None = None) -> None:
        """Has all processes compare the call and what its result depends on; the next message raises the error."""
        self._agreement.start(call, self.config, self._learning_rate, changed)

    def _require_same_weights(self) -> None:
        self.ranks.check_same(list(self.policy.parameters()), "weights", ROUNDING)

    def _follow_policy(self, call: str) -> None:
        """Chooses anew what computes and trains the policy where it was changed: parts replaced, frozen, or hooked.

        All processes compare it, and the call that it is for.

        Raises:
            APIUsageError: if it does not fit the environment any more, has another state, or is another module.
        """
        if self.policy is not self._choice.policy:
            raise APIUsageError(
                "the policy must stay the module that the trainer was made with, got another "
                f"{type(self.policy).__name__}; replace parts of it, or make a new PuffeRL"
            )
        is_outdated = self._choice.is_outdated()
        self._agree(call, self.policy if is_outdated else None)
        if not is_outdated:
            return
        if isinstance(self.policy, NormalizedObservations):
            self.policy.find_forms()
        move_policy(self.policy, self.device)
        check_policy(self.policy, self.vecenv.single_observation_space, self.vecenv.single_action_space, self.device)
        check_state(self.policy, self.rollout.states, self.device)
        self.ranks.broadcast(list(self.policy.state_dict().values()))
        self._choice = choose(self.policy, self.rollout, self.config, self.device, self._choice.loss)
        self._choice.take_over(self._collector, self._learner, self._generator)

    # ---------------------------------------------------------------------------------------------- how far it has come

    @property
    def global_step(self) -> int:
        """Agent steps collected so far, by all processes."""
        if self._steps_underway is not None:
            self._steps += int(self._steps_underway.result())
            self._steps_underway = None
        return self._steps

    @property
    def total_epochs(self) -> int:
        """Iterations of the whole run, as many as reach `total_timesteps`.

        Assigning to it sets where the run ends, and with it what the learning rate is annealed over.
        """
        return self.config.total_epochs

    @total_epochs.setter
    def total_epochs(self, value: int) -> None:
        steps = value * self.config.batch_size
        self.config = replace(self.config, total_timesteps=steps, num_iterations=None)
        self.report.total_steps = steps
        self.run.set_length(steps)

    @property
    def _progress(self) -> float:
        """Of the whole run, 0 to 1."""
        # LaTeX: p = \min(\mathrm{epoch} / \mathrm{total\_epochs},\ 1) ; p = _progress
        return min(self.epoch / self.config.total_epochs, 1.0)

    @property
    def learning_rate(self) -> float:
        """The learning rate of this epoch, which is the one set, annealed along `lr_schedule` to `min_learning_rate`.

        Assigning to it sets the rate that the schedule starts from, from the next `train` on.
        """
        start, end = self._learning_rate, min(self._learning_rate, self.config.min_learning_rate)
        if not self.config.anneal_lr:
            return start
        # LaTeX: p = \min(\mathrm{epoch} / \mathrm{anneal\_epochs},\ 1) ; p = progress
        progress = min(self.epoch / self.config.anneal_epochs, 1.0)
        # LaTeX: l = 1 - p \quad \text{or} \quad l = \tfrac12 (1 + \cos \pi p) ; l = left
        left = 1.0 - progress if self.config.lr_schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
        # LaTeX: \eta = \eta_1 + (\eta_0 - \eta_1)\, l ; \eta = learning_rate, \eta_0 = start, \eta_1 = end
        return end + (start - end) * left

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate = value

    @property
    def uptime(self) -> float:
        """Seconds of training, those before a resume included."""
        return self.report.uptime

    @property
    def sps(self) -> float:
        """Agent steps per second since the last log, or of that log until a step is collected."""
        return self.report.sps(self.global_step)

    # -------------------------------------------------------------------------------- what PufferLib 3.0 shows as well

    observations = _of_rollout("observations", ", *shape)`, what the agents saw; a view of it, as all here.")
    actions = _of_rollout("actions", ", *shape)`, what they did then.")
    logprobs = _of_rollout("logprobs", ")`, of the actions when they were taken.")
    values = _of_rollout("values", ")`, of the observations; refreshed by training.")
    rewards = _of_rollout("rewards", ")`, those that arrived with the observation, for the action before it.")
    terminals = _of_rollout("terminals", ")` bool, whether the episode before the observation ended by itself.")
    truncations = _of_rollout("truncations", ")` bool, whether it was cut, as by a limit.")
    ratio = _of_rollout("ratios", ")`, probability of the action now over that when it was taken; 1 until trained on.")

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Steps the parameters; its learning rate is set before every update, see `learning_rate`."""
        return self._learner.optimizer

    @property
    def stats(self) -> dict[str, float]:
        """What the last `evaluate` returned; empty before it."""
        return dict(self._stats)

    @property
    def losses(self) -> dict[str, float]:
        """What the last `train` returned; empty before it."""
        return dict(self.report.losses)

    @property
    def segments(self) -> int:
        """Segments in a rollout of this process."""
        return self.rollout.segments

    @property
    def total_minibatches(self) -> int:
        """Minibatches of an update; one that is left over in part comes with the next."""
        return int(self.config.minibatches_per_epoch)

    def __getattr__(self, name: str) -> Any:
        moved = _MOVED.get(name)
        remedy = f"; PufferLib 3.0 had it, here it is {moved}" if moved else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{remedy}")

    # ------------------------------------------------------------------------------------------------ what it tells

    @property
    def computed_by(self) -> str:
        """What computes the policy, in brackets why it is nothing faster, and whether environments are on the GPU, too.

        See fast/choose.py.
        """
        place = f", {self._collector.place}" if isinstance(self._collector, DeviceCollector) else ""
        return f"{self._choice}{place}"

    @property
    def is_logged(self) -> bool:
        """Whether the metrics of the last epoch were sent to the logger."""
        return self.epoch == self.report.logged_epoch

    def mean_and_log(self) -> dict[str, float]:
        """Sends the metrics of the epochs since the last call to the logger.

        Called twice within one epoch it returns the same metrics and logs nothing. Unless said otherwise they speak of
        the time since the last log. Means weigh every episode the same; what there is no number for is left out. Steps,
        episodes and losses are those of all processes, times and hardware this one's.

        Returns:
            The metrics by name.

            - `agent_steps`, `epoch`, `uptime` in seconds: so far. `sps`: agent steps per second.
            - `learning_rate`: the last one used.
            - `iteration_seconds`: wall time of one `evaluate` and `train`, the mean.
            - `episode/return_mean, return_min, return_max, length_mean, count`: of the episodes that ended, from the
              environments' rewards before they are clipped, without the steps of absent agents.
            - `environment/<name>`: means of what environments report of episodes, `environment/n` of them.
            - `since_start/<metric>`: the two above since the run began, resumes included.
            - `losses/<name>`: of the last update, as `train` returns them.
            - `eval/return_mean, return_std, return_min, return_max, length_mean`: of the agents' episodes in an
              evaluation of this epoch, if there was one. Its time counts in `sps`, not in `iteration_seconds`.
            - `final/<name>`: in the last log of `pufferl.train`, what the final policy scored in `final/n` whole
              episodes, such as `final/return_mean`, `final/length_mean` and what environments report; see `score`.
            - `performance/<phase>`: shares of the wall time, in all 1: `environment`, `store` and `forward` of the
              rollout, `advantage` and `learn` of the update, `evaluation`, `communicate` with other processes, and
              `other`. Waiting for a GPU to end the update is `learn`, and so is all of the update where minibatches are
              captured.
            - `device/<phase>`: shares of the same time in which a CUDA device worked on the update's phases. (In the
              rollout every step waits for the device, so that the wall time has it all.)
            - `hardware/cpu, memory, memory_bytes` and, with the extra `gpu`, `hardware/gpu, gpu_memory,
              gpu_memory_bytes`: what is used of the machine, see HardwareMeter.
        """
        if not self.is_logged:
            self._agree("mean_and_log")
            episodes = self.ranks.gather(self.report.episodes.state_dict())
            played = {**self._evaluation.take(), **final_metrics(self.final_scores)}
            metrics = self.report.log(self._counts(), played, episodes)
            with self.run.outliving_full_disks():
                self.run.open()
            self.logger.log(metrics, self.global_step)
        return dict(self.report.metrics)

    def score(self, episodes: int | None = None, is_wanted: Callable[[], bool] = lambda: True) -> dict[str, Score]:
        """Plays whole episodes with the policy as it is, in environments of their own, by actions drawn as in training.

        What `mean_and_log` says of episodes is of those that ended since the last log, of which long ones lack early in
        a run. Here every environment plays as many episodes as any other, to the end. The same weights have the same
        score. The training does not notice, and the time does not count as its own. Of several processes only the one
        that calls it plays.

        Args:
            episodes: how many; None is what `[train] final_episodes` says, which may be 0.
            is_wanted: asked after every step of the play, which ends once it says False: then there are no scores.

        Returns:
            A `mean` with its `standard_error` and the number of `episodes`, by the names of `mean_and_log`, such as
            `environment/score` and `episode/return_mean`. Empty where none ended, or where no environments can be made
            as those of the training, as from a ready one that was not made by its name or by `pufferlib.vector.make`.

        Raises:
            APIUsageError: if `episodes` is no number above 0.
        """
        self._require_open()
        if episodes is not None and not episodes >= 1:
            raise APIUsageError(f"score() needs 1 episode or more, got {episodes}")
        count = final_episodes(self.config.final_episodes if episodes is None else episodes, self.vecenv)
        if count < 1:
            return {}
        settings = mix_seed(self.config.seed, _SCORE_SEED), self.config.evaluation_max_steps
        with self.report.uncounted():
            return play_whole_episodes(self.policy, self.vecenv, count, *settings, is_wanted)

    def score_finally(self, is_wanted: Callable[[], bool]) -> None:
        """Has the policy play after the last epoch, as `score` does; the last log then has `final/...`.

        Args:
            is_wanted: as for `score`.
        """
        self._is_final_wanted = is_wanted

    def print_dashboard(self) -> None:
        """Shows how it goes: a panel on a terminal or in a notebook, every `dashboard_interval_seconds`.

        Elsewhere it is a line per log. Call it as often as you like. Of several processes the first shows it, with the
        speed of all.
        """
        if self.ranks.is_first:
            self.report.show(self.env_name, self._facts, self._counts())

    def _counts(self) -> Counts:
        return Counts(self.epoch, self.global_step, self._learner.learning_rate)

    def _facts(self) -> dict[str, str]:
        """What the dashboard shows of the run, the first first where there is little room."""
        return {
            "device": str(self.device),
            "computed by": self.computed_by,
            "agents": f"{self.vecenv.num_agents:,}",
            "parameters": f"{sum(parameter.numel() for parameter in self.policy.parameters()):,}",
            "run": str(self.run.folder),
        }

    # ------------------------------------------------------------------------------------------------ what outlives it

    @property
    def logger(self) -> Any:
        """Where metrics go; may be replaced before the first log."""
        return self.run.logger

    @logger.setter
    def logger(self, logger: Any) -> None:
        self.run.logger = logger

    @property
    def run_folder(self) -> Path:
        """Where checkpoints and metrics go; made with the first of them."""
        return self.run.folder

    def save_checkpoint(self, path: str | Path | None = None, metadata: Mapping[str, Any] | None = None) -> str:
        """Writes the weights, then everything else that a resume needs; a kill leaves the checkpoint before it whole.

        Between `evaluate` and `train` the rollout is saved as well, so that nothing of it is lost: see
        `load_checkpoint`. A single file, and environments that have no snapshots, go on without it, and its steps do
        not count then. After a rollout that failed, the run begins other episodes when it is resumed.

        Args:
            path: one file for all but the environments, as for a next stage in other ones; None is the run folder.
            metadata: numbers, text, lists and dicts to keep with it; for anything else APIUsageError names the key.

        Returns:
            The path, or that of the weights in the run folder, which is `<run folder>/model_<env>_<epoch>.pt`.

        Raises:
            DivergedError: if a weight, the optimizer's state or a statistic is not finite: then nothing was written.
            StorageError: if it cannot be written, as on a full disk; what was saved before is as it was.
            CheckpointError: if another process is writing to the run's folder.
        """
        metadata = plain_metadata(metadata)
        self._agree("save_checkpoint")
        self.run.require_finite(self._parts, self._learning_rate)
        self._require_same_weights()
        progress = self._how_far()
        if path is not None:
            parts, describe = self._parts, self.run.describe
            return self.ranks.from_first(lambda: checkpoint_file.save(path, parts, progress, metadata, describe()))
        statistics = None if self._collected is None else self._collected.statistics
        return self.run.save(self._parts, progress, statistics, metadata)

    def _how_far(self) -> Progress:
        report = self.report
        untrained = 0 if self._collected is None else int(self._collected.steps.result())
        logged = report.logged_epoch, report.logged_step
        counts = self.epoch, self.global_step, untrained, report.uptime
        return Progress(*counts, self._learning_rate, *logged, report.losses)

    def load_checkpoint(self, path: str | Path) -> dict[str, Any]:
        """Goes on where a checkpoint was saved; one that is refused leaves the trainer as it was.

        By another number of processes than then, and where environments have no snapshots, as those in Python, other
        episodes are begun.

        Args:
            path: a run folder: training goes on as if it had not stopped, on a CPU bit for bit, and in that folder.
                After one that was saved between `evaluate` and `train` either may be called: `evaluate` then returns
                what it had returned, and collects nothing. Or a file of `save_checkpoint(path)`: the environments stay
                as they are, and `evaluate` comes next.

        Returns:
            The metadata that was saved with it.

        Raises:
            CheckpointError: if there is no checkpoint, it is damaged, or it was made with other settings or by an older
                version.
        """
        self._follow_policy("load_checkpoint")  # the optimizer gets what belongs to the parts of now
        progress, statistics, metadata = self.run.load(Path(path), self._parts)
        self.epoch, self._steps, self._steps_underway = progress.epoch, progress.global_step, None
        self._learning_rate = progress.learning_rate
        self.report.go_on(progress.uptime, progress.logged_epoch, progress.logged_step, progress.losses)
        self._collected, self._are_weights_compared = None, False
        if statistics is not None:
            steps = self.ranks.start_total(progress.untrained_steps if self.ranks.is_first else 0)
            self._collected = Collected(steps, statistics, is_returned=False)
        return metadata

    def close(self) -> str:
        """Saves the last checkpoint and lets go of environments, dashboard and logger; twice is harmless.

        Returns:
            The path of the final weights; called again after it failed, of the last ones that were saved.

        Raises:
            DivergedError: if there are no finite weights to save; it names the last checkpoint, which is kept, and
                everything was let go.
            StorageError: if they cannot be written; nothing was let go, and with room made it may be called again.
        """
        if not self._is_closed:
            try:
                self._save_last()
            except StorageError:
                raise
            except BaseException:
                self.release()
                self.logger.close(None)
                raise
            self.release()
            self.logger.close(str(self.run.model_path))
        return str(self.run.model_path)

    def _save_last(self) -> None:
        self._agree("close")
        path = self.run.model_path
        if path is None or not path.name.endswith(f"_{self.epoch:06d}.pt"):
            self.save_checkpoint()
        else:
            self.run.require_finite(self._parts, self._learning_rate)
            self._require_same_weights()

    def release(self) -> None:
        """Lets go of the environments and the dashboard without saving; for a trainer that failed."""
        self._is_closed = True
        for part in (self.report, self._learner.gradients, self._collector.actor, self._evaluation, self.vecenv):
            part.close()
        self.run.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise APIUsageError("the trainer is closed; make a new PuffeRL")


_MOVED = {
    "batch_size": "trainer.config.batch_size",
    "minibatch_size": "trainer.config.minibatch_size",
    "minibatch_segments": "trainer.config.minibatch_segments",
    "accumulate_minibatches": "trainer.config.accumulation_steps",
    "importance": "trainer.ratio",
    "total_agents": "trainer.vecenv.num_agents",
    "last_stats": "trainer.stats",
    "model_size": "sum(p.numel() for p in trainer.policy.parameters())",
    "start_time": "trainer.uptime, in seconds",
    "profile": "trainer.mean_and_log()['performance/...']",
    "utilization": "trainer.mean_and_log()['hardware/...']",
    "scheduler": "trainer.learning_rate, which follows `lr_schedule`",
    "lstm_h": "trainer.rollout.states",
    "lstm_c": "trainer.rollout.states",
}
"""Attributes of PufferLib 3.0's trainer by other names."""


def train(
    env_name: str,
    args: dict[str, Any] | None = None,
    vecenv: Any = None,
    policy: nn.Module | None = None,
    logger: AnyLogger = None,
) -> list[dict[str, float]]:
    """Trains from the first step to the last: what `puffer train` does.

    Ctrl-C, or SIGTERM, lets the running iteration end, saves a checkpoint and raises KeyboardInterrupt.

    Args:
        env_name: such as `puffer_breakout`.
        args: settings from `load_config`, which is also the default. `args['resume']` goes on with an earlier run.
        vecenv: default `load_env(env_name, args)`.
        policy: default `load_policy(args, vecenv, env_name)`.
        logger: beside `metrics.jsonl` in the run's folder; default what the `[log]` settings ask for.

    Returns:
        The metrics of every log in the last 80% of the steps.
    """
    return training.train(PuffeRL, env_name, args, vecenv, policy, logger)
