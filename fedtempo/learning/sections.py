"""Sections of a model's flat vector: what travels, what each client keeps, and what never changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Sections:
    """Lengths of the sections of a flat vector, which come in this order: trainable, statistics, local, frozen.

    Only the first two travel (`moving`), and the server stores only these.

    trainable: parameters that training changes; steps, corrections, clipping and noise apply to these only.
    statistics: persistent floating-point buffers (running means and variances of batch normalisation). They are only
    combined with weights of at least 0 that sum to 1, since a step along a change could make variances negative.
    local: parameters and buffers of which each client has its own values; the server has their first values.
    frozen: parameters with `requires_grad = False`, and buffers that keep their first values.
    variances: ranges of entries that travel and must not be negative, as (start, stop).
    """

    trainable: int
    statistics: int = 0
    frozen: int = 0
    variances: tuple[tuple[int, int], ...] = ()
    local: int = 0

    @property
    def size(self) -> int:
        return self.moving + self.local + self.frozen

    @property
    def moving(self) -> int:
        """Length of what travels: trainable parameters and statistics."""
        return self.trainable + self.statistics

    @property
    def fixed(self) -> int:
        """Length of what does not travel."""
        return self.local + self.frozen

    def has_negative_variance(self, vector: Any) -> bool:
        """Return whether a vector that travels, an array or a tensor, holds a variance below 0."""
        return any(bool((vector[start:stop] < 0).any()) for start, stop in self.variances)


def within_hull(statistics: Sequence[Vector], combine: Callable[[Sequence[Vector]], Vector]) -> Vector:
    """Return `combine(statistics)`, clipped to the smallest and largest value in each coordinate.

    An average lies there except for rounding; with the clipping, entries that are equal in all keep their bits.
    """
    if len(statistics) == 1:
        return statistics[0]
    low, high = np.min(statistics, axis=0), np.max(statistics, axis=0)
    return np.clip(combine(statistics), low, high)
