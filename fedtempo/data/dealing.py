"""Deal examples to clients: how many each gets, and of which labels, with none dealt twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import IntArray
from fedtempo.data.shares import largest_remainder
from fedtempo.errors import ConfigError

Sizes = int | tuple[int, int] | None


class Pool:
    """The examples not yet dealt, by label, in random order."""

    def __init__(self, labels: IntArray, n_classes: int, rng: np.random.Generator) -> None:
        order = rng.permutation(len(labels))
        self._by_label = [order[labels[order] == label] for label in range(n_classes)]
        self._taken = np.zeros(n_classes, dtype=np.int64)

    @property
    def left(self) -> IntArray:
        """Number of examples of each label that are left, shape (classes,)."""
        return np.array([len(indices) for indices in self._by_label], dtype=np.int64) - self._taken

    def take(self, counts: IntArray) -> IntArray:
        """Remove `counts[c]` examples of each label c, at most those left, and return their indices, ascending."""
        begins, self._taken = self._taken, self._taken + counts
        parts = [indices[b:e] for indices, b, e in zip(self._by_label, begins, self._taken, strict=True)]
        return np.sort(np.concatenate(parts)).astype(np.int64)

    def sample(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw as many from all examples, taken or not, and return their indices, ascending; none are removed."""
        parts = [rng.choice(indices, n, replace=False) for indices, n in zip(self._by_label, counts, strict=True)]
        return np.sort(np.concatenate(parts)).astype(np.int64)


def draw_sizes(n_examples: int, n_clients: int, sizes: Sizes, rng: np.random.Generator) -> IntArray:
    """Return the number of examples that each client gets, shape (n_clients,).

    sizes: one number for all; (low, high) for uniform whole numbers, both included; or None to deal out all examples as
    evenly as possible, the first clients getting one more. Raises ConfigError if there are not enough examples.
    """
    if n_clients < 1:
        raise ConfigError(f"clients = {n_clients}: must be 1 or more")
    if sizes is None:
        if n_examples < n_clients:
            raise ConfigError(f"clients = {n_clients}: more clients than examples ({n_examples}); lower clients")
        return np.array([len(part) for part in np.array_split(np.arange(n_examples), n_clients)], dtype=np.int64)
    drawn = wanted_sizes(n_clients, sizes, rng)
    if drawn.sum() > n_examples:
        raise ConfigError(
            f"examples_per_client = {sizes}: {n_clients} clients need {drawn.sum()} examples, but the data have "
            f"{n_examples}; lower examples_per_client or clients"
        )
    return drawn


def wanted_sizes(n_clients: int, sizes: int | tuple[int, int], rng: np.random.Generator) -> IntArray:
    """Do as `draw_sizes`, without comparing with the number of examples."""
    low, high = (sizes, sizes) if isinstance(sizes, int) else sizes
    if not 1 <= low <= high:
        raise ConfigError(f"examples_per_client = {sizes}: must be 1 or more, or [low, high] with 1 <= low <= high")
    return np.full(n_clients, low) if low == high else rng.integers(low, high, n_clients, endpoint=True)


def fill(size: int, shares: npt.ArrayLike, left: IntArray) -> IntArray:
    """Return the number of examples of each label for a client of `size`, in proportion to `shares` if `left` allows.

    A label that runs out gives all it has; the rest is split by the shares of the other labels, or by their remaining
    examples if those shares are 0. Raises ValueError if fewer than `size` are left in total.
    """
    if left.sum() < size:
        raise ValueError(f"size = {size}: only {left.sum()} examples are left")
    counts = np.zeros(len(left), dtype=np.int64)
    while missing := size - int(counts.sum()):
        room = left - counts
        weights = np.where(room > 0, shares, 0.0)
        if weights.sum() <= 0:
            weights = room.astype(np.float64)
        counts += np.minimum(largest_remainder(missing, weights), room)
    return counts


def histogram(labels: IntArray, indices: IntArray, n_classes: int) -> IntArray:
    """Return the number of examples of each class among those at `indices`, shape (n_classes,)."""
    return np.bincount(labels[indices], minlength=n_classes).astype(np.int64)
