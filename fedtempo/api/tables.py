"""Tables for papers over the runs of comparisons and sweeps, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.api.paths import Paths, path_list
from fedtempo.studies.grids import Competitor
from fedtempo.studies.tables.pivot import pivot
from fedtempo.studies.tables.runs import TableRun, plan_competitors, read_runs, table_run
from fedtempo.studies.tables.typesetting import typeset

if TYPE_CHECKING:
    from fedtempo.api.results import Result


def format_table(
    folders: Paths,
    to: str = "markdown",
    rows: str | Iterable[str] | None = None,
    columns: str | Iterable[str] | None = None,
    *,
    where: Mapping[str, Sequence[Any]] | None = None,
    best: str | Iterable[str] | None = None,
    spread: str = "std",
    digits: int | None = None,
    names: Mapping[str, str] | None = None,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    """Return a table for a paper about runs (`fedtempo table`).

    Cells are means over seeds with their spread; the best is bold. A column of times to a target that some run missed
    holds medians instead. A sentence below the table, or in its caption, says which, and the number of seeds.

    folders: of runs; any other folder stands for the runs directly in it. to: "latex" (with the package booktabs),
    "markdown", or "csv" with unrounded numbers. rows, columns: names, or one text with commas: "strategy", keys of
    configurations ("training.lr", "fleet.preset"), and quantities ("time_to_target", "final_accuracy", "bytes", or the
    dotted path of any number in a summary). By default rows are what tells the runs apart.
    where: values by key; other runs are left out. best: keys whose values compete for the best (default: strategies;
    "" for no bold cells). spread: "std", "sem" (standard error), "ci95" or "none". digits: after the point. names:
    headings by key, value or quantity, in the format's own language. caption, label: of LaTeX's `table` environment;
    without them there is only its `tabular`.

    Raises ConfigError, with a list, for a name that cannot be shown, and if runs in one cell differ in more than seeds.
    """
    runs = read_runs(path_list("folders", folders))
    options: dict[str, Any] = {"where": where, "best": best, "spread": spread, "digits": digits, "names": names}
    return format_runs(runs, to, rows, columns, **options, caption=caption, label=label)


def format_runs(
    runs: Sequence[TableRun],
    to: str,
    rows: str | Iterable[str] | None,
    columns: str | Iterable[str] | None,
    *,
    best: str | Iterable[str] | None = None,
    caption: str | None = None,
    label: str | None = None,
    **options: Any,
) -> str:
    """Return a table of runs; see `format_table`."""
    table = pivot(runs, _listed(rows), _listed(columns), best=_listed(best), **options)
    return typeset(table, to, caption=caption, label=label)


def table_runs(results: Iterable[Result]) -> list[TableRun]:
    """Return results as tables need them."""
    competitors: dict[Path, dict[str, Competitor]] = {}
    runs = []
    for result in results:
        folder, known = result.folder, {}
        if folder is not None:
            if folder.parent not in competitors:
                competitors[folder.parent] = {each.label: each for each in plan_competitors(folder.parent)}
            known = competitors[folder.parent]
        place = str(folder or f"{result.label}, seed {result.seed}")
        runs.append(table_run(result.label, result.config, result.summary, place, known.get(result.label)))
    return runs


def _listed(names: str | Iterable[str] | None) -> list[str] | None:
    """Return names, or those of one text with commas."""
    if isinstance(names, str):
        return [name.strip() for name in names.split(",") if name.strip()]
    return None if names is None else list(names)
