"""Made-up results of contests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.studies.papers.contest_results import (
    CellResult,
    ContestBudget,
    ContestResults,
    EntrantNotes,
    EntrantResult,
    SeedRun,
    Target,
)
from fedtempo.studies.papers.per_client import ClientAccuracies


def entrant_result(
    times: Sequence[float | None] = (),
    *,
    late: Sequence[float] = (),
    visits: int = 100,
    mb: float = 10.0,
    lr: float = 0.3,
) -> EntrantResult:
    """Runs with these times to the target; without a target, with these accuracies at the end."""
    runs = [
        SeedRun(
            seed=seed,
            ended="target",
            end_s=100.0 if time is None else time,
            times_s=() if late else (None if time is None else time / 2, time),
            best_accuracy=0.4,
            late_accuracy=late[seed - 1] if late else 0.4,
            busy=0.1,
            staleness=None,
            took_part=1.0,
            gini=0.0,
            visits=visits,
            commits=visits,
            mb=mb,
            client_s=300.0 if time is None else 3 * time,
            cpu_s=1.0,
        )
        for seed, time in enumerate(times or [None] * len(late), start=1)
    ]
    clients = [ClientAccuracies(mean=end, worst_tenth=end / 2, worst=0.0) for end in late]
    return EntrantResult({"training.lr": lr}, [], runs, clients)


def cell_result(
    tried: Mapping[str, Mapping[str, Any]], *, title: str = "UAV, digits", lr: tuple[float, ...] = (0.3,)
) -> CellResult:
    """A cell in which all runs have a horizon of 100 s. tried: arguments of `entrant_result` by label."""
    results = {label: entrant_result(**each) for label, each in tried.items()}
    n_seeds = len(next(iter(results.values())).runs)
    races = any("times" in each for each in tried.values())
    return CellResult(
        name="uav-digits",
        group="uav",
        title=title,
        data="digits",
        network="mlp",
        clients=5,
        horizon_s=100.0,
        target=Target(0.9, 0.72, 0.85) if races else None,
        budget=ContestBudget(seeds=tuple(range(1, n_seeds + 1)), tuning_seeds=(101,), lr=lr),
        tried=results,
    )


def results_of(cells: Sequence[CellResult], unranked: Sequence[str] = ()) -> ContestResults:
    """A contest of these cells, whose entrants have made-up descriptions."""
    labels = list(dict.fromkeys(label for cell in cells for label in cell.tried))
    notes = {label: EntrantNotes(f"the {label} one", label not in unranked) for label in labels}
    return ContestResults("small", notes, cells)
