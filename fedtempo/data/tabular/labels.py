"""The labels of a table, and the owners of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.labels import (
    MOST_CLASSES,
    ask,
    is_few_whole,
    is_identifier,
    looks_like_ids,
    must_be_trained,
    negative,
    signs,
)
from fedtempo.data.leaks import is_named_as_id
from fedtempo.data.tabular.columns import Numbers, column, must_be_text, not_a
from fedtempo.data.tabular.dates import FloatArray
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.numerals import USUAL
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.natural_order import name_of, natural

IntArray = npt.NDArray[np.int64]

DROP_ROWS = "; set data.options.missing = {{ {!r} = 'drop' }} to leave such rows out"
"""End of an error about missing labels, clients or groups, with the name of the column."""


class TableLabels(NamedTuple):
    """Labels of all rows; class_names: empty if they are numbers."""

    y: npt.NDArray[Any]
    class_names: tuple[str, ...]


def read_labels(
    tables: Sequence[TableFile], name: str, task: str | None, relabel: Mapping[str, str] | None = None
) -> TableLabels:
    """Return the labels of one table, or of a table of training rows and one of test rows.

    task: "classes", "numbers", or None to derive it. relabel: other names for labels, by their text in the files.
    Raises ConfigError for labels that are missing, neither classes nor numbers, or ambiguous.
    """
    for table in tables:
        table.must_be_known(name, DROP_ROWS.format(name))
    kinds = {table.kind(name) for table in tables}
    if unusable := kinds & {"dates", "times", "empty"}:
        raise ConfigError(f"{tables[0].file}: label column {name!r} holds {min(unusable)}; must be classes or numbers")
    if relabel:
        return _named(tables, name, task, _checked(relabel, tables, name))
    if task == "numbers":
        return TableLabels(_read_numbers(tables, name).astype(np.float32), ())
    if kinds == {"whole"}:
        return _whole(tables, name, task)
    if kinds <= {"numbers", "whole"} or (kinds == {"text"} and _are_numerals(tables, name)):
        return _floats(tables, name, task)
    return _named(tables, name, task, {})


def check_trained(file: Path, name: str, labels: TableLabels, train: npt.NDArray[Any], test: npt.NDArray[Any]) -> None:
    """Raise ConfigError for classes that only a file of test or validation rows has. train, test: labels by number."""
    try:
        must_be_trained(train, test, labels.class_names, _relabelling(labels.class_names, train, test))
    except ValueError as error:
        raise ConfigError(f"{file}: column {name!r}: {error}") from None


def must_be_labelled(rows: TableFile, other: TableFile, name: str, option: str) -> None:
    """Raise ConfigError if all labels of another file are -1, which stands for a secret label, and none of the table.

    option: the one that names the file.
    """
    if other.distinct(name) != 1 or not _is_secret(other, name) or _is_secret(rows, name):
        return
    if other.missing(name).sum() == 0:
        instead = ", and a part of the training rows is tested on" if option == "test" else ""
        raise ConfigError(
            f"{other.file}: all {len(other):,} labels are -1, so these rows are unlabelled; remove "
            f"data.options.{option}{instead}"
        )


def _is_secret(table: TableFile, name: str) -> bool:
    """Return whether -1 is among the labels of a table."""
    return any(str(value) in ("-1", "-1.0") for value in table.encoded(name).used)


def numbered(table: TableFile, name: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return the number of each row's value in a column, and the distinct values in natural order.

    Raises ConfigError if a value is missing.
    """
    table.must_be_known(name, DROP_ROWS.format(name))
    values, codes, _ = table.encoded(name)
    used = table.encoded(name).used
    if all(isinstance(value, int) for value in used):
        order = {value: i for i, value in enumerate(sorted(used))}
    else:
        order = {value: i for i, value in enumerate(sorted(used, key=lambda value: natural(name_of(value))))}
    number = np.array([order.get(value, -1) for value in values], dtype=np.int64)
    return number[codes], tuple(map(name_of, order))


def numbered_as(table: TableFile, name: str, names: Sequence[str]) -> IntArray | None:
    """Return the number of each row's value among these names, -1 for another one; None without such a column."""
    if name not in table.names:
        return None
    table.must_be_known(name)
    number = {known: i for i, known in enumerate(names)}
    values, codes, _ = table.encoded(name)
    return np.array([number.get(name_of(value), -1) for value in values], dtype=np.int64)[codes]


def _are_numerals(tables: Sequence[TableFile], name: str) -> bool:
    """Return whether labels are numbers with marks that pyarrow does not read, such as 1.234,5."""
    used = [(table.dialect, value) for table in tables for value in table.encoded(name).used]
    return not all(USUAL.reads(value) for _, value in used) and all(
        dialect.names_numerals and dialect.numerals.reads(value) for dialect, value in used
    )


def _read_numbers(tables: Sequence[TableFile], name: str) -> FloatArray:
    held = column(tables, name, dates="")
    if not isinstance(held, Numbers):
        raise not_a("number", tables[0], name, row=0)
    held.must_be_finite()
    return held.read(0, sum(map(len, tables)))


def _whole(tables: Sequence[TableFile], name: str, task: str | None) -> TableLabels:
    """Return labels that are integers or booleans."""
    kinds = sorted({value for table in tables for value in table.encoded(name).used})
    if task is None and not any(isinstance(kind, bool) for kind in kinds):
        _check_whole(tables, name, np.array(kinds))
    if task is None and len(kinds) > MOST_CLASSES:
        return TableLabels(_read_numbers(tables, name).astype(np.float32), ())
    order = {kind: i for i, kind in enumerate(kinds)}
    return TableLabels(_coded(tables, name, order.__getitem__), tuple(map(str, kinds)))


def _check_whole(tables: Sequence[TableFile], name: str, kinds: npt.NDArray[Any]) -> None:
    """Raise ConfigError for integers that may be no classes. kinds: the distinct ones, ascending."""
    what, n, distinct = f"{tables[0].file}: label column {name!r}", sum(map(len, tables)), len(kinds)
    if distinct <= MOST_CLASSES and kinds[0] < 0 and not signs(kinds):
        labels = kinds[_coded(tables, name, {kind: i for i, kind in enumerate(kinds.tolist())}.__getitem__)]
        raise ConfigError(ask(negative(what, labels), "classes", "numbers"))
    is_row_number = distinct == n and kinds[-1] - kinds[0] + 1 == distinct
    if distinct > MOST_CLASSES and (is_row_number or (is_named_as_id(name) and is_identifier(kinds, n))):
        raise ConfigError(ask(looks_like_ids(what, kinds, n), "numbers"))


def _floats(tables: Sequence[TableFile], name: str, task: str | None) -> TableLabels:
    """Return labels that are numbers, some of them perhaps not whole."""
    values = _read_numbers(tables, name)
    if task is None:
        if is_few_whole(values):
            low, high, count = values.min(), values.max(), len(np.unique(values))
            what = f"{tables[0].file}: label column {name!r}"
            finding = f"{what} holds floats with only {count} values, all whole, {low:g} to {high:g}"
            raise ConfigError(ask(finding, "classes", "numbers"))
        return TableLabels(values.astype(np.float32), ())
    kinds, numbers = np.unique(values, return_inverse=True)
    is_whole = (kinds == np.floor(kinds)).all()
    return TableLabels(numbers, tuple(str(int(kind) if is_whole else kind) for kind in kinds.tolist()))


def _named(tables: Sequence[TableFile], name: str, task: str | None, relabel: Mapping[str, str]) -> TableLabels:
    """Return labels that are text, in natural order."""
    if task == "numbers":
        raise ConfigError(f"relabel: gives labels of {name!r} names; remove it, or task = 'numbers'")
    for table in tables:
        if task is None and not relabel and table.kind(name) == "text":
            must_be_text(table, name, table.encoded(name).used)

    def named(value: Any) -> str:
        return relabel.get(str(value), str(value))

    kinds = sorted({named(value) for table in tables for value in table.encoded(name).used}, key=natural)
    n = sum(map(len, tables))
    if task is None and is_identifier(np.array(kinds), n):
        raise ConfigError(
            ask(looks_like_ids(f"{tables[0].file}: label column {name!r}", np.array(kinds), n), "classes")
        )
    order = {kind: i for i, kind in enumerate(kinds)}
    return TableLabels(_coded(tables, name, lambda value: order[named(value)]), tuple(kinds))


def _coded(tables: Sequence[TableFile], name: str, number: Callable[[Any], int]) -> IntArray:
    """Return the number of each row's label."""
    parts = []
    for table in tables:
        values, codes, _ = table.encoded(name)
        used = set(table.encoded(name).used)
        numbers = [number(value) if value in used else -1 for value in values]
        parts.append(np.array(numbers, dtype=np.int64)[codes])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _checked(relabel: Any, tables: Sequence[TableFile], name: str) -> Mapping[str, str]:
    """Return the option `relabel`. Raises ConfigError if it is no table of texts, or names a label that nobody has."""
    if not isinstance(relabel, Mapping) or not all(isinstance(new, str) and new for new in relabel.values()):
        raise ConfigError(f"relabel = {relabel!r}: must be a table of texts, such as {{ '>50K.' = '>50K' }}")
    known = {str(value) for table in tables for value in table.encoded(name).used}
    for label in relabel:
        if label not in known:
            raise ConfigError(f"relabel: no row has the label {label!r}{nearest(label, known)}")
    return relabel


def _relabelling(names: Sequence[str], train: npt.NDArray[Any], test: npt.NDArray[Any]) -> str:
    """Return the end of an error about labels that only test rows have: how to name them as in training.

    Empty unless each of them is a training label but for case, spaces and a full stop.
    """
    known = {_plain(names[label]): names[label] for label in np.unique(train)}
    new = [names[label] for label in np.setdiff1d(test, train)]
    if not all(_plain(name) in known for name in new):
        return ""
    pairs = ", ".join(f"{name!r} = {known[_plain(name)]!r}" for name in new)
    return f"; if these are the same, set data.options.relabel = {{ {pairs} }}"


def _plain(name: str) -> str:
    return name.strip().rstrip(".").casefold()
