"""Which entries of a model's flat vector are trained, which are running statistics, and which are frozen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Sections:
    """Lengths of the three sections of a flat vector, which lie in this order.

    trainable: parameters that training changes; steps, corrections, clipping and noise act on these alone.
    statistics: persistent floating-point buffers (running means and variances of batch normalisation). They are only
    ever combined with weights of at least 0 that sum to 1: a step along a change makes variances negative.
    frozen: parameters with `requires_grad = False`. They are copied and never computed with: even the average of equal
    numbers differs from them by rounding.
    variances: the entries that must not be negative, as (start, stop).
    """

    trainable: int
    statistics: int = 0
    frozen: int = 0
    variances: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return self.trainable + self.statistics + self.frozen

    @property
    def moving(self) -> int:
        """Length of what changes: trainable parameters and statistics. The frozen section begins there."""
        return self.trainable + self.statistics

    @property
    def all_trainable(self) -> bool:
        """Whether there is nothing but trainable parameters."""
        return not (self.statistics or self.frozen)

    def has_negative_variance(self, vector: Any) -> bool:
        """Whether a whole vector, an array or a tensor, holds a variance below 0."""
        return any(bool((vector[start:stop] < 0).any()) for start, stop in self.variances)


def within_hull(statistics: Sequence[Vector], combine: Callable[[Sequence[Vector]], Vector]) -> Vector:
    """`combine(statistics)`, kept between the smallest and the largest in each coordinate.

    An average is there but for rounding; so entries that are equal in all keep their bits (constants in a buffer).
    """
    if len(statistics) == 1:
        return statistics[0]
    low, high = np.min(statistics, axis=0), np.max(statistics, axis=0)
    return np.clip(combine(statistics), low, high)
