"""Columns of a data set at the hub: what they hold, and which are feature and label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedtempo.data.labels import LABELS
from fedtempo.data.leaks import is_named_as_id
from fedtempo.errors import ConfigError

_FEATURES = ("Image", "Array2D", "Array3D", "Sequence", "List", "LargeList")


class HubColumns(NamedTuple):
    """Columns by what they are for. label: None to predict each next byte of a text."""

    feature: str
    label: str | None
    client: str | None
    group: str | None
    time: str | None

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        return [column for column in self if column is not None]


def columns_of(
    name: str,
    splits: Mapping[str, Any],
    feature: str | None,
    label: str | None,
    client: str | None,
    group: str | None,
    time: str | None,
) -> HubColumns:
    """Return the columns to read: those that options name, and a feature and a label if they name none.

    Raises ConfigError for a missing column, and if the feature or the label is unclear.
    """
    features: Mapping[str, Any] = splits["train"].features
    aside = [column for column in (client, group, time) if column is not None]
    need_columns(name, features, [*(column for column in (feature, label) if column is not None), *aside])
    label = label or _named_label([column for column in features if column not in (feature, *aside)])
    remaining = [column for column in features if column not in aside]
    feature = feature or _feature(name, [column for column in remaining if column != label], features)
    label = label or _label(name, [column for column in remaining if column != feature], features, feature)
    columns = HubColumns(feature, label, client, group, time)
    for part in splits.values():
        need_columns(name, part.features, [column for column in columns.used if column not in aside])
    return columns


def need_columns(name: str, features: Iterable[str], needed: Iterable[str]) -> None:
    """Raise ConfigError if a needed column is missing."""
    for column in needed:
        if column not in features:
            raise ConfigError(f"hf:{name}: no column {column!r}; its columns are {', '.join(features)}")


def kind_of(feature: object) -> str:
    """Return the name of a column's type; a plain Python list stands for a sequence."""
    return "List" if isinstance(feature, list) else type(feature).__name__


def is_text(feature: object) -> bool:
    return kind_of(feature) == "Value" and str(getattr(feature, "dtype", "")) in ("string", "large_string")


def _named_label(columns: Iterable[str]) -> str | None:
    """Return the only column whose name marks it as the label, or None."""
    candidates = [column for column in columns if column.lower() in LABELS]
    candidates = [column for column in candidates if column.lower() == LABELS[0]] or candidates
    return candidates[0] if len(candidates) == 1 else None


def _feature(name: str, columns: Sequence[str], features: Mapping[str, Any]) -> str:
    """Return the only column of images, arrays or sequences, or else of text."""
    candidates = [column for column in columns if kind_of(features[column]) in _FEATURES]
    candidates = candidates or [column for column in columns if is_text(features[column])]
    if not candidates:
        raise ConfigError(
            f"hf:{name}: no column of images, arrays or text; set feature, or read a table of numbers with source = "
            "'table:FILE.parquet'"
        )
    return _only(name, "feature", candidates)


def _label(name: str, columns: Sequence[str], features: Mapping[str, Any], feature: str) -> str | None:
    """Return the only column of class labels, or else of integers, or else of numbers; None for text without one.

    Columns named like identifiers are left out.
    """
    columns = [column for column in columns if not is_named_as_id(column)]
    candidates = [column for column in columns if kind_of(features[column]) == "ClassLabel"]
    for numbers in (("int", "uint", "bool"), ("float",)):
        candidates = candidates or [
            column
            for column in columns
            if kind_of(features[column]) == "Value" and str(features[column].dtype).startswith(numbers)
        ]
    if not candidates and feature in features and is_text(features[feature]):
        return None
    return _only(name, "label", candidates)


def _only(name: str, option: str, columns: list[str]) -> str:
    if len(columns) != 1:
        reason = f"could be any of {', '.join(columns)}" if columns else "not found"
        raise ConfigError(f"hf:{name}: the column of the {option} is unclear ({reason}); set {option}")
    return columns[0]
