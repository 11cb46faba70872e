"""FCH-FL's choice of clients as a multi-armed bandit: whom to train, and whose models to aggregate.

The paper (Section 3.3) names the two stages and leaves its Algorithm 2 to an appendix that is not part of it. Here: an
upper confidence bound of past utility screens all clients; of those that trained, the best of this round are
aggregated, and some at random. Positions refer to the arrays given; `ids` break ties.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedtempo.strategies.planning.utility import Floats, Positions, decimal, descending


def confidence_bounds(mean_utility: ArrayLike, times_tried: ArrayLike, t: int, c: float) -> Floats:
    """mean + c * sqrt(2 ln t / times tried); infinite for a client that was never tried. t: from 1."""
    tried = np.asarray(times_tried, dtype=np.float64)
    bounds = np.full(len(tried), math.inf)
    known = tried > 0
    bounds[known] = np.asarray(mean_utility, dtype=np.float64)[known] + c * np.sqrt(2 * math.log(t) / tried[known])
    return bounds


def screen(bounds: ArrayLike, ids: ArrayLike, share: float, wanted: int) -> Positions:
    """Positions of the ceil(share * wanted) highest bounds, best first; of all clients where there are no more.

    Clients that were never tried come first, in the order of their ids.
    """
    order = descending(bounds, ids)
    return order[: math.ceil(decimal(share) * wanted)]


def best_and_others(
    utility: ArrayLike, ids: ArrayLike, wanted: int, random_share: float
) -> tuple[Positions, Positions]:
    """Positions of the ceil((1 - random_share) * wanted) highest utilities, best first, and of all others."""
    order = descending(utility, ids)
    n_best = math.ceil((1 - decimal(random_share)) * wanted)
    return order[:n_best], order[n_best:]


def aggregate_choice(
    utility: ArrayLike, ids: ArrayLike, wanted: int, random_share: float, rng: np.random.Generator
) -> Positions:
    """Positions of those to aggregate, ascending: the best of the round, and others at random up to `wanted`.

    All of them where there are no more than `wanted`.
    """
    best, others = best_and_others(utility, ids, wanted, random_share)
    n_random = min(wanted - len(best), len(others))
    drawn = rng.choice(np.sort(others), n_random, replace=False) if n_random else others[:0]
    return np.sort(np.concatenate([best, drawn]))
