"""CSV and Parquet tables: a column of labels, perhaps one that says whose a row is, and columns of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.labels import (
    LABELS,
    MOST_CLASSES,
    ask,
    is_few_whole,
    is_identifier,
    looks_like_ids,
    must_be_trained,
    negative,
    signs,
)
from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.splitting import BoolArray, both, check_share, grouped, spread
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.natural_order import listed, natural

FloatArray = npt.NDArray[np.float64]

_MOST_CATEGORIES = 50
_LARGEST_BYTES = 2**31


def table(
    path: str,
    label: str | None = None,
    client: str | None = None,
    features: list[str] | None = None,
    drop: list[str] | None = None,
    task: str | None = None,
    test: str | None = None,
    test_share: float = 0.2,
    standardize: bool = False,
    group: str | None = None,
) -> Dataset:
    """A table with a header: CSV (.csv; .tsv with tabs) or Parquet (.parquet).

    label: column of what is to be predicted; without it the one called label, target, class or y.
    client: column that says whose a row is; each of its values is a client then.
    features: columns to predict from; all others by default, but those in drop. Numbers stay as they are, and text
    becomes a column of 0 and 1 for each of its different values.
    task: "classes" or "numbers"; without it text and up to 50 different integers are classes, and what is in doubt is
    asked for: floats with few values, all whole, negative labels other than -1, and identifiers.
    test: file of the rows to test on, looked for in the table's folder; without it test_share of the rows, of each
    client and class.
    group: column of which all rows with one value are on the same side, to train or to test on, such as a patient's;
    test_share is of its values then. It is no feature unless features names it.
    standardize: features with mean 0 and deviation 1 over all training examples, as clients would have to agree on.

    Raises ConfigError naming file, row and column for what is missing or does not fit.
    """
    check_share(test_share)
    if task not in (None, "classes", "numbers"):
        raise ConfigError(f"task = {task!r}: it can be 'classes' or 'numbers'")
    rows = _read(Path(path).expanduser())
    label = label or _label_of(rows)
    for given in (features, drop):
        if given is not None and (isinstance(given, str) or not all(isinstance(name, str) for name in given)):
            raise ConfigError(f"features, drop: {given!r} is no list of names of columns")
    left_out = {label, client, group, *(drop or [])}
    names = features if features is not None else [name for name in rows.names if name not in left_out]
    for name in (label, *names, *(drop or []), *(name for name in (client, group) if name is not None)):
        rows.must_have(name)
    if not names:
        raise ConfigError(f"{rows.file}: has no column but {label!r}; there must be one to predict it from")
    tests = None if test is None else _read(rows.file.parent / Path(test).expanduser())
    tables = [rows] if tests is None else [rows, tests]
    for each in tables[1:]:
        for name in (label, *names, *([] if group is None else [group])):
            each.must_have(name)
    x, columns = _features(tables, names)
    y, class_names = _labels(tables, label, task)
    owners, owner_names = _owners(rows, client)
    if tests is None:
        strata = y if class_names else np.zeros(len(y), dtype=np.int64)
        keys = [*([] if owners is None else [owners]), strata]
        if group is None:
            chosen = spread(keys, test_share, len(y))
        else:
            chosen = grouped(_numbered(rows, group)[0], keys, test_share)
        both(chosen, str(rows.file))
        if owners is not None:
            _must_train(owners, owner_names, chosen, rows.file)
    else:
        chosen = np.arange(len(y)) >= len(rows)
        if class_names:
            _must_know(tables, label, y[~chosen], y[chosen], class_names)
        if group is not None and (shared := {*rows.values(group)} & {*tests.values(group)}):
            raise ConfigError(
                f"group = {group!r}: {rows.file} and {tests.file} share {len(shared)} of its values: {listed(shared)}"
            )
    train = np.flatnonzero(~chosen)
    if standardize:
        x = _standardized(x, train)
    kind = f"classes of {label!r}: {', '.join(class_names)}" if class_names else f"numbers of {label!r}"
    whose = "" if client is None else f", {len(owner_names)} clients by {client!r}: {listed(owner_names)}"
    together = "" if group is None else f", rows of one {group!r} kept together"
    warning = None if group is not None else _leak(tables, {label, client}, drop or [], chosen)
    return from_arrays(
        f"table:{path}",
        x[train].astype(np.float32),
        y[train],
        x[chosen].astype(np.float32),
        y[chosen],
        len(class_names) or None,
        task="classes" if class_names else "numbers",
        train_owners=None if owners is None else owners[train],
        owner_names=owner_names,
        class_names=class_names,
        about=f"{kind}, from {columns} features{whose}{together}",
        warnings=() if warning is None else (warning,),
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """A file's columns. first_row: number by which people know the first: 2 below a header, 1 in Parquet."""

    file: Path
    columns: Any
    first_row: int

    @property
    def names(self) -> list[str]:
        names: list[str] = self.columns.column_names
        return names

    def __len__(self) -> int:
        size: int = self.columns.num_rows
        return size

    def must_have(self, name: str) -> None:
        if name not in self.names:
            raise ConfigError(f"{self.file}: has no column {name!r}{nearest(name, self.names)}")

    def values(self, name: str) -> list[Any]:
        """A column as Python values, none of them missing."""
        values: list[Any] = self.columns[name].to_pylist()
        for row, value in enumerate(values):
            if value is None or value == "":
                raise self.error(row, name, "is missing")
        return values

    def error(self, row: int, name: str, what: str) -> ConfigError:
        return ConfigError(f"{self.file}: row {self.first_row + row}: {name!r} {what}")


def _read(file: Path) -> _Table:
    """A table as it is. Raises ConfigError for a file that cannot be read, or is no table."""
    from pyarrow import ArrowException, csv, parquet  # a tenth of a second

    try:
        size = file.stat().st_size
        if size > _LARGEST_BYTES:
            raise ConfigError(f"{file}: has {size:,} bytes, more than {_LARGEST_BYTES:,}")
        if file.suffix == ".parquet":
            metadata = parquet.read_metadata(file)
            announced = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
            if announced > _LARGEST_BYTES:
                raise ConfigError(f"{file}: unpacks to {announced:,} bytes, more than {_LARGEST_BYTES:,}")
            found = _Table(file, parquet.read_table(file), 1)
        elif file.suffix in (".csv", ".tsv"):
            parsing = csv.ParseOptions(delimiter="\t" if file.suffix == ".tsv" else ",")
            # One thread: what is wrong is told with its row.
            reading = csv.ReadOptions(use_threads=False)
            found = _Table(file, csv.read_csv(file, read_options=reading, parse_options=parsing), 2)
        else:
            raise ConfigError(f"{file}: a table is a .csv, .tsv or .parquet file")
        names = found.names
        found.columns.validate(full=True)  # texts are texts, among others
    except (OSError, ArrowException, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{file}: two columns are called {twice!r}")
    if not len(found):
        raise ConfigError(f"{file}: has no rows")
    return found


def _label_of(rows: _Table) -> str:
    found = [name for name in rows.names if name.lower() in LABELS]
    if len(found) != 1:
        raise ConfigError(f"{rows.file}: which column is to be predicted? Say label = one of {', '.join(rows.names)}")
    return found[0]


def _features(tables: Sequence[_Table], names: Sequence[str]) -> tuple[FloatArray, int]:
    """The features of all rows, and how many columns they were."""
    parts = []
    for name in names:
        columns = [each.values(name) for each in tables]
        if all(isinstance(value, str) for column in columns for value in column):
            parts.append(_categories(tables, name, columns))
        else:
            parts.append(np.concatenate([_numbers(*pair, name) for pair in zip(tables, columns)])[:, np.newaxis])
    return np.concatenate(parts, axis=1), len(names)


def _categories(tables: Sequence[_Table], name: str, columns: Sequence[list[str]]) -> FloatArray:
    """A column of 0 and 1 for each different text. A number among them is a column of numbers with something wrong."""
    kinds = sorted(set().union(*columns))
    if any(_is_number(kind) for kind in kinds):
        for each, column in zip(tables, columns):
            for row, value in enumerate(column):
                if not _is_number(value):
                    raise each.error(row, name, f"is {value!r}, not a number")
    if len(kinds) > _MOST_CATEGORIES:
        raise ConfigError(
            f"{tables[0].file}: {name!r} has {len(kinds)} different texts, more than {_MOST_CATEGORIES} "
            f"(row {tables[0].first_row}: {columns[0][0]!r}); leave it out with drop = [{name!r}]"
        )
    place = {kind: i for i, kind in enumerate(kinds)}
    indices = np.array([place[value] for column in columns for value in column])
    found: FloatArray = np.eye(len(kinds))[indices]
    return found


def _numbers(rows: _Table, values: list[Any], name: str) -> FloatArray:
    """A column as numbers that float32 holds."""
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        if not isinstance(value, int | float):
            raise rows.error(row, name, f"is {value!r}, not a number")
        try:
            numbers[row] = value
        except OverflowError:
            numbers[row] = np.inf
    with np.errstate(over="ignore"):
        held = np.isfinite(numbers.astype(np.float32))
    if not held.all():
        row = int(np.argmin(held))
        raise rows.error(row, name, f"is {values[row]!r}, not a finite number")
    return numbers


def _labels(tables: Sequence[_Table], name: str, task: str | None) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """The labels of all rows: numbers of classes and their names, or numbers and no names."""
    columns = [each.values(name) for each in tables]
    values = [value for column in columns for value in column]
    kinds = set(values)
    whole = all(isinstance(value, int) for value in values)  # true and false are 1 and 0 to Python
    named = all(isinstance(value, str) for value in values)
    if task is None:
        _check_clear(tables[0].file, name, values, whole, named)
    if task == "numbers" or (task is None and not named and not (whole and len(kinds) <= MOST_CLASSES)):
        numbers = np.concatenate([_numbers(*pair, name) for pair in zip(tables, columns)])
        return numbers.astype(np.float32), ()
    if not named and all(isinstance(value, int | float) and value == int(value) for value in values):
        values = [int(value) for value in values] if not whole else values
        kinds = set(values)
    elif not named:
        kinds = {str(kind) for kind in kinds}
        values = [str(value) for value in values]
    order = {kind: i for i, kind in enumerate(sorted(kinds))}
    return np.array([order[value] for value in values], dtype=np.int64), tuple(map(str, order))


def _check_clear(file: Path, name: str, values: Sequence[Any], whole: bool, named: bool) -> None:
    """Raises ConfigError for labels that could be several things: asks for the task."""
    what = f"{file}: label column {name!r}"
    try:
        array = np.array(values)
    except (OverflowError, ValueError):
        return
    if named and is_identifier(array):
        raise ConfigError(ask(looks_like_ids(what, array), "classes"))
    if named or array.dtype.kind not in "if":
        return
    if not whole and is_few_whole(array):
        low, high, count = array.min(), array.max(), len(np.unique(array))
        found = f"{what} holds floats with only {count} values, all whole, {low:g} to {high:g}"
        raise ConfigError(ask(found, "classes", "numbers"))
    if not whole:
        return
    if len(np.unique(array)) <= MOST_CLASSES and array.min() < 0 and not signs(array):
        raise ConfigError(ask(negative(what, array), "classes", "numbers"))
    distinct = len(np.unique(array))
    counted = distinct == len(array) and array.max() - array.min() + 1 == distinct
    if distinct > MOST_CLASSES and (counted or (is_named_as_id(name) and is_identifier(array))):
        raise ConfigError(ask(looks_like_ids(what, array), "numbers"))


def _must_know(
    tables: Sequence[_Table], label: str, train: IntArray, test: IntArray, class_names: Sequence[str]
) -> None:
    """Raises ConfigError for classes that only the test file has."""
    try:
        must_be_trained(train, test, class_names)
    except ValueError as error:
        raise ConfigError(f"{tables[1].file}: column {label!r}: {error}") from None


def _leak(tables: Sequence[_Table], used: set[str | None], drop: Sequence[str], test: BoolArray) -> str | None:
    """What to say about rows of one person to train and to test on; None if there is nothing."""
    columns = [name for name in tables[0].names if name not in used and all(name in each.names for each in tables)]

    def side(tested: bool) -> Callable[[str], list[Any]]:
        def values(name: str) -> list[Any]:
            column = [value for each in tables for value in each.columns[name].to_pylist()]
            return [value for value, is_test in zip(column, test) if is_test == tested and value is not None]

        return values

    found = find_leak(columns, drop, side(tested=False), side(tested=True))
    if found is None:
        return None
    if len(tables) == 1:
        return f"{found}; data.options.group = {found.column!r} keeps each on one side"
    return f"{found}; divide the rows of both files by it"


def _owners(rows: _Table, client: str | None) -> tuple[IntArray | None, tuple[str, ...]]:
    """Whose each row is, by number, and all names, in natural order."""
    return (None, ()) if client is None else _numbered(rows, client)


def _numbered(rows: _Table, column: str) -> tuple[IntArray, tuple[str, ...]]:
    """The values of a column by number, and their names in natural order."""
    values = rows.values(column)
    if all(isinstance(value, int) for value in values):
        names = sorted(set(values))
    else:
        values = [str(value) for value in values]
        names = sorted(set(values), key=natural)
    order = {name: i for i, name in enumerate(names)}
    return np.array([order[value] for value in values], dtype=np.int64), tuple(map(str, order))


def _must_train(owners: IntArray, names: Sequence[str], test: BoolArray, file: Path) -> None:
    """Raises ConfigError for a client all whose rows would be tested on."""
    for owner, name in enumerate(names):
        if test[owners == owner].all():
            raise ConfigError(
                f"{file}: client {name!r} has too few rows; take a smaller test_share, or give test = a file"
            )


def _standardized(x: FloatArray, train: IntArray) -> FloatArray:
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    found: FloatArray = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
