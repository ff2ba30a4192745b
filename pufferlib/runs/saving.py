"""What of a trainer outlives it: checkpoints in the folder of its run, and in single files."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from pufferlib.errors import CheckpointError, DivergedError, StorageError
from pufferlib.families.catalog import slug
from pufferlib.loggers import METRICS_FILE, JsonLogger, Logger, Loggers, NoLogger
from pufferlib.metrics.finite import find_in_state, find_weight
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.normalization import RewardNormalizer
from pufferlib.runs import checkpoint, checkpoint_file, description
from pufferlib.runs.checkpoint_pattern import (
    Pattern,
    check,
    count,
    demand,
    describe,
    each,
    maybe,
    number,
    numbers_by_name,
    seconds,
    text,
)
from pufferlib.runs.folder import RunFolder
from pufferlib.runs.policy_settings import class_text, policy_settings
from pufferlib.runs.settings import settings_of
from pufferlib.runs.state_patterns import INTERVAL, collector_pattern, generator_pattern, rollout_pattern
from pufferlib.runs.trainer_state import (
    check_trainer_state,
    learning_pattern,
    learning_state,
    load_learning_state,
)
from pufferlib.seeding import mix_seed


class Saving:
    """The part of PuffeRL that saves and loads it; the attributes are PuffeRL's."""

    def _begin_run(self, config: Mapping[str, Any], logger: Logger | Sequence[Logger] | None) -> None:
        """Names the run and prepares its folder and loggers; nothing is written yet.

        Only the first process logs, and names the run for all of them.
        """
        given = Loggers(logger if self.ranks.is_first else None)
        run_id = self.ranks.from_first(lambda: given.run_id)
        self._settings = dict(config)
        self._args: dict[str, Any] | None = None
        folder = Path(self.config.data_dir) / slug(f"{self.env_name}_{run_id}")  # of a user's logger, too
        self._run = RunFolder(folder, self.describe_run)
        self._metrics_file = JsonLogger(folder / METRICS_FILE, run_id=run_id)
        wants_file = not given.loggers or any(type(each) is not NoLogger for each in given.loggers)
        files = [self._metrics_file] if wants_file and self.ranks.is_first else []
        self.logger = Loggers([*files, given], {"env_name": self.env_name, "train": asdict(self.config)})

    @property
    def run_folder(self) -> Path:
        """Where checkpoints and metrics go; made with the first of them."""
        return self._run.path

    def describe_by(self, args: dict[str, Any]) -> None:
        """Has the run's `config.json` hold these settings, instead of what can be told of the trainer's parts."""
        self._args = args

    def open_run(self) -> None:
        """Makes and describes the run's folder; needed only to have it before the first log or checkpoint.

        Raises:
            CheckpointError: if another process is writing to it.
            StorageError: if it cannot be written.
        """
        if self.ranks.is_first:
            self._run.open()

    def describe_run(self) -> dict[str, Any]:
        """What `config.json` holds: see `pufferlib.runs.description.describe_run`."""
        settings = self._args
        if settings is None:
            settings = settings_of(self.env_name, self._settings, self.vecenv, self.policy)
        is_known = policy_settings(self.policy, settings["env_name"]) is not None
        return description.describe_run(settings, None if is_known else class_text(self.policy))

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
        metadata = checkpoint_file.plain_metadata(metadata)
        self.ranks.from_first(self._require_finite)
        if path is not None:
            return self._save_file(path, metadata)
        path = self.run_folder / f"model_{slug(self.env_name)}_{self.epoch:06d}.pt"
        ranks = self.ranks.gather(self._rank_state())
        self.ranks.from_first(lambda: self._write_checkpoint(path, ranks, metadata))
        self._model_path = path
        return str(path)

    def _require_finite(self) -> None:
        """Refuses to keep what nobody can go on from.

        Raises:
            DivergedError: names it, or what led to it, and the checkpoint that is kept instead.
        """
        parts = learning_state(*self._learning_parts())
        parts |= {"optimizer_state": parts.pop("learner")["optimizer_state"], "learning_rate": self._learning_rate}
        states = (find_in_state(state, name) for name, state in parts.items())
        found = find_weight(self.policy) or next((state for state in states if state is not None), None)
        if found is not None:
            raise DivergedError(self._divergence or f"{found}, so nothing was saved; {self._kept_text()}")

    @contextlib.contextmanager
    def _telling_what_is_kept(self) -> Iterator[None]:
        """Has a DivergedError end with where one can go on from."""
        try:
            yield
        except DivergedError as error:
            self._divergence = f"{error}; {self._kept_text()}"
            raise DivergedError(self._divergence) from error

    def _kept_text(self) -> str:
        if self._model_path is None:
            return "there is no earlier checkpoint of this run"
        return f"the last good checkpoint, {self._model_path}, is kept"

    @contextlib.contextmanager
    def _outliving_full_disks(self) -> Iterator[None]:
        """Warns of what could not be written in the middle of a run; the next interval tries again."""
        try:
            yield
        except StorageError as error:
            if self.ranks.is_first:
                warnings.warn(f"{error}; the training goes on", RuntimeWarning, stacklevel=4)

    def _write_checkpoint(self, path: Path, ranks: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
        """Writes the weights and the state that all processes share, with the state of each of them."""
        self.open_run()
        checkpoint.save(path, self.policy.state_dict())
        state = {
            "format": checkpoint.FORMAT,
            "env": self.env_name,
            "model": path.name,
            "epoch": self.epoch,
            "global_step": self.global_step,
            "untrained_steps": self._untrained_steps,
            "uptime": self.uptime,
            "learning_rate": float(self._learning_rate),
            "logged": [self._logged_epoch, self._logged_step],
            "losses": self._losses,
            "learning": learning_state(*self._learning_parts()),
            "ranks": ranks,
            "metadata": metadata,
        }
        checkpoint.save(self.run_folder / checkpoint.TRAINER_STATE, state)
        checkpoint.name_last(path, self._facts())

    def _facts(self) -> dict[str, Any]:
        """What is noted beside weights that have a name of their own."""
        return {"env": self.env_name, "agent_steps": self.global_step, "epoch": self.epoch}

    @property
    def _untrained_steps(self) -> int:
        """Those of a rollout that `train` did not learn from yet."""
        return int(self._rollout_steps.result()) if self._has_rollout else 0

    def _rank_state(self) -> dict[str, Any]:
        """What differs between processes."""
        collector = self._collector.state_dict()
        return {
            "interval": self._interval.state_dict(),
            "generator": self._generator.get_state(),
            "torch_generator": torch.get_rng_state(),
            "collector": collector,
            "rollout": self._rollout_state() if self._has_rollout and collector is not None else None,
        }

    def _rollout_state(self) -> dict[str, Any]:
        """A rollout that is yet to be learned from, and what `evaluate` returned of it."""
        return {"content": self.rollout.state_dict(), "statistics": self._statistics}

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
        folder = Path(path)
        if not self.ranks.from_first(folder.is_dir):
            return self._load_file(folder)
        path = folder / checkpoint.TRAINER_STATE
        state = self.ranks.from_first(lambda: checkpoint.load(path))
        checkpoint.require_format(path, state)
        saved_env = describe(state.get("env")).strip("'")
        if saved_env != self.env_name:
            raise CheckpointError(f"{path} must be of a run of {self.env_name}, got one of {saved_env}")
        model = folder / _file_name(state.get("model"), path)
        weights = self.ranks.from_first(lambda: checkpoint.read_policy_weights(self.policy, model))
        check_trainer_state(path, state, self._state_pattern(), self._rank_pattern(), self.ranks.world_size)
        is_own = self.run_folder.resolve() == folder.resolve()
        run_folder = self._run if is_own else RunFolder(folder, self.describe_run)
        self.ranks.from_first(run_folder.lock)
        self._load_rank_state(path, state)
        self.policy.load_state_dict(weights)
        load_learning_state(*self._learning_parts(), state["learning"])
        if self.ranks.is_first:
            checkpoint.remove_unfinished(folder)
        self._learning_rate = state["learning_rate"]
        self._losses = state["losses"]
        self._start_time = time.perf_counter() - state["uptime"]
        if not is_own:
            self._run.close()
        self._run, self._model_path = run_folder, model
        self._metrics_file.go_on(folder / METRICS_FILE, self.global_step)
        return dict(state["metadata"])

    def _state_pattern(self) -> Pattern:
        """What `trainer_state.pt` holds; `_rank_pattern` has the rest."""

        def check_whole(found: Any, place: str) -> None:
            check(found, pattern, place)
            epoch, step = found["logged"]
            demand(epoch <= found["epoch"] and step <= found["global_step"], f"{place}['logged']", "the past", found)
            demand(found["untrained_steps"] <= found["global_step"], place, "of more steps", found["untrained_steps"])

        pattern = {
            "format": count,
            "env": text,
            "model": text,
            "epoch": count,
            "global_step": count,
            "untrained_steps": count,
            "uptime": seconds,
            "learning_rate": number(),
            "logged": [count, count],
            "losses": numbers_by_name,
            "learning": learning_pattern(*self._learning_parts()),
            "ranks": each(lambda found, place: demand(type(found) is dict, place, "a dict", found), least=1),
            "metadata": checkpoint_file.check_metadata,
        }
        return check_whole

    def _rank_pattern(self) -> Pattern:
        """What `_rank_state` may return."""
        rollout = {
            "content": rollout_pattern(self.rollout, self.vecenv.single_action_space),
            "statistics": numbers_by_name,
        }
        return {
            "interval": INTERVAL,
            "generator": generator_pattern(self.device),
            "torch_generator": generator_pattern(torch.device("cpu")),
            "collector": collector_pattern(self._collector, self._reward_normalizer),
            "rollout": maybe(rollout),
        }

    def _save_file(self, path: str | Path, metadata: dict[str, Any]) -> str:
        progress = {
            "epoch": self.epoch,
            "global_step": self.global_step - self._untrained_steps,
            "uptime": self.uptime,
            "learning_rate": float(self._learning_rate),
        }
        learnt = self.policy.state_dict(), learning_state(*self._learning_parts()), self.config.optimizer
        return self.ranks.from_first(lambda: checkpoint_file.save(path, *learnt, progress, metadata))

    def _load_file(self, path: Path) -> dict[str, Any]:
        found = self.ranks.from_first(lambda: checkpoint_file.read(path))
        checkpoint_file.check_content(
            path, found, self.policy, learning_pattern(*self._learning_parts()), self.config.optimizer
        )
        load_learning_state(*self._learning_parts(), found["parts"])
        self.policy.load_state_dict(found["policy"])
        progress = found["progress"]
        self.epoch, self._steps, self._steps_underway = progress["epoch"], progress["global_step"], None
        self._learning_rate = progress["learning_rate"]
        self._start_time = time.perf_counter() - progress["uptime"]
        self._drop_rollout()  # what was collected and saved is of another policy
        self._model_path = None
        self._interval.end()  # and what was measured
        self._losses, self._metrics = {}, {}
        self._logged_epoch = self._shown_epoch = self.epoch
        self._logged_step = self.global_step
        return found["metadata"]

    def _learning_parts(self) -> tuple[Learner, RewardNormalizer | None]:
        """What learns beside the policy."""
        return self._learner, self._reward_normalizer

    def _load_rank_state(self, path: Path, state: dict[str, Any]) -> None:
        """Puts back steps, environments and random streams, as far as there are as many processes again."""
        states = state["ranks"]
        own = states[self.ranks.rank] if len(states) == self.ranks.world_size else None
        if own is not None and own["collector"] is not None:
            self._load_environments(path, own["collector"])
        self._drop_rollout()
        self.epoch, self._steps, self._steps_underway = state["epoch"], state["global_step"], None
        self._logged_epoch, self._logged_step = state["logged"]
        self._interval.load_state_dict((own or states[0])["interval"])
        if own is None:
            if not self.ranks.is_first:
                self._interval.episodes.take()  # they are the first one's
            self._generator.manual_seed(mix_seed(self.ranks.seed(self.config.seed), self.epoch))
        else:
            self._generator.set_state(own["generator"])
            torch.set_rng_state(own["torch_generator"])
        if own is None or own["collector"] is None:
            self._begin_anew(state["untrained_steps"])
        elif own["rollout"] is not None:
            self._load_rollout(own["rollout"], state["untrained_steps"])

    def _load_environments(self, path: Path, state: dict[str, Any]) -> None:
        try:
            self._collector.load_state_dict(state)
        except Exception as error:  # environments may raise what they like
            raise CheckpointError(
                f"{path}: the environments refused their snapshots ({error}); "
                "use the settings of the run, or another checkpoint"
            ) from error

    def _load_rollout(self, state: dict[str, Any], steps: int) -> None:
        """Brings back a rollout that `train` did not learn from."""
        self.rollout.load_state_dict(state["content"])
        self._learner.prepare()
        self._statistics = state["statistics"]
        self._rollout_steps = self.ranks.start_total(steps if self.ranks.is_first else 0)
        self._has_rollout = self._is_collected_before = True

    def _drop_rollout(self) -> None:
        self._divergence = None
        self._has_rollout = self._is_collected_before = False

    def _begin_anew(self, untrained_steps: int) -> None:
        """Begins other episodes than those that the run began with, where environments cannot go on as they were."""
        self._steps -= untrained_steps  # nobody will learn from them
        self._logged_step = min(self._logged_step, self._steps)
        self._collector.reset(mix_seed(self.ranks.seed(self.vecenv.seed), self.epoch))


def _file_name(name: Any, path: Path) -> str:
    """The name of the weights that a state belongs to; no path, which would lead out of the folder."""
    if type(name) is not str or Path(name).name != name:
        raise CheckpointError(f"{path} must name the weights beside it, got {describe(name)}; use another checkpoint")
    return name
