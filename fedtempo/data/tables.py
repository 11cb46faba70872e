"""CSV and Parquet tables: a column of labels, columns of features, and optionally a column that names the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.held_out import as_times, check_options, held_out_rows, must_be_later, untrained_classes
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
from fedtempo.data.splitting import BoolArray, both, check_share
from fedtempo.data.tokenizing import tokenized
from fedtempo.data.validation import Split
from fedtempo.data.windows import (
    Examples,
    Windows,
    check_labels,
    check_times,
    check_windows,
    gap_warning,
    must_be_some,
    short_warning,
)
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
    tokenizer: str | None = None,
    length: int = 128,
    time: str | None = None,
    validation: str | None = None,
    window: int | None = None,
    horizon: int = 1,
    stride: int = 1,
) -> Dataset:
    """A table with a header: CSV (.csv, or .tsv with tabs) or Parquet (.parquet).

    label: column to predict (default: the one named label, target, class or y).
    client: column that names the client of a row; each of its values becomes a client.
    features: columns to predict from (default: all other columns except those in drop). Numbers are used unchanged;
    text becomes one column of 0 and 1 per distinct value.
    task: "classes" or "numbers" (default: text and up to 50 distinct integers are classes). Ambiguous labels are an
    error that asks for it: floats with few values, all whole, negative labels other than -1, and identifiers.
    test: file of the test rows, relative to the table's folder (default: test_share of the rows, of each client and
    class).
    group: column whose values, such as patients, are never split between training and test rows; test_share is then a
    share of its values. It is no feature unless features names it.
    time: column of times, numbers or dates: test rows are the last test_share of each client's rows, so that models
    predict what comes later. Rows with the same time stay together. It is no feature unless features names it.
    validation: file of validation rows, as test; with data.validation_share they come from the training rows instead.
    tokenizer: folder beside the table, or name at the Hugging Face hub, of a tokenizer (extra transformers): the only
    feature, a text, becomes input_ids and attention_mask of `length` tokens.
    window: predict from this many rows of a client in the order of `time`, instead of from one row; no window has both
    training and test rows. stride: rows from the beginning of a window to that of the next.
    horizon: with window, the number of rows after it whose labels are predicted; features then include the label's
    earlier values unless they are named. 0: the label of the window's last row.
    standardize: scale features to mean 0 and standard deviation 1 over all training examples; clients would have to
    agree on these. With window and horizon also labels that are numbers.

    Raises ConfigError naming file, row and column of missing or invalid values.
    """
    check_share(test_share)
    check_options(group, time)
    others_given = {"group": group, "tokenizer": tokenizer}
    check_windows(window, horizon, stride, time, [name for name, value in others_given.items() if value is not None])
    if task not in (None, "classes", "numbers"):
        raise ConfigError(f"task = {task!r}: must be 'classes' or 'numbers'")
    rows = _read(Path(path).expanduser())
    label = label or _label_of(rows)
    for option, columns in (("features", features), ("drop", drop)):
        if columns is not None and (isinstance(columns, str) or not all(isinstance(name, str) for name in columns)):
            raise ConfigError(f"{option} = {columns!r}: must be a list of column names")
    excluded = {label, client, group, time, *(drop or [])}
    names = features if features is not None else [name for name in rows.names if name not in excluded]
    if window is not None and horizon and features is None:
        names = [label, *names]
    for name in (label, *names, *(drop or []), *(name for name in (client, group, time) if name is not None)):
        rows.must_have(name)
    if not names:
        raise ConfigError(
            f"{rows.file}: no features to predict {label!r} from; add columns, or change features or drop"
        )
    tests, held = (
        None if file is None else _read(rows.file.parent / Path(file).expanduser()) for file in (test, validation)
    )
    others = [part for part in (tests, held) if part is not None]
    tables = [rows, *others]
    for other in others:
        for name in (label, *names, *(name for name in (group, time) if name is not None)):
            other.must_have(name)
    x = _features(tables, names) if tokenizer is None else _tokens(tables, names, tokenizer, length)
    y, class_names = _labels(tables, label, task)
    windows = None
    if window is not None:
        check_labels(horizon, label, class_names, names)
        windows = _windows(tables, client, time, window, horizon, stride)
    owners, owner_names = _owners(rows, client)
    test_owners = None if tests is None or client is None else _owners_among(tests, client, owner_names)
    groups = None if group is None else _numbered(rows, group)[0]
    times = None if time is None else _times(rows, time)
    n, n_test = len(rows), 0 if tests is None else len(tests)
    is_test = np.zeros(len(y), dtype=bool)
    if tests is None:
        strata = y[:n] if class_names else np.zeros(n, dtype=np.int64)
        keys = [*([] if owners is None else [owners]), strata]
        by_name = owner_names.__getitem__
        is_test[:n] = held_out_rows(test_share, n, keys, owners, groups=groups, times=times, name_of=by_name)
        both(is_test[:n], str(rows.file))
        if owners is not None:
            _check_clients_train(owners, owner_names, is_test[:n], rows.file)
            test_owners = owners[is_test[:n]]
    else:
        is_test[n : n + n_test] = True
    for other in others:
        _check_apart(rows, other, ~is_test[:n], group, time, owners, client, owner_names)
    is_held = np.arange(len(y)) >= n + n_test
    train = np.flatnonzero(~is_test & ~is_held)
    for part, mask in ((tests, is_test), (held, is_held)):
        if part is not None and class_names:
            _check_classes_known(part.file, label, y[train], y[mask], class_names)
    if tokenizer is None:
        x = (_standardized(x, train) if standardize else x).astype(np.float32)
    scaled = ""
    if windows is not None and standardize and horizon and not class_names:
        scaled = f" in units of {y[train].std():.4g} from {y[train].mean():.4g}"
        y = _standardized(y.astype(np.float64)[:, np.newaxis], train)[:, 0].astype(np.float32)
    trained, tested, validated = (
        Examples(x[mask], y[mask], np.flatnonzero(mask)) if windows is None else windows.examples(x, y, mask)
        for mask in (~is_test & ~is_held, is_test, is_held)
    )
    warnings: list[str | None] = []
    if windows is not None:
        for split, examples in (
            ("training", trained),
            ("test", tested),
            *([] if held is None else [("validation", validated)]),
        ):
            must_be_some(examples, split, windows)
        test_owners = None if test_owners is None else _of_windows(test_owners, is_test, tested.rows)
        trained_owners = None if owners is None else owners[trained.rows]
        warnings += [gap_warning(windows, str(time)), short_warning(owners, trained_owners, owner_names, windows)]
    kind = f"classes of {label!r}: {', '.join(class_names)}" if class_names else f"numbers of {label!r}{scaled}"
    features_text = f"{len(names)} features" if tokenizer is None else f"{length} tokens of {names[0]!r}"
    if window is not None:
        ahead = f"of the next {horizon} rows" if horizon > 1 else "of the next row" if horizon else "of their last row"
        kind, features_text = f"{kind} {ahead}", f"windows of {window} rows of {', '.join(names)} by {time!r}"
    whose = "" if client is None else f", {len(owner_names)} clients by {client!r}: {listed(owner_names)}"
    together = "" if group is None else f", rows of one {group!r} kept together"
    together += "" if time is None else f", the latest rows by {time!r} held out"
    is_told = group is not None or time is not None
    if not is_told:
        warnings.append(_leak(tables[: 1 + (tests is not None)], {label, client}, drop or [], is_test))
    if class_names:
        warnings.append(untrained_classes(y[train], y[is_test], class_names))
    return from_arrays(
        f"table:{path}",
        trained.x,
        trained.y,
        tested.x,
        tested.y,
        len(class_names) or None,
        task="classes" if class_names else "numbers",
        train_owners=None if owners is None else owners[trained.rows],
        test_owners=test_owners,
        owner_names=owner_names,
        class_names=class_names,
        about=f"{kind}, from {features_text}{whose}{together}",
        warnings=tuple(line for line in warnings if line is not None),
        validation=None if held is None else Split(validated.x, validated.y),
        train_groups=None if groups is None else groups[trained.rows],
        train_times=None if times is None else times[trained.rows],
    )


def _windows(
    tables: Sequence[_Table], client: str | None, time: str | None, window: int, horizon: int, stride: int
) -> Windows:
    """Return how windows are cut from the rows of all tables; windows within each table have rows of one client."""
    assert time is not None
    series, times = [], []
    for part in tables:
        if client is not None:
            part.must_have(client)
        own = np.zeros(len(part), dtype=np.int64) if client is None else _numbered(part, client)[0]
        part_times = _times(part, time)
        check_times(own, part_times, time, partial(_failure, part, time))
        series.append(own)
        times.append(part_times)
    return Windows(window, horizon, stride, np.concatenate(series), np.concatenate(times))


def _failure(rows: _Table, column: str, row: int, what: str) -> ConfigError:
    return rows.error(row, column, what)


def _of_windows(test_owners: IntArray, is_test: BoolArray, rows: IntArray) -> IntArray:
    """Return the owner of each test window from those of the test rows. rows: the last row of each window."""
    by_row = np.full(len(is_test), -1, dtype=np.int64)
    by_row[is_test] = test_owners
    return by_row[rows]


@dataclass(frozen=True, eq=False)
class _Table:
    """The columns of a file. first_row: the number that errors give the first row: 2 below a header, 1 in Parquet."""

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
            raise ConfigError(f"{self.file}: no column {name!r}{nearest(name, self.names)}")

    def values(self, name: str) -> list[Any]:
        """Return a column as Python values. Raises ConfigError if one is missing."""
        values: list[Any] = self.columns[name].to_pylist()
        for row, value in enumerate(values):
            if value is None or value == "":
                raise self.error(row, name, "is missing")
        return values

    def error(self, row: int, name: str, what: str) -> ConfigError:
        return ConfigError(f"{self.file}: row {self.first_row + row}: {name!r} {what}")


def _read(file: Path) -> _Table:
    """Return the table in a file. Raises ConfigError if it cannot be read or holds no rows."""
    from pyarrow import ArrowException, csv, parquet  # a tenth of a second

    try:
        size = file.stat().st_size
        if size > _LARGEST_BYTES:
            raise ConfigError(f"{file}: {size:,} bytes, more than {_LARGEST_BYTES:,}; split it")
        if file.suffix == ".parquet":
            metadata = parquet.read_metadata(file)
            announced = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
            if announced > _LARGEST_BYTES:
                raise ConfigError(f"{file}: unpacks to {announced:,} bytes, more than {_LARGEST_BYTES:,}; split it")
            table = _Table(file, parquet.read_table(file), 1)
        elif file.suffix in (".csv", ".tsv"):
            parsing = csv.ParseOptions(delimiter="\t" if file.suffix == ".tsv" else ",")
            # With one thread, errors name the row.
            reading = csv.ReadOptions(use_threads=False)
            table = _Table(file, csv.read_csv(file, read_options=reading, parse_options=parsing), 2)
        else:
            raise ConfigError(f"{file}: unknown kind of table; must be a .csv, .tsv or .parquet file")
        names = table.names
        table.columns.validate(full=True)  # rejects invalid UTF-8, among others
    except (OSError, ArrowException, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{file}: duplicate column {duplicate!r}")
    if not len(table):
        raise ConfigError(f"{file}: no rows below the header" if table.first_row > 1 else f"{file}: no rows")
    return table


def _label_of(rows: _Table) -> str:
    candidates = [name for name in rows.names if name.lower() in LABELS]
    if len(candidates) != 1:
        raise ConfigError(f"{rows.file}: the column to predict is unclear; set label to one of {', '.join(rows.names)}")
    return candidates[0]


def _tokens(tables: Sequence[_Table], names: Sequence[str], tokenizer: str, length: int) -> npt.NDArray[Any]:
    """Return the tokens of all rows; `names` is the only column that they come from."""
    if len(names) != 1:
        raise ConfigError(f"tokenizer: needs one column of text, not {listed(names)}; set features to its name")
    texts = []
    for part in tables:
        for row, value in enumerate(part.values(names[0])):
            if not isinstance(value, str):
                raise part.error(row, names[0], f"is {value!r}, not text")
            texts.append(value)
    return tokenized(texts, tokenizer, length, tables[0].file.parent)


def _features(tables: Sequence[_Table], names: Sequence[str]) -> FloatArray:
    """Return the features of all rows, shape (rows, features); `names` are the columns that they come from."""
    parts = []
    for name in names:
        columns = [part.values(name) for part in tables]
        if all(isinstance(value, str) for column in columns for value in column):
            parts.append(_categories(tables, name, columns))
        else:
            parts.append(np.concatenate([_numbers(*pair, name) for pair in zip(tables, columns)])[:, np.newaxis])
    return np.concatenate(parts, axis=1)


def _categories(tables: Sequence[_Table], name: str, columns: Sequence[list[str]]) -> FloatArray:
    """Return a column of 0 and 1 for each distinct text.

    If any text is a number, the column is meant to hold numbers, and the first other text is an error.
    """
    kinds = sorted(set().union(*columns))
    if any(_is_number(kind) for kind in kinds):
        for part, column in zip(tables, columns):
            for row, value in enumerate(column):
                if not _is_number(value):
                    raise part.error(row, name, f"is {value!r}, not a number")
    if len(kinds) > _MOST_CATEGORIES:
        raise ConfigError(
            f"{tables[0].file}: {name!r} has {len(kinds)} distinct texts, more than {_MOST_CATEGORIES} "
            f"(row {tables[0].first_row}: {columns[0][0]!r}); exclude it with drop = [{name!r}]"
        )
    number = {kind: i for i, kind in enumerate(kinds)}
    indices = np.array([number[value] for column in columns for value in column])
    one_hot: FloatArray = np.eye(len(kinds))[indices]
    return one_hot


def _numbers(rows: _Table, values: list[Any], name: str) -> FloatArray:
    """Return a column as numbers that are finite in float32."""
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        if not isinstance(value, int | float):
            raise rows.error(row, name, f"is {value!r}, not a number")
        try:
            numbers[row] = value
        except OverflowError:
            numbers[row] = np.inf
    with np.errstate(over="ignore"):
        finite = np.isfinite(numbers.astype(np.float32))
    if not finite.all():
        row = int(np.argmin(finite))
        raise rows.error(row, name, f"is {values[row]!r}, not a finite number")
    return numbers


def _labels(tables: Sequence[_Table], name: str, task: str | None) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Return the labels of all rows and the names of the classes, which are empty if labels are numbers."""
    columns = [part.values(name) for part in tables]
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
    """Raise ConfigError for ambiguous labels, which asks for the task."""
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
        finding = f"{what} holds floats with only {count} values, all whole, {low:g} to {high:g}"
        raise ConfigError(ask(finding, "classes", "numbers"))
    if not whole:
        return
    if len(np.unique(array)) <= MOST_CLASSES and array.min() < 0 and not signs(array):
        raise ConfigError(ask(negative(what, array), "classes", "numbers"))
    distinct = len(np.unique(array))
    is_row_number = distinct == len(array) and array.max() - array.min() + 1 == distinct
    if distinct > MOST_CLASSES and (is_row_number or (is_named_as_id(name) and is_identifier(array))):
        raise ConfigError(ask(looks_like_ids(what, array), "numbers"))


def _check_classes_known(file: Path, label: str, train: IntArray, test: IntArray, class_names: Sequence[str]) -> None:
    """Raise ConfigError for classes that only a file of test or validation rows has."""
    try:
        must_be_trained(train, test, class_names)
    except ValueError as error:
        raise ConfigError(f"{file}: column {label!r}: {error}") from None


def _check_apart(
    rows: _Table,
    other: _Table,
    is_training: BoolArray,
    group: str | None,
    time: str | None,
    owners: IntArray | None,
    client: str | None,
    owner_names: Sequence[str],
) -> None:
    """Raise ConfigError if a file of test or validation rows has groups of the training rows, or earlier times."""
    if group is not None:
        trained = {value for value, trains in zip(rows.values(group), is_training) if trains}
        if shared := trained & {*other.values(group)}:
            raise ConfigError(
                f"group = {group!r}: {rows.file} and {other.file} have {len(shared)} values in common: {listed(shared)}"
            )
    if time is not None:
        whose = None if client is None else _owners_among(other, client, owner_names)
        trained_owners = None if owners is None else owners[is_training]
        where = f"time = {time!r}: {other.file}"
        must_be_later(_times(rows, time)[is_training], _times(other, time), trained_owners, whose, where)


def _leak(tables: Sequence[_Table], used: set[str | None], drop: Sequence[str], test: BoolArray) -> str | None:
    """Return a warning if training and test rows share a person or the like; None if they do not."""
    columns = [name for name in tables[0].names if name not in used and all(name in part.names for part in tables)]

    def side(tested: bool) -> Callable[[str], list[Any]]:
        def values(name: str) -> list[Any]:
            column = [value for part in tables for value in part.columns[name].to_pylist()]
            return [value for value, is_test in zip(column, test) if is_test == tested and value is not None]

        return values

    leak = find_leak(columns, drop, side(tested=False), side(tested=True))
    if leak is None:
        return None
    if len(tables) == 1:
        return f"{leak}; set data.options.group = {leak.column!r} to keep each value on one side"
    return f"{leak}; split the rows into the two files by this column"


def _owners(rows: _Table, client: str | None) -> tuple[IntArray | None, tuple[str, ...]]:
    """Return the number of each row's client and the names of all clients, in natural order."""
    return (None, ()) if client is None else _numbered(rows, client)


def _owners_among(rows: _Table, client: str, names: Sequence[str]) -> IntArray | None:
    """Return the number of each row's client among these names, -1 for another one; None without such a column."""
    if client not in rows.names:
        return None
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(str(value), -1) for value in rows.values(client)], dtype=np.int64)


def _numbered(rows: _Table, column: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return the number of each row's value in a column, and the distinct values in natural order."""
    values = rows.values(column)
    if all(isinstance(value, int) for value in values):
        names = sorted(set(values))
    else:
        values = [str(value) for value in values]
        names = sorted(set(values), key=natural)
    order = {name: i for i, name in enumerate(names)}
    return np.array([order[value] for value in values], dtype=np.int64), tuple(map(str, order))


def _times(rows: _Table, column: str) -> FloatArray:
    """Return a column of times as numbers."""
    return as_times(rows.values(column), lambda row, what: rows.error(row, column, what))


def _check_clients_train(owners: IntArray, names: Sequence[str], test: BoolArray, file: Path) -> None:
    """Raise ConfigError for a client whose rows are all test rows."""
    for owner, name in enumerate(names):
        if test[owners == owner].all():
            raise ConfigError(
                f"{file}: client {name!r} has too few rows; lower test_share, or set test to a file of test rows"
            )


def _standardized(x: FloatArray, train: IntArray) -> FloatArray:
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    scaled: FloatArray = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
