"""Reading a table into a data set, from its files to the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fedtempo.data.about import by_client, held_out_by
from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.held_out import untrained_classes
from fedtempo.data.labels import MOST_CLASSES
from fedtempo.data.splitting import BoolArray, shuffled
from fedtempo.data.tabular.dialect import Dialect
from fedtempo.data.tabular.examples import SplitExamples, Tokens, examples_of
from fedtempo.data.tabular.features import read_features
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import TableLabels
from fedtempo.data.tabular.leaks import leak_of
from fedtempo.data.tabular.missing import Missing
from fedtempo.data.tabular.purposes import Purposes, check_purposes, purposes_of
from fedtempo.data.tabular.roles import Asked, Roles
from fedtempo.data.tabular.rows import Rows, labels_of, read_rows
from fedtempo.data.tabular.table_set import TableSet, read_tables
from fedtempo.data.tabular.windowed import WindowShape
from fedtempo.data.validation import Split
from fedtempo.parts.natural_order import listed


@dataclass(frozen=True)
class TableReader:
    """How a table becomes a data set: the options of `fedtempo.data.tables.table`, checked.

    missing: what happens to missing values. form: format of dates. tokens: None unless a text becomes tokens. shape: of
    windows; None if examples are single rows.
    """

    path: str
    test: str | None
    validation: str | None
    dialect: Dialect
    asked: Asked
    missing: Missing
    form: str | None
    task: str | None
    relabel: Mapping[str, str] | None
    test_share: float
    tokens: Tokens | None
    shape: WindowShape | None
    standardize: bool
    fit: str

    @property
    def splits_otherwise(self) -> bool:
        """Whether test rows are not drawn row by row."""
        return self.test is not None or self.asked.group is not None or self.asked.time is not None

    def read(self, fit_on: BoolArray | None = None) -> Dataset:
        """Return the data set.

        fit_on: which training examples medians, most frequent texts, means and deviations come from, (n,) (default:
        all). Raises ConfigError naming file, row and column of missing or invalid values.
        """
        tables, roles = read_tables(self.path, self.test, self.validation, self.dialect, self.asked, self.missing)
        with ThreadPoolExecutor(1, "fedtempo-split") as pool:
            begin = None if self.splits_otherwise else pool.submit(shuffled, len(tables.training))
            x = self.tokens or read_features(tables.all, roles.features, self.missing, self.form)
            labels = labels_of(tables, roles, self.task, self.relabel)
            rows = read_rows(tables, roles, labels, self.form, self.shape)
            purposes = purposes_of(tables, rows, self.test_share, None if begin is None else begin.result())
        check_purposes(tables, roles, rows, purposes, self.form)
        examples = examples_of(tables, roles, rows, purposes, x, self.standardize, self.fit, fit_on)
        warnings = [*x.warnings, *examples.warnings, *_warnings(tables, roles, purposes, examples, labels)]
        notes = [_about(roles, rows, examples.scale, self.tokens, self.shape), *x.said, *tables.notes]
        lacking = _lacking(tables.training, roles.features if self.missing.is_given else ())
        del tables, x  # they may be as large as the features
        trained, tested, validated = examples.training, examples.test, examples.validation
        class_names = rows.labels.class_names
        horizon = 0 if rows.windows is None else rows.windows.horizon
        return from_arrays(
            f"table:{self.path}",
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
            feature_names=examples.feature_names,
            about="; ".join(notes),
            warnings=tuple(warnings),
            validation=None if self.validation is None else Split(validated.x, validated.y),
            train_groups=None if rows.groups is None else rows.groups[trained.rows],
            train_times=None if rows.times is None else rows.times[trained.rows],
            train_starts=None if rows.times is None or horizon < 2 else rows.times[trained.first],
            train_missing=lacking[trained.rows],
            refit=self.read if self.standardize or self.missing.fills else None,
        )


def _warnings(
    tables: TableSet, roles: Roles, purposes: Purposes, examples: SplitExamples, labels: TableLabels
) -> list[str]:
    """Return warnings about leaks, and about classes that no training example has."""
    warnings: list[str | None] = []
    if roles.group is None and roles.time is None:
        warnings.append(leak_of(tables, roles, purposes))
    if labels.class_names:
        warnings.append(untrained_classes(examples.training.y, examples.test.y, labels.class_names))
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
