"""What of a trainer outlives it: checkpoints in the folder of its run, and in single files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from pufferlib import checkpoint, checkpoint_file, run
from pufferlib.catalog import slug
from pufferlib.errors import CheckpointError
from pufferlib.loggers import METRICS_FILE, JsonLogger, Logger, Loggers, NoLogger
from pufferlib.policy_settings import class_text, policy_settings
from pufferlib.run_folder import RunFolder
from pufferlib.run_settings import settings_of
from pufferlib.seeding import mix_seed

STATE_KEYS = {
    *("env", "model", "epoch", "global_step", "uptime", "learning_rate", "logged", "losses", "learning", "ranks"),
}
"""What `trainer_state.pt` holds."""


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
            OSError: if it cannot be written.
        """
        if self.ranks.is_first:
            self._run.open()

    def describe_run(self) -> dict[str, Any]:
        """What `config.json` holds: see `pufferlib.run.describe_run`."""
        settings = self._args
        if settings is None:
            settings = settings_of(self.env_name, self._settings, self.vecenv, self.policy)
        is_known = policy_settings(self.policy, settings["env_name"]) is not None
        return run.describe_run(settings, None if is_known else class_text(self.policy))

    def save_checkpoint(self, path: str | Path | None = None, metadata: Mapping[str, Any] | None = None) -> str:
        """Writes the weights, then everything else that a resume needs; a kill leaves the checkpoint before it whole.

        Args:
            path: one file for all but the environments, as for a next stage in other ones; None is the run folder.
            metadata: numbers, text, lists and dicts to keep with it; for anything else APIUsageError names the key.

        Returns:
            The path, or that of the weights in the run folder: `<run folder>/model_<env>_<epoch>.pt`.
        """
        metadata = checkpoint_file.plain_metadata(metadata)
        if path is not None:
            return self._save_file(path, metadata)
        path = self.run_folder / f"model_{slug(self.env_name)}_{self.epoch:06d}.pt"
        ranks = self.ranks.gather(self._rank_state())
        if self.ranks.is_first:
            self._write_checkpoint(path, ranks, metadata)
        self._model_path = path
        return str(path)

    def _write_checkpoint(self, path: Path, ranks: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
        """Writes the weights and the state that all processes share, with the state of each of them."""
        self.open_run()
        checkpoint.save(path, self.policy.state_dict())
        state = {
            "env": self.env_name,
            "model": path.name,
            "epoch": self.epoch,
            "global_step": self.global_step,
            "uptime": self.uptime,
            "learning_rate": self._learning_rate,
            "logged": [self._logged_epoch, self._logged_step],
            "losses": self._losses,
            "learning": {name: part.state_dict() for name, part in self._learning_parts().items()},
            "ranks": ranks,
            "metadata": metadata,
        }
        checkpoint.save(self.run_folder / checkpoint.TRAINER_STATE, state)
        checkpoint.name_last(path, self._facts())

    def _facts(self) -> dict[str, Any]:
        """What is noted beside weights that have a name of their own."""
        return {"env": self.env_name, "agent_steps": self.global_step, "epoch": self.epoch}

    def _rank_state(self) -> dict[str, Any]:
        """What differs between processes."""
        return {
            "interval": self._interval.state_dict(),
            "generator": self._generator.get_state(),
            "torch_generator": torch.get_rng_state(),
            "collector": self._collector.state_dict(),
        }

    def load_checkpoint(self, path: str | Path) -> dict[str, Any]:
        """Goes on where a checkpoint was saved.

        By another number of processes than then, and where environments have no snapshots, as those in Python, other
        episodes are begun.

        Args:
            path: a run folder: training goes on as if it had not stopped, on a CPU bit for bit, and in that folder. Or
                a file of `save_checkpoint(path)`: the environments stay as they are, and `evaluate` comes next.

        Returns:
            The metadata that was saved with it.

        Raises:
            CheckpointError: if there is no checkpoint, it is damaged, or it was made with other settings.
        """
        self._follow_policy()  # the optimizer gets what belongs to the parts of now
        folder = Path(path)
        if not self.ranks.from_first(folder.is_dir):
            return self._load_file(folder)
        path = folder / checkpoint.TRAINER_STATE
        state = self.ranks.from_first(lambda: checkpoint.load(path))
        if not isinstance(state, dict) or not state.keys() >= STATE_KEYS:
            raise CheckpointError(f"{path} does not hold the state of this version's trainer; pass a run folder")
        if state["env"] != self.env_name:
            raise CheckpointError(f"{path} must be of a run of {self.env_name}, got one of {state['env']}")
        is_own = self.run_folder.resolve() == folder.resolve()
        run_folder = self._run if is_own else RunFolder(folder, self.describe_run)
        self.ranks.from_first(run_folder.lock)
        model = folder / state["model"]
        self.ranks.from_first(lambda: checkpoint.load_policy_weights(self.policy, model))
        self.ranks.broadcast(list(self.policy.state_dict().values()))
        try:
            for name, part in self._learning_parts().items():
                part.load_state_dict(state["learning"][name])
            self._load_rank_state(state["ranks"], state["epoch"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{folder} was saved with other settings than these ({error})") from error
        if self.ranks.is_first:
            checkpoint.remove_unfinished(folder)
        self.epoch, self._steps, self._steps_underway = state["epoch"], state["global_step"], None
        self._logged_epoch, self._logged_step = state["logged"]
        self._learning_rate = state["learning_rate"]
        self._losses = state["losses"]
        self._start_time = time.perf_counter() - state["uptime"]
        if not is_own:
            self._run.close()
        self._run, self._model_path = run_folder, model
        self._metrics_file.go_on(folder / METRICS_FILE, self.global_step)
        return dict(state.get("metadata", {}))

    def _save_file(self, path: str | Path, metadata: dict[str, Any]) -> str:
        progress = {name: getattr(self, name) for name in ("epoch", "global_step", "uptime")}
        progress["learning_rate"] = self._learning_rate
        learnt = self.policy, self._learning_parts(), self.config.optimizer
        return self.ranks.from_first(lambda: checkpoint_file.save(path, *learnt, progress, metadata))

    def _load_file(self, path: Path) -> dict[str, Any]:
        found = self.ranks.from_first(lambda: checkpoint_file.read(path))
        checkpoint_file.restore(path, found, self.policy, self._learning_parts(), self.config.optimizer)
        progress = found["progress"]
        self.epoch, self._steps, self._steps_underway = progress["epoch"], progress["global_step"], None
        self._learning_rate = progress["learning_rate"]
        self._start_time = time.perf_counter() - progress["uptime"]
        self._has_rollout, self._model_path = False, None  # what was collected and saved is of another policy
        self._interval.end()  # and what was measured
        self._losses, self._metrics = {}, {}
        self._logged_epoch = self._shown_epoch = self.epoch
        self._logged_step = self.global_step
        return found["metadata"]

    def _learning_parts(self) -> dict[str, Any]:
        """What learns beside the policy, by name."""
        parts = {"learner": self._learner, "reward_normalizer": self._reward_normalizer}
        return {name: part for name, part in parts.items() if part is not None}

    def _load_rank_state(self, states: list[dict[str, Any]], epoch: int) -> None:
        """Puts back what `_rank_state` of every process returned, as far as there are as many processes again."""
        if len(states) != self.ranks.world_size:
            self._interval.load_state_dict(states[0]["interval"])
            if not self.ranks.is_first:
                self._interval.episodes.take()  # they are the first one's
            self._begin_anew(epoch)
            return
        state = states[self.ranks.rank]
        if state["collector"] is None:
            self._begin_anew(epoch)
        else:
            self._collector.load_state_dict(state["collector"])
        self._generator.set_state(state["generator"])
        torch.set_rng_state(state["torch_generator"])
        self._interval.load_state_dict(state["interval"])

    def _begin_anew(self, epoch: int) -> None:
        """Begins other episodes than those that the run began with, where environments cannot go on as they were."""
        self._collector.reset(mix_seed(self.ranks.seed(self.vecenv.seed), epoch))
