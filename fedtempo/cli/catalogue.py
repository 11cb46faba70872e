"""`fedtempo list`, `describe` and `new`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fedtempo.cli.options import Sets, console, experiment_of, optional_configuration
from fedtempo.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.table import Table

    from fedtempo.api.catalogue import CatalogueEntry, FieldDescription


def list_(
    what: Annotated[str | None, typer.Argument(help="strategies, networks, links, ... (default: all)")] = None,
) -> None:
    """List strategies, networks, links and other parts by name."""
    from fedtempo.api.catalogue import catalogue

    for kind, parts in catalogue(what).items():
        if not parts:
            continue
        console.print(_names_table(parts, kind))


def describe(
    name: Annotated[str, typer.Argument(help="a name from `fedtempo list`, a section or a key", show_default=False)],
    config: Annotated[
        Path | None,
        typer.Argument(
            help="with `data`: a configuration, to see its clients' examples, classes and missing values",
            show_default=False,
            callback=optional_configuration,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="with a configuration: file for a picture, such as data.png (default: none)")
    ] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Explain a part, a section or a key: meaning, unit, default.

    `fedtempo describe data CONFIG` shows what each client of a configuration holds, before anything trains.
    """
    if config is not None or out is not None or set_:
        _describe_data(name, config, out, set_)
        return
    from fedtempo.api.catalogue import describe

    descriptions = describe(name)
    for position, part in enumerate(descriptions):
        if position:
            console.print()
        if len(descriptions) > 1 or not part.text:
            console.print(Text(part.kind if part.text else part.name, style="bold"))
        if part.origin:
            console.print(Text(f"from {part.origin}", style="dim"))
        if part.text:
            console.print(Text(part.text))
        if part.toml:
            console.print(Text(part.toml, style="dim"))
        elif part.options:
            console.print(Text(f"options: {part.options}", style="dim"))
        elif part.fields:
            console.print(_fields_table(part.fields))
    if choices := descriptions[0].choices:
        console.print(_names_table(choices))


def _describe_data(name: str, config: Path | None, out: Path | None, sets: list[str]) -> None:
    if name != "data" or config is None:
        raise ConfigError(
            f"describe {name}: only `fedtempo describe data CONFIG` takes a configuration, and --out and --set with it"
        )
    description = experiment_of(config, sets).describe_data()
    from fedtempo.cli.data import show_data

    show_data(description)
    if out is not None:
        console.print(f"{description.save_figure(out)}", style="cyan", soft_wrap=True)


def new(
    kind: Annotated[str, typer.Argument(help="config, strategy, network, data or partition", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(
            help="config: a strategy, such as fedavg or module:Class; otherwise a new name, such as my-idea",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, typer.Option(help="folder to write to")] = Path(),
) -> None:
    """Write a configuration, or start your own part.

    A part is a commented file that works as it is, and its test.
    """
    from fedtempo.api.new import new_config, new_part

    for path in [new_config(name, folder)] if kind == "config" else new_part(kind, name, folder):
        console.print(f"{path}", style="cyan", soft_wrap=True)


def _names_table(parts: Mapping[str, CatalogueEntry], title: str | None = None) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None)
    for name, entry in parts.items():
        table.add_row(Text(name, style="cyan"), _summary(entry))
    return table


def _summary(entry: CatalogueEntry) -> Text:
    """Return what a part is; of another installed package also its origin, or why it cannot be imported."""
    if entry.broken:
        return Text(entry.summary, style="red")
    summary = Text(entry.summary)
    return summary.append(f" ({entry.origin})", style="dim") if entry.origin else summary


def _fields_table(fields: Iterable[FieldDescription]) -> Table:
    from rich.table import Table

    table = Table(header_style="dim", title_justify="left")
    for column in ("key", "type", "default", "meaning"):
        table.add_column(column, overflow="fold")
    for field in fields:
        table.add_row(Text(field.name, style="cyan"), Text(field.type), Text(field.default), Text(field.meaning))
    return table
