"""Validation of the weights of an average."""

from __future__ import annotations

import math
from collections.abc import Sequence

_MAX_LISTED = 8
"""Largest number of weights listed in an error."""


def problem_with(weights: Sequence[float], count: int) -> str | None:
    """Return what is wrong with the weights of `count` models, with their values; None if they are valid.

    There must be one weight per model, all finite and not negative, with a positive sum.
    """
    if not count:
        return "nothing to average: at least one update is needed"
    if len(weights) != count:
        return f"{len(weights)} weights for {count} updates: {_listed(weights)}; give one for each"
    if min(weights) >= 0 and 0 < sum(weights) < math.inf:
        return None
    bad = [f"weights[{i}] = {float(w):g}" for i, w in enumerate(weights) if not 0 <= w < math.inf]
    problem = ", ".join(bad[:_MAX_LISTED]) or f"weights {_listed(weights)} sum to {float(sum(weights)):g}"
    return f"{problem}; weights must be finite and not negative, with a sum above 0"


def _listed(weights: Sequence[float]) -> str:
    shown = [f"{float(weight):g}" for weight in weights[:_MAX_LISTED]] + ["..."] * (len(weights) > _MAX_LISTED)
    return f"[{', '.join(shown)}]"
