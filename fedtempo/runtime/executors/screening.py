"""Validation of updates. An update is checked where it is stored, in one pass over its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fedtempo.learning.sections import Sections
from fedtempo.runtime.executors import Vector

NEGATIVE_VARIANCE = "a running variance in it is negative"
NOT_FINITE = "not finite"
"""Last words of a flaw in which parameters or statistics are not finite: training diverged."""


class Shaped(Protocol):
    """An array on any device."""

    @property
    def shape(self) -> tuple[int, ...]: ...


def flaw_in(
    parameters: Shaped,
    num_examples: int,
    statistics: Mapping[str, float],
    *,
    sections: Sections,
    expected: int,
    finite: bool,
) -> str | None:
    """Return what is wrong with an update; None if it is valid.

    parameters: the client's update. sections: of a model. num_examples: number of examples
    that the client reports now; expected: the number it reported at the start. finite: whether all parameters are
    finite (`is_finite`).
    """
    if tuple(parameters.shape) != (sections.moving,):
        return f"its parameters have the shape {tuple(parameters.shape)}, not {(sections.moving,)}"
    if num_examples != expected:
        return f"it reports training on {num_examples} examples but holds {expected}"
    if not finite:
        return f"its parameters are {NOT_FINITE}"
    if sections.has_negative_variance(parameters):
        return NEGATIVE_VARIANCE
    for name, value in statistics.items():
        if not math.isfinite(value):
            return f"its {name} is {value}, {NOT_FINITE}"
    return None


def is_finite(parameters: Vector) -> bool:
    """Return whether all parameters are finite: so they are if their sum is, which may overflow, hence the recheck."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(parameters.sum()) or np.isfinite(parameters).all())
