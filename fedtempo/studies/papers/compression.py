"""What compression of updates buys: time and bytes to a target, on two fleets, with two strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.studies.papers.cells import Contest, read_contest
from fedtempo.studies.papers.compression_costs import CellCosts, Transfers, costs_of, megabytes_until, transfers_of
from fedtempo.studies.papers.compression_figures import draw_costs
from fedtempo.studies.papers.contest import run_contest
from fedtempo.studies.papers.contest_results import CellResult, ContestResults, EntrantResult
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.race import KEPT, Race, config_of
from fedtempo.studies.papers.ranking import median_coverage
from fedtempo.studies.papers.reproduction import Exhibit, Request, Scale, save_picture
from fedtempo.studies.papers.verdicts import Row
from fedtempo.studies.tuning.trials import in_processes

Sizes = Mapping[str, Mapping[str, Transfers]]
"""Bytes of a visit, by cell and entrant."""


def compression(request: Request) -> list[Row]:
    """Run all compressions, and draw times against megabytes."""
    contest = read_contest(request, "compression")
    results = with_bytes_to_target(run_contest(request, "compression"), contest)
    write_json(request.folder / "compression.json", asdict(results))
    cells = costs_of(results)
    save_picture(draw_costs, request.folder, "compression", cells)
    return _rows(cells, sizes_of(contest))


@dataclass(frozen=True)
class _Reached:
    """A run that reached its target."""

    cell: str
    label: str
    seed: int
    config: Config
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        return self.cell, self.label, self.seed


def with_bytes_to_target(results: ContestResults, contest: Contest) -> ContestResults:
    """Return results in which `mb` of a run counts until the target; of a run that missed it, until the horizon.

    The contest counts until a run ends, which is some evaluations and up to one round after its target.
    """
    reached = [
        _Reached(cell.name, label, run.seed, config_of(race, entrant.chosen, run.seed), time)
        for cell, result in zip(contest.cells, results.cells, strict=True)
        for label, entrant in result.tried.items()
        for race in [Race(cell, label, result.target, None)]
        for run, time in zip(entrant.runs, entrant.times_s, strict=True)
        if time is not None
    ]
    sent = dict(zip((run.key for run in reached), in_processes(_megabytes, reached), strict=True))

    def counted(cell: CellResult, label: str, entrant: EntrantResult) -> EntrantResult:
        runs = [replace(run, mb=sent.get((cell.name, label, run.seed), run.mb)) for run in entrant.runs]
        return replace(entrant, runs=runs)

    return replace(
        results,
        cells=[
            replace(cell, tried={label: counted(cell, label, entrant) for label, entrant in cell.tried.items()})
            for cell in results.cells
        ],
    )


def _megabytes(run: _Reached) -> float:
    return megabytes_until(run.config, run.seconds)


def sizes_of(contest: Contest) -> Sizes:
    """Return the bytes of a visit of every entrant in every cell."""
    return {
        cell.name: {label: transfers_of(cell.base.for_comparison(label)) for label in cell.points}
        for cell in contest.cells
    }


def _rows(cells: Sequence[CellCosts], sizes: Sizes) -> list[Row]:
    """Return two rows per compression and cell: the time and the bytes to the target."""
    rows = []
    for costs in cells:
        for cost in costs.costs:
            size = sizes[costs.cell.name][cost.label]
            for what, measured, ratio, word, remark in (
                ("time", cost.result.words, cost.time, cost.in_time, f"lr {cost.result.lr:g}"),
                ("bytes", cost.mb_words, cost.mb, cost.in_bytes, size.words),
            ):
                quantity = f"{costs.cell.title}: {what} to {costs.cell.goal:.0%}, {cost.title}"
                if ratio is None:
                    rows.append(Row(quantity, "-", measured, remark))
                else:
                    rows.append(Row(quantity, "-", measured, f"{word or 'not shown'}; {remark}", ratio.words))
    return rows


def compression_page(results: ContestResults, command: str, sizes: Sizes | None = None) -> str:
    """Return the page as Markdown. command: what wrote the results.

    sizes: bytes of a visit (default: as the settings say, since they may have changed meanwhile).
    """
    if sizes is None:
        sizes = sizes_of(read_contest(Request(cast(Scale, results.scale), Path()), "compression"))
    cells = costs_of(results)
    n_seeds = min(len(costs.cell.budget.seeds) for costs in cells)
    return render(
        "compression",
        command=command,
        cells=cells,
        sizes=sizes,
        kept=KEPT,
        n_seeds=n_seeds,
        covered=median_coverage(n_seeds),
    )


EXHIBITS = (
    Exhibit(
        "all/compression",
        "what compression of updates buys",
        compression,
        (1, 10, 150),
        ("digits", "fashion-mnist"),
        page=compression_page,
    ),
)
