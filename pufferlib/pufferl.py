"""PuffeRL: the PPO trainer. `python -m pufferlib.pufferl train puffer_breakout` runs it from the command line.

One iteration is `evaluate()`, which collects a rollout, and `train()`, which learns from it. The algorithm is in ppo/:
collector.py steps the environments, learner.py the optimizer, losses.py has the formulas; fast/choose.py chooses the
kernels. runs/ resolves the arguments and writes checkpoints, metrics/ measures.
"""

from __future__ import annotations

if __name__ == "__main__":  # a program that only starts the command line, before the imports below: torch takes a while
    import runpy

    runpy.run_module("pufferlib", run_name="__main__")

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from typing_extensions import overload

from pufferlib import distributed, errors
from pufferlib.config import SelfplayConfig, load_config, require_whole
from pufferlib.config.schema import words
from pufferlib.dashboard.output import say
from pufferlib.dashboard.report import Report
from pufferlib.dashboard.score import Score, final_metrics, final_text
from pufferlib.distributed import ROUNDING
from pufferlib.extensions.advantage import compute_puff_advantage
from pufferlib.fast.choose import choose_backend
from pufferlib.fast.device_collector import DeviceCollector
from pufferlib.loggers.logger import Logger
from pufferlib.loggers.services import NeptuneLogger, WandbLogger
from pufferlib.metrics.finite import describe_update, explaining
from pufferlib.metrics.measures import prefixed
from pufferlib.play.matches import load_member
from pufferlib.play.scores import PeriodicEvaluation, final_episodes, play_whole_episodes
from pufferlib.policy import NormalizedObservations
from pufferlib.ppo.learner import Loss
from pufferlib.ppo.opponents import OpponentPool
from pufferlib.runs import checks
from pufferlib.runs.calls import AnyLogger, resolve_call
from pufferlib.runs.checkpoint import find_weights, note, resolve_model, save_checkpoint_file
from pufferlib.runs.description import LENGTH, Change, find_run, pretrained_names, settings_of, with_new_length
from pufferlib.runs.loaders import load_env, load_policy
from pufferlib.runs.run import Run
from pufferlib.runs.state_check import plain_metadata
from pufferlib.runs.stopping import SIGNAL_DEBOUNCE_SECONDS, StopRequest
from pufferlib.runs.trainer_state import Progress, TrainerParts
from pufferlib.seeding import mix_seed
from pufferlib.vector import Vector

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
    def get(trainer: PuffeRL) -> torch.Tensor:
        return getattr(trainer.rollout, name)[:, : trainer.rollout.horizon]

    return property(get, doc=f"`(segments, bptt_horizon{meaning}")


_POOL_SEED = 0x706F6F6C
_SCORE_SEED = 0x73636F7265  # no rank of a run has this number, so no training environment has such a seed


class PuffeRL:
    """Trains a policy in a vector of environments.

    With torchrun each process makes a trainer with environments of its own, and all call the same methods in the same
    order.

    Attributes:
        config: the settings, resolved for these environments and this device.
        vecenv: the vector of environments.
        policy: the module that is trained.
        rollout: the last one that was collected.
        epoch: iterations of `evaluate` and `train` done so far.
        global_step: agent steps collected so far, by all processes.
        run: its name and folder, loggers and checkpoints.
        chosen: a sentence for each fact of the environment that settings follow from; empty in the configuration form.
        pool: the opponents of `[selfplay]`; None without any.
    """

    @overload
    def __init__(
        self,
        config: Mapping[str, Any],
        vecenv: object,
        policy: nn.Module,
        logger: AnyLogger = None,
        *,
        eval_env: object = None,
        loss: Loss | None = None,
    ): ...

    @overload
    def __init__(
        self,
        env: object,
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
        eval_env: object = None,
        loss: Loss | None = None,
        **settings: Any,
    ): ...

    def __init__(self, *arguments: Any, **keywords: Any):  # noqa: D417 - it documents what the overloads name
        """Allocates the rollout and resets the environments; the run's folder is made with the first log or checkpoint.

        By configuration, `PuffeRL(config, vecenv, policy, logger=None)`:

        Args:
            config: the `[train]` settings, as in `load_config(name)['train']`; an `env` key names the run.
            vecenv: a vector from `load_env` or `pufferlib.vector.make`, or one environment, or a class or function that
                makes it.
            policy: any module that pufferlib.models describes.
            logger: one, several or None, in addition to `metrics.jsonl` in the run's folder; only a NoLogger for no log
                at all. If a logger fails, one warning says so, and the training continues.
            eval_env: the environments of the `evaluations` of the settings, in any form of `env`; closed with the
                trainer. None makes them as those of the training were made, with other seeds.
            loss: a function with the signature of `pufferlib.ppo.losses.ppo_loss`, the default. It gets the `[train]`
                settings that its keywords name, runs through torch, and its metrics are logged as `losses/...`.

        By keyword, `PuffeRL(env, policy=None, logger=None, **settings)`; the first argument decides which form it is:

        Args:
            env: a PufferEnv, an environment of Gymnasium or PettingZoo, a `gymnasium.vector.VectorEnv`, a vector, a
                name for `pufferlib.make`, or a class or function that makes one of these. Closing the trainer closes
                it. A PufferEnv has one trainer at a time: a second one takes it over.
            policy: as above; None makes that of the name's configuration, or one that fits the spaces.
            device: `auto` (CUDA, then MPS, then the CPU), `cpu`, `cuda`, `cuda:N` or `mps`.
            batch_size: agent steps in one rollout; by default rounded up to whole segments of all agents.
            n_epochs: passes over each rollout; `[train] update_epochs` by another name.
            num_envs: environments to make where `env` is a name, a class or a function. With a parameter `num_envs`
                it makes them all, by default 256, or fewer, with at most 2,048 agents. Without, it is called once for
                each, by default 16 times, or less often where each has so many agents that they fill a part of the
                batch.
            num_steps: steps in one segment; `[train] bptt_horizon` by another name. With `batch_size` alone it is the
                largest number up to 128 that divides it for all agents.
            compile: use torch.compile. Off, because the first call then takes long, and small policies gain nothing:
                kernels and CUDA graphs run them with few launches already.
            num_workers: threads that step C environments, or processes that step Python ones; `auto` follows the cores,
                and uses no other process where a step takes less than passing it on.
            settings: every other `[train]` setting, those of `[selfplay]`, and `opponent` where the environment has a
                choice of it: `bot`, `self`, or `pool`, which is `self` with a `pool_size` of 8. The learning rate is
                annealed where the end is known: by `total_timesteps` or `num_iterations`, or in `learn(steps)`.

        These defaults are for a full vector: a PufferEnv of 64 agents or more. With fewer agents, what is not given
        follows from the spaces, the number of agents, and whether the policy is recurrent. `chosen` and the first lines
        of `learn` list the values; pufferlib/config/automatic.py is the table.

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
            self._backend = choose_backend(self.policy, self.rollout, config, device, call.loss)
            actor = self._backend.make_actor(self.rollout, self.vecenv.num_agents, self._generator)
            self.pool = self._make_pool(call.selfplay)
            self._collector = self._backend.make_collector(self.vecenv, actor, self.phases, ranks, self.pool)
            self._learner = self._backend.make_learner(self.rollout, self._generator, self.phases, ranks)
            self._evaluation = PeriodicEvaluation(
                config,
                make_vecenv=call.make_evaluation_vecenv,
                policy=self.policy,
                autocast=self._backend.autocast,
            )
            self._parts = TrainerParts(
                policy=self.policy,
                learner=self._learner,
                collector=self._collector,
                report=self.report,
                generator=self._generator,
            )
            self.run = Run(call, lambda: self._backend.describe())
            self.vecenv.tells_final_observations = config.truncation_bootstrap
            self._collector.reset(None if ranks.is_first else ranks.seed(self.vecenv.seed))  # the first keeps its own
            self._learning_rate, self._anneal_start = config.learning_rate, 0  # from which, and the epoch
            self._anneals_in_learn = call.anneals_in_learn
            self.epoch = self.global_step = 0
            self._rollout_steps = 0  # those of the last rollout, by all processes
            self._skipped = {"skipped_steps": 0, "skipped_minibatches": 0}
            self._has_untrained_rollout = False  # that `train` has not learned from
            self._is_rollout_loaded = False  # and `evaluate` has not returned its statistics
            self._stats: dict[str, float] = {}
            self._are_episodes_unheard = False
            self._is_final_wanted: Callable[[], bool] | None = None
            self.final_scores: dict[str, Score] = {}  # after the last epoch, where `score_finally` asked for them
            self._policy_facts = checks.facts_of_policy(self.policy)  # compared between processes, as is the next one
            self._policy_changes = 0
            self._are_weights_compared = False  # with those of the other processes, since the run began or was loaded
            self._saved: list[object] | None = None  # the `_weight_marks` of the last checkpoint in the folder
            self._metadata: Mapping[str, Any] = {}  # that it has
            self._is_in_callback = False  # of an iteration of `learn`, which goes on to its own end
            self._is_closed = False
            undo.pop_all()  # it worked: nothing is to be undone

    def _make_pool(self, selfplay: SelfplayConfig) -> OpponentPool | None:
        steps, members, env_name = selfplay.snapshot_steps, words(selfplay.pool_members), self.env_name
        if selfplay.pool_size == 0 and not members:
            return None
        return OpponentPool(
            selfplay,
            self.vecenv,
            snapshot_steps=lambda: max(1, self.config.total_timesteps // 20) if steps == "auto" else steps,
            fixed={
                name: load_member(name, env_name, self.vecenv, self.device, self.config.data_dir) for name in members
            },
            make_actor=partial(self._backend.make_opponent, self.vecenv),
            generator=torch.Generator(self.device).manual_seed(mix_seed(self.ranks.seed(self.config.seed), _POOL_SEED)),
            ranks=self.ranks,
        )

    # ------------------------------------------------------------------------------------------------ the iterations

    def learn(
        self,
        total_timesteps: float | None = None,
        callbacks: Iterable[object] | Callable[..., bool | None] = (),
        *,
        dashboard: bool = True,
    ) -> PuffeRL:
        """Trains for a number of agent steps, iteration after iteration, and saves a checkpoint at the end.

        Ctrl-C, or SIGTERM, lets the running iteration end, saves a checkpoint and raises KeyboardInterrupt; `learn` may
        then be called again. It returns the trainer.

        Args:
            total_timesteps: of all agents and processes, in addition to those before, rounded up to whole iterations.
                The learning rate is annealed over them, from the rate that is set; where they end as the running
                schedule does, as after an interruption, that goes on. None trains to the end that the settings name,
                or that a checkpoint has.
            callbacks: one or several objects with `on_iteration(trainer, logs)`, or functions of these two, called
                after each iteration; True stops. See `pufferlib.callbacks`. Of several processes the first decides.
            dashboard: whether to show the progress, as `print_dashboard` does.

        Raises:
            CallbackError: if a callback raised: a checkpoint was saved, and the trainer is closed.
            DivergedError: if a loss or a weight is not finite.
        """
        self._require_open()
        self._agree("learn")
        callbacks, ranks, first_epoch = checks.list_callbacks(callbacks), self.ranks, self.epoch
        has_callbacks = any(ranks.gather(bool(callbacks)))
        end = self.total_epochs
        if total_timesteps is not None:
            steps = checks.whole_number("total_timesteps", total_timesteps)
            end = self.epoch + math.ceil(steps / self.config.batch_size)
        self._anneal_until(end)

        def after_iteration() -> bool:
            logs = self._logs_of_iteration()
            answers = [self._call(callback, "on_iteration", logs) for callback in callbacks]
            if dashboard:
                self.print_dashboard()
            return has_callbacks and ranks.total(any(answers) and ranks.is_first) > 0

        try:
            for callback in callbacks:
                if hasattr(callback, "on_start"):
                    self._call(callback, "on_start")
            if dashboard and ranks.is_first and self.epoch == 0:
                for sentence in self.chosen:
                    say(f"chosen for {sentence}")
            with self._stop_request() as stop:
                is_interrupted = self._iterate(stop, after_iteration, has_notes=dashboard)
                if self.epoch > first_epoch:
                    self.mean_and_log()
                    if dashboard:
                        self.report.show_soon()
                        self.print_dashboard()
                    self.save_checkpoint()
        except Exception as error:
            ranks.announce(error)
            if isinstance(error, errors.CallbackError):
                try:
                    if ranks.world_size == 1:  # one of several processes cannot save alone
                        self.close()
                except errors.PufferError as unsaved:
                    warnings.warn(f"no checkpoint was saved: {unsaved}", errors.PufferWarning, stacklevel=2)
                self.release()
                self.logger.close(None)
            raise
        finally:
            self.report.close()
        if is_interrupted:
            raise KeyboardInterrupt
        return self

    def _stop_request(self) -> StopRequest:
        return StopRequest(SIGNAL_DEBOUNCE_SECONDS if self.ranks.world_size > 1 else 0.0)

    def _iterate(self, stop: StopRequest, after_iteration: Callable[[], bool | None], has_notes: bool = True) -> bool:
        # Until the last epoch, or until a signal or `after_iteration` stops all processes in the same epoch; returns
        # whether a signal did.
        notes = None
        if has_notes and self.epoch == 0 and self.ranks.is_first:
            notes = checks.EarlyNotes(self.config, self.env_name, self.total_epochs)
        while self.epoch < self.total_epochs:
            begin = time.perf_counter()
            if self._collector.follows_later and notes is None:
                self._evaluate()  # `train` hears of the episodes while the GPU learns
            else:
                self.evaluate()
            if notes is not None:
                seconds, share = time.perf_counter() - begin, self.phases.shares().get("environment", 0.0)
                for note in notes.of_rollout(self.rollout, self.vecenv, self.stats, seconds, share):
                    say(f"note: {note}")
                notes = notes if notes.is_length_awaited else None
            votes = self.ranks.start_total(stop.requested)  # counted meanwhile
            self.train()
            is_enough = after_iteration()
            is_interrupted = votes() > 0 or (self.ranks.world_size == 1 and stop.requested)
            if is_interrupted or is_enough:
                return is_interrupted
        return False

    def _logs_of_iteration(self) -> dict[str, float]:
        logged = self.mean_and_log() if self.is_logged else {}
        of_episodes = ("environment/", "episode/")  # those of this iteration count
        return {
            **{name: value for name, value in logged.items() if not name.startswith(of_episodes)},
            **{"agent_steps": self.global_step, "epoch": self.epoch, "sps": self.sps, "uptime": self.uptime},
            **prefixed("losses", self.losses),
            **{
                name if name.startswith("episode/") else f"environment/{name}": value
                for name, value in self.stats.items()
            },
        }

    def _call(self, callback: object, method: str, *arguments: object) -> bool:
        name = getattr(callback, "__name__", type(callback).__name__)
        self._is_in_callback = method == "on_iteration"
        try:
            answer = getattr(callback, method, callback)(self, *arguments)
            if answer is not None and not isinstance(answer, (bool, np.bool_)):
                raise errors.APIUsageError(f"it must return True to stop, False or None to continue, got {answer!r}")
        except errors.RankError:
            raise
        except Exception as error:
            raise errors.CallbackError(
                f"the callback {name} failed after {self.epoch} epochs with {type(error).__name__}: {error}; mend it, "
                f"and continue by load_checkpoint({str(self.run_folder)!r})"
            ) from error
        finally:
            self._is_in_callback = False
        return bool(answer)

    def evaluate(self) -> dict[str, float]:
        """Collects one rollout with the current policy.

        Between iterations parameters of the policy may be frozen (`requires_grad_(False)`) and freed, and layers
        replaced. After a call that was interrupted, or whose environment raised, other episodes begin.

        Returns:
            Means of what the environments report of the episodes that ended, and their number `n`; and the trainer's
            own `episode/...` of `mean_and_log`. Empty when none ended.

        Raises:
            DivergedError: if a reward is not finite, or an observation that the policy cannot act on; it names agent
                and step.
        """
        self._evaluate()
        self._hear_of_episodes()
        return self.stats

    def _evaluate(self) -> None:
        self._require_open()
        self._follow_policy("evaluate")
        if not self._are_weights_compared:
            self._require_same_weights()
            self._are_weights_compared = True
        if self._is_rollout_loaded:
            self._is_rollout_loaded = False
            return
        self._has_untrained_rollout = False
        with self.run.append_checkpoint_hint(), self.report.iteration:
            with self._explaining():
                with self._learner.gradients.limit_caller():
                    steps = self._collector.collect(self.global_step)
                self._learner.prepare()
            self._collector.require_steps()
            self._rollout_steps = int(self.ranks.total(steps))
        if self.epoch == 0 and self.ranks.is_first and self.env_name not in pretrained_names():
            found = checks.observation_far_outside(self.rollout, self.vecenv)
            if found is not None:
                warnings.warn(found, errors.PufferWarning, stacklevel=3)
        self.global_step += self._rollout_steps
        self._has_untrained_rollout = self._are_episodes_unheard = True

    def _hear_of_episodes(self) -> None:
        if self._are_episodes_unheard:
            self._are_episodes_unheard = False
            self._collector.follow_episodes()
            self.report.episodes.merge(self._collector.statistics)
            self._stats = self._collector.statistics.take()

    def train(self) -> dict[str, float]:
        """Learns from the rollout that `evaluate` collected, logs and saves where the intervals say so.

        Returns:
            `policy_loss, value_loss, entropy, old_approx_kl, approx_kl, clipfrac, importance`, means over the
            minibatches of this call, and `explained_variance`. With `skip_nonfinite` also `skipped_steps` and
            `skipped_minibatches` of this process since it started.

        Raises:
            APIUsageError: if `evaluate` was not called since the last `train`.
            DivergedError: if a loss or a weight is not finite any more; nothing was logged or saved since.
        """
        self._require_open()
        if not self._has_untrained_rollout:
            raise errors.APIUsageError("train() needs a new rollout; call evaluate() first")
        self._follow_policy("train")
        self._has_untrained_rollout = self._is_rollout_loaded = False
        with self.run.append_checkpoint_hint(), self.report.iteration:
            num_waiting = self.ranks.total(self._collector.num_waiting)
            # No agent of any process was absent at a step, or is after the last one.
            is_full = num_waiting == 0 and self._rollout_steps == self.config.batch_size
            # LaTeX: p = \min(\mathrm{epoch} / \mathrm{total\_epochs},\ 1) ; p = progress
            progress = min(self.epoch / self.config.total_epochs, 1.0)
            with self._explaining():
                losses = self._learner.learn(self.learning_rate, progress, is_full, self._hear_of_episodes)
            self._learner.require_steps()
            found = describe_update(losses, self._learner.weight_norm, self.policy, self._learner.learning_rate)
            if found is not None:  # an observation may be the cause, which a GPU had not reported yet
                raise errors.DivergedError(self._collector.find_not_finite() or found)
            if self.config.skip_nonfinite:
                self._skipped["skipped_steps"] += self._collector.skipped_steps
                self._skipped["skipped_minibatches"] += self._learner.skipped_minibatches
                losses |= self._skipped
            if isinstance(self.policy, NormalizedObservations):
                with self._explaining():
                    self.policy.update(self.rollout.seen, self.ranks)
        self.report.losses = losses
        self.epoch += 1
        self._do_what_is_due()
        return dict(losses)

    def _do_what_is_due(self) -> None:
        config = self.config
        if config.weights_check_interval and self.epoch % config.weights_check_interval == 0:
            self.ranks.check_same(list(self.policy.state_dict().values()), "weights")
        is_last = self.epoch >= config.total_epochs
        is_evaluated = self._evaluation.is_due(self.epoch, config.total_epochs)
        if is_evaluated:
            self.run.require_finite(self._parts)  # before they are the best
            self.ranks.from_first(self._evaluate_apart)
        if is_last and self._is_final_wanted is not None:
            self._play_finally(self._is_final_wanted)
        if is_evaluated or is_last or self.epoch % config.log_interval == 0:
            self.mean_and_log()
        if self.epoch % config.checkpoint_interval == 0:
            with self.run.warn_on_storage_error():
                self.save_checkpoint()

    def _evaluate_apart(self) -> None:
        with self.run.warn_on_storage_error(), self.phases.phase("evaluation"):
            self.run.open_folder()
            self._evaluation.run(self.run_folder, note(self.env_name, self._current_progress()))

    def _play_finally(self, is_wanted: Callable[[], bool]) -> None:
        with suppress(errors.StorageError):  # the last checkpoint, which comes after this, raises it
            self.save_checkpoint()  # before anything that takes its time
        try:
            self.final_scores = self.ranks.from_first(lambda: self.score(is_wanted=is_wanted))
        except Exception as error:
            message = f"the final policy could not be scored: {type(error).__name__}: {error}; its weights are saved"
            warnings.warn(message, errors.PufferWarning, stacklevel=5)

    def _explaining(self) -> AbstractContextManager[None]:
        return explaining(self._collector.find_not_finite, self.policy, self._collector.act_again)

    def _agree(self, call: str) -> None:
        if self.ranks.world_size > 1:
            facts = {"the call of the trainer": call, "learning_rate of the trainer": repr(self._learning_rate)}
            facts |= checks.facts_of_settings(self.config) | self._policy_facts
            self.ranks.start_comparing(facts | {"the number of changes to the policy": str(self._policy_changes)})

    def _require_same_weights(self) -> None:
        self.ranks.check_same(list(self.policy.parameters()), "weights", ROUNDING)

    def _follow_policy(self, call: str) -> None:
        if self.policy is not self._backend.policy:
            raise errors.APIUsageError(
                "the policy must stay the module that the trainer was made with, got another "
                f"{type(self.policy).__name__}; replace parts of it, or make a new PuffeRL"
            )
        is_outdated = self._backend.is_outdated()
        if is_outdated:
            self._policy_facts, self._policy_changes = checks.facts_of_policy(self.policy), self._policy_changes + 1
        self._agree(call)
        if not is_outdated:
            return
        if isinstance(self.policy, NormalizedObservations):
            self.policy.find_forms()
        checks.prepare_policy(self.policy, self.vecenv, self.device)
        checks.check_state(self.policy, self.rollout.states, self.device)
        self.ranks.broadcast(list(self.policy.state_dict().values()))
        self._backend = choose_backend(self.policy, self.rollout, self.config, self.device, self._backend.loss)
        self._backend.take_over(self._collector, self._learner, self._generator)

    # ------------------------------------------------------------------------------------------------------ progress

    @property
    def total_epochs(self) -> int:
        """Iterations of the whole run, as many as reach `total_timesteps`.

        Assigning to it sets where the run ends, and with it what the learning rate is annealed over.
        """
        return self.config.total_epochs

    @total_epochs.setter
    def total_epochs(self, value: int) -> None:
        self._change_settings(total_timesteps=value * self.config.batch_size, num_iterations=None)

    def _change_settings(self, **settings: Any) -> None:
        self.config = replace(self.config, **settings)
        self.run.change_settings(settings)

    def _anneal_until(self, epoch: int) -> None:
        begins = self._anneals_in_learn and not self.config.anneal_lr
        if epoch != self.total_epochs or begins:  # else it goes on, as after an interruption
            self._anneal_start, self.total_epochs = self.epoch, epoch
            self._change_settings(anneal_lr=self.config.anneal_lr or begins)

    @property
    def learning_rate(self) -> float:
        """The learning rate of this epoch, which is the one set, annealed along `lr_schedule` to `min_learning_rate`.

        Assigning to it sets the rate that the schedule starts from, from the next `train` on; where nobody asked for
        annealing the rate then stays. A ConfigError for one that is no number of at least 0.
        """
        start, end = self._learning_rate, min(self._learning_rate, self.config.min_learning_rate)
        if not self.config.anneal_lr:
            return start
        epoch, epochs = self.epoch - self._anneal_start, self.config.anneal_epochs(self._anneal_start)
        # LaTeX: p = \min(\mathrm{epoch} / \mathrm{epochs},\ 1) ; p = progress
        progress = min(epoch / epochs, 1.0)
        # LaTeX: l = 1 - p \quad \text{or} \quad l = \tfrac12 (1 + \cos \pi p) ; l = left
        left = 1.0 - progress if self.config.lr_schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
        # LaTeX: \eta = \eta_1 + (\eta_0 - \eta_1)\, l ; \eta = learning_rate, \eta_0 = start, \eta_1 = end
        return end + (start - end) * left

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        number = value.item() if hasattr(value, "item") else value
        self._learning_rate = self.config.settings()["learning_rate"].check(number)
        if self._anneals_in_learn:
            self._anneals_in_learn = False
            self._change_settings(anneal_lr=False)

    @property
    def uptime(self) -> float:
        """Seconds of training, those before a resume included."""
        return self.report.uptime

    @property
    def sps(self) -> float:
        """Agent steps per second since the last log, or of that log if no step was collected since."""
        return self.report.sps(self.global_step)

    # ----------------------------------------------------------------------------------- attributes of PufferLib 3.0

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
        """Steps the parameters; its learning rate is set before every update, see `learning_rate`.

        After a change of the policy, such as another layer, a new optimizer takes over the hooks, the settings and the
        states of this one. Groups of parameters and a `step` of your own are lost then; set them again.
        """
        return self._learner.optimizer

    @property
    def stats(self) -> dict[str, float]:
        """The result of the last `evaluate`; empty before it."""
        return dict(self._stats)

    @property
    def losses(self) -> dict[str, float]:
        """The result of the last `train`; empty before it."""
        return dict(self.report.losses)

    @property
    def segments(self) -> int:
        """Segments in a rollout of this process."""
        return self.rollout.segments

    @property
    def total_minibatches(self) -> int:
        """Minibatches of an update; one that is left over in part comes with the next."""
        return int(self.config.minibatches_per_epoch)

    # --------------------------------------------------------------------------------------------- metrics, dashboard

    @property
    def computed_by(self) -> str:
        """Says what computes the policy, why it is nothing faster, and whether environments are on a GPU."""
        place = f", {self._collector.place}" if isinstance(self._collector, DeviceCollector) else ""
        return f"{self._backend}{place}"

    @property
    def is_logged(self) -> bool:
        """Whether the metrics of the last epoch were sent to the logger."""
        return self.epoch == self.report.logged_epoch

    def mean_and_log(self) -> dict[str, float]:
        """Sends the metrics of the epochs since the last call to the logger.

        Called twice within one epoch it returns the same metrics and logs nothing. Means weigh every episode the same;
        a metric without a number is left out. Steps, episodes and losses are those of all processes, times and hardware
        this one's.

        Returns:
            The metrics by name, all of which docs/reference/metrics.md describes. There are `agent_steps`, `epoch`,
            `uptime` and `sps`; `episode/...`, `environment/...` and `losses/...`; `eval/...` of an evaluation in this
            epoch; and the shares of time and hardware, `performance/...`, `device/...` and `hardware/...`.
        """
        if not self.is_logged:
            self._agree("mean_and_log")
            episodes = self.ranks.gather(self.report.episodes.state_dict())
            played = {**self._evaluation.take(), **final_metrics(self.final_scores)}
            played |= {} if self.pool is None else self.pool.metrics()
            metrics = self.report.log(self._counts(), played, episodes)
            if self.ranks.is_first:
                with self.run.warn_on_storage_error():
                    self.run.open_folder()
            self.logger.log(metrics, self.global_step)
        return dict(self.report.metrics)

    def score(self, episodes: int | None = None, is_wanted: Callable[[], bool] = lambda: True) -> dict[str, Score]:
        """Plays whole episodes with the policy as it is, in environments of their own, by actions drawn as in training.

        Every environment plays the same number to the end, so that long episodes are not missing. The same weights have
        the same score. Neither the training nor its time is affected. Of several processes only the one that calls it
        plays.

        Args:
            episodes: 1 or more; None is `[train] final_episodes`, which may be 0.
            is_wanted: called after every step; once it returns False the play ends, without scores.

        Returns:
            A `mean` with its `standard_error` and the number of `episodes`, by the names of `mean_and_log`. Empty if no
            episode ended, or if environments like those of the training cannot be made: these must have been made by
            name or by `pufferlib.vector.make`.
        """
        self._require_open()
        if episodes is not None and not episodes >= 1:
            raise errors.APIUsageError(f"score() needs 1 episode or more, got {episodes}")
        count = final_episodes(self.config.final_episodes if episodes is None else episodes, self.vecenv)
        if count < 1:
            return {}
        with self.report.uncounted():
            return play_whole_episodes(
                self.policy,
                self.vecenv,
                episodes=count,
                seed=mix_seed(self.config.seed, _SCORE_SEED),
                max_steps=self.config.evaluation_max_steps,
                is_wanted=is_wanted,
                skips_nonfinite=self.config.skip_nonfinite,
            )

    def score_finally(self, is_wanted: Callable[[], bool]) -> None:
        """Lets the policy play after the last epoch, as `score` does; the last log then has `final/...`."""
        self._is_final_wanted = is_wanted

    def print_dashboard(self) -> None:
        """Shows the progress: a panel, every `dashboard_interval_seconds`, or without a terminal a line per log."""
        if self.ranks.is_first:
            steps, planned = self.global_step, self.config.total_timesteps
            with_absent = self.epoch * self.config.batch_size  # agents, whose steps the plan has and `global_step` not
            self.report.total_steps = round(planned * steps / with_absent) if 0 < steps < with_absent else planned
            self.report.show(self.env_name, self._facts, self._counts())

    def _counts(self) -> dict[str, float]:
        return {"agent_steps": self.global_step, "epoch": self.epoch, "learning_rate": self._learner.learning_rate}

    def _facts(self) -> dict[str, str]:
        simulator = getattr(self.vecenv.driver_env, "simulator", None)
        return {
            "device": str(self.device),
            "computed by": self.computed_by,
            **({} if simulator is None else {"stepped by": simulator}),
            "agents": f"{self.vecenv.num_agents:,}",
            "parameters": f"{sum(parameter.numel() for parameter in self.policy.parameters()):,}",
            "run": str(self.run_folder),
        }

    # ---------------------------------------------------------------------------------------------------- checkpoints

    @property
    def logger(self) -> Logger:
        """Where metrics go; may be replaced by one or several others, or None, before the first log."""
        return self.run.logger

    @logger.setter
    def logger(self, logger: AnyLogger) -> None:
        self.run.replace_loggers(logger)

    @property
    def run_folder(self) -> Path:
        """Where checkpoints and metrics go; made with the first of them."""
        return self.run.folder.path

    def save_checkpoint(self, path: str | Path | None = None, metadata: Mapping[str, Any] | None = None) -> str:
        """Writes the weights, then everything else that a resume needs; a kill leaves the checkpoint before it whole.

        Args:
            path: one file for all but environments, rollout and pool, as for a next stage in other environments; None
                is the run folder.
            metadata: numbers, text, lists and dicts to keep with it; anything else raises APIUsageError.

        Returns:
            The path, or that of the weights in the run folder, which is `<run folder>/model_<env>_<epoch>.pt`.

        Raises:
            DivergedError: if a weight, the optimizer's state or a statistic is not finite: then nothing was written.
            StorageError: if it cannot be written, as on a full disk; what was saved before is as it was.
            CheckpointError: if another process is writing to the run's folder.
            APIUsageError: if the trainer is closed, and no path is given.
        """
        if path is None:
            self._require_open()
        metadata = plain_metadata(metadata)
        self._agree("save_checkpoint")
        self.run.require_finite(self._parts)
        self._require_same_weights()
        progress = self._current_progress()
        if path is not None:
            self.ranks.from_first(
                lambda: save_checkpoint_file(Path(path), self._parts, progress, metadata, self.run.describe())
            )
            return str(path)
        statistics = self._stats if self._has_untrained_rollout else None
        model = self.run.save(self._parts, progress, statistics, metadata)
        self._saved, self._metadata = self._weight_marks(), metadata
        return model

    def _weight_marks(self) -> list[object]:
        # Equal to later ones while the weights stay as they are; a user may load others within an epoch.
        weights = self.policy.state_dict().values()
        return [self.epoch, *((weight.data_ptr(), weight._version) for weight in weights)]

    def _current_progress(self) -> Progress:
        report = self.report
        return Progress(
            epoch=self.epoch,
            global_step=self.global_step,
            untrained_steps=self._rollout_steps if self._has_untrained_rollout else 0,
            uptime=report.uptime,
            learning_rate=float(self._learning_rate),
            anneal_start=self._anneal_start if self.config.anneal_lr else self.epoch,
            end=self.total_epochs,
            logged=[report.logged_epoch, report.logged_step],
            losses=report.losses,
        )

    def load_checkpoint(self, path: str | Path) -> dict[str, Any]:
        """Restores a checkpoint; one that is refused leaves the trainer as it was.

        Args:
            path: a run folder: training continues as if it had not stopped, on a CPU bit for bit, and in that folder.
                If it was saved between `evaluate` and `train` either may be called: `evaluate` then returns what it had
                returned, and collects nothing. Other episodes begin if the number of processes differs, or if
                environments have no snapshots, as those in Python. Or a file of `save_checkpoint(path)`: the
                environments stay as they are, `evaluate` comes next, and epochs are counted in batches of this trainer.

        Returns:
            The metadata that was saved with it.

        Raises:
            CheckpointError: if there is no checkpoint, it is damaged, or it was made with other settings.
        """
        self._follow_policy("load_checkpoint")  # the optimizer gets what belongs to the parts of now
        progress, statistics, metadata = self.run.load(Path(path), self._parts)
        self.epoch, self.global_step = progress.epoch, progress.global_step
        self._rollout_steps = progress.untrained_steps
        self._learning_rate, self._anneal_start = progress.learning_rate, progress.anneal_start
        if self._anneals_in_learn and not self._is_in_callback:
            # Nobody said where this trainer ends, and what its rate does: as that one, then.
            self.total_epochs = progress.end
            self._change_settings(anneal_lr=progress.anneal_start < progress.epoch < progress.end)
        self.report.resume(progress.uptime, *progress.logged, progress.losses)
        self._has_untrained_rollout = self._is_rollout_loaded = statistics is not None
        self._stats, self._are_weights_compared = statistics or {}, False
        self._saved, self._metadata = None if self.run.model_path is None else self._weight_marks(), metadata
        return metadata

    def close(self) -> str:
        """Saves the last checkpoint and closes environments, dashboard and logger; may be called twice.

        It returns the path of the final weights, or after an error of the last ones that were saved.

        Raises:
            DivergedError: if the weights are not finite; it names the last checkpoint, and everything is closed.
            StorageError: if they cannot be written; nothing is closed, so that it can be called again.
        """
        if not self._is_closed:
            try:
                self._save_last()
            except errors.StorageError:
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
        if self.ranks.total(self._saved != self._weight_marks()):
            self.save_checkpoint(metadata=self._metadata)
        else:
            self.run.require_finite(self._parts)
            self._require_same_weights()

    def release(self) -> None:
        """Closes the environments and the dashboard without saving; for a trainer that failed."""
        self._is_closed = True
        parts = (self.report, self._learner.gradients, self._collector.actor, self.pool, self._evaluation, self.vecenv)
        for part in filter(None, parts):
            part.close()
        self.run.folder.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise errors.APIUsageError("the trainer is closed; make a new PuffeRL")


def train(
    env_name: str,
    args: dict[str, Any] | None = None,
    vecenv: Vector | None = None,
    policy: nn.Module | None = None,
    logger: AnyLogger = None,
    *,
    make_trainer: Callable[[dict[str, Any], Vector, nn.Module, AnyLogger], PuffeRL] = PuffeRL,
) -> list[dict[str, float]]:
    """Trains from the first step to the last, as `puffer train` does.

    Ctrl-C, or SIGTERM, lets the running iteration end, saves a checkpoint and raises KeyboardInterrupt.

    Args:
        env_name: such as `puffer_breakout`.
        args: settings from `load_config`, which is also the default. `args['resume']` continues an earlier run.
        vecenv: default `load_env(env_name, args)`.
        policy: default `load_policy(args, vecenv, env_name)`.
        logger: beside `metrics.jsonl` in the run's folder; default those of the `[log]` settings.
        make_trainer: the trainer's class, or a function with the arguments of its configuration form.

    Returns:
        The metrics of every log in the last 80% of the steps.
    """
    args = load_config(env_name) if args is None else args
    require_whole(env_name, args)
    ranks = distributed.connect()
    ranks.require_same(checks.facts_of_arguments(env_name, args))
    folder, changes = ranks.from_first(lambda: find_run(env_name, args))
    args, is_resumed = with_new_length(args, changes), folder is not None
    is_from_settings = vecenv is None and policy is None
    vecenv = load_env(env_name, args) if vecenv is None else vecenv
    trainer = None
    try:
        if policy is None:
            weights, model = None, args.get("load_model_path")
            if is_resumed:
                weights = ranks.from_first(lambda: find_weights(folder, env_name))
            elif model is not None:  # `latest` will be other weights
                path = ranks.from_first(lambda: resolve_model(args["train"]["data_dir"], env_name, model))
                args = {**args, "load_model_path": str(path)}
            policy = load_policy(args, vecenv, env_name, weights)
        settings = {**args["train"], "env": env_name, "selfplay": args.get("selfplay")}
        trainer = make_trainer(settings, vecenv, policy, logger)
        trainer.run.settings = args if is_from_settings else settings_of(env_name, args["train"], vecenv, policy, args)
        if is_resumed:
            trainer.load_checkpoint(folder)
            _require_longer(changes, trainer)
            if any(change.name == "learning_rate" for change in changes):
                trainer.learning_rate = trainer.config.learning_rate  # not that of the checkpoint
        with trainer._stop_request() as stop:  # from the first file on, so that what is there can be resumed
            if ranks.is_first:
                with trainer.report.uncounted():  # a service may take seconds to open its run
                    log_settings = args.get("log", {}) if logger is None else None
                    trainer.run.begin(log_settings, trainer.global_step if is_resumed else None)
                say(_first_line(env_name, trainer, changes, is_resumed))
                say(f"computed by {trainer.computed_by}")
                if (simulator := getattr(vecenv.driver_env, "simulator", None)) is not None:
                    say(f"stepped by {simulator}, on {vecenv.num_workers} threads or workers")
            return _train_to_the_end(trainer, args, stop)
    except BaseException as error:
        ranks.announce(error)
        if trainer is not None:
            trainer.release()
            trainer.logger.close(None)
        vecenv.close()
        raise


def _require_longer(changes: list[Change], trainer: PuffeRL) -> None:
    for change in changes:
        if change.name in LENGTH and change.now is not None and trainer.epoch >= trainer.total_epochs:
            done = f"{trainer.global_step:,} steps, {trainer.epoch:,} iterations"
            raise errors.ConfigError(
                f"{change.flag} must be more than the {done}, that {trainer.run_folder} has, got {change.now:,}; give "
                "more, or leave it out to train to the end that was set before"
            )


def _first_line(env_name: str, trainer: PuffeRL, changes: list[Change], is_resumed: bool) -> str:
    if not is_resumed:
        config, iterations = trainer.config, trainer.config.num_iterations
        length = f"{config.total_timesteps:,} steps"
        if iterations is not None:
            length = f"{iterations:,} iteration{'s' * (iterations != 1)}"
        return f"training {env_name} for {length}, in {config.data_dir}"
    done = f"{trainer.run_folder} after {trainer.epoch} of {trainer.total_epochs} epochs, {trainer.global_step} steps"
    if trainer.epoch >= trainer.total_epochs:
        return f"finished: {done}; --train.total-timesteps N goes on until N"
    changed = [f"{change.flag} {change.now} (was {change.before})" for change in changes]
    return f"resumes {done}" + (f", with {', '.join(changed)}" if changed else "")


def _train_to_the_end(trainer: PuffeRL, args: dict[str, Any], stop: StopRequest) -> list[dict[str, float]]:
    logs: list[dict[str, float]] = []
    first_epoch = trainer.epoch

    def keep_log() -> None:
        if trainer.is_logged:
            log = trainer.mean_and_log()
            if trainer.epoch >= 0.2 * trainer.total_epochs:
                logs.append(log)
        trainer.print_dashboard()

    trainer.score_finally(lambda: not stop.requested)
    is_interrupted = trainer._iterate(stop, keep_log)
    has_trained, is_over = trainer.epoch > first_epoch, trainer.epoch >= trainer.total_epochs
    if has_trained and is_over:
        trainer.save_checkpoint()  # with the last log, which came after the final play
    path = trainer.close()
    if trainer.ranks.is_first and has_trained:
        if trainer.final_scores:
            say(final_text(trainer.final_scores, args.get("solve", {}).get("metric")))
        steps, total = trainer.global_step, trainer.config.total_timesteps
        stopped = f"; stopped after {steps:,} of {total:,} steps, --resume latest goes on"
        say(f"saved {path}{'' if is_over else stopped}")
    if is_interrupted or stop.requested:
        raise KeyboardInterrupt
    return logs
