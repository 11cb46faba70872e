"""What several commands share: arguments, the consoles, the experiment of a configuration file, a command group.

What takes long to import is imported in functions, so that help and errors about arguments come at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedtempo.cli.logs import Format
from fedtempo.errors import ConfigError, duplicate
from fedtempo.parts.plain_console import PlainConsole
from fedtempo.runs.files import read_tables

if TYPE_CHECKING:
    from fedtempo.api.experiment import Experiment

RUNS = Path("runs")
"""Folder of new results if --out is not given."""

console = PlainConsole()
errors = PlainConsole(stderr=True)

DATABASE = "run.sqlite"
"""`fedtempo.record.schema.DATABASE`, without the time that its import takes."""


def _configuration(path: Path) -> Path:
    """Report a configuration that cannot be read before anything slow is imported."""
    read_tables(path)
    return path


def optional_configuration(path: Path | None) -> Path | None:
    """Do as for a configuration that must be given, if there is one."""
    return None if path is None else _configuration(path)


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
Jobs = Annotated[int, typer.Option(help="number of parallel runs")]
Seed = Annotated[int | None, typer.Option(help="random seed; same as --set run.seed=N")]
Track = Annotated[str | None, typer.Option(help="trackers to log to: tensorboard, mlflow, wandb; comma-separated")]
LogFormat = Annotated[
    Format | None, typer.Option(help="log each visit, commit and evaluation to stderr (off by default)")
]
Runs = Annotated[list[Path], typer.Argument(help="folders of runs or comparisons", show_default=False, callback=_runs)]
OneRun = Annotated[Path, typer.Argument(help="run folder", show_default=False, callback=lambda path: _runs([path])[0])]


def experiment_of(path: Path, sets: list[str], seed: int | None = None, *, strategies: str | None = None) -> Experiment:
    """Return the experiment of a configuration file; the API is imported once the configuration is known to be right.

    sets: as for --set. strategies: competitors, whose names are checked too. Raises ConfigError for an unusable
    configuration or an unknown competitor.
    """
    from fedtempo.runs.config import load

    if strategies is not None:
        _check_names(strategies, path, sets)
    config = load(path, [*sets, *([] if seed is None else [f"run.seed={seed}"])])
    from fedtempo.api.experiment import Experiment

    return Experiment.of(config)


def _check_names(strategies: str, path: Path, sets: list[str]) -> None:
    """Report a competitor that is neither a strategy nor a label before the rest of the configuration is read."""
    from fedtempo.parts.plugins import part_class
    from fedtempo.runs.config import assignment
    from fedtempo.strategies import STRATEGIES

    tables = read_tables(path).get("compare", {})
    labels = [key.split(".")[1] for key, _ in map(assignment, sets) if key.startswith("compare.")]
    known = {"all", *STRATEGIES, *labels, *(tables if isinstance(tables, dict) else ())}
    for name in filter(None, map(str.strip, strategies.split(","))):
        if name not in known and ":" not in name:
            part_class(name, STRATEGIES, "strategies", "strategy", "strategy.name")


def local_experiment(path: Path, local: int | None, sets: list[str], seed: int | None = None) -> Experiment:
    """Return the experiment of a configuration file, for `local` clients on this machine if given.

    Raises ConfigError if Flower is not installed, for less than one client, or for an unusable configuration.
    """
    from fedtempo.api.deployment import check_local

    check_local(local)
    return experiment_of(path, [*sets, *([] if local is None else [f"data.clients={local}"])], seed)


def new_run_folder(out: Path | None, label: str, seed: int) -> Path:
    """Return the folder for results: `out`, or else an unused name under runs/."""
    from fedtempo.record.folder import default_name, unused

    return out or unused(RUNS / default_name(label, seed))


def tracker_sets(names: str | None) -> list[str]:
    """Return the --set of `--track a,b`."""
    return [] if names is None else [f"run.track={[name.strip() for name in names.split(',')]}"]


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that "1-3,7" names: [1, 2, 3, 7]. Raises ConfigError for anything else."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise ConfigError(f"--seeds {text}: write whole numbers such as 1-5 or 1,3,7") from None
        if high < low:
            raise ConfigError(f"--seeds {text}: {part} is a descending range")
        seeds.extend(range(low, high + 1))
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {text}: duplicate seed {duplicate(seeds)}")
    return seeds


_COMPLETION = {"install_completion": "Install completion of the shell.", "show_completion": "Show it, to copy it."}
"""Help of Typer's options in fewer lines."""


class Group(TyperGroup):
    """A group of commands that suggests the right name for a wrong one, once, with any version of Typer and Click."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            if param.name in _COMPLETION:
                param.help = _COMPLETION[param.name]  # type: ignore[attr-defined]
        return params

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
