"""What `fedtempo reproduce` does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedtempo.studies.papers import reproduce as reproducing
from fedtempo.studies.papers.index import write_index
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import SCALES, Exhibit, Row, source_names


def reproduce(
    console: Console,
    what: str | None,
    list_only: bool,
    ids: bool,
    scale: str,
    data: str | None,
    out: Path | None,
    results: Path | None,
) -> None:
    """A paper's figure into a folder: pictures, result.json, result.md; the rows as a table."""
    if ids:
        print(*(name for name, experiment in EXHIBITS.items() if experiment.printed), sep="\n")
        return
    if list_only or what is None:
        printed = [experiment for experiment in EXHIBITS.values() if experiment.printed]
        others = [experiment for experiment in EXHIBITS.values() if not experiment.printed]
        console.print(_experiments_table(f"the papers' {len(printed)} figures and tables", printed))
        console.print(_experiments_table("beside the papers", others))
        return
    with console.status(f"{what} ({scale} scale)"):
        made = reproducing.reproduce(what, out, scale=scale, data=data, results=results)  # type: ignore[arg-type]
    console.print(_rows_table(made.title, made.rows))
    if made.verdict is not None:
        console.print(f"{made.name}: {made.verdict}", style="bold")
    console.print(f"{made.folder}", style="cyan", soft_wrap=True)


def index_results(console: Console, folder: Path) -> None:
    """A page over the results below a folder."""
    console.print(f"{write_index(folder)}", style="cyan", soft_wrap=True)


def _experiments_table(title: str, experiments: Iterable[Exhibit]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    for column in ("name", "in the paper", "what", "the paper's data", *(f"{scale}, min" for scale in SCALES)):
        table.add_column(
            column, justify="right" if column.endswith("min") else "left", no_wrap=column in ("name", "in the paper")
        )
    for experiment in experiments:
        minutes = (f"{minutes:g}" for minutes in experiment.minutes)
        data = source_names(experiment.data) or "-"
        table.add_row(experiment.name, experiment.printed, experiment.title, data, *minutes)
    return table


def _rows_table(title: str, rows: Iterable[Row]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    for column in ("quantity", "paper", "measured", "ratio", "verdict", "remark"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row.quantity, row.paper, row.measured, row.ratio, row.verdict or "", row.remark)
        table.add_row(*map(Text, cells))
    return table
