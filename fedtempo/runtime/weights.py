"""Whether numbers can be the weights of an average."""

from __future__ import annotations

import math
from collections.abc import Sequence

_NAMED = 8
"""Weights that are named at most."""


def problem_with(weights: Sequence[float], count: int) -> str | None:
    """Why these are no weights for `count` models, with their values; None if they are.

    There must be one for each, all finite, none negative, and not all of them 0.
    """
    if not count:
        return "there is nothing to average: at least one update is needed"
    if len(weights) != count:
        return f"{len(weights)} weights for {count} updates: {_listed(weights)}; give one for each"
    if min(weights) >= 0 and 0 < sum(weights) < math.inf:
        return None
    bad = [f"weights[{i}] = {float(w):g}" for i, w in enumerate(weights) if not 0 <= w < math.inf]
    found = ", ".join(bad[:_NAMED]) or f"weights {_listed(weights)} sum to {float(sum(weights)):g}"
    return f"{found}; weights must be finite and not negative, with a sum above 0"


def _listed(weights: Sequence[float]) -> str:
    shown = [f"{float(weight):g}" for weight in weights[:_NAMED]] + ["..."] * (len(weights) > _NAMED)
    return f"[{', '.join(shown)}]"
