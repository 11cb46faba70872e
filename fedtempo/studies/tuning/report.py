"""Results of tuning, as a table and as TOML to paste."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

import tomli_w
from rich import box
from rich.table import Table

from fedtempo.runs.config import Config, flat
from fedtempo.studies.tuning.successive_halving import Placed
from fedtempo.studies.tuning.trials import Changes


def tuning_table(label: str, ranked: Sequence[Placed], seeds: Sequence[int]) -> Table:
    """Return a table with one row per learning rate, best first: how long it was tried, times to target, best accuracy.

    If any run diverged, a column shows how many of each rate's runs did.
    """
    measure = ranked[0].trial.measure
    table = Table(
        title=f"{label}: seconds to the target by seed, mean of the best {measure.name}",
        title_style="bold",
        title_justify="left",
        header_style="dim",
        box=box.SIMPLE,
        padding=(0, 1),
    )
    any_diverged = any(place.trial.diverged for place in ranked)
    for column in (
        "lr",
        "tried for",
        *(f"seed {seed}" for seed in seeds),
        "best",
        *(["diverged"] if any_diverged else []),
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for place in ranked:
        trial = place.trial
        table.add_row(
            f"{trial.changes['training.lr']:g}",
            f"{place.horizon_s:.4g} s",
            *("-" if time is None else f"{time:.4g}" for time in trial.times_s),
            f"{statistics.fmean(trial.accuracies):.4f}",
            *([f"{trial.diverged} of {len(seeds)}" if trial.diverged else ""] if any_diverged else []),
        )
    return table


def comparison_lines(base: Config, label: str, changes: Changes) -> str:
    """Return `[compare.<label>]` as TOML, with the settings that the label has in `base` and these changes."""
    settings: Changes = {}
    for key, value in base.variants.get(label, {}).items():
        settings |= flat(key, value)
    name = label if re.fullmatch(r"[\w-]+", label, re.ASCII) else toml_line(label)
    lines = [f"[compare.{name}]", *(f"{key} = {toml_line(value)}" for key, value in (settings | changes).items())]
    return "\n".join(lines)


def toml_line(value: object) -> str:
    """Return a value as one line of TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_line(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_line, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()
