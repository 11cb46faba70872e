"""Tuning by Optuna: any keys of each strategy, with the same number of trials of the same length for each.

The seeds are those of the tuning alone. Trials are asked for a few at a time, so that results do not depend on how many
run in parallel.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config
from fedtempo.studies.grids import checked_grid, parse_values, short_keys, split_outside, value_text
from fedtempo.studies.tuning.successive_halving import Placed
from fedtempo.studies.tuning.trials import Changes, Trial, run_trials

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial as OptunaTrial
    from rich.table import Table

_AT_ONCE = 4
"""Trials of a strategy that are chosen before the results of the first of them are known."""

_PROBLEM = ("run", "data", "fleet")
"""Sections that say what is to be learned, where, and for how long: the same for all strategies."""

_DIVERGED = 1e6
"""Added to the score of a setting with diverged runs, which is above that of any other."""


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, on a logarithmic scale if `log`; whole numbers if both are."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> list[Any]:
        """The values that must suit a configuration."""
        return [self.low, self.high]

    def suggested(self, trial: OptunaTrial, key: str) -> Any:
        """Return Optuna's next value, a real number with three significant digits."""
        if self.whole:
            return trial.suggest_int(key, int(self.low), int(self.high), log=self.log)
        value = trial.suggest_float(key, self.low, self.high, log=self.log)
        return min(max(float(f"{value:.3g}"), self.low), self.high)

    def has(self, value: Any) -> bool:
        """Return whether a value lies in the range."""
        fits = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        return fits and self.low <= value <= self.high


@dataclass(frozen=True)
class Choice:
    """One of a few values, of any kind."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> list[Any]:
        """The values that must suit a configuration."""
        return list(self.values)

    def suggested(self, trial: OptunaTrial, key: str) -> Any:
        """Return Optuna's next value."""
        texts = [value_text(value) for value in self.values]
        return self.values[texts.index(trial.suggest_categorical(key, texts))]

    def has(self, value: Any) -> bool:
        """Return whether a value is one of the choices."""
        return value in self.values


Space = Mapping[str, Range | Choice]
"""What to try for each dotted key; one that begins with compare.<label> is of that strategy alone."""


def parse_space(texts: Iterable[str]) -> dict[str, Range | Choice]:
    """Return the space of texts such as "training.lr=0.001:0.3:log". Raises ConfigError for any other text."""
    space: dict[str, Range | Choice] = {}
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not key or not values:
            raise ConfigError(f"--over {text}: write section.key=low:high, low:high:log or value,value")
        if key in space:
            raise ConfigError(f"--over {text}: {key} is given twice")
        space[key] = parse_values_of(text, values)
    return space


def parse_values_of(text: str, values: str) -> Range | Choice:
    """Return the range or choice of "0.001:0.3:log" or "sgd,adam"; text: what the user wrote, for errors."""
    parts = split_outside(values, ":")
    if len(parts) == 1 or len(split_outside(values)) > 1:
        return Choice(tuple(parse_values(text, values, "over")))
    ends = [parse_values(text, part, "over")[0] for part in parts[:2]]
    numeric = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numeric or len(parts) > 3 or (len(parts) == 3 and parts[2].strip() != "log"):
        raise ConfigError(f"over {text}: write a range as low:high or low:high:log, such as 0.001:0.3:log")
    low, high = ends
    log = len(parts) == 3
    if not low < high or not all(map(math.isfinite, ends)):
        raise ConfigError(f"over {text}: {low:g} must be below {high:g}")
    if log and low <= 0:
        raise ConfigError(f"over {text}: a logarithmic range must be above 0")
    return Range(low, high, log)


def search(
    base: Config,
    labels: Sequence[str],
    space: Space,
    seeds: Sequence[int],
    n_trials: int,
    *,
    workers: int,
    begins: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, list[Placed]]:
    """Try settings that Optuna's TPE chooses for each strategy; return those of each, best first.

    Every strategy gets `n_trials` trials, each with all seeds and to the horizon, or to the target if there is one. A
    setting is better as in `successive_halving`. The configuration's own values are tried first, as far as they lie in
    the space. begins: called before each few trials with the number done and the number of all, per strategy.

    Raises ConfigError, before anything runs, if Optuna is not installed, for a key or value that is not usable, a
    strategy without a key, or a seed of the configuration.
    """
    if n_trials < 1:
        raise ConfigError(f"trials = {n_trials}: must be at least 1")
    if base.run.horizon is None:
        raise ConfigError("run.horizon is missing: tuning compares what settings reach within it")
    if base.executor.kind == "none":
        raise ConfigError('executor.kind = "none": tuning needs training')
    if base.run.seed in seeds:
        raise ConfigError(
            f"seeds = {', '.join(map(str, seeds))}: run.seed = {base.run.seed} is a seed of the runs that the settings "
            "are for; tune on others"
        )
    spaces = {label: _space_of(base, label, space, labels) for label in labels}
    tries = {label: _Tries(base.for_comparison(label), spaces[label], seeds[0]) for label in labels}
    common: Changes = {"run.stop_at_target": base.run.goal is not None}
    for done in range(0, n_trials, _AT_ONCE):
        begins(done, n_trials)
        asked = [(label, tries[label].ask(min(_AT_ONCE, n_trials - done))) for label in labels]
        new = [(label, changes) for label, several in asked for changes in several]
        trials = iter(run_trials(base, new, seeds, common, workers=workers) if new else [])
        for label, several in asked:
            tries[label].tell([next(trials) for _ in several], base.run.horizon)
    placed = {label: [Placed(trial, 0, base.run.horizon) for trial in tries[label].trials] for label in labels}
    return {label: sorted(places, key=lambda place: place.order) for label, places in placed.items()}


class _Tries:
    """The trials of one strategy."""

    def __init__(self, config: Config, space: Space, seed: int) -> None:
        self._space, self._study = space, _study(seed)
        self._asked: list[tuple[OptunaTrial, str]] = []
        self._new: list[str] = []
        self._known: dict[str, Trial] = {}
        settings = {key: _at(config.tables, key) for key in space}
        own = {key: value for key, value in settings.items() if space[key].has(value)}
        if own:
            self._study.enqueue_trial(
                {key: value_text(value) if isinstance(space[key], Choice) else value for key, value in own.items()}
            )

    @property
    def trials(self) -> list[Trial]:
        """The trials so far, each setting once."""
        return list(self._known.values())

    def ask(self, count: int) -> list[Changes]:
        """Return the next settings, without those that have been tried; these count as trials, too."""
        new: dict[str, Changes] = {}
        for _ in range(count):
            with _quiet():
                trial = self._study.ask()
                changes = {key: each.suggested(trial, key) for key, each in self._space.items()}
            name = json.dumps(changes, sort_keys=True, default=str)
            self._asked.append((trial, name))
            if name not in self._known:
                new[name] = changes
        self._new = list(new)
        return list(new.values())

    def tell(self, trials: Sequence[Trial], horizon_s: float) -> None:
        """Take the results of the settings that `ask` returned."""
        self._known |= zip(self._new, trials, strict=True)
        for trial, name in self._asked:
            with _quiet():
                self._study.tell(trial, score(self._known[name], horizon_s))
        self._asked.clear()


def score(trial: Trial, horizon_s: float) -> float:
    """Return a number by which trials have the same order as by `Trial.order`; smaller is better.

    Up to 1: the median time to the target in horizons. Above 1: the target was missed, and accuracy decides.
    """
    diverged = _DIVERGED if trial.diverged else 0.0
    if math.isfinite(trial.median_s):
        return diverged + trial.median_s / horizon_s
    return diverged + 2.0 - max(statistics.fmean(trial.accuracies), -_DIVERGED / 2)


def search_table(label: str, places: Sequence[Placed], seeds: Sequence[int]) -> Table:
    """Return a table with one row per setting, best first: its values, times to target by seed, best accuracy."""
    from fedtempo.report.columns import Column
    from fedtempo.report.table import fitting_table

    trials = [place.trial for place in places]
    names = short_keys(list(trials[0].changes))
    columns = [Column("trial", tuple(map(str, range(1, len(trials) + 1))))]
    columns += [
        Column(names[key], tuple(value_text(trial.changes[key]) for trial in trials)) for key in trials[0].changes
    ]
    for position, seed in enumerate(seeds):
        times = [trial.times_s[position] for trial in trials]
        columns.append(Column(f"seed\u00a0{seed}", tuple("-" if time is None else f"{time:.4g}" for time in times)))
    columns.append(Column("best", tuple(f"{statistics.fmean(trial.accuracies):.4f}" for trial in trials)))
    if any(trial.diverged for trial in trials):
        columns.append(Column("diverged", tuple(f"{trial.diverged} of {len(seeds)}" for trial in trials)))
    title = f"{label}: seconds to the target by seed, mean of the best {trials[0].measure.name}"
    return fitting_table(title, columns)


def at_ends(space: Space, label: str, changes: Changes) -> list[str]:
    """Return the keys whose best value is at an end of its range, beyond which there may be better ones."""
    own = _of_label(space, label)
    ends = {key: each for key, each in own.items() if isinstance(each, Range)}
    return [key for key, each in ends.items() if changes[key] in each.ends]


def _space_of(base: Config, label: str, space: Space, labels: Sequence[str]) -> Space:
    """Return the space of one strategy. Raises ConfigError for keys and values that it cannot use."""
    for key in space:
        if key.startswith("compare.") and not any(key.startswith(f"compare.{each}.") for each in labels):
            raise ConfigError(f"over {key}: {key.split('.')[1]} is not one of the strategies {', '.join(labels)}")
    own = _of_label(space, label)
    if not own:
        raise ConfigError(f"{label}: nothing to tune; give a key for all strategies, or compare.{label}.<key>")
    checked_grid({key: each.ends for key, each in own.items()})
    config = base.for_comparison(label)
    for key, each in own.items():
        if key.partition(".")[0] in _PROBLEM:
            raise ConfigError(f"over {key}: part of the problem, which must be the same for all settings")
        for value in each.ends:
            try:
                config.with_changes({key: value}, label=label)
            except ConfigError as error:
                hint = f" (compare.{label}.{key} is for {label} alone)" if len(labels) > 1 else ""
                raise ConfigError(f"{label}: {error}{hint}") from error
    return own


def _of_label(space: Space, label: str) -> Space:
    """Return what to try for a strategy: its own keys in place of those for all."""
    prefix = f"compare.{label}."
    shared = {key: each for key, each in space.items() if not key.startswith("compare.")}
    return shared | {key.removeprefix(prefix): each for key, each in space.items() if key.startswith(prefix)}


def _study(seed: int) -> Study:
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("tuning over keys needs Optuna: pip install 'fedtempo[tune]'") from error
    with _quiet():
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=2 * _AT_ONCE)
        return optuna.create_study(sampler=sampler)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna from printing."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _at(tables: Mapping[str, Any], key: str) -> Any:
    value: Any = tables
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
