"""CSV and Parquet tables: a column of labels, columns of features, and optionally a column that names the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.held_out import check_options, untrained_classes
from fedtempo.data.labels import MOST_CLASSES
from fedtempo.data.splitting import BoolArray, check_share
from fedtempo.data.tabular.columns import instants
from fedtempo.data.tabular.dates import check_dates
from fedtempo.data.tabular.dialect import MISSING, Dialect, names_in
from fedtempo.data.tabular.features import Filled, read_features
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import must_be_labelled, numbered, read_labels
from fedtempo.data.tabular.missing import Missing, without_dropped
from fedtempo.data.tabular.reading import read_table
from fedtempo.data.tabular.roles import Roles, roles_of
from fedtempo.data.tabular.sides import Sides, leak_warning, sides_of
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
    named like one, such as id or patient_no, or like row numbers, with hardly any value twice). Numbers are used
    unchanged; dates become days since 1970-01-01, times of day hours; text becomes one column of 0 and 1 per distinct
    value.
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
    texts = {"label": label, "client": client, "group": group, "time": time}
    texts |= {"test": test, "validation": validation, "tokenizer": tokenizer}
    _check_types(texts, task, standardize)
    _check_fit(fit, client, standardize or missing is not None)
    holes, form = Missing(missing), check_dates(dates)
    dialect = Dialect(
        encoding=encoding,
        separator=separator,
        quote=quote,
        decimal=decimal,
        thousands=thousands,
        missing_values=MISSING if missing_values is None else names_in("missing_values", missing_values, "texts"),
        columns=None if columns is None else names_in("columns", columns),
    )
    rows = read_table(Path(path).expanduser(), dialect)
    roles = roles_of(
        rows,
        label=label,
        client=client,
        group=group,
        time=time,
        features=features,
        drop=drop or [],
        predicts_next=window is not None and horizon > 0,
    )
    files = {
        option: read_table(rows.file.parent / Path(file).expanduser(), dialect)
        for option, file in (("test", test), ("validation", validation))
        if file is not None
    }
    tables, notes = _usable(rows, files, roles, holes)
    x = None if tokenizer is not None else read_features(tables, roles.features, holes, form)
    labels = read_labels(tables, roles.label, task, relabel)
    windows = None
    if window is not None:
        check_labels(horizon, roles.label, labels.class_names)
        windows = _windows(tables, client, str(time), form, window, horizon, stride)
    sides = sides_of(tables, [*files], roles, labels, test_share, form)
    warnings: list[str | None] = []
    if x is None:
        tokens = _tokens(tables, roles.features, str(tokenizer), length)
        inputs = Filled(tokens[sides.is_train], tokens[~sides.is_train])
    else:
        by_client = sides.owners_of_all(tables) if fit == "client" else None
        inputs = x.filled(~sides.is_train, standardize, by_client, len(sides.owner_names))
        notes, warnings = [*x.said, *notes], [*x.warnings]
    y, scaled = labels.y, ""
    if windows is not None and standardize and horizon and not labels.class_names:
        y, scaled = _scaled(y, sides.is_train)
    examples = _examples(inputs, y, sides, windows)
    train, tested, held = (examples[split] for split in ("training", "test", "validation"))
    owners = None if client is None else sides.owners_at(train.rows)
    if windows is not None:
        warnings += [
            gap_warning(windows, str(time)),
            short_warning(sides.owners[0], owners, sides.owner_names, windows),
        ]
    if group is None and time is None:
        used, n_seen = {roles.label, client}, 1 + ("test" in files)
        warnings.append(leak_warning(tables[:n_seen], used, drop or [], sides.is_test))
    if labels.class_names:
        warnings.append(untrained_classes(y[sides.is_train], y[sides.is_test], labels.class_names))
    about = _about(roles, labels.class_names, scaled, sides.owner_names, None if tokenizer is None else length, windows)
    lacking = _missing_values(tables[0], roles.features if missing is not None else ())
    del tables, rows, files, x  # they may be as large as the features
    return from_arrays(
        f"table:{path}",
        train.x,
        train.y,
        tested.x,
        tested.y,
        len(labels.class_names) or None,
        task="classes" if labels.class_names else "numbers",
        train_owners=owners,
        test_owners=None if client is None else sides.owners_at(tested.rows),
        owner_names=sides.owner_names,
        class_names=labels.class_names,
        about="; ".join([about, *notes]),
        warnings=tuple(filter(None, warnings)),
        validation=Split(held.x, held.y) if validation is not None else None,
        train_groups=None if sides.groups is None else sides.groups[train.rows],
        train_times=None if sides.times is None else sides.times[train.rows],
        train_missing=lacking[train.rows],
    )


def _check_types(texts: Mapping[str, Any], task: object, standardize: object) -> None:
    """Raise ConfigError for options of the wrong type. texts: options that are texts, by name."""
    if task not in (None, "classes", "numbers"):
        raise ConfigError(f"task = {task!r}: must be 'classes' or 'numbers'")
    if not isinstance(standardize, bool):
        raise ConfigError(f"standardize = {standardize!r}: must be true or false")
    for option, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{option} = {value!r}: must be text")


def _usable(
    rows: TableFile, files: Mapping[str, TableFile], roles: Roles, holes: Missing
) -> tuple[list[TableFile], list[str]]:
    """Return the tables without rows that are dropped, and how they were read, in words.

    files: the tables of test and validation rows, by option. Raises ConfigError if a table lacks a column, or a column
    or the labels of a table are unusable.
    """
    tables = [rows, *files.values()]
    for other in files.values():
        for name in roles.needed:
            other.must_have(name)
    holes.must_name(roles.used)
    reduced = []
    for part in tables:
        names = [name for name in roles.used if name in part.names]
        for name in names:
            part.must_be_usable(name)
        reduced.append(without_dropped(part, names, holes))
    usable = [part for part, _ in reduced]
    for option, part in zip(files, usable[1:]):
        must_be_labelled(usable[0], part, roles.label, option)
    return usable, _said(usable, reduced)


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


def _check_fit(fit: str, client: str | None, is_fitted: bool) -> None:
    if fit not in ("all", "client"):
        raise ConfigError(f"fit = {fit!r}: must be 'all' or 'client'")
    if fit == "client" and client is None:
        raise ConfigError("fit = 'client': needs client, the column that names the client of a row")
    if fit == "client" and not is_fitted:
        raise ConfigError("fit = 'client': has no effect; set standardize or missing, or remove it")


def _said(tables: Sequence[TableFile], reduced: Sequence[tuple[TableFile, str]]) -> list[str]:
    """Return how files were read and which rows were left out, one note for each."""
    notes = []
    for part, (_, dropped) in zip(tables, reduced):
        file = f"{part.file.name}: " if len(tables) > 1 else ""
        read = f"read with {', '.join(part.found)}" if part.found else ""
        notes += [f"{file}{note}" for note in (dropped, read) if note]
    return notes


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


def _scaled(y: npt.NDArray[Any], is_train: BoolArray) -> tuple[npt.NDArray[Any], str]:
    """Return labels with the mean 0 and the deviation 1 of training rows, and their unit in words."""
    train = y[is_train]
    mean, deviation = float(train.mean(dtype=np.float64)), float(train.std(dtype=np.float64)) or 1.0
    return ((y - mean) / deviation).astype(np.float32), f" in units of {deviation:.4g} from {mean:.4g}"


def _examples(inputs: Filled, y: npt.NDArray[Any], sides: Sides, windows: Windows | None) -> dict[str, Examples]:
    """Return the examples by split: training, test and validation. Raises ConfigError if no window fits into one."""
    masks = {"training": sides.is_train, "test": sides.is_test, "validation": sides.is_held}
    if windows is None:
        n_test = int(sides.is_test.sum())
        x = {"training": inputs.train, "test": inputs.test[:n_test], "validation": inputs.test[n_test:]}
        return {split: Examples(x[split], y[mask], np.flatnonzero(mask)) for split, mask in masks.items()}
    whole = np.empty((len(y), *inputs.train.shape[1:]), dtype=inputs.train.dtype)
    whole[sides.is_train], whole[~sides.is_train] = inputs
    examples = {split: windows.examples(whole, y, mask) for split, mask in masks.items()}
    for split, mask in masks.items():
        if mask.any():
            must_be_some(examples[split], split, windows)
    return examples


def _about(
    roles: Roles,
    class_names: Sequence[str],
    scaled: str,
    owner_names: Sequence[str],
    n_tokens: int | None,
    windows: Windows | None,
) -> str:
    """Return what is predicted from what, and how rows are split. scaled: the unit of labels that are numbers."""
    names = ", ".join(class_names) if len(class_names) <= MOST_CLASSES else listed(class_names)
    what = f"classes of {roles.label!r}: {names}" if class_names else f"numbers of {roles.label!r}{scaled}"
    inputs = f"{len(roles.features)} features" if n_tokens is None else f"{n_tokens} tokens of {roles.features[0]!r}"
    if windows is not None:
        horizon = windows.horizon
        ahead = f"of the next {horizon} rows" if horizon > 1 else "of the next row" if horizon else "of their last row"
        what = f"{what} {ahead}"
        inputs = f"windows of {windows.window} rows of {', '.join(roles.features)} by {roles.time!r}"
    without = f" without the identifiers {listed(map(repr, roles.identifiers))}" if roles.identifiers else ""
    clients = "" if roles.client is None else f", {len(owner_names)} clients by {roles.client!r}: {listed(owner_names)}"
    together = "" if roles.group is None else f", rows of one {roles.group!r} kept together"
    together += "" if roles.time is None else f", the latest rows by {roles.time!r} held out"
    return f"{what}, from {inputs}{without}{clients}{together}"


def _missing_values(rows: TableFile, names: Sequence[str]) -> IntArray:
    """Return the number of missing values of each row in these columns."""
    lacking = np.zeros(len(rows), dtype=np.int64)
    for name in names:
        lacking += rows.missing(name)
    return lacking
