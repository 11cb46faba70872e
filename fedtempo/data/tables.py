"""CSV and Parquet tables: a column of labels, columns of features, and optionally a column that names the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.labels import LABELS, is_identifier
from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.splitting import BoolArray, both, check_share, grouped, spread
from fedtempo.data.tabular.dates import check_dates
from fedtempo.data.tabular.dialect import MISSING, Dialect, names_in
from fedtempo.data.tabular.features import read_features
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import check_trained, numbered, numbered_as, read_labels
from fedtempo.data.tabular.missing import Missing, without_dropped
from fedtempo.data.tabular.reading import read_table
from fedtempo.data.tokenizing import tokenized
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
    tokenizer: folder beside the table, or name at the Hugging Face hub, of a tokenizer (extra transformers): the only
    feature, a text, becomes input_ids and attention_mask of `length` tokens.
    standardize: scale features to mean 0 and standard deviation 1 over training examples; clients would have to agree
    on these.
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
    if task not in (None, "classes", "numbers"):
        raise ConfigError(f"task = {task!r}: must be 'classes' or 'numbers'")
    _check_fit(fit, client, standardize or missing is not None)
    columns_of = {"label": label, "client": client, "group": group, "test": test, "tokenizer": tokenizer}
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
    names, identifiers = _features_of(rows, label, client, group, features, drop or [])
    tests = None if test is None else read_table(rows.file.parent / Path(test).expanduser(), dialect)
    tables = [rows] if tests is None else [rows, tests]
    for other in tables[1:]:
        for name in (label, *names, *([] if group is None else [group])):
            other.must_have(name)
    used = list(dict.fromkeys([label, *names, *(name for name in (client, group) if name is not None)]))
    holes.must_name(used)
    for part in tables:
        for name in used:
            if name in part.names:
                part.must_be_usable(name)
    reduced = [without_dropped(part, [name for name in used if name in part.names], holes) for part in tables]
    tables = [part for part, _ in reduced]
    rows, tests = tables[0], None if tests is None else tables[1]
    x = None if tokenizer is not None else read_features(tables, names, holes, form)
    y, class_names = labels = read_labels(tables, label, task, relabel)
    owners, owner_names = (None, ()) if client is None else numbered(rows, client)
    test_owners = None if tests is None or client is None else numbered_as(tests, client, owner_names)
    if tests is None:
        strata = y if class_names else np.zeros(len(y), dtype=np.int64)
        keys = [*([] if owners is None else [owners]), strata]
        if group is None:
            is_test = spread(keys, test_share, len(y))
        else:
            is_test = grouped(numbered(rows, group)[0], keys, test_share)
        both(is_test, str(rows.file))
        if owners is not None:
            _check_clients_train(owners, owner_names, is_test, rows.file)
            test_owners = owners[is_test]
    else:
        is_test = np.arange(len(y)) >= len(rows)
        if class_names:
            check_trained(tables, label, labels, len(rows))
        if group is not None:
            _check_apart(rows, tests, group)
    warning = None if group is not None else _leak(tables, {label, client}, drop or [], is_test)
    train_owners = None if owners is None else owners[~is_test[: len(rows)]]
    if x is None:
        tokens = _tokens(tables, names, str(tokenizer), length)
        train_x, test_x = tokens[~is_test], tokens[is_test]
    else:
        whose = _joined(train_owners, test_owners, is_test, tables[-1].file) if fit == "client" else None
        train_x, test_x = x.filled(is_test, standardize, whose, len(owner_names))
    kind = f"classes of {label!r}: {', '.join(class_names)}" if class_names else f"numbers of {label!r}"
    features_text = f"{len(names)} features" if tokenizer is None else f"{length} tokens of {names[0]!r}"
    without = f" without the identifiers {listed(map(repr, identifiers))}" if identifiers else ""
    clients = "" if client is None else f", {len(owner_names)} clients by {client!r}: {listed(owner_names)}"
    together = "" if group is None else f", rows of one {group!r} kept together"
    said, warnings = ((), ()) if x is None else (x.said, x.warnings)
    notes = [*said, *_said(tables, reduced)]
    train_y, test_y = y[~is_test], y[is_test]
    del tables, reduced, rows, tests, x  # they may be as large as the features
    return from_arrays(
        f"table:{path}",
        train_x,
        train_y,
        test_x,
        test_y,
        len(class_names) or None,
        task="classes" if class_names else "numbers",
        train_owners=train_owners,
        test_owners=test_owners,
        owner_names=owner_names,
        class_names=class_names,
        about="; ".join([f"{kind}, from {features_text}{without}{clients}{together}", *notes]),
        warnings=(*warnings, *(() if warning is None else (warning,))),
    )


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
    client: str | None,
    group: str | None,
    features: list[str] | None,
    drop: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Return the columns to predict from and the identifiers left out. Raises ConfigError for a missing column."""
    dropped, identifiers = names_in("drop", drop), []
    if features is not None:
        names = list(names_in("features", features))
    else:
        excluded = {label, client, group, *dropped}
        names = [name for name in rows.names if name not in excluded]
    for name in (label, *names, *dropped, *(name for name in (client, group) if name is not None)):
        rows.must_have(name)
    if features is None:
        identifiers = [name for name in names if _is_identifier(rows, name)]
        names = [name for name in names if name not in identifiers]
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


def _check_apart(rows: TableFile, tests: TableFile, group: str) -> None:
    """Raise ConfigError if training and test file have values of a column in common."""
    tested = set(numbered(tests, group)[1])
    shared = [value for value in numbered(rows, group)[1] if value in tested]
    if shared:
        raise ConfigError(
            f"group = {group!r}: {rows.file} and {tests.file} have {len(shared)} values in common: {listed(shared)}"
        )


def _joined(
    train_owners: IntArray | None, test_owners: IntArray | None, is_test: BoolArray, test_file: Path
) -> IntArray:
    """Return the owner of each row. Raises ConfigError if those of test rows are unknown."""
    if train_owners is None or test_owners is None:
        raise ConfigError(f"fit = 'client': {test_file} has no column that names the client of a row; set fit = 'all'")
    owners = np.empty(len(is_test), dtype=np.int64)
    owners[~is_test], owners[is_test] = train_owners, test_owners
    return owners


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
