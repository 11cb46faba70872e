"""What the columns of a table are for: label, client, group, time and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedtempo.data.labels import LABELS, is_identifier
from fedtempo.data.leaks import is_named_as_id, is_named_as_row
from fedtempo.data.tabular.dialect import names_in
from fedtempo.data.tabular.file import TableFile
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed


@dataclass(frozen=True)
class Roles:
    """The columns that are used, by what they are for. identifiers: columns that are no features because of it."""

    label: str
    client: str | None
    group: str | None
    time: str | None
    features: tuple[str, ...]
    identifiers: tuple[str, ...] = ()

    @property
    def aside(self) -> list[str]:
        """The columns that are neither label nor, unless they are named, features."""
        return [name for name in (self.client, self.group, self.time) if name is not None]

    @property
    def used(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys([self.label, *self.features, *self.aside]))

    @property
    def needed(self) -> list[str]:
        """The columns that a file of test or validation rows must have."""
        return [self.label, *self.features, *(name for name in (self.group, self.time) if name is not None)]


def roles_of(
    rows: TableFile,
    *,
    label: str | None,
    client: str | None,
    group: str | None,
    time: str | None,
    features: list[str] | None,
    drop: Sequence[str],
    predicts_next: bool,
) -> Roles:
    """Return what the columns of a table are for.

    Options: see `fedtempo.data.tables.table`. predicts_next: labels of later rows are predicted, so that the label's
    earlier values are features. Raises ConfigError for a missing column, and if label or features are unclear.
    """
    label = label or _label_of(rows)
    past = (label,) if predicts_next else ()
    dropped = names_in("drop", drop)
    identifiers: tuple[str, ...] = ()
    aside = Roles(label, client, group, time, ()).aside
    if features is not None:
        names = names_in("features", features)
        _check_named(names, label, dropped, past)
    else:
        excluded = {label, *aside, *dropped}
        names = tuple(name for name in rows.names if name not in excluded)
    for name in (label, *names, *dropped, *aside):
        rows.must_have(name)
    if features is None:
        identifiers = tuple(name for name in names if _is_identifier(rows, name))
        names = (*past, *(name for name in names if name not in identifiers))
    if not names:
        without = f" but the identifiers {listed(map(repr, identifiers))}" if identifiers else ""
        raise ConfigError(
            f"{rows.file}: no features to predict {label!r} from{without}; add columns, or change features or drop"
        )
    return Roles(label, client, group, time, names, identifiers)


def _label_of(rows: TableFile) -> str:
    candidates = [name for name in rows.names if name.lower() in LABELS]
    if len(candidates) != 1:
        raise ConfigError(
            f"{rows.file}: the column to predict is unclear; set label to one of {', '.join(rows.names)}"
            f"{rows.header_hint}"
        )
    return candidates[0]


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
