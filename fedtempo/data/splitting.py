"""Choose test examples for data without a test split: the same in every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import IntArray
from fedtempo.errors import ConfigError

BoolArray = npt.NDArray[np.bool_]

TEST_SHARE = 0.2
"""The share of the examples to test on, unless another is asked for."""


def check_share(test_share: object) -> None:
    """Raise ConfigError unless `test_share` is a share of examples to test on; 0 to train on all."""
    if not isinstance(test_share, int | float) or isinstance(test_share, bool) or not 0 <= test_share < 1:
        raise ConfigError(f"test_share = {test_share!r}: must be 0 (train on all examples) or more, and below 1")


def must_not_be_asked(test_share: float | None, instead: str) -> None:
    """Raise ConfigError for a share of training examples to test on, other than the default and 0, that nothing uses.

    instead: how to make it count.
    """
    if test_share not in (None, TEST_SHARE, 0):
        raise ConfigError(f"test_share = {test_share:g}: the data have test examples already; remove it, or {instead}")


def drawn(groups: IntArray, share: float, purpose: str) -> BoolArray:
    """Return a mask of items that holds a random `share` (rounded) of each group, the same in every run.

    groups: the group of each item, (n,). purpose: seeds the draw.
    """
    rng = np.random.default_rng(list(purpose.encode()))
    chosen = np.zeros(len(groups), dtype=bool)
    for group in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == group))
        chosen[members[: round(share * len(members))]] = True
    return chosen


class Shuffled(NamedTuple):
    """Items in a random order, the same in every run, and the generator that made it, for further draws."""

    order: npt.NDArray[Any]
    rng: np.random.Generator


def shuffled(n: int) -> Shuffled:
    """Return n items in a random order; most of the time of `spread` if n is large."""
    rng = np.random.default_rng(list(b"train and test"))
    numbers = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)  # half the memory, the same permutation
    order: npt.NDArray[Any] = np.empty_like(numbers)
    order[rng.permutation(numbers)] = numbers
    return Shuffled(order, rng)


def spread(keys: Sequence[IntArray], share: float, n: int, begin: Shuffled | None = None) -> BoolArray:
    """Return a mask of n items that holds `share` of all (rounded down), stratified by the keys.

    keys: arrays (n,), the most important first: every group of items with equal keys, or with an equal first key,
    contributes its share to within one item. Within groups the choice is random, the same in every run. begin:
    `shuffled(n)`, if it is known already.

    Groups with an equal first key come in random order. Otherwise, if each of ten clients had one example of each of
    ten classes, the same two classes would be chosen at every client, and be missing among the other examples.
    """
    order, rng = begin or shuffled(n)
    for key in reversed(keys):
        small = (
            key.astype(np.uint16) if len(key) and key.min() >= 0 and key.max() < 2**16 else key
        )  # sorted in one pass
        order = order[np.argsort(small[order], kind="stable")]
    if len(keys) > 1 and n:
        order = _mixed(order, [key[order] for key in keys], rng)
    before = np.arange(n + 1, dtype=np.float64)
    before *= share
    np.floor(before, out=before)
    chosen = np.zeros(n, dtype=bool)
    chosen[order[before[1:] > before[:-1]]] = True
    return chosen


def _mixed(order: npt.NDArray[Any], keys: Sequence[IntArray], rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return items in an order in which groups of equal keys are whole, and in random order within the first key.

    order: the items, sorted by the keys. keys: of the items in this order.
    """
    differs = np.zeros(len(order), dtype=bool)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(differs)
    mixed = np.lexsort((rng.random(len(starts)), keys[0][starts]))
    counts = np.diff(starts, append=len(order))[mixed]
    shifts = starts[mixed] - (np.cumsum(counts) - counts)
    return order[np.repeat(shifts, counts) + np.arange(len(order))]


def grouped(groups: IntArray, keys: Sequence[IntArray], share: float) -> BoolArray:
    """Return a mask of items that holds `share` of the groups, each group whole; see `spread`.

    groups: the group of each item, numbered from 0 without gaps. keys: of each item; those of its first item are used
    for a group.
    """
    _, first = np.unique(groups, return_index=True)
    return spread([key[first] for key in keys], share, len(first))[groups]


def both(test: BoolArray, name: str, share: float) -> None:
    """Raise ConfigError if a split leaves no training examples, or none to test on though a share is wanted.

    name: beginning of the error.
    """
    if test.all() or (share and not test.any()):
        raise ConfigError(
            f"{name}: {test.sum()} of {len(test)} examples are for testing; add examples, or change test_share"
        )
