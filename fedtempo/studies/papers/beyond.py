"""Beyond the papers: FedHusky's schedule and mixing, one change at a time, on many fleets, data and networks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtempo.studies.papers.cells import read_contest
from fedtempo.studies.papers.contest import run_contest
from fedtempo.studies.papers.contest_figures import draw_ratios
from fedtempo.studies.papers.contest_results import CellResult, ContestResults, EntrantResult
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.ranking import Ratio, ratio
from fedtempo.studies.papers.reproduction import Exhibit, Request, Row, save_picture


def beyond(request: Request) -> list[Row]:
    """Run all variants, and draw their times relative to the first variant of each cell."""
    results = run_contest(request, "beyond")
    cells = [CellRatios.of(cell) for cell in results.races]
    save_picture(draw_ratios, request.folder, "beyond", results)
    return _rows(results, cells)


@dataclass(frozen=True)
class CellRatios:
    """A cell, and by variant the ratio of its times to those of the cell's first variant, None for that one."""

    cell: CellResult
    ratios: Mapping[str, Ratio | None]

    @classmethod
    def of(cls, cell: CellResult) -> CellRatios:
        base = cell.tried[cell.first_label].times_s
        ratios = {label: ratio(result.times_s, base, cell.horizon_s) for label, result in cell.tried.items()}
        return cls(cell, {**ratios, cell.first_label: None})

    @property
    def by_time(self) -> list[tuple[str, EntrantResult]]:
        """Labels and results, the least median time first."""
        return sorted(self.cell.tried.items(), key=lambda item: item[1].median_s)


@dataclass(frozen=True)
class Tally:
    """In how many cells a variant was compared with the first one, and in how many it proved sooner or later."""

    label: str
    cells: int
    sooner: int
    later: int


def _tallies(results: ContestResults, cells: Sequence[CellRatios]) -> list[Tally]:
    """Return the tallies of the variants that were compared in any cell."""
    tallies = []
    for label in results.entrants:
        ratios = [ratio for cell in cells if (ratio := cell.ratios.get(label)) is not None]
        sooner, later = sum(ratio.sooner for ratio in ratios), sum(ratio.later for ratio in ratios)
        tallies.append(Tally(label, len(ratios), sooner, later))
    return [tally for tally in tallies if tally.cells]


def _rows(results: ContestResults, cells: Sequence[CellRatios]) -> list[Row]:
    """Return every variant's time relative to the first's, and in how many cells it proved sooner or later."""
    rows = []
    for compared in cells:
        cell = compared.cell
        for label, relative in compared.ratios.items():
            what = f"{cell.title}: time to {cell.goal:.0%}, {label}"
            rows.append(Row(what, "-", cell.tried[label].words, "", "" if relative is None else relative.words))
    for tally in _tallies(results, cells):
        words = f"sooner in {tally.sooner} and later in {tally.later} of {tally.cells} cells"
        rows.append(Row(f"{tally.label} against the first variant of the cell", "-", words))
    return rows


@dataclass(frozen=True)
class Spread:
    """Mean, lowest and highest value over seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.fmean(values), min(values), max(values))


@dataclass(frozen=True)
class Ending:
    """Accuracy of a variant at the horizon. difference: from the cell's first variant, None for that one."""

    cell: str
    label: str
    accuracy: Spread
    difference: Spread | None
    chosen: Mapping[str, Any]


def beyond_page(results: ContestResults, command: str, options: Mapping[str, str] | None = None) -> str:
    """Return the page as Markdown. command: what wrote the results.

    options: what offers each variant, by label (default: as the settings say, since it may have changed meanwhile).
    """
    if options is None:
        entrants = read_contest(Request("full", Path()), "beyond").entrants
        options = {label: entrant.option for label, entrant in entrants.items()}
    cells = [CellRatios.of(cell) for cell in results.races]
    return render(
        "beyond",
        command=command,
        first=next(iter(results.entrants)),
        variants=results.entrants,
        options=options,
        cells=cells,
        tried={label for cell in results.races for label in cell.tried},
        tallies=_tallies(results, cells),
        ends=[ending for cell in results.ends for ending in _endings(cell)],
    )


def _endings(cell: CellResult) -> Iterator[Ending]:
    base = cell.tried[cell.first_label].late_accuracies
    for label, result in cell.tried.items():
        late = result.late_accuracies
        difference = Spread.of([a - b for a, b in zip(late, base, strict=True)])
        yield Ending(
            cell.title, label, Spread.of(late), None if label == cell.first_label else difference, result.chosen
        )


EXHIBITS = (
    Exhibit(
        "all/beyond",
        "FedHusky taken further, one change at a time",
        beyond,
        (3, 60, 3000),
        ("digits", "fashion-mnist", "shakespeare"),
        page=beyond_page,
    ),
)
