"""`fedtempo reproduce`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedtempo.cli.options import Out, console
from fedtempo.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from fedtempo.studies.papers.reproduction import Exhibit
    from fedtempo.studies.papers.verdicts import Row


def reproduce(
    what: Annotated[
        str | None, typer.Argument(help="paper/figure, such as fedhusky/fig5, or all with --results")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="list what can be reproduced")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="print the papers' names only, for scripts")] = False,
    index: Annotated[
        Path | None, typer.Option(help="write index.md for all results under this folder", show_default=False)
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="small (about a minute; few seeds, so mostly no verdict), medium, or full (the paper's setting) "
            "(default: with --results that of the earlier result, otherwise small; for all: medium)",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="data source instead of the paper's, such as fashion-mnist", show_default=False)
    ] = None,
    out: Out = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="keep the result here, replacing an earlier one; all: rerun what is stale or missing",
            show_default=False,
        ),
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(
            "--cell",
            help="of a contest: run this cell, and keep others if up to date; repeatable",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="number of worker processes")] = 2,
    ray: Annotated[
        str | None,
        typer.Option(
            help="address of a Ray cluster instead, such as auto, or local",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="all: rerun a sample of what is stale; equal bits count as up to date"),
    ] = False,
) -> None:
    """Reproduce a paper's figure, with its numbers beside ours."""
    from fedtempo.studies.papers.reproduce import index_results, reproduce
    from fedtempo.studies.tuning.trials import shared_workers

    if index is not None:
        console.print(f"{index_results(index)}", style="cyan", soft_wrap=True)
    elif ids or list_only or what is None:
        _list_exhibits(names_only=ids)
    elif cells and (check or what == "all"):
        raise ConfigError("--cell: is for one contest, such as all/league; give its name, without --check")
    elif check:
        with shared_workers(workers, ray):
            _check_all(what, scale, data, out, results)
    elif what == "all":
        _reproduce_all(scale, data, out, results, workers, ray)
    else:
        with console.status(what):
            made = reproduce(
                what,
                out,
                scale=scale,  # type: ignore[arg-type]
                data=data,
                results=results,
                cells=cells,
                workers=workers,
                ray=ray,
            )
        console.print(_rows_table(made.title, made.rows))
        if made.verdict is not None:
            console.print(f"{made.name}: {made.verdict}", style="bold")
        console.print(f"{made.folder}", style="cyan", soft_wrap=True)


def _reproduce_all(
    scale: str | None, data: str | None, out: Path | None, results: Path | None, workers: int, ray: str | None
) -> None:
    from fedtempo.studies.papers.reproduce import reproduce_all

    if results is None or data is not None or out is not None:
        raise ConfigError("reproduce all: give --results FOLDER, and neither --data nor --out")
    with console.status(f"everything in {results} that is not up to date"):
        for made in reproduce_all(results, scale=scale or "medium", workers=workers, ray=ray):  # type: ignore[arg-type]
            console.print(f"{made.name}: {made.verdict or 'no statement to reach'}", soft_wrap=True)
    console.print(f"{results / 'index.md'}", style="cyan", soft_wrap=True)


def _check_all(what: str, scale: str | None, data: str | None, out: Path | None, results: Path | None) -> None:
    from fedtempo.studies.papers.reproduce import check_all

    if what != "all" or results is None:
        raise ConfigError("--check: give all and --results FOLDER")
    if scale is not None or data is not None or out is not None:
        raise ConfigError("--check: results keep their scale and data; give neither --scale nor --data nor --out")
    with console.status(f"a sample of the runs in {results}"):
        for name, runs, changed, new in check_all(results):
            agree = f"{runs} runs are kept for this processor" if new else f"{runs} runs agree"
            words = f"{len(changed)} of {runs} runs differ ({', '.join(changed)})" if changed else agree
            console.print(f"{name}: {words}", soft_wrap=True)
    console.print(f"{results / 'index.md'}", style="cyan", soft_wrap=True)


def _list_exhibits(names_only: bool) -> None:
    from fedtempo.studies.papers.registry import EXHIBITS

    printed = [exhibit for exhibit in EXHIBITS.values() if exhibit.printed]
    if names_only:
        print(*(exhibit.name for exhibit in printed), sep="\n")
        return
    others = [exhibit for exhibit in EXHIBITS.values() if not exhibit.printed]
    console.print(_exhibits_table(f"the papers' {len(printed)} figures and tables", printed))
    console.print(_exhibits_table("beside the papers", others))


def _exhibits_table(title: str, exhibits: Iterable[Exhibit]) -> Table:
    from rich.table import Table

    from fedtempo.studies.papers.reproduction import SCALES, source_names

    title = f"{title} (minutes at scale {', '.join(SCALES)})"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    for column in ("name", "in the paper", "minutes", "what (the paper's data)"):
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "in the paper", "minutes"))
    for exhibit in exhibits:
        minutes = ", ".join(f"{minutes:g}" for minutes in exhibit.minutes)
        data = source_names(exhibit.data)
        what = f"{exhibit.title} ({data})" if data else exhibit.title
        table.add_row(exhibit.name, exhibit.printed, minutes, what)
    return table


def _rows_table(title: str, rows: Iterable[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    for column in ("quantity", "paper", "measured", "ratio", "verdict", "remark"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row.quantity, row.paper, row.measured, row.ratio, row.verdict or "", row.remark)
        table.add_row(*map(Text, cells))
    return table
