"""Beyond the papers: FedHusky's schedule and mixing, one change at a time, on many fleets, data and networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtempo.studies.papers.ablation import contrasts, removals, statement
from fedtempo.studies.papers.cells import read_contest
from fedtempo.studies.papers.contest import run_contest
from fedtempo.studies.papers.contest_figures import draw_ratios
from fedtempo.studies.papers.contest_results import ContestResults
from fedtempo.studies.papers.endings import endings
from fedtempo.studies.papers.findings import CellFindings, Finding
from fedtempo.studies.papers.grid_ends import grid_ends
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.race import KEPT
from fedtempo.studies.papers.ranking import MARGIN
from fedtempo.studies.papers.reproduction import Exhibit, Request, save_picture
from fedtempo.studies.papers.verdicts import Row

_SEEDS = 20
"""Number of seeds where a run takes seconds."""

_EARLIER = ((1, 16), (101, 103), (1001, 1020), (2001, 2005))
"""First and last seeds with which variants, defaults and values to try were chosen."""


def beyond(request: Request) -> list[Row]:
    """Run all variants, and draw their times relative to the first variant of each cell."""
    results = run_contest(request, "beyond")
    cells = [CellFindings.of(cell) for cell in results.races]
    save_picture(draw_ratios, request.folder, "beyond", list(results.entrants), cells)
    return _rows(results, cells)


@dataclass(frozen=True)
class Tally:
    """In how many cells a variant was compared with the first one, and in how many it is shown to be what."""

    label: str
    cells: int
    sooner: int
    level: int
    no_later: int
    later: int


def _tallies(results: ContestResults, cells: Sequence[CellFindings]) -> list[Tally]:
    """Return the tallies of the variants that were compared in any cell."""
    tallies = []
    for label in results.entrants:
        shown = Counter(cell.findings[label] for cell in cells if label in cell.findings)
        of_each = (Finding.SOONER, Finding.LEVEL, Finding.NO_LATER, Finding.LATER)
        tallies.append(Tally(label, shown.total(), *(shown[each] for each in of_each)))
    return [tally for tally in tallies if tally.cells]


def _rows(results: ContestResults, cells: Sequence[CellFindings]) -> list[Row]:
    """Return every variant's time relative to the first's, and in how many cells it is shown to be what."""
    rows = []
    for compared in cells:
        cell = compared.cell
        for label, relative in compared.ratios.items():
            what = f"{cell.title}: time to {cell.goal:.0%}, {label}"
            finding = compared.findings.get(label, "")
            rows.append(Row(what, "-", cell.tried[label].words, finding, "" if relative is None else relative.words))
    for contrast in contrasts(results.races):
        for title, (relative, shown) in contrast.cells.items():
            what = f"{title}: {contrast.part} ({contrast.label} over {contrast.base})"
            rows.append(Row(what, "-", relative.words, shown))
    for each in removals(results.races):
        what = f"mean of {each.cells} cells: time without {each.part} ({each.base}) over time with it"
        rows.append(Row(what, "-", each.cost.words, "shown" if each.shown else Finding.NOT_SHOWN))
    for tally in _tallies(results, cells):
        words = (
            f"shown to be sooner in {tally.sooner}, level in {tally.level}, no later in {tally.no_later} and later in "
            f"{tally.later} of {tally.cells} cells"
        )
        rows.append(Row(f"{tally.label} against the first variant of the cell", "-", words))
    return rows


def beyond_page(results: ContestResults, command: str, options: Mapping[str, str] | None = None) -> str:
    """Return the page as Markdown. command: what wrote the results.

    options: what offers each variant, by label (default: as the settings say, since it may have changed meanwhile).
    """
    if options is None:
        entrants = read_contest(Request("full", Path()), "beyond").entrants
        options = {label: entrant.option for label, entrant in entrants.items()}
    cells = [CellFindings.of(cell) for cell in results.races]
    removed = removals(results.races)
    return render(
        "beyond",
        command=command,
        first=next(iter(results.entrants)),
        variants=results.entrants,
        options=options,
        cells=cells,
        tried={label for cell in results.races for label in cell.tried},
        tallies=_tallies(results, cells),
        contrasts=contrasts(results.races),
        removals=removed,
        statement=statement(removed) if removed else "",
        ends=list(endings(results.ends)),
        kept=KEPT,
        margin=MARGIN,
        grid_ends=grid_ends(results.cells),
        fewer_seeds=[cell for cell in results.cells if len(cell.budget.seeds) < _SEEDS],
        wanted_seeds=_SEEDS,
        earlier_seeds=_EARLIER,
        fresh=not any(
            first <= seed <= last
            for cell in results.cells
            for seed in (*cell.budget.seeds, *cell.budget.tuning_seeds)
            for first, last in _EARLIER
        ),
    )


EXHIBITS = (
    Exhibit(
        "all/beyond",
        "FedHusky taken further, one change at a time",
        beyond,
        (4, 65, 3000),
        ("digits", "fashion-mnist", "shakespeare"),
        page=beyond_page,
    ),
)
