"""What happens to missing values of a table: an error, or what the option `missing` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from fedtempo.data.tabular.file import TableFile
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.natural_order import listed

Way = Literal["median", "category", "drop"]
_WAYS = ("median", "category", "drop")


class Missing:
    """The option `missing`: one way for all columns, or one for each column that it names.

    "drop" leaves rows out. "median" takes the median of numbers, and the most frequent text. "category" makes missing
    texts a category; numbers get the median, and a further feature that is 1 where they were missing.
    """

    def __init__(self, option: Any) -> None:
        """Take the value of the option. Raises ConfigError for values that are none."""
        self._option: Way | dict[str, Way] | None = None
        if isinstance(option, Mapping):
            for name, way in option.items():
                self._check(f"missing.{name}", way)
            self._option = cast("dict[str, Way]", dict(option))
        elif option is not None:
            self._check("missing", option)
            self._option = cast("Way", option)

    @staticmethod
    def _check(where: str, way: Any) -> None:
        if way not in _WAYS:
            raise ConfigError(f"{where} = {way!r}: must be 'median', 'category' or 'drop'")

    @property
    def is_given(self) -> bool:
        """Whether the option says anything."""
        return self._option is not None

    @property
    def fills(self) -> bool:
        """Whether missing values of some column are filled."""
        ways = self._option.values() if isinstance(self._option, dict) else [self._option]
        return any(way in ("median", "category") for way in ways)

    def of(self, name: str) -> Way | None:
        """Return what happens to missing values of a column; None: they are an error."""
        return self._option.get(name) if isinstance(self._option, dict) else self._option

    def must_name(self, names: Sequence[str]) -> None:
        """Raise ConfigError if the option names a column that is not used."""
        for name in self._option if isinstance(self._option, dict) else ():
            if name not in names:
                raise ConfigError(f"missing.{name}: {name!r} is no column that is used{nearest(name, names)}")

    def remedy(self, name: str) -> str:
        """Return the end of an error about missing values of a feature: what to set."""
        where = f"data.options.missing.{name!r}" if isinstance(self._option, dict) else "data.options.missing"
        return f"; set {where} = 'median', 'category' or 'drop'"


def without_dropped(table: TableFile, used: Sequence[str], missing: Missing) -> tuple[TableFile, str]:
    """Return the table without rows that miss a value which the option says to drop, and how many those are, in words.

    Raises ConfigError if no row is left.
    """
    holes = {name: table.missing(name) for name in used if missing.of(name) == "drop"}
    holes = {name: mask for name, mask in holes.items() if mask.any()}
    if not holes:
        return table, ""
    dropped = np.logical_or.reduce(list(holes.values()))
    counts = listed(f"{int(mask.sum()):,} without {name!r}" for name, mask in holes.items())
    said = f"{int(dropped.sum()):,} of {len(table):,} rows left out ({counts})"
    if dropped.all():
        raise ConfigError(f"{table.file}: missing = 'drop' leaves no row: {counts} of {len(table):,} rows")
    return table.kept(~dropped), said
