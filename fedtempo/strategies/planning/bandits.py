"""FCH-FL's choice of clients as a multi-armed bandit: which clients train, and which models are aggregated.

The paper (Section 3.3) names the two stages and leaves its Algorithm 2 to an appendix that is not available. Here an
upper confidence bound on past utility selects the clients that train; of their models the best of the round and some
random ones are aggregated. Positions are indices into the given arrays; `ids` break ties.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedtempo.strategies.planning.utility import Floats, Positions, decimal, descending


def confidence_bounds(mean_utility: ArrayLike, times_tried: ArrayLike, t: int, c: float) -> Floats:
    """Return mean + c * sqrt(2 ln t / times tried); infinite for a client never tried. t: the round, from 1."""
    tried = np.asarray(times_tried, dtype=np.float64)
    bounds = np.full(len(tried), math.inf)
    known = tried > 0
    bounds[known] = np.asarray(mean_utility, dtype=np.float64)[known] + c * np.sqrt(2 * math.log(t) / tried[known])
    return bounds


def screen(bounds: ArrayLike, ids: ArrayLike, share: float, wanted: int) -> Positions:
    """Return the positions of the ceil(share * wanted) highest bounds, best first, or of all clients if fewer.

    Clients that were never tried come first, in the order of their ids.
    """
    order = descending(bounds, ids)
    return order[: math.ceil(decimal(share) * wanted)]


def best_and_others(
    utility: ArrayLike, ids: ArrayLike, wanted: int, random_share: float
) -> tuple[Positions, Positions]:
    """Return the positions of the ceil((1 - random_share) * wanted) highest utilities, best first, and the rest."""
    order = descending(utility, ids)
    n_best = math.ceil((1 - decimal(random_share)) * wanted)
    return order[:n_best], order[n_best:]


def aggregate_choice(
    utility: ArrayLike, ids: ArrayLike, wanted: int, random_share: float, rng: np.random.Generator
) -> Positions:
    """Return the ascending positions of the models to aggregate: the best, then random others up to `wanted`.

    All are returned if there are no more than `wanted`.
    """
    best, others = best_and_others(utility, ids, wanted, random_share)
    n_random = min(wanted - len(best), len(others))
    drawn = rng.choice(np.sort(others), n_random, replace=False) if n_random else others[:0]
    return np.sort(np.concatenate([best, drawn]))
