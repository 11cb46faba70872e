"""Commands that write what a paper shows: table and figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedtempo.cli.options import Runs, console
from fedtempo.errors import ConfigError
from fedtempo.parts.foreign_text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable


def table(
    folders: Runs,
    to: Annotated[
        str | None,
        typer.Option(help="latex, markdown or csv (default: by the suffix of --out, or else markdown)"),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="comma-separated: strategy, keys such as training.lr, quantities (default: what differs)"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="the same for columns (default: time to target, final accuracy, bytes)", show_default=False),
    ] = None,
    where: Annotated[list[str], typer.Option("--where", help="only runs with KEY=VALUE,VALUE; can be repeated")] = [],  # noqa: B006
    best: Annotated[
        str | None, typer.Option(help="keys whose values compete for bold (default: strategy; '': none)")
    ] = None,
    spread: Annotated[str, typer.Option(help="after ±: std, sem, ci95 or none")] = "std",
    digits: Annotated[int | None, typer.Option(help="digits after the point (default: by size)")] = None,
    name: Annotated[
        list[str], typer.Option("--name", help="heading OLD=NEW, such as fedavg=FedAvg; can be repeated")
    ] = [],  # noqa: B006
    caption: Annotated[str | None, typer.Option(help="LaTeX: caption (default: the tabular without a table)")] = None,
    label: Annotated[str | None, typer.Option(help="LaTeX: label of the table with a caption")] = None,
    out: Annotated[Path | None, typer.Option(help="output file (default: print)")] = None,
) -> None:
    """Write a table for a paper: LaTeX, Markdown or CSV.

    Means over seeds with their spread, and the best in bold.
    """
    from fedtempo.studies.grids import parse_grid
    from fedtempo.studies.tables.typesetting import format_of

    chosen = to or ("markdown" if out is None else format_of(out.suffix))
    values, names = parse_grid(where, "--where"), _names(name)
    from fedtempo.api.tables import format_table

    text = format_table(
        folders,
        chosen,
        rows,
        columns,
        where=values,
        best=best,
        spread=spread,
        digits=digits,
        names=names,
        caption=caption,
        label=label,
    )
    if out is None:
        print(visible(text), end="")
        return
    from fedtempo.record.strict_json import write_text

    write_text(out, text)
    console.print(f"{out}", style="cyan", soft_wrap=True)


def figure(
    name: Annotated[str, typer.Argument(help="figure of the page, or all", show_default=False)],
    folders: Runs,
    out: Annotated[
        Path | None,
        typer.Option(help="output file; for all, a folder (default: NAME.pdf; for all, figures/)", show_default=False),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(help="column (3.5in), page (7.16in) or a length such as 84mm (default: column)"),
    ] = None,
    height: Annotated[str | None, typer.Option(help="a length such as 50mm (default: in proportion)")] = None,
    style: Annotated[
        list[str], typer.Option("--style", help="style sheet of Matplotlib, a name or a file; can be repeated")
    ] = [],  # noqa: B006
) -> None:
    """Draw a figure of a paper at a column's width.

    PDF with embedded fonts, SVG, EPS or PNG, by the suffix of --out.
    """
    from fedtempo.api.reports import save_figures

    size = width if width is not None or style else "column"
    for path in save_figures(name, folders, out, width=size, height=height, style=style):
        console.print(f"{path}", style="cyan", soft_wrap=True)


def _names(texts: Iterable[str]) -> dict[str, str]:
    names = {}
    for text in texts:
        old, equals, new = text.rpartition("=")
        if not equals or not old:
            raise ConfigError(f"--name {text}: write it as OLD=NEW")
        names[old] = new
    return names
