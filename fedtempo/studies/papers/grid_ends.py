"""Tuned settings that lie at an end of the values that were tried, so that a wider grid might improve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedtempo.studies.papers.contest_results import CellResult, EntrantResult

_STEPS = {
    "training.lr": "learning rate",
    "strategy.gain": "gain",
    "strategy.server_lr": "step at the server",
    "server.optimizer.lr": "step at the server",
    "server.optimizer.momentum": "momentum",
    "strategy.adapt": "adaptation of the gain",
}
"""Settings with a scale that could go on, in words; of others, such as numbers of clients, the ends are natural."""
_FEWEST = 3
"""Number of values from which a grid has an inside."""


class Choice(NamedTuple):
    """A variant in a cell, by its title."""

    label: str
    cell: str


@dataclass(frozen=True)
class GridEnds:
    """The choices of a setting. setting: in words. of: number of choices among three values or more.

    lowest, highest: those of them that are at an end. narrow: choices between two values, each of which is an end.
    """

    setting: str
    of: int
    lowest: Sequence[Choice]
    highest: Sequence[Choice]
    narrow: Sequence[Choice]

    def ends_of(self, label: str) -> list[str]:
        """Return the cells in which a variant has the lowest or highest of three values or more."""
        return [choice.cell for choice in (*self.lowest, *self.highest) if choice.label == label]


def grid_ends(cells: Sequence[CellResult]) -> list[GridEnds]:
    """Return the choices of each setting that was tuned, without variants that never reach the target."""
    found: dict[str, GridEnds] = {}
    for cell in cells:
        for label, result in cell.tried.items():
            if cell.target is not None and not result.reached:
                continue
            for key, setting in _STEPS.items():
                values = _values(result, key)
                if len(values) > 1:
                    ends = found.setdefault(setting, GridEnds(setting, 0, [], [], []))
                    found[setting] = _with(ends, Choice(label, cell.title), result.chosen[key], values)
    return list(found.values())


def _values(result: EntrantResult, key: str) -> list[float]:
    """Return the values of a setting that were tried with the other settings as chosen, ascending."""
    if key not in result.chosen:
        return []
    others = _without(result.chosen, key)
    alike = [trial.changes for trial in result.trials if _without(trial.changes, key) == others]
    return sorted({changes[key] for changes in alike if key in changes})


def _without(changes: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name != key}


def _with(ends: GridEnds, choice: Choice, value: float, values: Sequence[float]) -> GridEnds:
    if len(values) < _FEWEST:
        return GridEnds(ends.setting, ends.of, ends.lowest, ends.highest, [*ends.narrow, choice])
    lowest = [*ends.lowest, choice] if value == values[0] else ends.lowest
    highest = [*ends.highest, choice] if value == values[-1] else ends.highest
    return GridEnds(ends.setting, ends.of + 1, lowest, highest, ends.narrow)
