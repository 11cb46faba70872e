"""Runs contests: all entrants in all cells, in worker processes and from where an earlier attempt stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from fedtempo.errors import ConfigError, nearest
from fedtempo.record import write_json
from fedtempo.studies.papers.cache import cache_file
from fedtempo.studies.papers.cells import REFERENCE, Cell, Contest, read_contest
from fedtempo.studies.papers.contest_results import (
    CellResult,
    ContestResults,
    EntrantNotes,
    EntrantResult,
    Target,
    read_results,
)
from fedtempo.studies.papers.race import Race, config_of, find_target, run_race
from fedtempo.studies.papers.reproduction import Request
from fedtempo.studies.tuning.trials import FinishedRun, attempt_all, bits_of, in_processes, note

T = TypeVar("T")


@dataclass(frozen=True)
class ContestRequest(Request):
    """What to run of a contest.

    cells: names of those that may run; others keep their earlier results, if these are up to date (default: all may
    run). earlier: folder of the earlier result; what is up to date there is kept.
    """

    cells: frozenset[str] | None = None
    earlier: Path | None = None


def run_contest(request: Request, name: str) -> ContestResults:
    """Run the contest of `settings/<name>.toml`; write `<name>.json` and the configuration of each cell.

    Targets are set first, from the reference entrant alone (see `race.find_target`). Outcomes of an interrupted earlier
    attempt are reused, and with a `ContestRequest` earlier results. Raises ConfigError for a cell that is not in the
    settings.
    """
    contest, cache, earlier = read_contest(request, name), cache_file(name), _earlier(request, name)
    running = _running(request, contest)
    targets = _targets(request, contest, running, earlier, cache)
    tried = _tried(request, contest, running, targets, earlier, cache)
    complete = [cell for cell in contest.cells if all((cell.name, label) in tried for label in cell.points)]
    results = []
    for cell in complete:
        target, of_cell = targets.get(cell.target_of), {label: tried[cell.name, label] for label in cell.points}
        for label, entrant in of_cell.items():
            first = entrant.runs[0]
            if not first.error:
                race = Race(cell, label, target, cache)
                note(f"{cell.name}, {label}", config_of(race, entrant.chosen, first.seed), first.bits)
        results.append(_cell_result(cell, target, of_cell))
        aim = {} if target is None else {"run.target_accuracy": target.full}
        chosen = {label: entrant.chosen for label, entrant in of_cell.items()}
        request.save_comparison(cell.name, cell.base.with_changes(aim), chosen)
    notes = {
        label: EntrantNotes(entrant.title, entrant.ranked, entrant.told) for label, entrant in contest.entrants.items()
    }
    missing = [cell.title for cell in contest.cells if cell not in complete]
    whole = ContestResults(request.scale, notes, results, missing)
    write_json(request.folder / f"{name}.json", asdict(whole))
    return whole


def _earlier(request: Request, name: str) -> Mapping[str, CellResult]:
    """Return the cells of the earlier result of a contest by name; empty if there is none."""
    folder = request.earlier if isinstance(request, ContestRequest) else None
    if folder is None or not (folder / f"{name}.json").exists():
        return {}
    return {cell.name: cell for cell in read_results(folder / f"{name}.json").cells}


def _running(request: Request, contest: Contest) -> list[Cell]:
    """Return the cells that may run. Raises ConfigError for a name that is none."""
    asked = request.cells if isinstance(request, ContestRequest) else None
    if asked is None:
        return list(contest.cells)
    known = [cell.name for cell in contest.cells]
    for name in sorted(asked.difference(known)):
        raise ConfigError(f"cell {name}: there is none of this name at this scale{nearest(name, known)}")
    return [cell for cell in contest.cells if cell.name in asked]


def _targets(
    request: Request,
    contest: Contest,
    running: Sequence[Cell],
    earlier: Mapping[str, CellResult],
    cache: Path | None,
) -> dict[str | None, Target]:
    """Return the targets by the cell that sets them: of cells that run, and earlier ones that are up to date."""
    known = {cell.target.key: cell.target for cell in earlier.values() if cell.target is not None and cell.target.key}
    needed = {cell.target_of for cell in running}
    references = [Race(cell, REFERENCE, None, cache) for cell in contest.cells if cell.target_of == cell.name]
    targets: dict[str | None, Target] = {race.cell.name: known[race.key] for race in references if race.key in known}
    unknown = [race for race in references if race.cell.name in needed - targets.keys()]
    found = _run(request, find_target, unknown)
    return targets | {race.cell.name: target for race, target in zip(unknown, found, strict=True)}


def _tried(
    request: Request,
    contest: Contest,
    running: Sequence[Cell],
    targets: Mapping[str | None, Target],
    earlier: Mapping[str, CellResult],
    cache: Path | None,
) -> dict[tuple[str, str], EntrantResult]:
    """Return results by cell and entrant: earlier ones that are up to date, and of cells that run all others."""
    found, old, races = dict[tuple[str, str], EntrantResult](), list[tuple[Race, EntrantResult]](), []
    for cell in contest.cells:
        if cell.target_of is not None and cell.target_of not in targets:
            continue
        before = earlier[cell.name].tried if cell.name in earlier else {}
        for label in cell.points:
            race = Race(cell, label, targets.get(cell.target_of), cache)
            if label in before and before[label].key == race.key and before[label].code == race.code:
                found[cell.name, label] = before[label]
            elif cell in running:
                races.append(race)
            elif label in before and before[label].key == race.key:
                old.append((race, before[label]))
    _must_have_the_same_bits(old)
    found |= {(race.cell.name, race.label): replace(entrant, code=race.code) for race, entrant in old}
    request.earlier_s.extend(entrant.cpu_s for entrant in found.values())
    for race, entrant in zip(races, _run(request, run_race, races), strict=True):
        found[race.cell.name, race.label] = entrant
    return found


def _must_have_the_same_bits(old: Sequence[tuple[Race, EntrantResult]]) -> None:
    """Run each entrant's first seed again. Raises ConfigError if any has other bits than with the code of then."""
    configs = [config_of(race, entrant.chosen, entrant.runs[0].seed) for race, entrant in old]
    changed: dict[str, list[str]] = {}
    for (race, entrant), run in zip(old, attempt_all(configs), strict=True):
        if (bits_of(run.summary) if isinstance(run, FinishedRun) else "") != entrant.runs[0].bits:
            changed.setdefault(race.cell.name, []).append(race.label)
    if changed:
        cells = "; ".join(f"{cell} ({', '.join(labels)})" for cell, labels in changed.items())
        raise ConfigError(
            f"cells made with earlier code whose runs have other bits now: {cells}. Bits differ between kinds of "
            "processors too: check on the kind that made them, or give these cells to run them again"
        )


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
        exact=cell.exact,
        target=target,
        budget=cell.budget,
        tried=tried,
    )
