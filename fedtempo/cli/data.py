"""What a configuration's data are, in the terminal: a table of clients, and of the splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text

from fedtempo.cli.options import console
from fedtempo.parts.natural_order import listed

if TYPE_CHECKING:
    from rich.table import Table

    from fedtempo.runs.data_description import ClientData, DataDescription

    Shown = tuple[str, Callable[[ClientData], str]]
    """A column: its title, and the text of a row."""

_MOST_ROWS = 40
"""Number of clients up to which all are shown; of more, the first and the last."""

_MOST_CLASSES = 12
"""Number of classes up to which each has a column."""


def show_data(data: DataDescription) -> None:
    """Print the data set, its splits, and its clients in the order of the run."""
    console.print(Text(f"{data.source}: {data.about}" if data.about else data.source, style="bold"), soft_wrap=True)
    for warning in data.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    shape = " x ".join(map(str, data.shape)) if isinstance(data.shape, list) else data.shape
    classes = f" of {len(data.class_names)} classes: {listed(data.class_names)}" if data.class_names else ""
    console.print(Text(f"task {data.task}{classes}; one example has the shape {shape}", style="dim"), soft_wrap=True)
    sizes = sorted(client.examples for client in data.clients if client.trains)
    held = f"{sizes[0]:,} to {sizes[-1]:,} examples (median {median(sizes):,.0f})"
    tested = len(data.clients) - len(sizes)
    others = f"; clients that are tested on: {tested}" if tested else ""
    console.print(Text(f"clients that train: {len(sizes)}, on {held}{others}", style="dim"), soft_wrap=True)
    console.print(_table("Clients, in the order of the run", data, _columns(data)))
    if 0 < len(data.class_names) <= _MOST_CLASSES:
        console.print(_table("Examples by class", data, _class_columns(data)))


def _table(title: str, data: DataDescription, columns: Sequence[Shown]) -> Table:
    """Return a table with a row per client, then per split. columns: titles, and the text of a row."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_style="bold", title_justify="left", box=box.SIMPLE_HEAD, header_style="dim", padding=(0, 1)
    )
    table.add_column("", overflow="fold")
    for name, _ in columns:
        table.add_column(Text(name), justify="right", overflow="fold")
    rows: list[ClientData | None] = list(data.clients)
    if len(rows) > _MOST_ROWS:
        rows = [*rows[: _MOST_ROWS // 2], None, *rows[-_MOST_ROWS // 2 :]]
    for number, row in enumerate(rows):
        ends = number + 1 == len(rows)
        if row is None:
            table.add_row(*["..."] * (1 + len(columns)))
        else:
            table.add_row(Text(row.name), *(cell(row) for _, cell in columns), end_section=ends)
    for row in data.splits:
        table.add_row(Text(row.name, style="bold"), *(cell(row) for _, cell in columns))
    return table


def _columns(data: DataDescription) -> list[Shown]:
    known = [*data.clients, *data.splits]
    columns: list[Shown] = [("examples", lambda row: f"{row.examples:,}")]
    if not all(client.trains for client in data.clients):
        columns.append(("role", lambda row: "" if row in data.splits else "trains" if row.trains else "tested on"))
    if any(row.validation for row in known):
        columns.append(("validation", lambda row: f"{row.validation:,}" if row.trains else ""))
    if any(row.tests for row in known):
        columns.append(("own test", lambda row: f"{row.tests:,}" if row.trains else ""))
    if any(row.missing is not None for row in known):
        columns.append(("missing", lambda row: "" if row.missing is None else f"{row.missing:,}"))
    if data.class_names:
        columns.append(("classes", lambda row: f"{(row.counts > 0).sum()} of {len(data.class_names)}"))
    if data.task == "numbers":
        columns.append(("mean", lambda row: "" if row.mean is None else f"{row.mean:.4g}"))
        columns.append(("deviation", lambda row: "" if row.std is None else f"{row.std:.4g}"))
    return columns


def _class_columns(data: DataDescription) -> list[Shown]:
    return [(name, partial(_count, number)) for number, name in enumerate(data.class_names)]


def _count(number: int, row: ClientData) -> str:
    return f"{row.counts[number]:,}"
