"""How evenly a measure is spread over clients: mean, deviation, worst tenth, best, and Jain's fairness index.

Each statistic exists unweighted, where every client counts the same, and weighted by the clients' numbers of test
examples, where every example does. Clients without a value (no test examples, or a loss that is not finite) count in
none of them.

Jain's index of values x with weights w is (sum w x)^2 / (sum w * sum w x^2) (Jain, Chiu and Hawe 1984, unweighted): 1
if all values are equal, 1 / n if all but one of n are 0. It is defined for values of 0 or more that are not all 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedtempo.record.client_measures import STATISTICS, Kind

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClientScores:
    """Models evaluated on clients' own test sets. clients, examples: numbers of clients and of their test examples,
    (n,). scores: mean credit, loss and, for numbers, absolute error, (n, 2 or 3); NaN without examples.
    """

    kind: Kind
    clients: npt.NDArray[np.int64]
    examples: npt.NDArray[np.int64]
    scores: Floats


def spread(values: Floats, examples: npt.NDArray[np.int64]) -> dict[str, float]:
    """Return the statistics by name of each client's value, (n,), and its number of test examples; NaN without any."""
    known = ~np.isnan(values) & (examples > 0)
    if not known.any():
        return dict.fromkeys(STATISTICS, math.nan)
    order = np.argsort(values[known], kind="stable")
    x, weights = values[known][order], examples[known][order].astype(np.float64)
    plain = _statistics(x, np.ones_like(x), max(1.0, 0.1 * len(x)))
    weighted = _statistics(x, weights, 0.1 * weights.sum())
    more = {"worst": float(x[0]), "best": float(x[-1])}
    return plain | more | {f"{name}-weighted": value for name, value in weighted.items()}


def _statistics(x: Floats, weights: Floats, tenth: float) -> dict[str, float]:
    """Return mean, deviation, worst tenth and Jain's index of ascending values. tenth: weight of the worst tenth."""
    total = weights.sum()
    mean = float((weights * x).sum() / total)
    std = math.sqrt(float((weights * (x - mean) ** 2).sum() / total))
    within = np.clip(tenth - (np.cumsum(weights) - weights), 0.0, weights)
    squares = float((weights * x**2).sum())
    jain = math.nan if x[0] < 0 or squares == 0 else float((weights * x).sum()) ** 2 / (total * squares)
    return {"mean": mean, "std": std, "worst-tenth": float((within * x).sum() / tenth), "jain": float(jain)}
