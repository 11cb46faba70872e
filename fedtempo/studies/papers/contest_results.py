"""Results of a contest, as its JSON file holds them: one record per cell, entrant and seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as component

from fedtempo.errors import ConfigError
from fedtempo.parts.fields import STRICT, Count, Doc, Ge
from fedtempo.studies.papers.cache import Outcome
from fedtempo.studies.papers.per_client import ClientAccuracies, Final
from fedtempo.studies.papers.ranking import median, times_in_words
from fedtempo.studies.papers.reproduction import Budget


@component(frozen=True, config=STRICT)
class ContestBudget(Budget):
    """A budget that counts visits, too: a table `[study.<scale>]` of a contest's settings."""

    tuning_visits: Annotated[
        Count | None,
        Doc("visits of an entrant's tuning runs in a cell after which no further one begins (default: no limit)"),
    ] = None
    final_seeds: Annotated[
        int, Ge(0), Doc("number of the comparison's seeds with which runs also go to the horizon, for final accuracies")
    ] = 0


@dataclass(frozen=True)
class Target:
    """Accuracies to reach. reference: the accuracy that they are shares of. key: hash of what decides it, if known."""

    reference: float
    early: float
    full: float
    key: str = ""

    @classmethod
    def of(cls, reference: float, key: str = "") -> Target:
        """Return targets of 80 % and 95 % of the reference, rounded down to whole percentages."""
        early, full = (math.floor(100 * share * reference + 1e-9) / 100 for share in (0.8, 0.95))
        return cls(reference, early, full, key)


@dataclass(frozen=True)
class TrialResult:
    """A setting of an entrant over the tuning seeds.

    times_s: seconds to the target, one per seed, None if not reached; empty in a cell without a target. accuracies: the
    best of each run, or that at its end in a cell without a target. visits: of all these runs.
    """

    changes: Mapping[str, Any]
    times_s: Sequence[float | None]
    accuracies: Sequence[float]
    visits: int = 0

    @property
    def order(self) -> tuple[float, float]:
        """Sort key, smaller is better: median time to the target, then mean accuracy."""
        return median(self.times_s) if self.times_s else 0.0, -statistics.fmean(self.accuracies)


@dataclass(frozen=True)
class SeedRun(Outcome):
    """The run of an entrant on a seed. times_s: to the early target and to the target; empty in a cell without one."""

    seed: int = field(kw_only=True)


@dataclass(frozen=True)
class EntrantResult:
    """An entrant in a cell. chosen: the best setting. trials: best first. runs: one per seed of the comparison.

    clients: accuracies of each run's final model at the clients, in a cell without a target; empty in others. finals:
    runs to the horizon, where the budget asks for them. key: hash of what decides all this besides code, and code: hash
    of the code; empty if they are not known. cpu_s: processor time of all runs to a target.
    """

    chosen: Mapping[str, Any]
    trials: Sequence[TrialResult]
    runs: Sequence[SeedRun]
    clients: Sequence[ClientAccuracies] = ()
    finals: Sequence[Final] = ()
    key: str = ""
    code: str = ""
    cpu_s: float = 0.0

    @property
    def tuning_visits(self) -> int:
        """Visits of all tuning runs."""
        return sum(trial.visits for trial in self.trials)

    @property
    def times_s(self) -> list[float | None]:
        """Seconds to the target, one per seed."""
        return [run.times_s[-1] for run in self.runs]

    @property
    def early_s(self) -> list[float | None]:
        """Seconds to the early target, one per seed."""
        return [run.times_s[0] for run in self.runs]

    @property
    def late_accuracies(self) -> list[float]:
        """Accuracies at the end, one per seed."""
        return [run.late_accuracy for run in self.runs]

    @property
    def median_s(self) -> float:
        return median(self.times_s)

    @property
    def reached(self) -> int:
        """Number of runs that reached the target."""
        return sum(time is not None for time in self.times_s)

    @property
    def always_reached(self) -> bool:
        return self.reached == len(self.runs)

    @property
    def best_accuracy(self) -> float:
        return max(run.best_accuracy for run in self.runs)

    @property
    def lr(self) -> float:
        return float(self.chosen["training.lr"])

    @property
    def words(self) -> str:
        """ "45 s (40 to 52)", with the number of runs that reached the target if not all did."""
        return times_in_words(self.times_s)

    @property
    def wh(self) -> float | None:
        """Median energy of the clients, watt hours; None if the fleet has no power figures."""
        values = [run.wh for run in self.runs if run.wh is not None]
        return statistics.median(values) if values else None

    @property
    def final_accuracy(self) -> float | None:
        """Mean accuracy at the horizon; None if no run went there."""
        return statistics.fmean(final.accuracy for final in self.finals) if self.finals else None

    @property
    def worst_tenth(self) -> float | None:
        """Mean accuracy of final models at the tenth of the clients that they serve worst; None if unknown."""
        values = [final.clients.worst_tenth for final in self.finals if final.clients is not None]
        return statistics.fmean(values) if values else None

    @property
    def worst_client(self) -> float | None:
        """Mean accuracy of final models at the client that they serve worst; None if unknown."""
        values = [final.clients.worst for final in self.finals if final.clients is not None]
        return statistics.fmean(values) if values else None

    @property
    def refused(self) -> str:
        """Why no run could be made; empty if one was."""
        return self.runs[0].error if all(run.error for run in self.runs) else ""

    @property
    def staleness(self) -> float | None:
        """Median over the runs in which a result missed a commit; None if there are none."""
        values = [run.staleness for run in self.runs if run.staleness is not None]
        return statistics.median(values) if values else None

    def median(self, measure: str) -> float:
        """Return the median over seeds of a field of the runs, such as "busy"."""
        return statistics.median(self._values(measure))

    def per_second(self, measure: str) -> float:
        """Return a field of the runs per second, the median over runs that lasted any time."""
        pairs = zip(self._values(measure), self.runs, strict=True)
        return statistics.median([value / run.end_s for value, run in pairs if run.end_s] or [0.0])

    def _values(self, measure: str) -> list[float]:
        return [getattr(run, measure) for run in self.runs]


@dataclass(frozen=True)
class CellResult:
    """The results in one cell. tried: by entrant, in the order of the settings. target: None if runs go to the horizon.

    data: name of the source. clients: their number. resolution_s: time between evaluations. exact: name of the cell
    that differs from this one in exact estimates; empty if there is none.
    """

    name: str
    group: str
    title: str
    data: str
    network: str
    clients: int
    horizon_s: float
    target: Target | None
    budget: ContestBudget
    tried: Mapping[str, EntrantResult]
    resolution_s: float = 0.0
    exact: str = ""

    @property
    def repeats(self) -> bool:
        """Whether it has fleet, data and seeds of another cell, and so is no further evidence."""
        return bool(self.exact)

    @property
    def cpu_s(self) -> float:
        """Processor time of all runs, seconds."""
        return sum(result.cpu_s for result in self.tried.values())

    @property
    def goal(self) -> float:
        """The target accuracy. Only for cells with a target."""
        assert self.target is not None
        return self.target.full

    @property
    def first_label(self) -> str:
        """The first entrant in the order of the settings."""
        return next(iter(self.tried))


@dataclass(frozen=True)
class EntrantNotes:
    """What a page says of an entrant: its description, whether it is ranked, and what its server is told."""

    title: str
    ranked: bool
    told: Sequence[str] = ()


@dataclass(frozen=True)
class ContestResults:
    """The contents of a contest's JSON file. missing: titles of cells that have not run yet."""

    scale: str
    entrants: Mapping[str, EntrantNotes]
    cells: Sequence[CellResult]
    missing: Sequence[str] = ()

    def cell(self, name: str) -> CellResult | None:
        """Return a cell by its name; None if it has not run."""
        return next((cell for cell in self.cells if cell.name == name), None)

    @property
    def races(self) -> list[CellResult]:
        """Cells with a target."""
        return [cell for cell in self.cells if cell.target is not None]

    @property
    def ends(self) -> list[CellResult]:
        """Cells in which runs go to the horizon."""
        return [cell for cell in self.cells if cell.target is None]


def read_results(path: Path) -> ContestResults:
    """Read a contest's JSON file. Raises ConfigError, in one line, if it holds anything else."""
    try:
        return TypeAdapter(ContestResults).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: not the results of a contest: {where}: {first['msg']}") from error
