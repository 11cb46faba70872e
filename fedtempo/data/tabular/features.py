"""The features of a table as arrays: missing values filled, texts one-hot, all standardised if asked for.

Whatever is computed for this (medians, most frequent texts, means and deviations) comes from training rows alone: all
of them, or those of each client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fedtempo.data.tabular.columns import MISSING, UNKNOWN, Numbers, Texts, column, must_have_values
from fedtempo.data.tabular.dates import FloatArray
from fedtempo.data.tabular.file import BoolArray, TableFile
from fedtempo.data.tabular.missing import Missing
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed

IntArray = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]

Number = TypeVar("Number", np.float64, np.int32)

_MOST_CATEGORIES = 50
_ROWS, _COLUMNS = 1 << 16, 8
"""Rows and features that are converted at once: few enough for a processor's cache, enough for vectorised code."""


class Filled(NamedTuple):
    """Features of training and of test rows, float32 (n, features), and their names."""

    train: Float32Array
    test: Float32Array
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Features:
    """The columns to predict from. said: how they were read, in words; warnings: what may mislead about them."""

    columns: Sequence[Numbers | Texts]
    missing: Missing
    n_rows: int
    n_first: int
    said: tuple[str, ...]
    warnings: tuple[str, ...]

    def filled(
        self, is_test: BoolArray, fit_on: BoolArray, standardize: bool, owners: IntArray | None, n_owners: int
    ) -> Filled:
        """Return the features as arrays.

        is_test: which rows are for testing, (n,). fit_on: the training rows that statistics come from, (n,). owners:
        whose statistics fill and scale each row, (n,), -1 for those of all such rows; None if all rows have those.
        Raises ConfigError for a column without a value in these rows.
        """
        fit = _Fit(fit_on, owners, n_owners)
        named = [output for held in self.columns for output in self._outputs(held, fit)]
        outputs = [output for _, output in named]
        scales: list[tuple[FloatArray, FloatArray]] = []
        if standardize:
            self._check()
            scales = [fit.scale(output(0, self.n_rows), alone=len(outputs) == 1) for output in outputs]
        n_test = int(is_test.sum())
        train = np.empty((self.n_rows - n_test, len(outputs)), dtype=np.float32)
        test = np.empty((n_test, len(outputs)), dtype=np.float32)

        starts = range(0, self.n_rows, _ROWS)
        tests_before = np.cumsum([0, *(np.count_nonzero(is_test[start : start + _ROWS]) for start in starts)])

        def fill(start: int) -> None:
            stop = min(start + _ROWS, self.n_rows)
            tested = is_test[start:stop]
            before = int(tests_before[start // _ROWS])
            parts = [(train, np.flatnonzero(~tested), start - before), (test, np.flatnonzero(tested), before)]
            for first in range(0, len(outputs), _COLUMNS):
                block = np.empty((len(outputs[first : first + _COLUMNS]), stop - start), dtype=np.float32)
                for row, output in enumerate(outputs[first : first + _COLUMNS]):
                    values = output(start, stop)
                    if standardize:
                        mean, deviation = (fit.of_rows(table, start, stop) for table in scales[first + row])
                        values = (values - mean) / deviation
                    with np.errstate(over="ignore"):
                        block[row] = values
                if not np.isfinite(block).all():
                    self._check()
                for array, rows, at in parts:
                    array[at : at + len(rows), first : first + len(block)] = block[:, rows].T

        with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1) or 1, "fedtempo-features") as pool:
            list(pool.map(fill, starts))  # each writes rows of its own
        return Filled(train, test, tuple(name for name, _ in named))

    def _check(self) -> None:
        """Raise ConfigError naming the first value that is missing where it must not be, or is not finite."""
        for held in self.columns:
            if isinstance(held, Numbers):
                if self.missing.of(held.name) is None:
                    for part in held.parts:
                        part.table.must_be_known(held.name, self.missing.remedy(held.name))
                held.must_be_finite()

    def _outputs(self, held: Numbers | Texts, fit: _Fit) -> Iterator[tuple[str, _Output]]:
        """Return names and readers of the features that a column becomes: rows from and to → float64."""
        if isinstance(held, Texts):
            yield from self._one_hot(held, fit)
            return
        if self.missing.of(held.name) is None:
            yield held.name, held.read
            return
        held.must_be_finite()
        values = held.read(0, self.n_rows)
        unknown = np.isnan(values)
        if not unknown.any():
            yield held.name, held.read
            return
        medians = fit.median(values, held.name)

        def known(start: int, stop: int) -> FloatArray:
            numbers = held.read(start, stop)
            holes = np.isnan(numbers)
            return np.where(holes, fit.of_rows(medians, start, stop), numbers)

        yield held.name, known
        if self.missing.of(held.name) == "category" and unknown[: self.n_first].any():
            yield f"{held.name} is missing", _is(unknown, True)

    def _one_hot(self, held: Texts, fit: _Fit) -> Iterator[tuple[str, _Output]]:
        codes = held.codes
        kinds = list(range(len(held.kinds)))
        if self.missing.of(held.name) == "category":
            kinds += [MISSING] * bool((codes[: self.n_first] == MISSING).any())
        elif self.missing.of(held.name) == "median" and (holes := codes == MISSING).any():
            most = fit.most_frequent(codes, len(kinds), held.name)
            codes = np.where(holes, fit.of_rows(most, 0, self.n_rows), codes)
        for kind in kinds:
            name = f"{held.name} is missing" if kind == MISSING else f"{held.name} = {held.kinds[kind]}"
            yield name, _is(codes, kind)


_Output = Callable[[int, int], FloatArray]


def _is(values: npt.NDArray[np.generic], value: int) -> _Output:
    """Return a reader of 1 where a row has the value, and of 0 elsewhere."""
    return lambda start, stop: (values[start:stop] == value).astype(np.float64)


class _Fit:
    """Statistics of training rows, by owner: arrays (owners + 1,), whose last entry is that of all training rows."""

    def __init__(self, is_train: BoolArray, owners: IntArray | None, n_owners: int) -> None:
        self._train = is_train
        self._owners = owners
        self._of_training = None if owners is None else owners[is_train]
        self._size = 1 + (0 if owners is None else n_owners)

    def of_rows(self, table: npt.NDArray[Number], start: int, stop: int) -> npt.NDArray[Number]:
        """Return the statistics that apply to each of these rows, (stop - start,), or (1,) if all have the same."""
        return table[-1:] if self._owners is None else table[self._owners[start:stop]]

    def median(self, values: FloatArray, name: str) -> FloatArray:
        values = values[self._train]
        known = ~np.isnan(values)
        if not known.any():
            raise ConfigError(f"{name!r} has no value in a training row; exclude it with drop = [{name!r}]")
        medians = np.full(self._size, np.median(values[known]))
        if self._of_training is not None:
            from scipy import ndimage

            owners = self._of_training[known]
            present = np.unique(owners[owners >= 0])
            medians[present] = ndimage.median(values[known], owners, present)
        return medians

    def most_frequent(self, codes: npt.NDArray[np.int32], n_kinds: int, name: str) -> npt.NDArray[np.int32]:
        """Return the most frequent code; of several, the first."""
        codes = codes[self._train]
        known = codes >= 0
        if not known.any():
            raise ConfigError(f"{name!r} has no value in a training row; exclude it with drop = [{name!r}]")
        most = np.full(self._size, np.bincount(codes[known]).argmax(), dtype=np.int32)
        if self._of_training is not None:
            owners = self._of_training
            known &= owners >= 0
            counts = np.bincount(owners[known] * n_kinds + codes[known], minlength=(self._size - 1) * n_kinds)
            counts = counts.reshape(-1, n_kinds)
            most[:-1] = np.where(counts.any(axis=1), counts.argmax(axis=1), most[-1])
        return most

    def scale(self, values: FloatArray, alone: bool) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations, 1 where they would be 0. alone: there is no other feature."""
        values = values[self._train]
        add = np.sum if alone else _in_order
        mean = add(values) / len(values)
        means = np.full(self._size, mean)
        deviations = np.full(self._size, np.sqrt(add((values - mean) ** 2) / len(values)))
        if self._of_training is not None:
            from scipy import ndimage

            present = np.unique(self._of_training[self._of_training >= 0])
            with np.errstate(invalid="ignore"):  # owners in between that have no rows
                means[present] = ndimage.mean(values, self._of_training, present)
                deviations[present] = ndimage.standard_deviation(values, self._of_training, present)
        return means, np.where(deviations > 0, deviations, 1.0)


def _in_order(values: FloatArray) -> float:
    """Return the sum, added in the order of the rows like that of an array with several columns."""
    return float(np.add.accumulate(values)[-1])


def read_features(tables: Sequence[TableFile], names: Sequence[str], missing: Missing, dates: str | None) -> Features:
    """Return the columns of a table of training rows, and of those of test and validation rows if there are any.

    Raises ConfigError naming file, row and column of values that are missing, unless `missing` says what happens to
    them, and of values that are neither numbers, text nor dates.
    """
    columns, said, warnings = [], [], []
    filled, categories = {}, []
    for name in names:
        if not tables[0].has_no_nulls(name):
            must_have_values(tables[0], name)
        if missing.of(name) is None:
            for table in tables:
                if not table.has_no_nulls(name):  # `Features.filled` finds NaN
                    table.must_be_known(name, missing.remedy(name))
        held = column(tables, name, dates)
        if isinstance(held, Texts):
            _check_kinds(tables[0], held)
            warnings += _unknown(tables, held)
            categories.append(f"{len(held.kinds)} of {name!r}")
        elif held.note:
            said.append(held.note)
        if missing.of(name) in ("median", "category") and (n := sum(int(t.missing(name).sum()) for t in tables)):
            filled[name] = n
        columns.append(held)
    if categories:
        said.append(f"texts as categories: {listed(categories)}")
    if filled:
        said.append(
            f"missing values filled: {listed(f'{n:,} of {name!r} ({missing.of(name)})' for name, n in filled.items())}"
        )
    return Features(columns, missing, sum(map(len, tables)), len(tables[0]), tuple(said), tuple(warnings))


def _check_kinds(table: TableFile, held: Texts) -> None:
    if len(held.kinds) > _MOST_CATEGORIES:
        row = int(np.argmax(held.codes[: len(table)] >= 0))
        value = held.kinds[held.codes[row]]
        raise ConfigError(
            f"{table.file}: {held.name!r} has {len(held.kinds)} distinct texts, more than {_MOST_CATEGORIES} "
            f"(such as {value!r}); exclude it with drop = [{held.name!r}]"
        )


def _unknown(tables: Sequence[TableFile], held: Texts) -> list[str]:
    """Return warnings about categories that only test or validation rows have."""
    found, start = [], 0
    for table in tables:
        codes = held.codes[start : start + len(table)]
        start += len(table)
        if count := int((codes == UNKNOWN).sum()):
            found.append(
                f"{count:,} rows of {table.file} have a {held.name!r} that no row of the training file has "
                f"({listed(held.unknown)}); for the model they are of none of its categories"
            )
    return found
