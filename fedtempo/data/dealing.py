"""Examples dealt to clients: how many each gets, and of which labels, so that none is dealt twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import IntArray
from fedtempo.data.shares import largest_remainder
from fedtempo.errors import ConfigError

Sizes = int | tuple[int, int] | None


class Pool:
    """The examples that are left, by label, in random order."""

    def __init__(self, labels: IntArray, n_classes: int, rng: np.random.Generator) -> None:
        order = rng.permutation(len(labels))
        self._by_label = [order[labels[order] == label] for label in range(n_classes)]
        self._taken = np.zeros(n_classes, dtype=np.int64)

    @property
    def left(self) -> IntArray:
        """Examples of each label that nobody has, shape (classes,)."""
        return np.array([len(own) for own in self._by_label], dtype=np.int64) - self._taken

    def take(self, counts: IntArray) -> IntArray:
        """Indices of `counts[c]` examples of each label c, ascending; they are gone. No more than are left."""
        begins, self._taken = self._taken, self._taken + counts
        parts = [own[b:e] for own, b, e in zip(self._by_label, begins, self._taken, strict=True)]
        return np.sort(np.concatenate(parts)).astype(np.int64)

    def sample(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """As `take`, from all examples, taken or not, and none of them are gone."""
        parts = [rng.choice(own, n, replace=False) for own, n in zip(self._by_label, counts, strict=True)]
        return np.sort(np.concatenate(parts)).astype(np.int64)


def draw_sizes(n_examples: int, n_clients: int, sizes: Sizes, rng: np.random.Generator) -> IntArray:
    """How many examples each client gets, shape (n_clients,).

    sizes: as many for all; uniform whole numbers in (low, high), both included; or None to deal all examples out, the
    first clients one more where they do not come out even. Raises ConfigError where there are not enough.
    """
    if n_clients < 1:
        raise ConfigError(f"clients = {n_clients}: must be 1 or more")
    if sizes is None:
        if n_examples < n_clients:
            raise ConfigError(f"clients = {n_clients}: there are {n_examples} examples; each client needs one")
        return np.array([len(part) for part in np.array_split(np.arange(n_examples), n_clients)], dtype=np.int64)
    drawn = wanted_sizes(n_clients, sizes, rng)
    if drawn.sum() > n_examples:
        raise ConfigError(
            f"examples_per_client = {sizes}: {n_clients} clients ask for {drawn.sum()} examples, there are {n_examples}"
        )
    return drawn


def wanted_sizes(n_clients: int, sizes: int | tuple[int, int], rng: np.random.Generator) -> IntArray:
    """As `draw_sizes`, whether or not there are so many examples."""
    low, high = (sizes, sizes) if isinstance(sizes, int) else sizes
    if not 1 <= low <= high:
        raise ConfigError(f"examples_per_client = {sizes}: must be 1 or more, or a pair with 1 <= low <= high")
    return np.full(n_clients, low) if low == high else rng.integers(low, high, n_clients, endpoint=True)


def fill(size: int, shares: npt.ArrayLike, left: IntArray) -> IntArray:
    """How many of each label a client of `size` examples gets, in proportion to `shares` as far as `left` allows.

    A label that runs out gives all that it has; the rest is split by the shares of the others, and by what is left
    where those are 0. Raises ValueError where fewer than `size` are left in all.
    """
    if left.sum() < size:
        raise ValueError(f"{size} examples are asked for, {left.sum()} are left")
    counts = np.zeros(len(left), dtype=np.int64)
    while missing := size - int(counts.sum()):
        room = left - counts
        weights = np.where(room > 0, shares, 0.0)
        if weights.sum() <= 0:
            weights = room.astype(np.float64)
        counts += np.minimum(largest_remainder(missing, weights), room)
    return counts


def histogram(labels: IntArray, indices: IntArray, n_classes: int) -> IntArray:
    """Examples of each class among those at `indices`, shape (n_classes,)."""
    return np.bincount(labels[indices], minlength=n_classes).astype(np.int64)
