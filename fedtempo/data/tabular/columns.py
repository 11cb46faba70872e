"""Columns of a table as features: numbers, dates as numbers, and texts as categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.tabular import arrow
from fedtempo.data.tabular.dates import DAY_S, FloatArray, UnclearDateError, days, format_of
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.numerals import offered
from fedtempo.errors import ConfigError

MISSING, UNKNOWN = -1, -2

_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class _Part(NamedTuple):
    """A column of one table. holds: numbers, dates, times, durations, texts or nothing. read: its numbers."""

    table: TableFile
    holds: str
    read: Callable[[int, int], FloatArray]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers in one or several tables, whose rows follow each other.

    note: what the numbers are, if they are not simply those of the file.
    """

    name: str
    parts: Sequence[_Part]
    note: str = ""

    def read(self, start: int, stop: int) -> FloatArray:
        """Return the numbers of these rows, NaN where they are missing."""
        pieces, offset = [np.zeros(0)], 0
        for part in self.parts:
            first, last = max(start - offset, 0), min(stop - offset, len(part.table))
            if first < last:
                pieces.append(part.read(first, last))
            offset += len(part.table)
        return pieces[1] if len(pieces) == 2 else np.concatenate(pieces)

    def must_be_finite(self) -> None:
        """Raise ConfigError naming the first number that is not finite in float32, and is not missing."""
        for part in self.parts:
            numbers = part.read(0, len(part.table))
            with np.errstate(over="ignore"):
                infinite = np.isinf(numbers.astype(np.float32))
            if infinite.any():
                row = int(np.argmax(infinite))
                raise part.table.error(row, self.name, f"is {float(numbers[row])!r}, not a finite number")


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts in one or several tables, whose rows follow each other.

    kinds: the distinct texts of the first table, sorted. codes: the number of each row's text, (n,), `MISSING`, or
    `UNKNOWN` if the first table does not have it. unknown: those texts.
    """

    name: str
    kinds: tuple[str, ...]
    codes: npt.NDArray[np.int32]
    unknown: tuple[str, ...] = ()


def column(tables: Sequence[TableFile], name: str, dates: str | None) -> Numbers | Texts:
    """Return a column of several tables, the first of which has values. dates: the format of dates in text, if known.

    Raises ConfigError for a column of numbers and texts, and for texts that may be numbers or dates.
    """
    form = _date_format(tables, name, dates)
    parts = [_part(table, name, form) for table in tables]
    held = {part.holds for part in parts} - {"nothing"}
    if held == {"texts"}:
        return _texts(tables, name)
    for part in parts:
        if part.holds == "texts":
            row = int(np.argmax(part.table.encoded(name).codes >= 0))
            raise not_a("number" if "numbers" in held else "date", part.table, name, row)
    if len(held) > 1:
        raise ConfigError(
            f"{tables[-1].file}: {name!r} holds {parts[-1].holds}, but {parts[0].holds} in the other file"
        )
    notes = {
        "dates": f"dates of {name!r} as days since 1970-01-01" + (f" ({form})" if form else ""),
        "times": f"times of {name!r} as hours",
        "durations": f"durations of {name!r} as days",
    }
    return Numbers(name, parts, notes.get(parts[0].holds, ""))


def must_have_values(table: TableFile, name: str) -> None:
    """Raise ConfigError if all values of a column are missing."""
    if table.columns[name].null_count == len(table) or table.missing(name).all():
        raise ConfigError(f"{table.file}: {name!r} has no values; exclude it with drop = [{name!r}]")


def _date_format(tables: Sequence[TableFile], name: str, dates: str | None) -> str | None:
    """Return the format of the dates that all texts of a column are, None if they are none."""
    texts = [text for table in tables if table.kind(name) == "text" for text in table.encoded(name).used]
    try:
        return format_of(list(dict.fromkeys(texts)), dates)
    except UnclearDateError as error:
        raise ConfigError(f"{tables[0].file}: {name!r} {error}") from None


def _part(table: TableFile, name: str, form: str | None) -> _Part:
    """Return a column of one table. form: the format of its dates, None if its texts are none."""
    if table.kind(name) == "empty":
        return _Part(table, "nothing", lambda first, last: np.full(last - first, np.nan))
    if table.kind(name) != "text":
        return _arrow_part(table, name)
    used, numerals = table.encoded(name).used, table.dialect.numerals
    if not used:
        return _Part(table, "nothing", lambda first, last: np.full(last - first, np.nan))
    if form is not None:
        return _Part(table, "dates", _looked_up(table, name, days(table.encoded(name).values, form)))
    is_typed = table.is_typed and not table.dialect.names_numerals
    if not any(map(numerals.reads, used)) or (is_typed and all(map(numerals.reads, used))):
        must_be_text(table, name, used)
        return _Part(table, "texts", lambda first, last: np.full(last - first, np.nan))
    values, codes, _ = table.encoded(name)
    is_number = np.array([bool(numerals.reads(value)) for value in values])
    if (others := (codes >= 0) & ~is_number[codes]).any():
        raise not_a("number", table, name, int(np.argmax(others)))
    numbers = [numerals.number(value) if number else np.nan for value, number in zip(values, is_number)]
    return _Part(table, "numbers", _looked_up(table, name, np.array(numbers)))


def must_be_text(table: TableFile, name: str, used: Sequence[str]) -> None:
    """Raise ConfigError for texts that may be numbers with other marks than the file's, if the user named none."""
    if table.named.names_numerals or any(map(table.dialect.numerals.reads, used)):
        return
    if offers := offered(used):
        text = f"data.options.decimal = {table.dialect.numerals.decimal!r} to take such cells as text"
        raise ConfigError(f"{table.file}: {name!r} holds texts that may be numbers; set {offers}, or {text}")


def not_a(what: str, table: TableFile, name: str, row: int) -> ConfigError:
    """Return the error about a text among numbers or dates."""
    values, codes, _ = table.encoded(name)
    value = values[codes[row]]
    offers = offered([value]) if what == "number" else ""
    mark = "if it stands for a missing value, add it to data.options.missing_values"
    remedy = f"; set {offers}" if offers else f"; {mark}"
    return table.error(row, name, f"is {value!r}, not a {what}{remedy}")


def _texts(tables: Sequence[TableFile], name: str) -> Texts:
    kinds = sorted(tables[0].encoded(name).used)
    number = {kind: i for i, kind in enumerate(kinds)}
    codes: list[npt.NDArray[np.int32]] = []
    unknown: dict[str, None] = {}
    for table in tables:
        if table.kind(name) == "empty":
            codes.append(np.full(len(table), MISSING, dtype=np.int32))
            continue
        values, numbers, _ = table.encoded(name)
        new = np.array([*(number.get(value, UNKNOWN) for value in values), MISSING], dtype=np.int32)
        codes.append(new[numbers])
        unknown |= {value: None for value in table.encoded(name).used if value not in number}
    return Texts(name, tuple(kinds), np.concatenate(codes), tuple(unknown))


def _arrow_part(table: TableFile, name: str) -> _Part:
    """Return a column that pyarrow has read as numbers, dates or times."""
    from pyarrow import types

    held = table.columns[name]
    kind = held.type
    if types.is_dictionary(kind):
        held = held.cast(kind.value_type)
        kind = kind.value_type
    divisor = 1.0
    holds = "numbers"
    if types.is_date(kind):
        holds, divisor = "dates", 1.0 if types.is_date32(kind) else DAY_S * 1e3
    elif types.is_timestamp(kind):
        holds, divisor = "dates", DAY_S * _PER_S[kind.unit]
    elif types.is_time(kind):
        holds, divisor = "times", 3600 * _PER_S[kind.unit]
    elif types.is_duration(kind):
        holds, divisor = "durations", DAY_S * _PER_S[kind.unit]
    whole = "int32" if types.is_date32(kind) or types.is_time32(kind) else "int64"

    def read(first: int, last: int) -> FloatArray:
        piece = held.slice(first, last - first)
        if holds == "numbers":
            return arrow.numbers(piece)
        return arrow.numbers(piece.cast(whole)) / divisor

    return _Part(table, holds, read)


def _looked_up(table: TableFile, name: str, numbers: FloatArray) -> Callable[[int, int], FloatArray]:
    """Return a reader of the numbers that stand for the distinct values of a column."""
    codes, with_missing = table.encoded(name).codes, np.append(numbers, np.nan)
    return lambda first, last: with_missing[codes[first:last]]


def instants(table: TableFile, name: str, dates: str | None) -> FloatArray:
    """Return a column of times as numbers: numbers unchanged, dates, times of day and durations as seconds.

    Raises ConfigError for a missing value, and for texts that are neither numbers nor dates.
    """
    table.must_be_known(name, f"; give it, or set data.options.missing.{name!r} = 'drop'")
    held = column([table], name, dates)
    if isinstance(held, Texts):
        row = int(np.argmax(held.codes >= 0))
        raise table.error(row, name, f"is {held.kinds[held.codes[row]]!r}, neither a number nor a date")
    held.must_be_finite()
    unit_s = {"dates": DAY_S, "durations": DAY_S, "times": 3600.0}.get(held.parts[0].holds, 1.0)
    return held.read(0, len(table)) * unit_s
