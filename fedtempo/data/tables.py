"""CSV and Parquet tables: a column of labels, columns of features, and optionally a column that names the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, FloatArray, IntArray, from_arrays
from fedtempo.data.held_out import check_options, held_out_rows, must_be_later, untrained_classes
from fedtempo.data.labels import LABELS, is_identifier
from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.splitting import BoolArray, both, check_share
from fedtempo.data.tabular.columns import instants
from fedtempo.data.tabular.dates import check_dates
from fedtempo.data.tabular.dialect import MISSING, Dialect, names_in
from fedtempo.data.tabular.features import read_features
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import check_trained, must_be_labelled, numbered, numbered_as, read_labels
from fedtempo.data.tabular.missing import Missing, without_dropped
from fedtempo.data.tabular.reading import read_table
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
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed


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
    missing: str | dict[str, str] | None = None,
    fit: str = "all",
    relabel: dict[str, str] | None = None,
    dates: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    quote: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    missing_values: list[str] | None = None,
    columns: list[str] | None = None,
    time: str | None = None,
    validation: str | None = None,
    window: int | None = None,
    horizon: int = 1,
    stride: int = 1,
) -> Dataset:
    """A table with a header: CSV (.csv, or .tsv with tabs) or Parquet (.parquet).

    label: column to predict (default: the one named label, target, class or y).
    client: column that names the client of a row; each of its values becomes a client.
    features: columns to predict from (default: all other columns except those in drop, and except identifiers: columns
    named like one, such as id or patient_no, with hardly any value twice). Numbers are used unchanged; dates become
    days since 1970-01-01, times of day hours; text becomes one column of 0 and 1 per distinct value.
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
    standardize: scale features to mean 0 and standard deviation 1 over training examples; clients would have to agree
    on these. With window and horizon also labels that are numbers.
    missing: what happens to missing values, in all columns or by column, as in { age = "median", label = "drop" }
    (default: they are an error). "drop" leaves the row out; "median" takes the median of numbers and the most frequent
    text; "category" makes missing texts a category, and gives numbers the median and a further feature that is 1 where
    they were missing.
    fit: whose training rows medians, most frequent texts, means and standard deviations come from: "all", or "client"
    for those of each client, with those of all for test rows of other clients.
    relabel: other names for labels, as in { ">50K." = ">50K" }.
    dates: format of dates in text, such as "%d.%m.%Y", or "" if no text is a date.
    encoding, separator, quote, decimal, thousands: how a text file is written (default: found in the file).
    missing_values: cells that count as missing (default: empty ones, NA, NaN, NULL, ? and the like).
    columns: the names of all columns of a text file without a header.

    Raises ConfigError naming file, row and column of missing or invalid values.
    """
    check_share(test_share)
    check_options(group, time)
    others_given = {"group": group, "tokenizer": tokenizer}
    check_windows(window, horizon, stride, time, [name for name, value in others_given.items() if value is not None])
    if task not in (None, "classes", "numbers"):
        raise ConfigError(f"task = {task!r}: must be 'classes' or 'numbers'")
    _check_fit(fit, client, standardize or missing is not None)
    columns_of = {"label": label, "client": client, "group": group, "time": time}
    columns_of |= {"test": test, "validation": validation, "tokenizer": tokenizer}
    for option, value in columns_of.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{option} = {value!r}: must be text")
    holes = Missing(missing)
    dialect = Dialect(
        encoding=encoding,
        separator=separator,
        quote=quote,
        decimal=decimal,
        thousands=thousands,
        missing_values=MISSING if missing_values is None else names_in("missing_values", missing_values, "texts"),
        columns=None if columns is None else names_in("columns", columns),
    )
    form = check_dates(dates)
    rows = read_table(Path(path).expanduser(), dialect)
    label = label or _label_of(rows)
    aside = [name for name in (client, group, time) if name is not None]
    past = [label] if window is not None and horizon else []
    names, identifiers = _features_of(rows, label, aside, features, drop or [], past)
    tests, held = (
        None if file is None else read_table(rows.file.parent / Path(file).expanduser(), dialect)
        for file in (test, validation)
    )
    tables = [part for part in (rows, tests, held) if part is not None]
    for other in tables[1:]:
        for name in (label, *names, *(name for name in (group, time) if name is not None)):
            other.must_have(name)
    used = list(dict.fromkeys([label, *names, *aside]))
    holes.must_name(used)
    for part in tables:
        for name in used:
            if name in part.names:
                part.must_be_usable(name)
    reduced = [without_dropped(part, [name for name in used if name in part.names], holes) for part in tables]
    tables = [part for part, _ in reduced]
    rows, others, n = tables[0], tables[1:], len(tables[0])
    x = None if tokenizer is not None else read_features(tables, names, holes, form)
    for option, named in (("test", tests), ("validation", held)):
        if named is not None:
            must_be_labelled(rows, others[0 if option == "test" else -1], label, option)
    y, class_names = labels = read_labels(tables, label, task, relabel)
    windows = None
    if window is not None:
        check_labels(horizon, label, class_names, names)
        windows = _windows(tables, client, str(time), form, window, horizon, stride)
    owners, owner_names = (None, ()) if client is None else numbered(rows, client)
    known = [owners, *(None if client is None else numbered_as(part, client, owner_names) for part in others)]
    groups = None if group is None else numbered(rows, group)[0]
    times = None if time is None else instants(rows, time, form)
    is_test = np.zeros(len(y), dtype=bool)
    if tests is None:
        strata = y[:n] if class_names else np.zeros(n, dtype=np.int64)
        keys = [*([] if owners is None else [owners]), strata]
        by_name = owner_names.__getitem__
        is_test[:n] = held_out_rows(test_share, n, keys, owners, groups=groups, times=times, name_of=by_name)
        both(is_test[:n], str(rows.file))
        if owners is not None:
            _check_clients_train(owners, owner_names, is_test[:n], rows.file)
        test_owners = None if owners is None else owners[is_test[:n]]
    else:
        is_test[n : n + len(others[0])] = True
        test_owners = known[1]
    is_held = np.arange(len(y)) >= len(y) - (0 if held is None else len(others[-1]))
    is_train = ~is_test & ~is_held
    for part, whose in zip(others, known[1:]):
        _check_apart(
            rows, part, is_train[:n], group, None if times is None else (str(time), times, form), owners, whose
        )
    for part, mask in zip(others, [*([] if tests is None else [is_test]), *([] if held is None else [is_held])]):
        if class_names:
            check_trained(part.file, label, labels, y[is_train], y[mask])
    train_owners = None if owners is None else owners[is_train[:n]]
    if x is None:
        tokens = _tokens(tables, names, str(tokenizer), length)
        train_x, other_x = tokens[is_train], tokens[~is_train]
    else:
        by_client = _owners_of_all(known, tables) if fit == "client" else None
        train_x, other_x = x.filled(~is_train, standardize, by_client, len(owner_names))
    n_other = len(other_x) - int(is_held.sum())
    train_rows, test_rows, held_rows = map(np.flatnonzero, (is_train, is_test, is_held))
    trained = Examples(train_x, y[is_train], train_rows, train_rows)
    tested = Examples(other_x[:n_other], y[is_test], test_rows, test_rows)
    validated = Examples(other_x[n_other:], y[is_held], held_rows, held_rows)
    warnings: list[str | None] = []
    scaled = ""
    if windows is not None:
        if standardize and horizon and not class_names:
            mean, deviation = float(trained.y.mean(dtype=np.float64)), float(trained.y.std(dtype=np.float64)) or 1.0
            scaled, y = f" in units of {deviation:.4g} from {mean:.4g}", ((y - mean) / deviation).astype(np.float32)
        whole_x = np.empty((len(y), *train_x.shape[1:]), dtype=train_x.dtype)
        whole_x[is_train], whole_x[~is_train] = train_x, other_x
        trained, tested, validated = (windows.examples(whole_x, y, mask) for mask in (is_train, is_test, is_held))
        parts = [("training", trained), ("test", tested), *([] if held is None else [("validation", validated)])]
        for split, examples in parts:
            must_be_some(examples, split, windows)
        test_owners = None if test_owners is None else _of_windows(test_owners, is_test, tested.rows)
        train_owners = None if owners is None else owners[trained.rows]
        warnings += [gap_warning(windows, str(time)), short_warning(owners, train_owners, owner_names, windows)]
    if group is None and time is None:
        n_seen = n + (0 if tests is None else len(others[0]))
        warnings.append(_leak(tables[: 1 + (tests is not None)], {label, client}, drop or [], is_test[:n_seen]))
    if class_names:
        warnings.append(untrained_classes(y[is_train], y[is_test], class_names))
    kind = f"classes of {label!r}: {', '.join(class_names)}" if class_names else f"numbers of {label!r}{scaled}"
    features_text = f"{len(names)} features" if tokenizer is None else f"{length} tokens of {names[0]!r}"
    if window is not None:
        ahead = f"of the next {horizon} rows" if horizon > 1 else "of the next row" if horizon else "of their last row"
        kind, features_text = f"{kind} {ahead}", f"windows of {window} rows of {', '.join(names)} by {time!r}"
    without = f" without the identifiers {listed(map(repr, identifiers))}" if identifiers else ""
    clients = "" if client is None else f", {len(owner_names)} clients by {client!r}: {listed(owner_names)}"
    together = "" if group is None else f", rows of one {group!r} kept together"
    together += "" if time is None else f", the latest rows by {time!r} held out"
    said, misleading = ((), ()) if x is None else (x.said, x.warnings)
    notes = [*said, *_said(tables, reduced)]
    lacking = np.zeros(n, dtype=np.int64)
    for name in names if missing is not None else ():
        lacking += rows.missing(name)
    del tables, reduced, rows, tests, held, others, x  # they may be as large as the features
    return from_arrays(
        f"table:{path}",
        trained.x,
        trained.y,
        tested.x,
        tested.y,
        len(class_names) or None,
        task="classes" if class_names else "numbers",
        train_owners=train_owners,
        test_owners=test_owners,
        owner_names=owner_names,
        class_names=class_names,
        about="; ".join([f"{kind}, from {features_text}{without}{clients}{together}", *notes]),
        warnings=(*misleading, *(line for line in warnings if line is not None)),
        validation=Split(validated.x, validated.y) if validation is not None else None,
        train_groups=None if groups is None else groups[trained.rows],
        train_times=None if times is None else times[trained.rows],
        train_starts=None if times is None or horizon < 2 else times[trained.first],
        train_missing=lacking[trained.rows],
    )


def _windows(
    tables: Sequence[TableFile],
    client: str | None,
    time: str,
    form: str | None,
    window: int,
    horizon: int,
    stride: int,
) -> Windows:
    """Return how windows are cut from the rows of all tables; windows within each table have rows of one client."""
    series, times = [], []
    for part in tables:
        if client is not None:
            part.must_have(client)
        own = np.zeros(len(part), dtype=np.int64) if client is None else numbered(part, client)[0]
        part_times = instants(part, time, form)
        check_times(own, part_times, time, partial(_failure, part, time))
        series.append(own)
        times.append(part_times)
    return Windows(window, horizon, stride, np.concatenate(series), np.concatenate(times))


def _failure(rows: TableFile, column: str, row: int, what: str) -> ConfigError:
    return rows.error(row, column, what)


def _of_windows(test_owners: IntArray, is_test: BoolArray, rows: IntArray) -> IntArray:
    """Return the owner of each test window from those of the test rows. rows: the last row of each window."""
    by_row = np.full(len(is_test), -1, dtype=np.int64)
    by_row[is_test] = test_owners
    return by_row[rows]


def _check_fit(fit: str, client: str | None, is_fitted: bool) -> None:
    if fit not in ("all", "client"):
        raise ConfigError(f"fit = {fit!r}: must be 'all' or 'client'")
    if fit == "client" and client is None:
        raise ConfigError("fit = 'client': needs client, the column that names the client of a row")
    if fit == "client" and not is_fitted:
        raise ConfigError("fit = 'client': has no effect; set standardize or missing, or remove it")


def _features_of(
    rows: TableFile,
    label: str,
    aside: Sequence[str],
    features: list[str] | None,
    drop: Sequence[str],
    past: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Return the columns to predict from and the identifiers left out. Raises ConfigError for a missing column.

    aside: columns with another purpose. past: columns to predict from unless features are named.
    """
    dropped, identifiers = names_in("drop", drop), []
    if features is not None:
        names = list(names_in("features", features))
    else:
        excluded = {label, *aside, *dropped}
        names = [name for name in rows.names if name not in excluded]
    for name in (label, *names, *dropped, *aside):
        rows.must_have(name)
    if features is None:
        identifiers = [name for name in names if _is_identifier(rows, name)]
        names = [*past, *(name for name in names if name not in identifiers)]
    if not names:
        without = f" but the identifiers {listed(map(repr, identifiers))}" if identifiers else ""
        raise ConfigError(
            f"{rows.file}: no features to predict {label!r} from{without}; add columns, or change features or drop"
        )
    return names, identifiers


def _is_identifier(rows: TableFile, name: str) -> bool:
    """Return whether name and values of a column mark it as an identifier of rows."""
    if not is_named_as_id(name) or rows.kind(name) not in ("text", "whole"):
        return False
    return is_identifier(np.arange(rows.distinct(name)), len(rows))


def _check_apart(
    rows: TableFile,
    other: TableFile,
    is_train: BoolArray,
    group: str | None,
    time: tuple[str, FloatArray, str | None] | None,
    owners: IntArray | None,
    other_owners: IntArray | None,
) -> None:
    """Raise ConfigError if a file of test or validation rows has groups of the training rows, or earlier times.

    time: name and values of the column of times, and the format of dates. owners: of the rows; other_owners: of those
    of the other file, if known.
    """
    if group is not None:
        numbers, names = numbered(rows, group)
        trained = {names[number] for number in np.unique(numbers[is_train]).tolist()}
        shared = [value for value in numbered(other, group)[1] if value in trained]
        if shared:
            raise ConfigError(
                f"group = {group!r}: {rows.file} and {other.file} have {len(shared)} values in common: {listed(shared)}"
            )
    if time is not None:
        name, times, form = time
        trained_owners = None if owners is None else owners[is_train]
        later = instants(other, name, form)
        must_be_later(times[is_train], later, trained_owners, other_owners, f"time = {name!r}: {other.file}")


def _owners_of_all(known: Sequence[IntArray | None], tables: Sequence[TableFile]) -> IntArray:
    """Return the owner of each row of all tables. Raises ConfigError if those of a table are unknown."""
    for owners, table in zip(known, tables):
        if owners is None:
            raise ConfigError(
                f"fit = 'client': {table.file} has no column that names the client of a row; set fit = 'all'"
            )
    return np.concatenate([owners for owners in known if owners is not None])


def _said(tables: Sequence[TableFile], reduced: Sequence[tuple[TableFile, str]]) -> list[str]:
    """Return how files were read and which rows were left out, one note for each."""
    notes = []
    for part, (_, dropped) in zip(tables, reduced):
        file = f"{part.file.name}: " if len(tables) > 1 else ""
        read = f"read with {', '.join(part.found)}" if part.found else ""
        notes += [f"{file}{note}" for note in (dropped, read) if note]
    return notes


def _label_of(rows: TableFile) -> str:
    candidates = [name for name in rows.names if name.lower() in LABELS]
    if len(candidates) != 1:
        raise ConfigError(
            f"{rows.file}: the column to predict is unclear; set label to one of {', '.join(rows.names)}"
            f"{rows.header_hint}"
        )
    return candidates[0]


def _tokens(tables: Sequence[TableFile], names: Sequence[str], tokenizer: str, length: int) -> npt.NDArray[Any]:
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


def _leak(tables: Sequence[TableFile], used: set[str | None], drop: Sequence[str], test: BoolArray) -> str | None:
    """Return a warning if training and test rows share a person or the like; None if they do not."""
    columns = [
        name
        for name in tables[0].names
        if name not in used
        and (name in drop or is_named_as_id(name))
        and all(name in part.names and part.kind(name) in ("text", "whole") for part in tables)
        and sum(part.distinct(name) for part in tables) <= len(test)
    ]

    def side(tested: bool) -> Callable[[str], list[Any]]:
        def values(name: str) -> list[Any]:
            found, start = [], 0
            for part in tables:
                distinct, codes = part.encoded(name)
                chosen = codes[(test[start : start + len(part)] == tested) & (codes >= 0)]
                found += np.array(distinct, dtype=object)[chosen].tolist()
                start += len(part)
            return found

        return values

    leak = find_leak(columns, drop, side(tested=False), side(tested=True))
    if leak is None:
        return None
    if len(tables) == 1:
        return f"{leak}; set data.options.group = {leak.column!r} to keep each value on one side"
    return f"{leak}; split the rows into the two files by this column"


def _check_clients_train(owners: IntArray, names: Sequence[str], test: BoolArray, file: Path) -> None:
    """Raise ConfigError for a client whose rows are all test rows."""
    counts = np.bincount(owners[~test], minlength=len(names))
    if not counts.all():
        raise ConfigError(
            f"{file}: client {names[int(np.argmin(counts))]!r} has too few rows; lower test_share, or set test to a "
            "file of test rows"
        )
