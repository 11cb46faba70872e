"""Runs arranged as a table: which runs each cell shows, their mean and spread over seeds, and the best cells."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from fedtempo.errors import ConfigError, nearest
from fedtempo.record.compare import failure
from fedtempo.report.words import ABSENT
from fedtempo.studies.grids import value_text
from fedtempo.studies.tables.quantities import Quantity, default_quantities, quantity, unknown
from fedtempo.studies.tables.runs import STRATEGY, TableRun, check_one_setting, varying

Spread = Literal["std", "sem", "ci95", "none"]
SPREADS: tuple[str, ...] = get_args(Spread)
_SPREAD_WORDS = {"std": "standard deviation", "sem": "standard error", "ci95": "95 % confidence interval (Student's t)"}


class Facet(NamedTuple):
    """A value of a key, in the head of a row or column. text: as it is shown."""

    key: str
    text: str


Heading = tuple[Facet | Quantity, ...]
"""What stands at a row or column: values of keys, then a quantity if quantities stand there."""


@dataclass(frozen=True)
class Cell:
    """One quantity of some runs, in its unit. values: one per run, None where it has none. center: mean or median.

    spread: half-width around the center, None if there is none to show.
    """

    quantity: Quantity
    values: tuple[float | None, ...]
    center: float | None
    spread: float | None
    digits: int
    diverged: bool
    best: bool = False

    @property
    def seeds(self) -> int:
        """The number of runs."""
        return len(self.values)

    @property
    def measured(self) -> int:
        """The number of runs that have a value."""
        return sum(value is not None for value in self.values)

    @property
    def text(self) -> str | None:
        """The center as it is shown; None if there is none."""
        return None if self.center is None else f"{self.center:,.{self.digits}f}"

    @property
    def spread_text(self) -> str | None:
        """The spread with the same digits as the center."""
        return None if self.spread is None else f"{self.spread:,.{self.digits}f}"


@dataclass(frozen=True)
class PaperTable:
    """A table. row_keys, column_keys: what the headings' facets are. cells: by row and column, None where no run is.

    note: how to read the cells, in sentences. names: headings that the user has replaced.
    """

    row_keys: Sequence[str]
    column_keys: Sequence[str]
    rows: Sequence[Heading]
    columns: Sequence[Heading]
    cells: Sequence[Sequence[Cell | None]]
    note: str
    names: Mapping[str, str]

    @property
    def quantities(self) -> list[Quantity]:
        """The quantities that the table shows."""
        found = [each for heading in (*self.rows, *self.columns) for each in heading if isinstance(each, Quantity)]
        return list(dict.fromkeys(found))


def pivot(
    runs: Sequence[TableRun],
    rows: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    *,
    where: Mapping[str, Sequence[Any]] | None = None,
    best: Iterable[str] | None = None,
    spread: str = "std",
    digits: int | None = None,
    names: Mapping[str, str] | None = None,
) -> PaperTable:
    """Return a table of runs.

    rows, columns: keys ("strategy", or any of configurations, as "training.lr") and quantities (`quantities.known`, or
    any number of summaries by its path); quantities on one side only. By default rows are the keys that vary, and
    columns the time to the target, the final accuracy and the bytes. where: values by key; other runs are left out.
    best: keys whose cells compete for the best (default: strategies, or all keys if there is one strategy); none if
    empty. spread: "std", "sem", "ci95" or "none". digits: after the point. names: other headings for keys, values and
    quantities.

    Raises ConfigError for a name that cannot be shown, and for a cell in which runs differ in more than their seeds.
    """
    if spread not in SPREADS:
        raise ConfigError(f"spread = {spread!r}: choose from {', '.join(SPREADS)}")
    if digits is not None and not 0 <= digits <= 10:
        raise ConfigError(f"digits = {digits}: must be from 0 to 10")
    if not runs:
        raise ConfigError("a table needs at least one run")
    runs = _selected(runs, where or {})
    if unfinished := [run.place for run in runs if run.summary.get("ended") == "interrupted"]:
        raise ConfigError(f"{unfinished[0]}: the run has not finished; resume it, or leave it out with where")
    row_names, column_names = _names(runs, rows, columns)
    row_keys, row_quantities = _split(row_names, runs)
    column_keys, column_quantities = _split(column_names, runs)
    if row_quantities and column_quantities:
        raise ConfigError(
            f"rows have {row_quantities[0].name} and columns {column_quantities[0].name}: quantities go on one side"
        )
    if not row_quantities and not column_quantities:
        column_quantities = [quantity(default_quantities(runs)[0], runs) or _missing()]
    row_headings = _headings(runs, row_keys, row_quantities)
    column_headings = _headings(runs, column_keys, column_quantities)
    found = _Cells(runs, row_keys + column_keys, spread, digits, row_quantities + column_quantities)
    cells = [[found.cell((*row, *column)) for column in column_headings] for row in row_headings]
    competing = _competing(best, row_keys + column_keys, runs)
    marked = _with_best(row_headings, column_headings, cells, competing)
    note = _note([cell for line in marked for cell in line if cell is not None], spread)
    return PaperTable(row_keys, column_keys, row_headings, column_headings, marked, note, names or {})


class _Cells:
    """The cells of a table by their headings."""

    def __init__(
        self,
        runs: Sequence[TableRun],
        keys: Sequence[str],
        spread: str,
        digits: int | None,
        quantities: Sequence[Quantity],
    ) -> None:
        self._keys, self._spread = keys, spread
        self._groups: dict[tuple[str, ...], list[TableRun]] = {}
        for run in runs:
            self._groups.setdefault(tuple(value_text(run.value(key)) for key in keys), []).append(run)
        for group in self._groups.values():
            check_one_setting(group, "in one cell", "add it to the rows or columns, or choose values with where")
        self._late = {
            each.name for each in quantities if each.late and any(each.of(run.summary) is None for run in runs)
        }
        self._digits = {each.name: self._chosen_digits(each) if digits is None else digits for each in quantities}

    def cell(self, headings: Heading) -> Cell | None:
        texts = {each.key: each.text for each in headings if isinstance(each, Facet)}
        (shown,) = (each for each in headings if isinstance(each, Quantity))
        group = self._groups.get(tuple(texts[key] for key in self._keys))
        return None if group is None else self._cell(shown, group)

    def _cell(self, shown: Quantity, group: Sequence[TableRun]) -> Cell:
        values = tuple(None if (value := shown.of(run.summary)) is None else value * shown.factor for run in group)
        center, spread = self._center(shown, values)
        diverged = any(failure(run.summary) == "diverged" for run in group)
        return Cell(shown, values, center, spread, self._digits.get(shown.name, 0), diverged)

    def _center(self, shown: Quantity, values: Sequence[float | None]) -> tuple[float | None, float | None]:
        """Return the mean and its spread, or the median alone where some run of the table misses its target."""
        if shown.name in self._late:
            median = statistics.median(math.inf if value is None else value for value in values)
            return (median if math.isfinite(median) else None), None
        numbers = [value for value in values if value is not None]
        if not numbers:
            return None, None
        mean = statistics.fmean(numbers)
        if len(numbers) < 2 or self._spread == "none":
            return mean, None
        return mean, statistics.stdev(numbers) * _spread_factor(self._spread, len(numbers))

    def _chosen_digits(self, shown: Quantity) -> int:
        if shown.digits is not None:
            return shown.digits
        centers = [self._center(shown, [shown.of(run.summary) for run in group])[0] for group in self._groups.values()]
        largest = max((abs(center * shown.factor) for center in centers if center is not None), default=0.0)
        whole = all(center is None or (center * shown.factor).is_integer() for center in centers)
        return 0 if whole or largest >= 100 else 1 if largest >= 10 else 2 if largest >= 1 else 3


def _selected(runs: Sequence[TableRun], where: Mapping[str, Sequence[Any]]) -> list[TableRun]:
    """Return the runs with these values. Raises ConfigError for a key or a value that no run has."""
    left = list(runs)
    for key, values in where.items():
        present = list(dict.fromkeys(value_text(run.value(key)) for run in runs if run.value(key) is not None))
        if not present:
            raise ConfigError(f"where {key}: no run has this key{nearest(key, varying(runs) or [STRATEGY])}")
        wanted = [value_text(value) for value in values]
        if missing := [text for text in wanted if text not in present]:
            raise ConfigError(f"where {key} = {missing[0]}: no run has this value{nearest(missing[0], present)}")
        left = [run for run in left if value_text(run.value(key)) in wanted]
    if not left:
        raise ConfigError("where: no run has all of these values")
    return left


def _names(
    runs: Sequence[TableRun], rows: Iterable[str] | None, columns: Iterable[str] | None
) -> tuple[list[str], list[str]]:
    """Return the names of rows and columns, with what is shown unless told otherwise."""
    row_names = None if rows is None else list(rows)
    column_names = None if columns is None else list(columns)
    if column_names is None:
        shown = [name for name in row_names or () if quantity(name, runs) is not None]
        left = [key for key in _telling(runs) if key not in (row_names or ())]
        column_names = (left or [STRATEGY]) if shown else default_quantities(runs)
        if row_names is not None and not shown and left:
            column_names = [*left, default_quantities(runs)[0]]
    if row_names is None:
        row_names = [key for key in _telling(runs) if key not in column_names] or [STRATEGY]
    for name in row_names + column_names:
        if (row_names + column_names).count(name) > 1:
            raise ConfigError(f"{name}: named twice in rows and columns")
    return row_names, column_names


def _telling(runs: Sequence[TableRun]) -> list[str]:
    """Return the keys that tell runs apart: the strategy, a sweep's keys, others where these do not suffice."""
    chosen: list[str] = []
    for key in varying(runs):
        groups: dict[tuple[str, ...], set[str]] = {}
        for run in runs:
            group = tuple(value_text(run.value(each)) for each in chosen)
            groups.setdefault(group, set()).add(value_text(run.value(key)))
        if any(len(values) > 1 for values in groups.values()):
            chosen.append(key)
    return chosen


def _split(names: Sequence[str], runs: Sequence[TableRun]) -> tuple[list[str], list[Quantity]]:
    """Return the keys and the quantities among names. Raises ConfigError for any other name."""
    keys, quantities = [], []
    for name in names:
        if any(run.value(name) is not None for run in runs):
            keys.append(name)
        elif (found := quantity(name, runs)) is not None:
            quantities.append(found)
        else:
            raise unknown(name, runs, varying(runs) or [STRATEGY])
    return keys, quantities


def _headings(runs: Sequence[TableRun], keys: Sequence[str], quantities: Sequence[Quantity]) -> list[Heading]:
    """Return the combinations of keys' values that runs have, each with every quantity, in the order of values."""
    positions: list[dict[str, int]] = []
    for key in keys:
        values = {value_text(run.value(key)): run.value(key) for run in runs}
        numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values())
        ordered = sorted(values, key=values.__getitem__) if numeric else list(values)
        positions.append({text: position for position, text in enumerate(ordered)})
    present = {tuple(value_text(run.value(key)) for key in keys) for run in runs}
    combined = sorted(present, key=lambda texts: tuple(order[text] for order, text in zip(positions, texts)))
    facets = [tuple(map(Facet, keys, texts)) for texts in combined]
    return [(*each, shown) for each in facets for shown in quantities] if quantities else list(facets)


def _competing(best: Iterable[str] | None, keys: Sequence[str], runs: Sequence[TableRun]) -> list[str]:
    """Return the keys whose cells compete for the best."""
    if best is None:
        several = len({run.strategy for run in runs}) > 1
        return [STRATEGY] if several and STRATEGY in keys else list(keys)
    wanted = list(best)
    for name in wanted:
        if name not in keys:
            raise ConfigError(f"best {name}: neither in rows nor in columns{nearest(name, keys)}")
    return wanted


def _with_best(
    rows: Sequence[Heading],
    columns: Sequence[Heading],
    cells: Sequence[Sequence[Cell | None]],
    competing: Sequence[str],
) -> list[list[Cell | None]]:
    """Return the cells with the best of each competition marked, unless all are level."""
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if cells[i][j] is not None and competing:
                same = tuple(
                    each.name if isinstance(each, Quantity) else each
                    for each in (*row, *column)
                    if isinstance(each, Quantity) or each.key not in competing
                )
                groups.setdefault(same, []).append((i, j))
    winners = set()
    for places in groups.values():
        group = {place: cell for place in places if (cell := cells[place[0]][place[1]]) is not None}
        eligible = {place: value for place, cell in group.items() if (value := _contender(cell)) is not None}
        direction = next(iter(group.values())).quantity.better
        if direction is None or not eligible or len(group) < 2:
            continue
        top = (min if direction == "low" else max)(eligible.values())
        if len(eligible) < len(group) or len(set(eligible.values())) > 1:
            winners |= {place for place, value in eligible.items() if value == top}
    return [
        [None if cell is None else replace(cell, best=(i, j) in winners) for j, cell in enumerate(line)]
        for i, line in enumerate(cells)
    ]


def _contender(cell: Cell) -> float | None:
    """Return the value with which a cell competes, as it is shown; None if runs diverged or have no value."""
    if cell.center is None or cell.diverged or (cell.measured < cell.seeds and not cell.quantity.late):
        return None
    return round(cell.center, cell.digits)


def _spread_factor(spread: str, count: int) -> float:
    """Return by what a standard deviation over some seeds is multiplied."""
    if spread == "std":
        return 1.0
    error = 1 / math.sqrt(count)
    if spread == "sem":
        return error
    import scipy

    return error * float(scipy.stats.t.ppf(0.975, count - 1))


def _note(cells: Sequence[Cell], spread: str) -> str:
    """Return how to read the cells: means or medians, the spread, and the number of seeds."""
    counts = sorted({cell.seeds for cell in cells})
    of = f"{counts[0]} seed{'s' * (counts[0] != 1)}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    spread_shown = any(cell.spread is not None for cell in cells)
    medians = any(cell.quantity.late and cell.center is not None and cell.spread is None for cell in cells)
    sentences = []
    if counts == [1]:
        sentences.append("One seed.")
    else:
        sentences.append(f"Mean{f' ± {_SPREAD_WORDS[spread]}' if spread_shown else ''} over {of}.")
        if medians and any(cell.quantity.late and cell.measured < cell.seeds for cell in cells):
            sentences.append(
                "Times are medians, in which a seed that misses the target counts as later than all others."
            )
    if any(0 < cell.measured < cell.seeds for cell in cells):
        sentences.append("(k of n): k of n seeds have a value.")
    if any(cell.measured == 0 for cell in cells):
        sentences.append(f"{ABSENT}: no run has a value.")
    if any(cell.diverged for cell in cells):
        sentences.append("†: runs diverged.")
    if any(cell.best for cell in cells):
        sentences.append("Bold: best.")
    return " ".join(sentences)


def _missing() -> Quantity:
    raise ConfigError("the runs' summaries hold no quantity to show")
