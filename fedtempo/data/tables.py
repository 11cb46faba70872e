"""CSV and Parquet tables: a column of labels, columns of features, and optionally a column that names the client."""

from __future__ import annotations

from fedtempo.data.dataset import Dataset
from fedtempo.data.held_out import check_options
from fedtempo.data.splitting import TEST_SHARE, check_share, must_not_be_asked
from fedtempo.data.tabular.dates import check_dates
from fedtempo.data.tabular.dialect import named_dialect
from fedtempo.data.tabular.examples import Tokens
from fedtempo.data.tabular.missing import Missing
from fedtempo.data.tabular.reader import TableReader
from fedtempo.data.tabular.roles import Asked
from fedtempo.data.tabular.windowed import WindowShape
from fedtempo.data.windows import check_windows
from fedtempo.errors import ConfigError

_LENGTH = 128


def table(
    path: str,
    label: str | None = None,
    client: str | None = None,
    features: list[str] | None = None,
    drop: list[str] | None = None,
    task: str | None = None,
    test: str | None = None,
    test_share: float = TEST_SHARE,
    standardize: bool = False,
    group: str | None = None,
    tokenizer: str | None = None,
    length: int = _LENGTH,
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
    if test is not None:
        must_not_be_asked(test_share, "remove test")
    if tokenizer is None and length != _LENGTH:
        raise ConfigError(f"length = {length!r}: needs tokenizer, for the number of tokens; set it, or remove length")
    if tokenizer is not None and standardize:
        raise ConfigError("standardize = true: tokens are not scaled; remove it, or tokenizer")
    _check_task(task)
    if not isinstance(standardize, bool):
        raise ConfigError(f"standardize = {standardize!r}: must be true or false")
    _check_fit(fit, client, standardize or missing is not None)
    holes = Missing(missing)
    dialect = named_dialect(encoding, separator, quote, decimal, thousands, missing_values, columns)
    form = check_dates(dates)
    shape = None if window is None else WindowShape(window, horizon, stride)
    asked = Asked(label, client, group, time, features, drop or [], has_past=shape is not None and horizon > 0)

    return TableReader(
        path=path,
        test=test,
        validation=validation,
        dialect=dialect,
        asked=asked,
        missing=holes,
        form=form,
        task=task,
        relabel=relabel,
        test_share=test_share,
        tokens=None if tokenizer is None else Tokens(tokenizer, length),
        shape=shape,
        standardize=standardize,
        fit=fit,
    ).read()


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
