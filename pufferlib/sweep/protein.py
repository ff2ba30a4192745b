"""Sweeps from Python: a whole one, or proposals for a loop of your own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import optuna
from optuna.trial import TrialState, create_trial

from pufferlib.config import SweepConfig, load_config, require_whole
from pufferlib.config.schema import require_known
from pufferlib.errors import APIUsageError, ConfigError
from pufferlib.sweep.command import show_sweep
from pufferlib.sweep.driver import Sweep
from pufferlib.sweep.proposal import make_sampler
from pufferlib.sweep.results import COST, CURVE
from pufferlib.sweep.space import Categorical, Dimension, SearchSpace, resolved_name, space_of, trial_args
from pufferlib.sweep.study import quiet_optuna


class Protein:
    """A search for hyperparameters, by what they reach and what they cost.

    `optimize` trains, as `puffer sweep` does: every trial in a process of its own.

        best = Protein("puffer_cartpole", {"learning_rate": [0.001, 0.01, 0.1]}, num_trials=20).optimize()

    `suggest` and `observe` leave the trials to the caller, and need no environment.

        protein = Protein(search_space={"width": {"distribution": "log_normal", "min": 8, "max": 512}})
        values = protein.suggest()
        protein.observe(values, score=score_of(values), cost=seconds)

    Attributes:
        space: what varies.
        study: Optuna's study of the trials so far: of those that `optimize` made once it was called.
        best_args: after `optimize`: the nested dict of the best settings, for `pufferl.train(env_name, best_args)`.
    """

    def __init__(
        self,
        env_name: str | None = None,
        search_space: Mapping[str, Any] | None = None,
        num_trials: int | None = None,
        metric: str | None = None,
        goal: Literal["maximize", "minimize"] | None = None,
        args: Mapping[str, Any] | None = None,
        **settings: str | float | bool | None,
    ):
        """Prepares the search; nothing runs yet.

        Args:
            env_name: the environment that `optimize` trains in, such as `puffer_breakout`.
            search_space: by the name of a setting, such as `learning_rate` or `env.size`: a list of values, or a dict
                with the keys of `[sweep.SECTION.SETTING]` for a range. None takes the environment's own.
            num_trials: of the whole search; None is 100, or what the environment says.
            metric: what a trial is scored by, a name in the logs, or what comes after its slash.
            goal: whether more of it is better; None is `maximize`.
            args: the settings of the trials, as `load_config` returns them; None takes the environment's.
            settings: any other of `[sweep]`, such as `workers=2`, `max_minutes=30` or `seed=1`.

        Raises:
            ConfigError: if a setting is unknown or does not fit.
            APIUsageError: if there is neither an environment nor a search space, or the environment is no name.
        """
        if env_name is None and not search_space:
            raise APIUsageError("Protein needs something to vary, got neither env_name nor a search_space; pass one")
        if search_space is not None and not (
            isinstance(search_space, Mapping) and all(isinstance(name, str) for name in search_space)
        ):
            raise APIUsageError(f"search_space must be a dict by the names of settings, got {search_space!r}")
        given = {"num_trials": num_trials, "metric": metric, "goal": goal, **settings}
        given = {name: value for name, value in given.items() if value is not None}
        self._env_name, self._args = env_name, {}
        if env_name is not None:
            args = load_config(env_name) if args is None else args
            require_whole(env_name, args)
            require_known(SweepConfig.section, given, SweepConfig.settings())
            self._args = {**args, "env_name": env_name, "sweep": {**args.get("sweep", {}), **given}}
        self._config = SweepConfig.from_dict(self._args["sweep"] if env_name else given)
        if env_name is None:
            self.space = SearchSpace([_free_dimension(name, one) for name, one in search_space.items()])
            self._names = {name: name for name in search_space}  # of the settings, by those in the search space
        else:
            self.space = space_of(self._args, search_space)
            names = {name: resolved_name(self._args, name) for name in search_space or self.space.names}
            self._names = {given: name for given, name in names.items() if name in self.space.names}  # not taken out
        self.best_args: dict[str, Any] | None = None
        self._pending: list[tuple[dict[str, Any], optuna.Trial]] = []  # what was suggested and not observed
        sampler = make_sampler(self._config.method, self.space, self._config.seed, self._config.max_suggestion_cost)
        with quiet_optuna():
            self.study = optuna.create_study(direction=self._config.goal, sampler=sampler)

    def optimize(self, quiet: bool = False) -> dict[str, Any]:
        """Makes the trials and returns the best values, by the names of the search space.

        A study that exists continues: see `[sweep] storage` and `study`. The files of `puffer sweep` are left
        in the folder of the study: the best settings as an ini, the report, the table of trials.

        Args:
            quiet: whether nothing is printed.

        Raises:
            APIUsageError: if there is no environment.
            ConfigError: if the metric does not exist, the first trials all fail for the same reason, or none came to
                its end.
            KeyboardInterrupt: if it was interrupted; the same call continues.
        """
        if self._env_name is None:
            raise APIUsageError("optimize() trains in an environment, and there is none; give Protein an env_name")
        sweep = Sweep(self._env_name, self._args, self.space)
        show_sweep(sweep, "the same call", quiet)
        state, self.study = sweep.state, sweep.state.study
        best = state.results().winner
        if best is None:
            raise ConfigError(f"no trial has run to its end, of {len(state.trials)}; see {state.folder}")
        self.best_args = {**trial_args(self._args, best.settings), "sweep": self._args["sweep"]}
        return {given: best.settings[name] for given, name in self._names.items()}

    def suggest(self) -> dict[str, Any]:
        """Returns the values to try next, by the names of the search space; report their score with `observe`.

        It may be called several times before the first `observe`: the values differ.
        """
        with quiet_optuna():
            trial = self.study.ask(self.space.distributions)
        settled = self.space.settled(trial.params)
        values = {given: settled[name] for given, name in self._names.items()}
        self._pending.append((values, trial))
        return dict(values)

    def observe(
        self, values: Mapping[str, Any], score: float | None, cost: float, curve: Sequence[Sequence[float]] = ()
    ) -> None:
        """Reports the score of values.

        Args:
            values: the result of `suggest`, or others whose score you know.
            score: the score; None, NaN or infinite where they failed.
            cost: their cost, in seconds or any other unit that `max_suggestion_cost` has too.
            curve: rows of the part of the run that was done, in (0, 1], the cost until then, and the score; rows
                without a score, None or NaN, do not count.

        Raises:
            APIUsageError: if a value is missing, none of its list or outside of its range, or a number is invalid.
        """
        missing = [name for name in self._names if not isinstance(values, Mapping) or name not in values]
        if missing:
            raise APIUsageError(f"observe() needs a value of {', '.join(missing)}, got {values}")
        try:
            score, cost, parts = None if score is None else float(score), float(cost), []
        except (TypeError, ValueError) as error:
            raise APIUsageError(f"observe() needs numbers, got a score of {score!r} and a cost of {cost!r}") from error
        if not 0 <= cost < math.inf:
            raise APIUsageError(f"observe() needs a cost in [0, inf), got {cost}")
        for row in curve or ():
            try:
                is_row = len(row) == 3 and 0 < row[0] <= 1 and 0 <= row[1] < math.inf
                parts += [[float(part) for part in row]] if is_row and row[2] is not None else []
            except (TypeError, ValueError):
                is_row = False
            if not is_row:
                expected = "[progress in (0, 1], cost in [0, inf), score]"
                raise APIUsageError(f"observe() needs a curve of {expected}, got {row}")
        score = None if score is None or not math.isfinite(score) else score
        state = TrialState.FAIL if score is None else TrialState.COMPLETE
        known = {COST: cost, CURVE: [row for row in parts if math.isfinite(row[2])]}
        chosen = {given: values[given] for given in self._names}
        waiting = next((each for each in self._pending if each[0] == chosen), None)
        if waiting is None:
            try:
                own = {name: values[given] for given, name in self._names.items()}
                for each in self.space.dimensions:
                    value = own[each.name]
                    if isinstance(each, Dimension) and not each.min <= value <= each.max:
                        raise ValueError(f"{each.name} must be within [{each.min}, {each.max}]")
                    if getattr(each, "is_integer", False) and each.value(each.coordinate(value)) != value:
                        raise ValueError(f"{each.name} must be one of its whole numbers")
                point = self.space.point(own)
            except (TypeError, ValueError) as error:
                raise APIUsageError(f"observe() needs values of the search space, got {chosen}: {error}") from error
            drawn = {"params": self.space.values(point), "distributions": self.space.distributions}
            self.study.add_trial(create_trial(state=state, value=score, **drawn, user_attrs=known))
            return
        self._pending.remove(waiting)
        _, trial = waiting
        for name, value in known.items():
            trial.set_user_attr(name, value)
        with quiet_optuna():
            self.study.tell(trial, score, state)


def _free_dimension(name: str, given: object) -> Dimension | Categorical:
    if isinstance(given, (list, tuple)):
        return Categorical(name, given)
    try:
        return Dimension(name, **given)
    except TypeError as error:
        raise ConfigError(
            f"{name!r} must be a list of values or a dict with distribution, min, max, and perhaps mean, scale and "
            f"is_integer, got {given!r}"
        ) from error
