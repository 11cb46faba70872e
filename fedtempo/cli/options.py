"""Arguments that several commands take, where they print, and groups of commands that suggest the right one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from fedtempo.cli.logs import Format

console = Console(emoji=False)
errors = Console(stderr=True, emoji=False)

ConfigFile = Annotated[Path, typer.Argument(help="configuration in TOML", show_default=False)]
Sets = Annotated[list[str], typer.Option("--set", help="override a key: section.key=value; may be repeated")]
Out = Annotated[Path | None, typer.Option(help="new folder for the results; a name under runs/ where not given")]
Strategies = Annotated[str, typer.Option(help="comma-separated names, labels of \\[compare.<label>] tables, or all")]
Local = Annotated[
    int | None,
    typer.Option(help="start so many clients and a SuperLink on this machine; \\[deploy] counts if not given"),
]
Track = Annotated[
    str | None, typer.Option(help="where numbers go as well: tensorboard, mlflow, wandb; comma-separated")
]
LogFormat = Annotated[
    Format | None, typer.Option(help="log each visit, commit and evaluation on stderr; not if not given")
]
Runs = Annotated[list[Path], typer.Argument(help="run folders, or folders of a comparison", show_default=False)]


class Group(TyperGroup):
    """Commands; a wrong name is answered with the right one, once, whatever versions of Typer and Click are there."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            message = getattr(error, "message", "")
            if message.count("Did you mean") > 1:  # Click said it, and Typer says it again
                error.message = message.rpartition(" Did you mean")[0]  # type: ignore[attr-defined]
            elif "Did you mean" in message and getattr(error, "possibilities", None):  # Typer said it, and Click will
                error.possibilities = None  # type: ignore[attr-defined]
            raise
