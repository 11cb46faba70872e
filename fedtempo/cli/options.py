"""Arguments shared by several commands, the consoles, and a command group that suggests the right name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from fedtempo.cli.logs import Format
from fedtempo.errors import ConfigError
from fedtempo.runs.files import read_tables

console = Console(emoji=False)
errors = Console(stderr=True, emoji=False)

DATABASE = "run.sqlite"
"""`fedtempo.record.schema.DATABASE`, without the time that its import takes."""


def _configuration(path: Path) -> Path:
    """Report a configuration that cannot be read before anything slow is imported."""
    read_tables(path)
    return path


def _runs(paths: list[Path]) -> list[Path]:
    """Report folders without runs before anything slow is imported."""
    for path in paths:
        if not (path / DATABASE).exists() and not any(path.glob(f"*/{DATABASE}")):
            raise ConfigError(f"{path} is not a run folder (no {DATABASE})")
    return paths


ConfigFile = Annotated[
    Path, typer.Argument(help="configuration file (TOML)", show_default=False, callback=_configuration)
]
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
Runs = Annotated[list[Path], typer.Argument(help="folders of runs or comparisons", show_default=False, callback=_runs)]
OneRun = Annotated[Path, typer.Argument(help="run folder", show_default=False, callback=lambda path: _runs([path])[0])]


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
