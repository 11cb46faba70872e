"""CSV and Parquet tables: a column of labels, columns of features, and optionally a column that names the client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.data.about import by_client, held_out_by
from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.held_out import check_options, untrained_classes
from fedtempo.data.labels import MOST_CLASSES
from fedtempo.data.splitting import check_share
from fedtempo.data.tabular.dates import check_dates
from fedtempo.data.tabular.dialect import named_dialect
from fedtempo.data.tabular.examples import SplitExamples, Tokens, examples_of
from fedtempo.data.tabular.features import read_features
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.leaks import leak_of
from fedtempo.data.tabular.missing import Missing
from fedtempo.data.tabular.purposes import Purposes, check_purposes, purposes_of
from fedtempo.data.tabular.roles import Asked, Roles
from fedtempo.data.tabular.rows import Rows, labels_of, read_rows
from fedtempo.data.tabular.table_set import TableSet, read_tables
from fedtempo.data.tabular.windowed import WindowShape
from fedtempo.data.validation import Split
from fedtempo.data.windows import check_windows
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
    _check_task(task)
    if not isinstance(standardize, bool):
        raise ConfigError(f"standardize = {standardize!r}: must be true or false")
    _check_fit(fit, client, standardize or missing is not None)
    holes = Missing(missing)
    dialect = named_dialect(encoding, separator, quote, decimal, thousands, missing_values, columns)
    form = check_dates(dates)
    shape = None if window is None else WindowShape(window, horizon, stride)
    asked = Asked(label, client, group, time, features, drop or [], has_past=shape is not None and horizon > 0)

    tables, roles = read_tables(path, test, validation, dialect, asked, holes)
    tokens = None if tokenizer is None else Tokens(tokenizer, length)
    x = read_features(tables.all, roles.features, holes, form) if tokens is None else tokens
    rows = read_rows(tables, roles, labels_of(tables, roles, task, relabel), form, shape)
    purposes = purposes_of(tables, rows, test_share)
    check_purposes(tables, roles, rows, purposes, form)
    examples = examples_of(tables, roles, rows, purposes, x, standardize, fit)
    warnings = [*x.warnings, *examples.warnings, *_warnings(tables, roles, rows, purposes)]
    notes = [_about(roles, rows, examples.scale, tokens, shape), *x.said, *tables.notes]
    lacking = _lacking(tables.training, roles.features if missing is not None else ())
    del tables, x  # they may be as large as the features
    return _dataset(f"table:{path}", examples, rows, lacking, "; ".join(notes), warnings, validation is not None)


def _check_task(task: str | None) -> None:
    if task not in (None, "classes", "numbers"):
        raise ConfigError(f"task = {task!r}: must be 'classes' or 'numbers'")


def _check_fit(fit: str, client: str | None, is_fitted: bool) -> None:
    if fit not in ("all", "client"):
        raise ConfigError(f"fit = {fit!r}: must be 'all' or 'client'")
    if fit == "client" and client is None:
        raise ConfigError("fit = 'client': needs client, the column that names the client of a row")
    if fit == "client" and not is_fitted:
        raise ConfigError("fit = 'client': has no effect; set standardize or missing, or remove it")


def _warnings(tables: TableSet, roles: Roles, rows: Rows, purposes: Purposes) -> list[str]:
    """Return warnings about leaks, and about classes that no training row has."""
    warnings: list[str | None] = []
    if roles.group is None and roles.time is None:
        warnings.append(leak_of(tables, roles, purposes))
    y, class_names = rows.labels
    if class_names:
        warnings.append(untrained_classes(y[purposes.training], y[purposes.test], class_names))
    return [line for line in warnings if line is not None]


def _about(roles: Roles, rows: Rows, scale: str, tokens: Tokens | None, shape: WindowShape | None) -> str:
    """Return what is predicted from what, whose the rows are, and which are held out. scale: of labels, in words."""
    label, names, class_names = roles.label, roles.features, rows.labels.class_names
    classes = ", ".join(class_names) if len(class_names) <= MOST_CLASSES else listed(class_names)
    kind = f"classes of {label!r}: {classes}" if class_names else f"numbers of {label!r}{scale}"
    features_text = f"{len(names)} features" if tokens is None else f"{tokens.length} tokens of {names[0]!r}"
    if shape is not None:
        window, horizon, _ = shape
        ahead = f"of the next {horizon} rows" if horizon > 1 else "of the next row" if horizon else "of their last row"
        kind, features_text = f"{kind} {ahead}", f"windows of {window} rows of {', '.join(names)} by {roles.time!r}"
    without = f" without the identifiers {listed(map(repr, roles.identifiers))}" if roles.identifiers else ""
    clients, together = by_client(roles.client, rows.owners.names), held_out_by(roles.group, roles.time)
    return f"{kind}, from {features_text}{without}{clients}{together}"


def _lacking(table: TableFile, names: Sequence[str]) -> IntArray:
    """Return how many values each row of a table lacks in these columns."""
    lacking = np.zeros(len(table), dtype=np.int64)
    for name in names:
        lacking += table.missing(name)
    return lacking


def _dataset(
    name: str,
    examples: SplitExamples,
    rows: Rows,
    lacking: IntArray,
    about: str,
    warnings: Sequence[str],
    has_validation: bool,
) -> Dataset:
    """Return the data set of these examples. lacking: the missing values of each row of the table of training rows."""
    trained, tested, validated = examples.training, examples.test, examples.validation
    class_names = rows.labels.class_names
    horizon = 0 if rows.windows is None else rows.windows.horizon
    return from_arrays(
        name,
        trained.x,
        trained.y,
        tested.x,
        tested.y,
        len(class_names) or None,
        task="classes" if class_names else "numbers",
        train_owners=examples.train_owners,
        test_owners=examples.test_owners,
        owner_names=rows.owners.names,
        class_names=class_names,
        about=about,
        warnings=tuple(warnings),
        validation=Split(validated.x, validated.y) if has_validation else None,
        train_groups=None if rows.groups is None else rows.groups[trained.rows],
        train_times=None if rows.times is None else rows.times[trained.rows],
        train_starts=None if rows.times is None or horizon < 2 else rows.times[trained.first],
        train_missing=lacking[trained.rows],
    )
