"""Windows of a table: rows of one client in the order of time, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import FloatArray, IntArray
from fedtempo.data.splitting import BoolArray
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed

_LONGER = 1.5
"""Steps of time that are this many times as long as the usual one are gaps."""


class Examples(NamedTuple):
    """Examples of one split.

    rows: the row of each example, or the last row of its window, (n,). first: the first of its rows that are predicted.
    """

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    rows: IntArray
    first: IntArray


@dataclass(frozen=True, eq=False)
class Windows:
    """How windows are cut from the rows of a table.

    window: rows in a window. horizon: rows after it that are predicted; 0: the label is that of its last row. stride:
    rows from the beginning of a window to that of the next. series: the series that each row belongs to, (rows,); a
    window has rows of one series. times: of each row, (rows,).
    """

    window: int
    horizon: int
    stride: int
    series: IntArray
    times: FloatArray

    def rows(self, mask: BoolArray) -> IntArray:
        """Return the rows of each window whose rows are all in `mask`, those predicted last, (n, window + horizon).

        Windows come by series and in order of time.
        """
        span = self.window + self.horizon
        return window_rows(self.series, self.times, np.flatnonzero(mask), span, self.stride)

    def examples(self, x: npt.NDArray[Any], y: npt.NDArray[Any], mask: BoolArray) -> Examples:
        """Return the windows whose rows (`rows`) are all in `mask`.

        x (rows, features) becomes (n, window, features). y (rows,) becomes the labels of the rows predicted, (n,), or
        (n, horizon) if there are several.
        """
        rows = self.rows(mask)
        labels = y[rows[:, self.window :] if self.horizon else rows[:, -1:]]
        first = rows[:, -max(1, self.horizon)]
        return Examples(x[rows[:, : self.window]], labels[:, 0] if labels.shape[1] == 1 else labels, rows[:, -1], first)

    def gaps(self) -> tuple[int, int, float]:
        """Return the number of steps of time within series, how many are gaps, and the usual step (the median)."""
        order = np.lexsort((self.times, self.series))
        steps = np.diff(self.times[order])[np.diff(self.series[order]) == 0]
        if not len(steps):
            return 0, 0, 0.0
        usual = float(np.median(steps))
        return len(steps), int((steps > _LONGER * usual).sum()), usual


def window_rows(series: IntArray, times: FloatArray, rows: IntArray, span: int, stride: int) -> IntArray:
    """Return the rows of each window, (n, span): `span` rows of one series in a row, in the order of time.

    series, times: of all rows. rows: those to take.
    """
    order = rows[np.lexsort((times[rows], series[rows]))]
    starts: list[IntArray] = []
    _, begins, counts = np.unique(series[order], return_index=True, return_counts=True)
    for begin, count in zip(begins.tolist(), counts.tolist()):
        starts.append(np.arange(begin, begin + count - span + 1, stride, dtype=np.int64))
    first = np.concatenate(starts) if starts else np.empty(0, dtype=np.int64)
    found: IntArray = order[first[:, None] + np.arange(span)]
    return found


def check_windows(window: int | None, horizon: int, stride: int, time: str | None, given: Sequence[str]) -> None:
    """Raise ConfigError for options of windows that do not fit together. given: other options that exclude windows."""
    if window is None:
        for name, value in (("horizon", horizon), ("stride", stride)):
            if value != 1:
                raise ConfigError(f"{name} = {value!r}: needs window, the number of rows in a window")
        return
    for name, value, least in (("window", window, 1), ("horizon", horizon, 0), ("stride", stride, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{name} = {value!r}: must be a whole number of rows, {least} or more")
    if time is None:
        raise ConfigError(f"window = {window}: set time to the column that says in which order rows come")
    if given:
        raise ConfigError(f"window = {window}: does not work with {given[0]}; remove one of them")


def check_labels(horizon: int, label: str, class_names: Sequence[str]) -> None:
    """Raise ConfigError for a horizon that does not fit the labels."""
    if class_names and horizon > 1:
        raise ConfigError(
            f"horizon = {horizon}: {label!r} holds classes, of which one is predicted; set horizon to 1, or to 0 for "
            "the class of a window's last row"
        )


def check_times(series: IntArray, times: FloatArray, time: str, fail: Callable[[int, str], ConfigError]) -> None:
    """Raise ConfigError if two rows of a series have the same time. fail: makes the error for a row of the table."""
    order = np.lexsort((times, series))
    same = (np.diff(times[order]) == 0) & (np.diff(series[order]) == 0)
    if same.any():
        row = int(max(order[np.argmax(same) :][:2]))
        raise fail(row, f"has the same {time!r} as another row of its client, so their order is unknown")


def gap_warning(windows: Windows, time: str) -> str | None:
    """Return a warning if rows of a series are further apart than usual; None if they are not."""
    steps, gaps, usual = windows.gaps()
    if not gaps:
        return None
    return (
        f"{gaps:,} of {steps:,} steps of {time!r} are longer than the usual {usual:g}, and windows, which are numbers "
        "of rows, cross them"
    )


def short_warning(
    owners: IntArray | None, trained: IntArray | None, names: Sequence[str], windows: Windows
) -> str | None:
    """Return a warning that names the clients whose training rows are too few for a window; None if there are none.

    owners: of the training rows. trained: of the training windows.
    """
    if owners is None or trained is None:
        return None
    lost = np.setdiff1d(owners, trained)
    if not len(lost):
        return None
    shown = listed([names[owner] for owner in lost.tolist()])
    return f"clients with fewer than {windows.window + windows.horizon} training rows have no window: {shown}"


def must_be_some(examples: Examples, split: str, windows: Windows) -> None:
    """Raise ConfigError if no window fits into the rows of a split."""
    if not len(examples.rows):
        raise ConfigError(
            f"window = {windows.window}, horizon = {windows.horizon}: no client has "
            f"{windows.window + windows.horizon} {split} rows; use a shorter window, or another test_share"
        )
