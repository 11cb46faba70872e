"""Sections of a model's flat vector: trained parameters, running statistics, frozen parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Sections:
    """Lengths of the three sections of a flat vector, in this order.

    trainable: parameters that training changes; steps, corrections, clipping and noise apply to these only.
    statistics: persistent floating-point buffers (running means and variances of batch normalisation). They are only
    combined with weights of at least 0 that sum to 1, since a step along a change could make variances negative.
    frozen: parameters with `requires_grad = False`. They are copied, never averaged: even the average of equal numbers
    differs from them by rounding.
    variances: ranges of entries that must not be negative, as (start, stop).
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
        """Length of trainable parameters and statistics together, which is where the frozen section begins."""
        return self.trainable + self.statistics

    @property
    def all_trainable(self) -> bool:
        """Whether all entries are trainable parameters."""
        return not (self.statistics or self.frozen)

    def has_negative_variance(self, vector: Any) -> bool:
        """Return whether a whole vector, an array or a tensor, holds a variance below 0."""
        return any(bool((vector[start:stop] < 0).any()) for start, stop in self.variances)


def within_hull(statistics: Sequence[Vector], combine: Callable[[Sequence[Vector]], Vector]) -> Vector:
    """Return `combine(statistics)`, clipped to the smallest and largest value in each coordinate.

    An average lies there except for rounding; with the clipping, entries that are equal in all keep their bits.
    """
    if len(statistics) == 1:
        return statistics[0]
    low, high = np.min(statistics, axis=0), np.max(statistics, axis=0)
    return np.clip(combine(statistics), low, high)
