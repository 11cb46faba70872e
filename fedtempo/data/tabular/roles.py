"""What each column of a table is for: label, feature, client, group or time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedtempo.data.labels import LABELS, is_identifier
from fedtempo.data.leaks import is_named_as_id, is_named_as_row
from fedtempo.data.tabular.dialect import names_in
from fedtempo.data.tabular.file import TableFile
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed


class Asked(NamedTuple):
    """What the options of `table` say about columns. has_past: earlier labels are features unless others are named."""

    label: str | None
    client: str | None
    group: str | None
    time: str | None
    features: list[str] | None
    drop: Sequence[str]
    has_past: bool


@dataclass(frozen=True)
class Roles:
    """Columns by what they are for.

    features: those to predict from. dropped: those that the user drops. identifiers: those left out because they look
    like identifiers.
    """

    label: str
    features: Sequence[str]
    client: str | None
    group: str | None
    time: str | None
    dropped: Sequence[str]
    identifiers: Sequence[str]

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([self.label, *self.features, *_aside(self)]))

    @property
    def needed(self) -> list[str]:
        """The columns that tables of test and validation rows must have."""
        return [self.label, *self.features, *(name for name in (self.group, self.time) if name is not None)]


def roles_of(rows: TableFile, asked: Asked) -> Roles:
    """Return what columns of a table are for. Raises ConfigError for a missing column, or if there is no feature."""
    label = asked.label or _label_of(rows)
    past = [label] if asked.has_past else []
    names, identifiers = _features_of(rows, label, _aside(asked), asked.features, asked.drop, past)
    return Roles(label, names, asked.client, asked.group, asked.time, asked.drop, identifiers)


def _aside(columns: Asked | Roles) -> list[str]:
    """Return the columns with another purpose than to predict, or to be predicted."""
    return [name for name in (columns.client, columns.group, columns.time) if name is not None]


def _label_of(rows: TableFile) -> str:
    candidates = [name for name in rows.names if name.lower() in LABELS]
    if len(candidates) != 1:
        raise ConfigError(
            f"{rows.file}: the column to predict is unclear; set label to one of {', '.join(rows.names)}"
            f"{rows.header_hint}"
        )
    return candidates[0]


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
        _check_named(names, label, dropped, past)
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


def _check_named(features: Sequence[str], label: str, dropped: Sequence[str], past: Sequence[str]) -> None:
    """Raise ConfigError for features that are the label, unless they are its past values, and for dropped ones."""
    if label in features and label not in past:
        raise ConfigError(f"features: {label!r} would be predicted from itself; leave it out")
    if both_ways := [name for name in features if name in dropped]:
        raise ConfigError(f"features, drop: both name {both_ways[0]!r}; remove it from one of them")


def _is_identifier(rows: TableFile, name: str) -> bool:
    """Return whether name and values of a column mark it as an identifier of rows."""
    if not (is_named_as_id(name) or is_named_as_row(name)) or rows.kind(name) not in ("text", "whole"):
        return False
    return is_identifier(np.arange(rows.distinct(name)), len(rows))
