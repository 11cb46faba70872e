"""Find leaks: rows of the same person or thing among both training and test examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

_WHO = (
    "id|ids|uid|uuid|patient|person|people|user|subject|case|customer|participant|individual|household|family|member|"
    "session|device|writer|author|speaker|player|animal|specimen|lesion|sample|visit|encounter|admission|account"
)
_NAMED = re.compile(rf"(?:^|[^a-z])(?:{_WHO})s?(?:no|nr|num|number|name|id)?(?:$|[^a-z])")
_ROW = re.compile(r"|index|row|unnamed: \d+|__index_level_\d+__")
_FEWEST = 3
_FEWEST_DROPPED = 20


def is_named_as_id(column: str) -> bool:
    """Return whether a column's name marks its values as identifiers: id, patient, user_id, SubjectNumber."""
    return bool(_NAMED.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()))


def is_named_as_row(column: str) -> bool:
    """Return whether a column's name marks its values as row numbers, as pandas writes them: none, index."""
    return bool(_ROW.fullmatch(column.strip().lower()))


class Leak(NamedTuple):
    """A column of identifiers with the number of its distinct values, and of those on both sides of a split."""

    column: str
    distinct: int
    shared: int

    def __str__(self) -> str:
        return (
            f"{self.shared:,} of {self.distinct:,} values of {self.column!r} have both training and test rows; results "
            "say little about new values"
        )

    @property
    def with_remedy(self) -> str:
        """The warning about a split that the option `group` can change."""
        return f"{self}; set data.options.group = {self.column!r} to keep each value on one side"


def find_leak(
    columns: Iterable[str],
    dropped: Sequence[str],
    train: Callable[[str], Sequence[Any]],
    test: Callable[[str], Sequence[Any]],
) -> Leak | None:
    """Return the first column whose identifiers are on both sides of a split, or None.

    columns: all columns but those of the label and of the client. dropped: those of them that are no features, which
    may hold identifiers whatever their names. train, test: return the values of a column on each side. A column counts
    if its values are text or integers and each occurs at least twice on average.
    """
    for column in columns:
        named = is_named_as_id(column)
        if not named and column not in dropped:
            continue
        learned, tested = train(column), test(column)
        if not all(isinstance(value, str | int) for value in (*learned, *tested)):
            continue
        values, shared = {*learned, *tested}, {*learned} & {*tested}
        fewest = _FEWEST if named else _FEWEST_DROPPED
        if shared and len(values) >= fewest and 2 * len(values) <= len(learned) + len(tested):
            return Leak(column, len(values), len(shared))
    return None
