"""Whether what came back of a visit is an update at all. It is looked at where it lies, and costs one pass over it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fedtempo.learning.sections import Sections
from fedtempo.runtime.executors import Vector

NEGATIVE_VARIANCE = "a running variance in it is negative"
NOT_FINITE = "not finite"
"""How the flaw of an update ends whose parameters or statistics are not finite: training diverged."""


class Shaped(Protocol):
    """An array, wherever it lies."""

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
    """What is wrong with an update; None where nothing is.

    parameters: what the client sent, without frozen parameters. sections: of a model. num_examples: what the client
    says now; expected: what it told at the start. finite: whether all parameters are (`is_finite`).
    """
    if tuple(parameters.shape) != (sections.moving,):
        return f"its parameters have the shape {tuple(parameters.shape)}, not {(sections.moving,)}"
    if num_examples != expected:
        return f"it says that it trained on {num_examples} examples and holds {expected}"
    if not finite:
        return f"its parameters are {NOT_FINITE}"
    if sections.has_negative_variance(parameters):
        return NEGATIVE_VARIANCE
    for name, value in statistics.items():
        if not math.isfinite(value):
            return f"its {name} is {value}, {NOT_FINITE}"
    return None


def is_finite(parameters: Vector) -> bool:
    """Whether all parameters are. One that is not makes their sum so; a sum that overflowed is looked at again."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(parameters.sum()) or np.isfinite(parameters).all())
