"""Which examples are for testing, where the data do not say it: the same in every run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import IntArray
from fedtempo.errors import ConfigError

BoolArray = npt.NDArray[np.bool_]


def check_share(test_share: object) -> None:
    """Raises ConfigError for what is no share of the examples to test on."""
    if not isinstance(test_share, int | float) or isinstance(test_share, bool) or not 0 < test_share < 1:
        raise ConfigError(f"test_share = {test_share!r}: must be between 0 and 1")


def drawn(groups: IntArray, share: float, purpose: str) -> BoolArray:
    """Whether each item is of the `share` (rounded) of its group that is drawn, the same in every run."""
    rng = np.random.default_rng(list(purpose.encode()))
    chosen = np.zeros(len(groups), dtype=bool)
    for group in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == group))
        chosen[members[: round(share * len(members))]] = True
    return chosen


def spread(keys: Sequence[IntArray], share: float, n: int) -> BoolArray:
    """Which of n items are for testing: the `share` of all (rounded down), spread evenly over the values of the keys.

    keys: of each item, the most important first: every group of equal keys, and every one of equal first keys, gives
    its share to within one. Within groups the choice is random, the same in every run.
    """
    random = np.random.default_rng(list(b"train and test")).permutation(n)
    order = np.lexsort((random, *reversed(keys)))
    marks = np.floor(np.arange(1, n + 1) * share) > np.floor(np.arange(n) * share)
    chosen = np.zeros(n, dtype=bool)
    chosen[order[marks]] = True
    return chosen


def grouped(groups: IntArray, keys: Sequence[IntArray], share: float) -> BoolArray:
    """Which items are for testing, if all items of a group are on one side: the `share` of the groups, see `spread`.

    groups: of each item, from 0, each used. keys: of each item; a group has those of its first item.
    """
    _, first = np.unique(groups, return_index=True)
    return spread([key[first] for key in keys], share, len(first))[groups]


def both(test: BoolArray, name: str) -> None:
    """Raises ConfigError where a split leaves nothing to train or to test on."""
    if test.all() or not test.any():
        raise ConfigError(
            f"{name}: {len(test)} examples, {test.sum()} of them to test on: give more, or another test_share"
        )
