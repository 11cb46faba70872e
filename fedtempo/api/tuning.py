"""What tuning found, from Python."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtempo.errors import ConfigError, nearest
from fedtempo.report import frames
from fedtempo.runs.config import flat
from fedtempo.studies.grids import short_keys

if TYPE_CHECKING:
    from pandas import DataFrame

    from fedtempo.api.experiment import Experiment
    from fedtempo.studies.tuning.successive_halving import Placed
    from fedtempo.studies.tuning.trials import Changes


@dataclass(frozen=True, eq=False)
class Tuning:
    """What tuning found.

    placed: each strategy's settings, the best first. seeds: what they were tried on. points: the grid of `tune`. note:
    which examples decided, in a line.
    """

    base: Experiment
    placed: Mapping[str, Sequence[Placed]]
    seeds: Sequence[int]
    points: Sequence[Changes] = ()
    note: str = ""

    @property
    def best(self) -> dict[str, Changes]:
        """The best setting of each strategy, as dotted keys."""
        return {label: dict(places[0].trial.changes) for label, places in self.placed.items()}

    @property
    def experiment(self) -> Experiment:
        """The experiment with each strategy's best setting: `tuning.experiment.compare(...)`."""
        tables = {}
        for label, changes in self.best.items():
            settings: Changes = {}
            for key, value in self.base.config.variants.get(label, {}).items():
                settings |= flat(key, value)
            tables[label] = settings | changes
        return self.base.with_({f"compare.{label}": table for label, table in tables.items()})

    def toml(self, label: str | None = None) -> str:
        """Return the best settings as TOML to paste into the configuration, in place of the tables of these names.

        label: of one strategy; all if None. Raises ConfigError for a label that was not tuned.
        """
        from fedtempo.studies.tuning.report import comparison_lines

        if label is not None and label not in self.placed:
            raise ConfigError(f"{label}: not tuned{nearest(label, self.placed)}")
        labels = self.placed if label is None else [label]
        return "\n".join(comparison_lines(self.base.config, each, self.best[each]) for each in labels)

    def table(self) -> DataFrame:
        """Return one row per setting, each strategy's best first: strategy, its values, how long it was tried (s),
        median time to target (s; infinite if most seeds did not reach it), mean of the best accuracies, runs that
        diverged."""
        return frames.frame(
            [
                {
                    "strategy": label,
                    **{short_keys(list(place.trial.changes))[key]: v for key, v in place.trial.changes.items()},
                    "tried_s": place.horizon_s,
                    "time_to_target_s": place.trial.median_s,
                    "best_accuracy": statistics.fmean(place.trial.accuracies),
                    "diverged": place.trial.diverged,
                }
                for label, places in self.placed.items()
                for place in places
            ]
        )
