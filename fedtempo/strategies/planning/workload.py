"""How much local work fits into a given time."""

from __future__ import annotations

import math

_TOLERANCE = 1e-9
"""Relative to a whole visit's work; rounding must not cost a step."""


def steps_for(left_s: float, compute_s: float, steps: int) -> int:
    """Return the local steps for which there is time: a multiple of `steps`, or part of them, but at least one.

    left_s: time for computing, seconds. compute_s: the time that `steps` steps take; if none, all fit once.
    """
    if compute_s <= 0:
        return steps
    times = left_s / compute_s + _TOLERANCE
    return steps * math.floor(times) if times >= 1 else max(1, math.floor(times * steps))
