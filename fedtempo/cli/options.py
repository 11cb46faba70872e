"""Arguments shared by several commands, the consoles, and a command group that suggests the right name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from fedtempo.cli.logs import Format

console = Console(emoji=False)
errors = Console(stderr=True, emoji=False)

ConfigFile = Annotated[Path, typer.Argument(help="configuration file (TOML)", show_default=False)]
Sets = Annotated[list[str], typer.Option("--set", help="set section.key=value; can be repeated")]
Out = Annotated[Path | None, typer.Option(help="new folder for the results (default: a new folder under runs/)")]
Strategies = Annotated[str, typer.Option(help="comma-separated names, labels of \\[compare.<label>] tables, or all")]
Local = Annotated[
    int | None,
    typer.Option(
        help="number of clients to start on this machine, with a SuperLink (default: join the one in \\[deploy])"
    ),
]
Track = Annotated[str | None, typer.Option(help="trackers to log to: tensorboard, mlflow, wandb; comma-separated")]
LogFormat = Annotated[
    Format | None, typer.Option(help="log each visit, commit and evaluation to stderr (off by default)")
]
Runs = Annotated[list[Path], typer.Argument(help="folders of runs or comparisons", show_default=False)]


class Group(TyperGroup):
    """A group of commands that suggests the right name for a wrong one, once, with any version of Typer and Click."""

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
