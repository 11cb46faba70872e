"""Sweeps over grids of settings, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.api.results import Comparison, open_comparison, over_seeds
from fedtempo.api.tables import format_runs
from fedtempo.report import frames
from fedtempo.report.rendering import notebook_html
from fedtempo.studies import sweep
from fedtempo.studies.display import HIDDEN, Display
from fedtempo.studies.tables.runs import STRATEGY, TableRun, comparison_of

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The finished runs of a sweep. missing: names of the folders of runs that have not finished."""

    folder: Path
    runs: Sequence[TableRun]
    missing: Sequence[str] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """All settings side by side, over seeds, by their labels, such as "fedavg lr=0.1"; as in `comparison.json`."""
        return comparison_of(self.runs)

    def table(self) -> DataFrame:
        """Return one row per strategy and setting, over seeds: its values, and the columns of `Comparison.table`."""
        first = {run.label: {STRATEGY: run.strategy, **run.point} for run in reversed(self.runs)}
        rows = self.facts["strategies"].items()
        return frames.frame([{**first[label], **over_seeds(fields)} for label, fields in rows])

    def format_table(
        self,
        to: str = "markdown",
        rows: str | Iterable[str] | None = None,
        columns: str | Iterable[str] | None = None,
        **options: Any,
    ) -> str:
        """Return a table for a paper, as LaTeX, Markdown or CSV (`fedtempo table`); see `fedtempo.format_table`."""
        return format_runs(self.runs, to, rows, columns, **options)

    def open(self) -> Comparison:
        """Return the runs with their records, for figures and frames; all of them are in memory then."""
        return open_comparison(self.folder)

    def __len__(self) -> int:
        return len(self.runs)

    def __str__(self) -> str:
        return self.format_table()

    def __repr__(self) -> str:
        return f"<Sweep {self.folder}: {len(self.runs)} of {len(self.runs) + len(self.missing)} runs>"

    def _repr_html_(self) -> str:
        return notebook_html(repr(self).strip("<>"), text=str(self))


def collect_sweep(folder: Path | str) -> Sweep:
    """Collect the finished runs of a sweep, such as those of Slurm's tasks (`fedtempo sweep --collect`).

    Writes comparison.json, table.md, table.csv and, if there are few settings, report.html into its folder. Raises
    ConfigError if the folder holds no sweep, or no run has finished.
    """
    return Sweep(Path(folder), *sweep.collect(Path(folder)))


def run_sweep_task(folder: Path | str, number: int, *, display: Display = HIDDEN) -> dict[str, Any]:
    """Begin or continue one run of a sweep, counted from 0, and return its summary (`fedtempo sweep --task`).

    For clusters' queues: tasks of one sweep may run at the same time, on machines that share its folder. Raises
    ConfigError if there is no such run, and as a single run does.
    """
    return sweep.run_task(Path(folder), number, display)
