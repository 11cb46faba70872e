"""Tiers of clients with similar response latencies, fastest first, and how often tiers are selected (TiFL, FedAT).

A tier is a list of positions in the array of latencies. Chai et al.: TiFL: A Tier-based Federated Learning System
(HPDC 2020), Section 4; FedAT (SC 2021).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedtempo.strategies.planning.sampling import time_classes

Floats = NDArray[np.float64]


def tiers_of_equal_size(latencies: ArrayLike, count: int) -> list[list[int]]:
    """Return `count` tiers whose sizes differ by at most one; one per client if there are fewer clients."""
    seconds = np.asarray(latencies, float)
    return [tier.tolist() for tier in time_classes(seconds, min(count, len(seconds)))]


def tiers_of_equal_width(latencies: ArrayLike, count: int) -> list[list[int]]:
    """Return the clients in each of `count` bins of equal width, from the least latency to the greatest, if any."""
    seconds = np.asarray(latencies, float)
    edges = np.linspace(seconds.min(), seconds.max(), count + 1)
    bins = np.clip(np.searchsorted(edges, seconds, side="right") - 1, 0, count - 1)
    return [np.flatnonzero(bins == number).tolist() for number in np.unique(bins)]


def chances_by_rank(accuracies: ArrayLike, eligible: ArrayLike) -> Floats:
    """Return chances that fall linearly with the rank of accuracy, 0 for tiers that are not eligible.

    The least accurate of n eligible tiers has n / D, the next (n - 1) / D, the last 1 / D, with D = n (n + 1) / 2.
    """
    ascending = np.argsort(np.asarray(accuracies, float), kind="stable")
    ascending = ascending[np.asarray(eligible, bool)[ascending]]
    n = len(ascending)
    chances = np.zeros(np.shape(accuracies))
    chances[ascending] = np.arange(n, 0, -1) / (n * (n + 1) / 2)
    return chances


def mirrored_shares(rounds: Sequence[int]) -> list[float]:
    """Return for each tier the share of all rounds that its counterpart has: the fastest's for the slowest (FedAT)."""
    total = sum(rounds)
    return [count / total for count in reversed(rounds)]
