"""Runs contests: all entrants in all cells, in worker processes and from where an earlier attempt stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

from fedtempo.errors import ConfigError
from fedtempo.record import write_json
from fedtempo.studies.papers.cache import cache_file
from fedtempo.studies.papers.cells import REFERENCE, Cell, read_contest
from fedtempo.studies.papers.contest_results import CellResult, ContestResults, EntrantNotes, EntrantResult, Target
from fedtempo.studies.papers.race import Race, config_of, find_target, run_race
from fedtempo.studies.papers.reproduction import Request
from fedtempo.studies.tuning.trials import in_processes, note

T = TypeVar("T")


def run_contest(request: Request, name: str) -> ContestResults:
    """Run the contest of `settings/<name>.toml`; write `<name>.json` and the configuration of each cell.

    Targets are set first, from the reference entrant alone (see `race.find_target`). Outcomes of an interrupted earlier
    attempt are reused.
    """
    contest, cache = read_contest(request, name), cache_file(name)
    references = [Race(cell, REFERENCE, None, cache) for cell in contest.cells if cell.target_of == cell.name]
    names = [race.cell.name for race in references]
    targets: dict[str | None, Target] = dict(zip(names, _run(request, find_target, references), strict=True))
    races = [Race(cell, label, targets.get(cell.target_of), cache) for cell in contest.cells for label in cell.points]
    entrants = _run(request, run_race, races)
    for race, entrant in zip(races, entrants, strict=True):
        first = entrant.runs[0]
        if not first.error:
            note(f"{race.cell.name}, {race.label}", config_of(race, entrant.chosen, first.seed), first.bits)
    results = iter(entrants)
    cells = [
        _cell_result(cell, targets.get(cell.target_of), {label: next(results) for label in cell.points})
        for cell in contest.cells
    ]
    notes = {label: EntrantNotes(entrant.title, entrant.ranked) for label, entrant in contest.entrants.items()}
    whole = ContestResults(request.scale, notes, cells)
    write_json(request.folder / f"{name}.json", asdict(whole))
    for cell, result in zip(contest.cells, cells, strict=True):
        aim = {} if result.target is None else {"run.target_accuracy": result.target.full}
        chosen = {label: entrant.chosen for label, entrant in result.tried.items()}
        request.save_comparison(cell.name, cell.base.with_changes(aim), chosen)
    return whole


def _run(request: Request, function: Callable[[Race], tuple[T, float]], races: Sequence[Race]) -> list[T]:
    """Run races in processes; note the time that cached parts of them took earlier."""
    results = in_processes(function, races)
    request.earlier_s.extend(earlier_s for _, earlier_s in results)
    return [result for result, _ in results]


def _cell_result(cell: Cell, target: Target | None, tried: dict[str, EntrantResult]) -> CellResult:
    """Raises ConfigError if on some seed no entrant could run, or an initial model reaches the target."""
    assert cell.base.run.horizon is not None
    for label, entrant in tried.items():
        for each in entrant.runs:
            if 0.0 in each.times_s:
                raise ConfigError(
                    f"cells.{cell.name}: the initial model of {label} reaches a target on seed {each.seed}, so the "
                    f"target says nothing; give {REFERENCE} the time to learn (run.horizon = {cell.base.run.horizon:g})"
                )
    for runs in zip(*(entrant.runs for entrant in tried.values()), strict=True):
        if all(run.error for run in runs):
            raise ConfigError(f"cells.{cell.name}, seed {runs[0].seed}: {runs[0].error}")
    return CellResult(
        name=cell.name,
        group=cell.group,
        title=cell.title,
        data=cell.data,
        network=cell.base.tables["model"]["network"],
        clients=cell.base.n_clients,
        horizon_s=cell.base.run.horizon,
        resolution_s=cell.base.run.evaluate_every,
        target=target,
        budget=cell.budget,
        tried=tried,
    )
