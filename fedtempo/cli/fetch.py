"""`fedtempo fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.options import console


def fetch(
    source: Annotated[str, typer.Argument(help="hf:NAME, or a named data set, such as mnist", show_default=False)],
    subset: Annotated[str | None, typer.Option(help="configuration of the data set, if it has several")] = None,
    out: Annotated[
        Path | None, typer.Option(help="new folder for a copy, for machines without a network (default: no copy)")
    ] = None,
) -> None:
    """Download a data set from the Hugging Face hub for later."""
    from fedtempo.api.fetching import fetch

    with console.status(source):
        rows = fetch(source, subset, out)
    console.print(", ".join(f"{split}: {count:,} rows" for split, count in rows.items()), highlight=False)
    if out is not None:
        console.print(f'source = "hf:{out}"', style="cyan", highlight=False, soft_wrap=True)
