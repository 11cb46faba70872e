"""The columns of a table in a file, as pyarrow reads them, with errors that name file, row and column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.tabular import arrow
from fedtempo.data.tabular.dialect import Dialect
from fedtempo.errors import ConfigError, nearest

BoolArray = npt.NDArray[np.bool_]
Kind = Literal["text", "whole", "numbers", "dates", "times", "empty", "other"]
"""What a column holds; whole: integers or booleans; empty: nothing but missing values."""


class Encoded(NamedTuple):
    """A column as numbers of distinct values: `values` by number, and the number of each row, -1 if it is missing.

    used: the values that occur; a dictionary in the file may have others.
    """

    values: list[Any]
    codes: npt.NDArray[np.int32]
    used: list[Any]


class TableFile:
    """The columns of a file, each of the same length.

    columns: a pyarrow.Table. named: what the user says about how the file is written; dialect: how it is; found: what
    is unusual about that, in words. first_row: the number that errors give the first row: 2 below a header, otherwise
    1. raw: returns a cell of the file as text, by row from 0 and column. rows: the row of the file, from 0, that each
    row is; None if no row is left out.
    """

    def __init__(
        self,
        file: Path,
        columns: Any,
        named: Dialect,
        dialect: Dialect,
        found: tuple[str, ...],
        first_row: int,
        raw: Callable[[int, str], str],
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.file, self.columns, self.dialect, self.found, self.named = file, columns, dialect, found, named
        self.names: list[str] = columns.column_names
        self._known = set(self.names)
        self._first_row, self._raw, self._rows = first_row, raw, rows
        self._encoded: dict[str, Encoded] = {}

    def __len__(self) -> int:
        size: int = self.columns.num_rows
        return size

    def must_have(self, name: str) -> None:
        """Raise ConfigError unless there is this column."""
        if name not in self._known:
            raise ConfigError(f"{self.file}: no column {name!r}{nearest(name, self.names)}{self.header_hint}")

    def must_be_usable(self, name: str) -> None:
        """Raise ConfigError for a column that holds neither numbers, text nor dates."""
        if self.kind(name) == "other":
            raise ConfigError(
                f"{self.file}: {name!r} holds {self.columns[name].type}, which is neither numbers, text nor dates; "
                f"exclude it with drop = [{name!r}]"
            )

    @property
    def is_typed(self) -> bool:
        """Whether the file says what a column holds, so that text such as 7 is text."""
        return self.file.suffix == ".parquet"

    @property
    def has_header(self) -> bool:
        return self._first_row > 1

    @property
    def header_hint(self) -> str:
        """The end of an error about names of columns: what to do if the file has no header; empty if it has one."""
        if self.has_header and any(map(self.dialect.numerals.reads, self.names)):
            return "; if the first row is no header, set data.options.columns to the names of the columns"
        return ""

    def kind(self, name: str) -> Kind:
        """Return what a column holds."""
        from pyarrow import types

        kind = self.columns[name].type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        tests: list[tuple[Kind, Sequence[Callable[[Any], bool]]]] = [
            ("text", (types.is_string, types.is_large_string)),
            ("whole", (types.is_integer, types.is_boolean)),
            ("numbers", (types.is_floating, types.is_decimal)),
            ("dates", (types.is_date, types.is_timestamp)),
            ("times", (types.is_time, types.is_duration)),
            ("empty", (types.is_null,)),
        ]
        for held, are_held in tests:
            if any(is_held(kind) for is_held in are_held):
                return held
        return "other"

    def encoded(self, name: str) -> Encoded:
        """Return a column as numbers of distinct values; text without the spaces around it."""
        if name not in self._encoded:
            self._encoded[name] = self._encode(name)
        return self._encoded[name]

    def _encode(self, name: str) -> Encoded:
        from pyarrow import chunked_array, types

        column = self.columns[name]
        if not types.is_dictionary(column.type):
            column = column.dictionary_encode()
        whole = column.unify_dictionaries().combine_chunks()
        values: list[Any] = whole.dictionary.to_pylist()
        indices = chunked_array([whole.indices])
        codes = arrow.values(indices, np.int32)
        if indices.null_count:
            codes = np.where(arrow.mask(indices.is_valid()), codes, -1)
        missing = {value.strip() for value in self.dialect.missing_values}
        number: dict[Any, int] = {}
        new = [
            -1 if value is None or value in missing or value != value else number.setdefault(value, len(number))
            for value in (value.strip() if isinstance(value, str) else value for value in values)
        ]
        encoded = codes if new == list(range(len(values))) else np.array([*new, -1], dtype=np.int32)[codes]
        occurs = np.zeros(len(number) + 1, dtype=np.bool_)
        occurs[encoded] = True
        return Encoded(list(number), encoded, [value for value, found in zip(number, occurs) if found])

    def distinct(self, name: str) -> int:
        """Return how many different values a column has, those that are missing not counted."""
        from pyarrow import compute, types

        column = self.columns[name]
        if types.is_dictionary(column.type):
            return len(self.encoded(name).values)
        return int(compute.count_distinct(column, mode="only_valid").as_py())

    def has_no_nulls(self, name: str) -> bool:
        """Return whether a column has no missing values, except numbers that are NaN; False for text."""
        return self.kind(name) != "text" and self.columns[name].null_count == 0

    def missing(self, name: str) -> BoolArray:
        """Return which rows of a column are missing, (n,)."""
        from pyarrow import compute, types

        column = self.columns[name]
        if types.is_dictionary(column.type):
            return self.encoded(name).codes < 0
        nulls = column.is_null(nan_is_null=True)
        if self.kind(name) == "text":
            nulls = compute.or_kleene(nulls, compute.match_substring_regex(column, self._marks()))
        return arrow.mask(nulls)

    def _marks(self) -> str:
        """Return a regular expression of cells that count as missing, in the syntax of RE2."""
        codes = ([f"{ord(letter):x}" for letter in value.strip()] for value in self.dialect.missing_values)
        marks = ["".join(rf"\x{{{code}}}" for code in letters) for letters in codes]
        return rf"^\s*(?:{'|'.join(marks)})\s*$" if marks else r"^\b$"

    def values(self, name: str) -> list[Any]:
        """Return a column as Python values. Raises ConfigError if one is missing."""
        self.must_be_known(name)
        values: list[Any] = self.columns[name].to_pylist()
        return values

    def must_be_known(self, name: str, remedy: str = "") -> None:
        """Raise ConfigError if a value of a column is missing. remedy: end of the error."""
        if self.kind(name) == "whole" and self.has_no_nulls(name):
            return
        missing = self.missing(name)
        if missing.any():
            row, count = int(np.argmax(missing)), int(missing.sum())
            cell = self._raw(self._number(row), name)
            marked = (
                f" ({cell!r} counts as missing unless data.options.missing_values leaves it out)"
                if cell.strip()
                else ""
            )
            rows = "" if count == 1 else f", and in {count - 1:,} more rows"
            raise self.error(row, name, f"is missing{marked}{rows}{remedy}")

    def kept(self, rows: BoolArray) -> TableFile:
        """Return the table with these rows only."""
        numbers = np.arange(len(self)) if self._rows is None else self._rows
        columns = self.columns.filter(rows)
        return TableFile(
            *(self.file, columns, self.named, self.dialect, self.found, self._first_row, self._raw, numbers[rows])
        )

    def error(self, row: int, name: str, what: str) -> ConfigError:
        return ConfigError(f"{self.file}: row {self._first_row + self._number(row)}: {name!r} {what}")

    def _number(self, row: int) -> int:
        return row if self._rows is None else int(self._rows[row])
