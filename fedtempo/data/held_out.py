"""Choose the examples to hold out so that nothing leaks: groups stay together, and later examples are held out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import FloatArray, IntArray
from fedtempo.data.splitting import BoolArray, Shuffled, grouped, spread
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed


def check_options(group: str | None, time: str | None) -> None:
    """Raise ConfigError for the options `group` and `time` together."""
    if group is not None and time is not None:
        raise ConfigError(f"group = {group!r}, time = {time!r}: give one of them")


def as_times(values: Sequence[Any], fail: Callable[[int, str], ConfigError]) -> FloatArray:
    """Return times as numbers, (n,): numbers unchanged, dates and ISO 8601 texts as seconds since 1970 (UTC).

    fail: makes the error for a value, by its row and what is wrong with it.
    """
    times = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            times[row] = _seconds(value)
        except (TypeError, ValueError, OverflowError):
            raise fail(row, f"is {value!r}, neither a number nor a date such as '2024-03-01 12:30'") from None
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise fail(row, f"is {values[row]!r}, not a finite number")
    return times


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        value = _parsed(value.strip())
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return aware.timestamp()
    if isinstance(value, datetime.time):
        return value.hour * 3600.0 + value.minute * 60.0 + value.second + value.microsecond / 1e6
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _parsed(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return datetime.datetime.fromisoformat(text)


def last_share(times: FloatArray, share: float) -> BoolArray | None:
    """Return a mask of the latest examples, as near to `share` of them as possible; None if all have the same time.

    Examples with the same time are on the same side, and neither side is empty. Of two choices that are equally near,
    the one with fewer examples held out.
    """
    kinds, counts = np.unique(times, return_counts=True)
    if len(kinds) < 2:
        return None
    held = counts[::-1].cumsum()[:-1]  # the number held out if the latest 1, 2, ... times are
    best = int(np.argmin(np.abs(held - share * len(times))))
    latest: BoolArray = times >= kinds[::-1][best]
    return latest


def held_out_rows(
    share: float,
    n: int,
    keys: Sequence[IntArray],
    owners: IntArray | None,
    *,
    groups: IntArray | None = None,
    times: FloatArray | None = None,
    name_of: Callable[[int], str] = str,
    begin: Shuffled | None = None,
) -> BoolArray:
    """Return a mask of n examples that holds `share` of them out for testing.

    keys: as in `spread`. owners: the client of each example, if known. groups: hold out whole groups. times: hold out
    the latest examples of each client; a single example is not held out. name_of: returns the name of a client by its
    number, for errors. begin: as of `spread`. Raises ConfigError for clients whose examples all have the same time.
    """
    if not share:
        return np.zeros(n, dtype=bool)
    if times is None:
        return spread(keys, share, n, begin) if groups is None else grouped(groups, keys, share)
    held = np.zeros(n, dtype=bool)
    stuck = []
    for owner in [None] if owners is None else np.unique(owners).tolist():
        rows = np.arange(n) if owners is None else np.flatnonzero(owners == owner)
        latest = last_share(times[rows], share)
        if latest is None and len(rows) == 1:
            continue
        if latest is None:
            stuck.append("the examples" if owner is None else f"client {name_of(owner)!r}")
        else:
            held[rows] = latest
    if stuck:
        raise ConfigError(
            f"time: {listed(stuck)}: all rows have the same time, so none is later than the others; leave such clients "
            "out, or remove time"
        )
    return held


def must_be_later(
    train_times: FloatArray,
    test_times: FloatArray,
    train_owners: IntArray | None,
    test_owners: IntArray | None,
    where: str,
) -> None:
    """Raise ConfigError if test examples are not later than all training examples of their client.

    test_owners: None to compare all with all. where: names the option and the file, for the error.
    """
    if train_owners is None or test_owners is None:
        last = np.full(len(test_times), train_times.max(initial=-np.inf))
    else:
        latest = {int(owner): train_times[train_owners == owner].max() for owner in np.unique(train_owners)}
        last = np.array([latest.get(int(owner), -np.inf) for owner in test_owners], dtype=np.float64)
    if early := int((test_times <= last).sum()):
        raise ConfigError(
            f"{where}: {early:,} of {len(test_times):,} test rows are not later than the training rows"
            + ("" if test_owners is None else " of their client")
            + "; move them, or remove time"
        )


def untrained_classes(train: IntArray, test: IntArray, names: Sequence[str]) -> str | None:
    """Return a warning if classes occur among the test examples alone, such as those that began late; else None."""
    trained, tested = np.bincount(train), np.bincount(test)
    trained = np.append(trained, np.zeros(len(tested), dtype=np.int64))[: len(tested)]
    kinds = np.flatnonzero((tested > 0) & (trained == 0))
    if not len(kinds):
        return None
    shown = [f"{names[kind] if names else kind} ({tested[kind]:,})" for kind in kinds.tolist()]
    return f"classes with test examples but no training examples: {listed(shown)}"


def strata_of(y: npt.NDArray[Any]) -> IntArray:
    """Return the class of each example, int64 (n,), by which held-out examples are stratified.

    Zeros where labels are no classes: numbers, several labels of an example, or hardly any value twice.
    """
    is_class = y.ndim == 1 and y.dtype.kind in "biuU" and 2 * len(np.unique(y)) <= len(y)
    return numbered(y) if is_class else np.zeros(len(y), dtype=np.int64)


def numbered(values: npt.ArrayLike) -> IntArray:
    """Return the number of each value among the distinct ones, int64 (n,)."""
    numbers: IntArray = np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64)
    return numbers
