"""The examples of a table: features or tokens of single rows, or of windows of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import IntArray
from fedtempo.data.splitting import BoolArray
from fedtempo.data.tabular.features import Features
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.owners import Owners, owners_of_all
from fedtempo.data.tabular.purposes import Purposes
from fedtempo.data.tabular.roles import Roles
from fedtempo.data.tabular.rows import Rows
from fedtempo.data.tabular.table_set import TableSet
from fedtempo.data.tokenizing import tokenized
from fedtempo.data.windows import Examples, Windows, gap_warning, must_be_some, short_warning
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed

_Inputs = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Inputs of the training rows, and of the test rows followed by the validation rows."""


class SplitExamples(NamedTuple):
    """Examples by what they are for, and the owners of the first two, if they are known.

    scale: what labels were scaled by, in words; empty if they were not. warnings: about windows. feature_names: by
    position in the last axis; empty for tokens.
    """

    training: Examples
    test: Examples
    validation: Examples
    train_owners: IntArray | None
    test_owners: IntArray | None
    scale: str = ""
    warnings: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tokens:
    """Inputs that are tokens of the only feature, a text. tokenizer, length: as of `table`."""

    tokenizer: str
    length: int
    said: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def examples_of(
    tables: TableSet,
    roles: Roles,
    rows: Rows,
    purposes: Purposes,
    x: Features | Tokens,
    standardize: bool,
    fit: str,
    fit_on: BoolArray | None = None,
) -> SplitExamples:
    """Return the examples of tables.

    standardize, fit: as of `table`. fit_on: the training examples that statistics come from (default: all). Raises
    ConfigError for values that cannot be filled or scaled, for texts that have no tokens, and if no window fits into
    the rows of a split.
    """
    inputs: _Inputs
    names: tuple[str, ...]
    fitted = _fitted_rows(tables, purposes, rows.windows, fit_on)
    if isinstance(x, Tokens):
        tokens = _tokens(tables.all, roles.features, x.tokenizer, x.length)
        inputs, names = (tokens[purposes.training], tokens[~purposes.training]), ()
    else:
        by_client = owners_of_all(rows.owners, tables.all) if fit == "client" else None
        filled = x.filled(~purposes.training, fitted, standardize, by_client, len(rows.owners.names))
        inputs, names = (filled.train, filled.test), filled.names
    if rows.windows is None:
        return _of_rows(tables, rows, purposes, inputs)._replace(feature_names=names)
    scaled_by = fitted if standardize else None
    examples = _of_windows(tables, rows, rows.windows, purposes, inputs, scaled_by, str(roles.time))
    return examples._replace(feature_names=names)


def _fitted_rows(tables: TableSet, purposes: Purposes, windows: Windows | None, fit_on: BoolArray | None) -> BoolArray:
    """Return which rows statistics come from: all training rows, or those of the training examples in `fit_on`.

    Raises ConfigError if there are as many training examples no more.
    """
    if fit_on is None:
        return purposes.training
    examples = np.flatnonzero(purposes.training) if windows is None else windows.rows(purposes.training)
    if len(examples) != len(fit_on):
        raise ConfigError(f"{tables.training.file}: it changed while it was read; start again")
    fitted = np.zeros(len(purposes.training), dtype=bool)
    fitted[examples[fit_on]] = True
    return fitted


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


def _of_rows(tables: TableSet, rows: Rows, purposes: Purposes, inputs: _Inputs) -> SplitExamples:
    """Return examples of one row each."""
    (is_train, is_test, is_held), y = purposes, rows.labels.y
    train_x, other_x = inputs
    n_other = len(other_x) - int(is_held.sum())
    train_rows, test_rows, held_rows = map(np.flatnonzero, purposes)
    trained = Examples(train_x, y[is_train], train_rows, train_rows)
    tested = Examples(other_x[:n_other], y[is_test], test_rows, test_rows)
    validated = Examples(other_x[n_other:], y[is_held], held_rows, held_rows)
    train_owners = rows.owners.of_training(trained.rows)
    return SplitExamples(trained, tested, validated, train_owners, _test_owners(tables, rows.owners, is_test))


def _of_windows(
    tables: TableSet,
    rows: Rows,
    windows: Windows,
    purposes: Purposes,
    inputs: _Inputs,
    scaled_by: BoolArray | None,
    time: str,
) -> SplitExamples:
    """Return examples that are windows of rows. Raises ConfigError if no window fits into the rows of a split.

    scaled_by: the rows whose mean and deviation scale labels that are numbers; None: they are not scaled. time: the
    column of times.
    """
    (is_train, is_test, _), y, owners = purposes, rows.labels.y, rows.owners
    scale = ""
    if scaled_by is not None and windows.horizon and not rows.labels.class_names:
        trained_y = y[scaled_by]
        mean, deviation = float(trained_y.mean(dtype=np.float64)), float(trained_y.std(dtype=np.float64)) or 1.0
        scale, y = f" in units of {deviation:.4g} from {mean:.4g}", ((y - mean) / deviation).astype(np.float32)
    train_x, other_x = inputs
    whole_x = np.empty((len(y), *train_x.shape[1:]), dtype=train_x.dtype)
    whole_x[is_train], whole_x[~is_train] = train_x, other_x
    trained, tested, validated = (windows.examples(whole_x, y, mask) for mask in purposes)
    parts = [("training", trained), *([("test", tested)] if is_test.any() else [])]
    parts += [] if tables.validation is None else [("validation", validated)]
    for split, examples in parts:
        must_be_some(examples, split, windows)
    test_owners = _test_owners(tables, owners, is_test)
    test_owners = None if test_owners is None else _owners_of_windows(test_owners, is_test, tested.rows)
    train_owners = owners.of_training(trained.rows)
    warnings = (gap_warning(windows, time), short_warning(owners.training, train_owners, owners.names, windows))
    told = tuple(line for line in warnings if line is not None)
    return SplitExamples(trained, tested, validated, train_owners, test_owners, scale, told)


def _test_owners(tables: TableSet, owners: Owners, is_test: BoolArray) -> IntArray | None:
    """Return the owners of the test rows, if they are known."""
    if tables.test is not None:
        return owners.others[0]
    return owners.of_training(is_test[: len(tables.training)])


def _owners_of_windows(test_owners: IntArray, is_test: BoolArray, rows: IntArray) -> IntArray:
    """Return the owner of each test window from those of the test rows. rows: the last row of each window."""
    by_row = np.full(len(is_test), -1, dtype=np.int64)
    by_row[is_test] = test_owners
    return by_row[rows]
