"""PuffeRL: the PPO trainer. `python -m pufferlib.pufferl train puffer_breakout` runs it from the command line.

One iteration is `evaluate()`, which collects a rollout, and `train()`, which learns from it. collector.py steps the
environments, learner.py steps the optimizer, losses.py has the formulas; this file puts them in order, and keeps the
books: counts and logs. runs/calls.py says how a trainer may be called, runs/run.py has its folder and checkpoints.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, so that help and usage errors do not wait for torch
    import sys

    from pufferlib.cli import main

    sys.exit(main())

import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from typing_extensions import override

from pufferlib import distributed, making
from pufferlib.config import TrainConfig, load_config, resolve_sizes
from pufferlib.distributed import Total
from pufferlib.errors import APIUsageError, ConfigError, DivergedError, StorageError
from pufferlib.extensions import compute_puff_advantage
from pufferlib.fast.choose import choose
from pufferlib.fast.policy_watch import PolicyWatch
from pufferlib.loggers import Logger
from pufferlib.metrics.dashboard import Dashboard
from pufferlib.metrics.finished_episodes import FinishedEpisodes
from pufferlib.metrics.finite import describe_update, explaining
from pufferlib.metrics.interval import Interval, prefixed
from pufferlib.play.periodic_evaluation import PeriodicEvaluation
from pufferlib.ppo.collector import Collector
from pufferlib.ppo.normalization import NormalizedObservations, RewardNormalizer, normalized
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs import checkpoint_file, run_checkpoint
from pufferlib.runs.calls import AnyLogger, Construction
from pufferlib.runs.loaders import load_env, load_policy, resolve_device
from pufferlib.runs.metadata import plain_metadata
from pufferlib.runs.optimizer_state import take_over
from pufferlib.runs.policy_check import check_policy, check_state
from pufferlib.runs.run import Run
from pufferlib.runs.settings import settings_of
from pufferlib.runs.trainer_state import Progress, TrainerParts

__all__ = ["PuffeRL", "compute_puff_advantage", "load_config", "load_env", "load_policy", "train"]


class PuffeRL(Construction):
    """Trains a policy in a vector of environments.

    Made as `PuffeRL(config, vecenv, policy)` or `PuffeRL(env, policy, learning_rate=3e-4, ...)`; see Construction.
    Of several processes that torchrun started each makes a trainer, with environments of its own; all of them call the
    same methods in the same order.

    Attributes:
        config: the settings, resolved for these environments and this device.
        policy: the module that is trained, on `device`.
        ranks: this process among those that train together.
        epoch: iterations of `evaluate` and `train` done so far.
        total_epochs: iterations that reach `total_timesteps`.
    """

    @override
    def _begin(self, config: Mapping[str, Any], vecenv: Any, policy: nn.Module, logger: AnyLogger) -> None:
        settings = TrainConfig.from_dict(config)
        self.ranks = distributed.connect()
        self.device = resolve_device(settings.device)
        self.config = resolve_sizes(settings, vecenv.num_agents, self.device.type, self.ranks.world_size)
        self.env_name = config.get("env") or making.environment_name(vecenv)
        self.vecenv = vecenv
        self.policy = policy.to(self.device)
        check_policy(self.policy, vecenv.single_observation_space, vecenv.single_action_space, self.device)
        if self.config.normalize_observations:
            self.policy = normalized(vecenv, self.policy, self.config.normalization_clip).to(self.device)
        if self.config.shuffle == "steps" and hasattr(self.policy, "initial_state"):
            raise ConfigError(
                "[train] shuffle must be 'segments' for a recurrent policy, got 'steps'; it needs their order"
            )
        find_settings = partial(settings_of, self.env_name, dict(config), vecenv, self.policy)
        self._run = Run(self.env_name, self.config, logger, self.ranks, self.policy, find_settings)
        if self.device.type == "cuda":
            torch.backends.cudnn.deterministic = self.config.torch_deterministic
            torch.set_float32_matmul_precision("high")  # TF32: ten bits of fraction, several times the speed

        self.ranks.broadcast(list(self.policy.state_dict().values()))
        generator = torch.Generator(self.device).manual_seed(self.ranks.seed(self.config.seed))
        self._generator = generator
        self._learning_rate = self.config.learning_rate
        self._interval = Interval(self.device)
        self.phases = self._interval.phases
        self.rollout = self._allocate_rollout()
        self._choice = choose(self.policy, self.rollout, self.config, self.device)
        self._reward_normalizer = self._make_reward_normalizer()
        actor = self._choice.actor(self.rollout, vecenv.num_agents, generator)
        self._collector = Collector(vecenv, actor, self.config.reward_clip, self.phases, self._reward_normalizer)
        learned = self.rollout.single_steps() if self.config.shuffle == "steps" else self.rollout
        gradients = self._choice.gradients(learned)
        self._learner = self._choice.learner(self.rollout, gradients, generator, self.phases, self.ranks)
        self._policy_watch = PolicyWatch(self.policy)
        self._parts = TrainerParts(
            self.policy, self._learner, self._reward_normalizer, self._collector, self._interval, generator
        )
        acting = self.policy, self.device, self._choice.autocast
        make_vecenv = self._evaluation_maker(self.config, vecenv)
        self._evaluation = PeriodicEvaluation(self.config, make_vecenv, *acting, self.phases)
        # The first process keeps the seed that its vector was made with.
        self._collector.reset(None if self.ranks.is_first else self.ranks.seed(vecenv.seed))

        self._steps = 0  # without those that are still being summed over all processes
        self._steps_underway: Total | None = None
        self.epoch = 0
        self.total_epochs = self.config.total_epochs
        self._has_rollout = False
        self._rollout_steps: Total | None = None  # of all processes, in the rollout that is trained on
        self._is_collected_before = False  # a loaded checkpoint brought the rollout that evaluate() is to return
        self._statistics: dict[str, float] = {}  # of the last rollout
        self._losses: dict[str, float] = {}
        self._metrics: dict[str, float] = {}
        self._dashboard: Dashboard | None = None
        self._shown_epoch = 0  # last log that the dashboard showed
        self._shown_time = -math.inf
        self._is_closed = False
        self._start_time = time.perf_counter()
        self._logged_epoch = 0
        self._logged_step = 0

    def _allocate_rollout(self) -> Rollout:
        segments = self.config.segments
        return Rollout.allocate(
            self.vecenv.single_observation_space,
            self.vecenv.single_action_space,
            segments,
            self.config.bptt_horizon,
            self.policy.initial_state(segments, self.device) if hasattr(self.policy, "initial_state") else {},
            self.device,
            torch.device("cpu") if self.config.cpu_offload else self.device,
        )

    def _make_reward_normalizer(self) -> RewardNormalizer | None:
        if not self.config.normalize_rewards:
            return None
        return RewardNormalizer(self.vecenv.num_agents, self.config.gamma, self.config.normalization_clip, self.ranks)

    def _follow_policy(self) -> None:
        """Chooses anew what computes and trains the policy where it was changed: parts replaced, frozen, or hooked.

        Raises:
            APIUsageError: if it does not fit the environment any more, has another state, or is another module.
        """
        if self.policy is not self._policy_watch.policy:
            raise APIUsageError(
                "the policy must stay the module that the trainer was made with, got another "
                f"{type(self.policy).__name__}; replace parts of it, or make a new PuffeRL"
            )
        if not self._policy_watch.has_changed():
            return
        if isinstance(self.policy, NormalizedObservations):
            self.policy.find_forms()
        self.policy.to(self.device)
        check_policy(self.policy, self.vecenv.single_observation_space, self.vecenv.single_action_space, self.device)
        check_state(self.policy, self.rollout.states, self.device)
        self.ranks.broadcast(list(self.policy.state_dict().values()))
        self._choice = choose(self.policy, self.rollout, self.config, self.device)
        actor, learner = self._collector.actor, self._learner
        self._collector.actor = self._choice.actor(self.rollout, self.vecenv.num_agents, self._generator)
        self._collector.actor.load_state_dict(actor.state_dict())
        actor.close()
        learner.gradients.close()
        gradients = self._choice.gradients(learner.gradients.rollout)
        optimizer = self._choice.optimizer(gradients)
        take_over(optimizer, learner.optimizer)
        learner.follow(gradients, optimizer)
        self._policy_watch = PolicyWatch(self.policy)

    # ------------------------------------------------------------------------------------------------ the iteration

    def evaluate(self) -> dict[str, float]:
        """Collects one rollout with the current policy.

        Between iterations the policy may be changed: parameters frozen (`requires_grad_(False)`) and freed, layers
        replaced. Where `load_checkpoint` has just brought a rollout that `train` had not learned from, this is taken.

        Returns:
            Of the episodes that ended: means of what the environments report of them, and their number `n`; and the
            trainer's own `episode/...` of `mean_and_log`. Empty when none ended. Environments may report later than the
            episodes end, or never.

        Raises:
            DivergedError: if a reward is infinite or NaN, or an observation is and the policy cannot act on it; it
                names agent and step.
        """
        self._require_open()
        self._follow_policy()
        if self._is_collected_before:
            self._is_collected_before = False
            return dict(self._statistics)
        self._has_rollout = False
        with self._run.telling_what_is_kept(), self._interval.iteration, self._explaining():
            with self._learner.gradients.limit_caller():
                steps = self._collector.collect(self.global_step)
            self._learner.prepare()
        self._steps = self.global_step
        self._steps_underway = self._rollout_steps = self.ranks.start_total(steps)
        self._has_rollout = True
        self._interval.episodes.merge(self._collector.statistics)
        self._statistics = self._collector.statistics.take()
        return dict(self._statistics)

    def train(self) -> dict[str, float]:
        """Learns from the rollout that `evaluate` collected, logs and saves where the intervals say so.

        Returns:
            `policy_loss, value_loss, entropy, old_approx_kl, approx_kl, clipfrac, importance`, means over the
            minibatches of this call, and `explained_variance`.

        Raises:
            APIUsageError: if `evaluate` was not called since the last `train`.
            DivergedError: if a loss or a weight is not finite any more; nothing was logged or saved since.
        """
        self._require_open()
        if not self._has_rollout:
            raise APIUsageError("train() needs a new rollout; call evaluate() first")
        self._follow_policy()
        self._has_rollout = self._is_collected_before = False
        progress = min(self.epoch / self.total_epochs, 1.0)
        with self._run.telling_what_is_kept(), self._interval.iteration:
            self._losses = self._learn(progress)
        self.epoch += 1
        if self.config.weights_check_interval and self.epoch % self.config.weights_check_interval == 0:
            self.ranks.check_same(list(self.policy.state_dict().values()), "weights")

        is_last = self.epoch >= self.total_epochs
        is_evaluated = self._evaluation.is_due(self.epoch)
        if is_evaluated:
            self._run.require_finite(self._parts, self._learning_rate)  # before they are the best
            self.ranks.wait_for_first(self._evaluate_apart)
        if is_evaluated or is_last or self.epoch % self.config.log_interval == 0:
            self.mean_and_log()
        if self.epoch % self.config.checkpoint_interval == 0:
            with self._run.outliving_full_disks():
                self.save_checkpoint()
        return dict(self._losses)

    def _evaluate_apart(self) -> None:
        with self._run.outliving_full_disks():
            self._run.open()
            self._evaluation.run(self._run.folder, run_checkpoint.note(self.env_name, self._progress()))

    def _learn(self, progress: float) -> dict[str, float]:
        """Trains on the rollout; raises DivergedError where that leaves anything not finite."""
        learning_rate = self.learning_rate
        is_full = self._rollout_steps.result() == self.config.batch_size  # no agent was absent, in any process
        with self._explaining():
            losses = self._learner.learn(learning_rate, progress, is_full)
        found = describe_update(losses, self._learner.weight_norm, self.policy, learning_rate)
        if found is not None:  # an observation may be to blame: nobody has waited for a GPU to say so
            raise DivergedError(self._collector.find_not_finite() or found)
        if isinstance(self.policy, NormalizedObservations):
            with self._explaining():
                self.policy.update(self.rollout, self.ranks)
        return losses

    def _explaining(self) -> AbstractContextManager[None]:
        """Replaces an error of the policy by the number that led to it, see `explaining`."""
        return explaining(self._collector.find_not_finite, self.policy)

    @property
    def global_step(self) -> int:
        """Agent steps collected so far, by all processes."""
        if self._steps_underway is not None:
            self._steps += int(self._steps_underway.result())
            self._steps_underway = None
        return self._steps

    @property
    def learning_rate(self) -> float:
        """The learning rate of this epoch: the one set, annealed along `lr_schedule` to 0 over `total_epochs`.

        Assigning to it sets the rate that the schedule starts from, from the next `train` on.
        """
        if not self.config.anneal_lr:
            return self._learning_rate
        progress = min(self.epoch / self.total_epochs, 1.0)
        if self.config.lr_schedule == "linear":
            return self._learning_rate * (1.0 - progress)
        return self._learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate = value

    # ------------------------------------------------------------------------------------------- what is seen of it

    @property
    def uptime(self) -> float:
        """Seconds of training, those before a resume included."""
        return time.perf_counter() - self._start_time

    @property
    def sps(self) -> float:
        """Agent steps per second since the last log, or of that log until a step is collected."""
        if self.global_step == self._logged_step:
            return self._metrics.get("sps", 0.0)
        return (self.global_step - self._logged_step) / max(self._interval.seconds, 1e-9)

    @property
    def is_logged(self) -> bool:
        """Whether the metrics of the last epoch were sent to the logger."""
        return self.epoch == self._logged_epoch

    def mean_and_log(self) -> dict[str, float]:
        """Sends the metrics of the epochs since the last call to the logger.

        Called twice within one epoch it returns the same metrics and logs nothing. Unless said otherwise they speak of
        the time since the last log. Means weigh every episode the same; what there is no number for is left out. Steps,
        episodes and losses are those of all processes, times and hardware this one's.

        Returns:
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
            - `performance/<phase>`: shares of the wall time, in all 1: `environment`, `store` and `forward` of the
              rollout, `advantage` and `learn` of the update, `evaluation`, `communicate` with other processes, and
              `other`. Waiting for a GPU to end the update is `learn`, and so is all of the update where minibatches are
              captured.
            - `device/<phase>`: shares of the same time in which a CUDA device worked on the update's phases. (In the
              rollout every step waits for the device, so that the wall time has it all.)
            - `hardware/cpu, memory, memory_bytes` and, with the extra `gpu`, `hardware/gpu, gpu_memory,
              gpu_memory_bytes`: what is used of the machine, see HardwareMeter.
        """
        if self.is_logged:
            return dict(self._metrics)
        of_all = self.ranks.gather(self._interval.episodes.state_dict())
        self._interval.episodes = FinishedEpisodes.merged(of_all)
        self._metrics = {**self._gather_metrics(), **self._evaluation.take(), **self._interval.sample_hardware()}
        self._interval.end()
        self._logged_epoch, self._logged_step = self.epoch, self.global_step
        with self._run.outliving_full_disks():
            self._run.open()
        self.logger.log(self._metrics, self.global_step)
        return dict(self._metrics)

    def _gather_metrics(self) -> dict[str, float]:
        """The metrics since the last log, but for those of the hardware."""
        return {
            "agent_steps": self.global_step,
            "epoch": self.epoch,
            "sps": self.sps,
            "uptime": self.uptime,
            "learning_rate": self._learner.learning_rate,
            **prefixed("losses", self._losses),
            **self._interval.metrics(self.epoch - self._logged_epoch),
        }

    def print_dashboard(self) -> None:
        """Shows how it goes: a panel on a terminal, every `dashboard_interval_seconds`; elsewhere a line per log.

        Call it as often as you like. Of several processes the first shows it, with the speed of all.
        """
        if not self.ranks.is_first:
            return
        if self._dashboard is None:
            parameters = sum(parameter.numel() for parameter in self.policy.parameters())
            facts = {
                "environment": self.env_name,
                "device": str(self.device),
                "agents": f"{self.vecenv.num_agents:,}",
                "parameters": f"{parameters:,}",
                "run": str(self._run.folder),
            }
            self._dashboard = Dashboard(self.env_name, facts, self.config.total_timesteps)
        now = time.perf_counter()
        if not self._dashboard.is_panel:
            is_due = self._shown_epoch != self._logged_epoch
        else:
            is_due = now - self._shown_time >= self.config.dashboard_interval_seconds
        if is_due:
            self._dashboard.show(self._metrics if self.is_logged else {**self._metrics, **self._gather_metrics()})
            self._shown_epoch, self._shown_time = self._logged_epoch, now

    # ------------------------------------------------------------------------------------------------ what outlives it

    @property
    def logger(self) -> Logger:
        """Where metrics go; may be replaced before the first log."""
        return self._run.logger

    @logger.setter
    def logger(self, logger: Logger) -> None:
        self._run.logger = logger

    @property
    def run_folder(self) -> Path:
        """Where checkpoints and metrics go; made with the first of them."""
        return self._run.folder

    def describe_by(self, args: dict[str, Any]) -> None:
        """Has the run's `config.json` hold these settings, instead of what can be told of the trainer's parts."""
        self._run.describe_by(args)

    def open_run(self) -> None:
        """Makes and describes the run's folder; needed only to have it before the first log or checkpoint.

        Raises:
            CheckpointError: if another process is writing to it.
            StorageError: if it cannot be written.
        """
        self._run.open()

    def describe_run(self) -> dict[str, Any]:
        """What `config.json` holds: see `pufferlib.runs.description.describe_run`."""
        return self._run.describe()

    def save_checkpoint(self, path: str | Path | None = None, metadata: Mapping[str, Any] | None = None) -> str:
        """Writes the weights, then everything else that a resume needs; a kill leaves the checkpoint before it whole.

        Between `evaluate` and `train` the rollout is saved as well, so that nothing of it is lost: see
        `load_checkpoint`. A single file, and environments that have no snapshots, go on without it, and its steps do
        not count then. After a rollout that failed, the run begins other episodes when it is resumed.

        Args:
            path: one file for all but the environments, as for a next stage in other ones; None is the run folder.
            metadata: numbers, text, lists and dicts to keep with it; for anything else APIUsageError names the key.

        Returns:
            The path, or that of the weights in the run folder: `<run folder>/model_<env>_<epoch>.pt`.

        Raises:
            DivergedError: if a weight, the optimizer's state or a statistic is not finite: then nothing was written.
            StorageError: if it cannot be written, as on a full disk; what was saved before is as it was.
            CheckpointError: if another process is writing to the run's folder.
        """
        metadata = plain_metadata(metadata)
        self._run.require_finite(self._parts, self._learning_rate)
        progress = self._progress()
        if path is not None:
            return self.ranks.from_first(lambda: checkpoint_file.save(path, self._parts, progress, metadata))
        return self._run.save(self._parts, progress, self._statistics if self._has_rollout else None, metadata)

    def _progress(self) -> Progress:
        return Progress(
            self.epoch,
            self.global_step,
            int(self._rollout_steps.result()) if self._has_rollout else 0,
            self.uptime,
            self._learning_rate,
            self._logged_epoch,
            self._logged_step,
            self._losses,
        )

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
        self._follow_policy()  # the optimizer gets what belongs to the parts of now
        progress, statistics, metadata = self._run.load(Path(path), self._parts)
        self.epoch, self._steps, self._steps_underway = progress.epoch, progress.global_step, None
        self._learning_rate, self._losses = progress.learning_rate, progress.losses
        self._logged_epoch, self._logged_step = progress.logged_epoch, progress.logged_step
        self._start_time = time.perf_counter() - progress.uptime
        self._has_rollout = self._is_collected_before = statistics is not None
        if statistics is not None:
            self._statistics = statistics
            self._rollout_steps = self.ranks.start_total(progress.untrained_steps if self.ranks.is_first else 0)
        self._metrics, self._shown_epoch = {}, progress.logged_epoch  # what was shown is not of what was loaded
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
            self.logger.close(str(self._run.model_path))
        return str(self._run.model_path)

    def _save_last(self) -> None:
        path = self._run.model_path
        if path is None or not path.name.endswith(f"_{self.epoch:06d}.pt"):
            self.save_checkpoint()
        else:
            self._run.require_finite(self._parts, self._learning_rate)

    def release(self) -> None:
        """Lets go of the environments and the dashboard without saving; for a trainer that failed."""
        self._is_closed = True
        if self._dashboard is not None:
            self._dashboard.close()
        self._interval.close()
        self._learner.gradients.close()
        self._collector.actor.close()
        self._evaluation.close()
        self.vecenv.close()
        self._run.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise APIUsageError("the trainer is closed; make a new PuffeRL")


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
    from pufferlib.runs import training  # which needs the trainer

    return training.train(env_name, args, vecenv, policy, logger)
